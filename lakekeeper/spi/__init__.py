"""The interfaces between the engine, a table format and Spark: protocols and data, no behaviour.

adapter    what one table of one format offers: snapshots, reads, writes, commits; and what the engine needs of Spark
rows       row-level deletes: which rows a race lost, where they are now, how to delete and restore them
storage    the files of a table, as ``vacuum`` sees them

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
from lakekeeper.spi.rows import (
    Commit,
    Held,
    Lost,
    Matched,
    Places,
    Prepared,
    Restores,
    RowDeletes,
    Rows,
    Tidied,
    Traces,
)
from lakekeeper.spi.storage import MetadataChange, Storage

__all__ = [
    "PHASES",
    "Adapter",
    "Capabilities",
    "Commit",
    "Format",
    "Held",
    "Lost",
    "Matched",
    "MetadataChange",
    "Notes",
    "Observer",
    "Places",
    "Prepared",
    "Restores",
    "RowDeletes",
    "Rows",
    "Runner",
    "Storage",
    "TableName",
    "Tidied",
    "Traces",
]
