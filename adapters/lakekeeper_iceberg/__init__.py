"""The adapter for Apache Iceberg on Spark: ``FORMAT`` is the entry point of ``lakekeeper.adapters``.

native.py        all py4j calls                       listing.py           the `entries` metadata table as Arrow
deletes.py       which deletes apply                  blocks.py            listing ─► BlockSet
keys.py          key columns and stored keys          features.py          unsupported features
staging.py       reads and writes                     commit.py            one atomic metadata swap
file_changes.py  the files that a commit replaces     changes.py           commits since a snapshot
lost_rows.py     rows deleted since a rewrite's read  position_deletes.py  position deletes of each format version
rows.py          the row-level half                   delete_files.py      small and dangling delete files
storage.py       the table's files for a vacuum       expiry.py            snapshot expiration
table.py         the Adapter that combines them       opening.py           opens a table
"""

from __future__ import annotations

from lakekeeper_iceberg.opening import IcebergFormat
from lakekeeper_iceberg.table import IcebergTable

FORMAT = IcebergFormat()

__all__ = ["FORMAT", "IcebergFormat", "IcebergTable"]
