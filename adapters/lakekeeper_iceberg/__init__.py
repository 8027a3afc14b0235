"""The adapter for Apache Iceberg on Spark: ``FORMAT`` is the entry point of ``lakekeeper.adapters``.

native.py    every py4j touch           listing.py   the `entries` table as Arrow
deletes.py   which deletes apply        blocks.py    listing ─► BlockSet
keys.py      columns and stored keys    features.py  what is refused, and why
staging.py   read and write             commit.py    one atomic swap, guarded
exchange.py  what a swap exchanges      changes.py   what came between
traces.py    which rows died            masks.py     deletes of rows, as each format has them
rows.py      the row-level half         tidy.py      small and dangling delete files
table.py     the Adapter that puts them together
"""

from __future__ import annotations

from lakekeeper_iceberg.table import FORMAT, IcebergTable

__all__ = ["FORMAT", "IcebergTable"]
