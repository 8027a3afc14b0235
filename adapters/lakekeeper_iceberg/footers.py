"""Footers of Parquet files, read as Iceberg reads them: through the table's FileIO."""

from __future__ import annotations

from typing import Any

_PARQUET_IO = "org.apache.iceberg.parquet.ParquetIO"
_READER = "org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader"


def footer_of(jvm: Any, table: Any, location: str) -> Any:
    """The ParquetMetadata of a file, a Java object. ``jvm`` is an ``Iceberg``; Java exceptions propagate."""
    source = table.io().newInputFile(location)
    opened = jvm.hidden_call(None, _PARQUET_IO, "file", ("org.apache.iceberg.io.InputFile", source))
    reader = jvm.static(_READER, "open")(opened)
    try:
        return reader.getFooter()
    finally:
        reader.close()
