"""The Delta Lake adapter: tables read and rewritten through delta-spark's own transactions.

    opening    finds the table and its DeltaLog        features   what may be worked on at all
    columns    key columns from the schema             blocks     AddFile actions as a BlockSet
    rewrite    read, write, discard                    commit     one transaction for all rewrites
    changes    what others committed meanwhile         keys       where the cluster key is kept
    native     every py4j touch on Delta's classes     table      the adapter that puts them together

Level and key id of a block are kept in ``AddFile.tags``; every action of ours has ``dataChange=false``.
"""

from __future__ import annotations

from lakekeeper_delta.opening import DeltaFormat

FORMAT = DeltaFormat()

__all__ = ["FORMAT", "DeltaFormat"]
