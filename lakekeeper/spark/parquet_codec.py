"""The codec of a Parquet file, from its footer: a ``ParquetMetadata`` of Java."""

from __future__ import annotations

from typing import Any

_WRITTEN = frozenset({"GZIP", "SNAPPY", "UNCOMPRESSED", "ZSTD"})


def codec_of(footer: Any) -> str | None:
    """The codec of the first row group, as writers name it; None if there is no row, or if writers lack the codec.

    Columns may have codecs of their own: the first one that compresses counts.
    """
    groups = footer.getBlocks()
    if not groups.size():
        return None
    columns = groups.get(0).getColumns()
    names = (str(columns.get(n).getCodec().name()) for n in range(columns.size()))
    name = next((name for name in names if name != "UNCOMPRESSED"), "UNCOMPRESSED")
    return name.lower() if name in _WRITTEN else None
