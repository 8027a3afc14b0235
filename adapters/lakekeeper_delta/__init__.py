"""The Delta Lake adapter: reads and rewrites tables through delta-spark's own transactions.

    opening    opens a table and its DeltaLog          features   the allow-list of table features
    columns    key columns from the schema             blocks     AddFile actions as a BlockSet
    rewrite    read, write, discard                    commit     one transaction for all rewrites
    changes    commits of other writers since          keys       where the cluster key is stored
    native     all py4j access to Delta's classes      table      the adapter, assembled from these parts

The level and key id of a file are stored in ``AddFile.tags``; every action of a rewrite has ``dataChange=false``.
"""

from __future__ import annotations

from lakekeeper_delta.opening import DeltaFormat

FORMAT = DeltaFormat()

__all__ = ["FORMAT", "DeltaFormat"]
