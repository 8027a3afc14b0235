"""Imported Parquet files (``add_files``, ``migrate``, ``snapshot``) with timestamps in milli- or nanoseconds.

Milliseconds: Iceberg 1.12 takes their statistics for microseconds (apache/iceberg#18173), so that bounds of 2024 are in
January 1970, and its vectorized reader does the same with pages that are encoded with a dictionary
(apache/iceberg#17135). Nanoseconds, in a column of microseconds: all its readers in Spark take them for microseconds,
and 2024 for the year 55971; other engines read them right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakekeeper.errors import Rejected
from lakekeeper_iceberg.footers import footer_of

_NAME_MAPPING = "schema.name-mapping.default"


def may_misread_timestamps(table: Any) -> bool:
    """Whether the table has a column of timestamps, and the name mapping that an import leaves."""
    return bool(table.properties().containsKey(_NAME_MAPPING)) and "timestamp" in str(table.schema())


def refuse_nanoseconds(jvm: Any, table: Any, tasks: Iterable[Any]) -> None:
    """Raise Rejected if a file of these scan tasks has nanoseconds in a column of microseconds.

    A rewrite would make permanent what Iceberg misreads. ``jvm`` is an ``Iceberg``.
    """
    if not may_misread_timestamps(table):
        return
    for file in (task.file() for task in tasks):
        if str(file.format()) != "PARQUET":
            continue
        location = str(file.location())
        for column in jvm.items(footer_of(jvm, table, location).getFileMetaData().getSchema().getColumns()):
            kind = str(column.getPrimitiveType().getLogicalTypeAnnotation())
            name = ".".join(column.getPath())
            if kind.startswith("TIMESTAMP(NANOS") and not _in_nanoseconds(table, name):
                raise Rejected(
                    f"{table.name()}: Iceberg for Spark misreads the timestamps in nanoseconds of the imported file "
                    f"{location} ('{name}'), so it is not rewritten"
                )


def _in_nanoseconds(table: Any, name: str) -> bool:
    field = table.schema().findField(name)
    return field is not None and str(field.type()).endswith("_ns")
