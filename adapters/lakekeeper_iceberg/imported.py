"""Imported Parquet files (``add_files``, ``migrate``, ``snapshot``) with timestamps in milliseconds.

Iceberg 1.12 takes their statistics for microseconds (apache/iceberg#18173), so that bounds of 2024 are in January 1970,
and its vectorized reader does the same with pages that are encoded with a dictionary (apache/iceberg#17135).
"""

from __future__ import annotations

from typing import Any

_NAME_MAPPING = "schema.name-mapping.default"


def may_misread_timestamps(table: Any) -> bool:
    """Whether the table has a column of timestamps, and the name mapping that an import leaves."""
    return bool(table.properties().containsKey(_NAME_MAPPING)) and "timestamp" in str(table.schema())
