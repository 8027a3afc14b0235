"""Where a file stores the columns of a merge, and whether its values mean to Spark what they mean to Arrow."""

from __future__ import annotations

from typing import Any

from lakekeeper.columnar.parquet import Absent, Column, Leaves, ParquetFile
from lakekeeper.columnar.types import has_dates, leaf_columns, readable, same_parts
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import FileColumn, FileMerge

_SPARK = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST_OF_OUR_CALENDAR = (3, 1)  # the version of Spark that writes INT96 of the proleptic Gregorian calendar


def located(file: ParquetFile, merge: FileMerge) -> list[Leaves | None]:
    """Where a file has each column; None for one that it lacks, so that all of its rows are NULL there.

    Raises Declined.
    """
    return [_located(file, column, by_spark=merge.spark_calendar) for column in merge.columns]


def stored_alike(one: ParquetFile, other: ParquetFile) -> bool:
    """Whether :func:`located` returns the same for both files, or declines both."""
    return one.has_layout_of(other) and is_modern(one) == is_modern(other)


def is_modern(file: ParquetFile) -> bool:
    """Whether a version of Spark that uses the proleptic Gregorian calendar wrote the file."""
    found: dict[bytes, Any] = file.footer.metadata or {}
    version = found.get(_SPARK)
    if version is None or any(flag in found for flag in _LEGACY):
        return False
    numbers = version.decode().split(".")[:2]
    return all(n.isdigit() for n in numbers) and tuple(map(int, numbers)) >= _FIRST_OF_OUR_CALENDAR


def _located(file: ParquetFile, column: FileColumn, *, by_spark: bool) -> Leaves | None:
    try:
        at = Column(((column.name, column.field_id if column.by_id else None),))
        leaves = file.find(at, nested=bool(column.children))
    except Absent:
        if not column.may_lack:
            raise Declined(f"a file without column {column.name}") from None
        if file.has_like(column.name, with_id=not column.by_id):
            raise Declined(f"a file that spells column {column.name} otherwise, or without its id") from None
        if column.by_id and not file.has_field_ids:
            raise Declined("a file without field ids") from None
        return None
    if column.children:
        _check_nested(file, column, leaves, by_spark=by_spark)
    else:
        _check_plain(file, column, leaves, by_spark=by_spark)
    return leaves


def _check_plain(file: ParquetFile, column: FileColumn, leaves: Leaves, *, by_spark: bool) -> None:
    """Raise Declined unless each stored value is the same value in the outputs."""
    stored = file.type_of(leaves)
    if len(leaves.numbers) != 1:
        raise Declined(f"nested columns ({column.name})")
    if not file.is_int96(leaves.numbers[0]) and not readable(stored, column):
        raise Declined(f"column {column.name} stored as {stored}")
    _check_timestamp(file, column, leaves.numbers[0], by_spark=by_spark)


def _check_nested(file: ParquetFile, column: FileColumn, leaves: Leaves, *, by_spark: bool) -> None:
    stored = file.type_of(leaves)
    if not same_parts(stored, column):
        raise Declined(f"column {column.name} stored as {stored}")
    if by_spark and has_dates(column) and not is_modern(file):
        raise Declined("dates in nested columns of files whose calendar is not known")
    parts = leaf_columns(column)
    if len(parts) != len(leaves.numbers):
        raise Declined(f"column {column.name} cannot be distinguished from another")
    for part, leaf in zip(parts, leaves.numbers, strict=True):
        _check_timestamp(file, part, leaf, by_spark=by_spark)


def _check_timestamp(file: ParquetFile, column: FileColumn, leaf: int, *, by_spark: bool) -> None:
    if file.is_int96(leaf) and (column.kind != "timestamp" or not by_spark):
        raise Declined(f"timestamps of 96 bits ({column.name})")
    if file.is_local_time(leaf) and column.kind == "timestamp":
        raise Declined(f"timestamps without a zone ({column.name})")
