"""The interfaces between the engine, a table format and Spark: protocols and data, no behaviour.

adapter    one table of one format: snapshots, reads, writes and commits; and what the engine requires of Spark
rows       row-level operations: find rows deleted by concurrent commits, delete rows, restore rows
storage    the files of a table, as ``vacuum`` sees them
columnar   merges of files whose rows never enter the JVM
undo       brings back the layout before a run
statistics computes statistics for readers and planners
bloom_filters   which files lack a Bloom filter that the table asks for

May import ``lakekeeper.core`` and ``lakekeeper.errors``.
"""

from __future__ import annotations

from lakekeeper.spi.adapter import (
    PHASES,
    Adapter,
    Capabilities,
    Format,
    Notes,
    Observer,
    Runner,
    TableName,
)
from lakekeeper.spi.bloom_filters import BloomFilters
from lakekeeper.spi.columnar import Columnar
from lakekeeper.spi.rows import (
    Commit,
    Followed,
    Held,
    Lost,
    Matched,
    Places,
    Prepared,
    Remains,
    Restores,
    RowDeletes,
    Rows,
    Tidied,
    Traces,
)
from lakekeeper.spi.statistics import Computed, Outdated, Statistics
from lakekeeper.spi.storage import MetadataChange, Storage
from lakekeeper.spi.undo import Reversal, Undone, Undos

__all__ = [
    "PHASES",
    "Adapter",
    "BloomFilters",
    "Capabilities",
    "Columnar",
    "Commit",
    "Computed",
    "Followed",
    "Format",
    "Held",
    "Lost",
    "Matched",
    "MetadataChange",
    "Notes",
    "Observer",
    "Outdated",
    "Places",
    "Prepared",
    "Remains",
    "Restores",
    "Reversal",
    "RowDeletes",
    "Rows",
    "Runner",
    "Statistics",
    "Storage",
    "TableName",
    "Tidied",
    "Traces",
    "Undone",
    "Undos",
]
