"""The rows of the store tests, and the check that both readers find them."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

from tests.stores.kinds import StoreTable
from tests.stores.outcomes import SAME_ROWS

NOW: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True}
"""A vacuum that keeps the newest version alone."""
T = TypeVar("T", bound=StoreTable)


def filled(table: T) -> T:
    """The table, made with six files of ten rows that overlap in ``k``, and one deleted row."""
    table.create("id BIGINT, k INT, v STRING")
    append(table, 0, 60, files=6)
    table.delete("id = 3")
    return table


def append(table: StoreTable, start: int, stop: int, *, files: int = 1) -> None:
    """One commit of ``files`` files."""
    rows = table.spark.range(start, stop, 1, numPartitions=files)
    made = rows.selectExpr("id", "cast(pmod(id * 37, 101) AS int) AS k", "concat('v', id) AS v")
    made.writeTo(table.sql).append()


def same_rows(table: StoreTable, rows: Counter[str]) -> str:
    """Assert that both readers find these rows."""
    assert table.spark_rows() == rows, "Spark reads other rows"
    assert table.log_rows() == rows, "the reader without Spark reads other rows"
    return SAME_ROWS
