"""Which statements ``lk.sql`` may run a second time."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.spark.dml_target import changed_table
from lakekeeper.spark.parsed import parse

pytestmark = pytest.mark.spark

DELETE = "DELETE FROM a.t WHERE k IN (SELECT k FROM old)"
MERGE = "MERGE INTO a.t USING s ON t.k = s.k WHEN MATCHED THEN DELETE"


@pytest.mark.parametrize(
    "statement",
    [
        DELETE,
        MERGE,
        "UPDATE a.t SET k = 1 WHERE k = 2",
        f"WITH old AS (SELECT 1 AS k) {DELETE}",
        f"WITH s AS (SELECT 1 AS k), old AS (SELECT 2 AS k) {MERGE}",
    ],
)
def test_the_target_of_a_statement(spark: Any, statement: str) -> None:
    assert changed_table(parse(spark, statement)) == "a.t"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM a.t",
        "INSERT INTO a.t SELECT * FROM a.t",
        f"EXPLAIN {DELETE}",
        "SELECT 'DELETE FROM a.t'",
    ],
)
def test_other_statements_have_none(spark: Any, statement: str) -> None:
    assert changed_table(parse(spark, statement)) is None


@pytest.mark.parametrize("delete", [DELETE, f"WITH old AS (SELECT 1 AS k) {DELETE}"])
def test_a_script_has_none(spark: Any, delete: str) -> None:
    """Loss L118: its other statements ran twice if a DELETE in it lost a race to a rewrite."""
    if spark.version < "4":
        pytest.skip("SQL scripts came with Spark 4")
    assert changed_table(parse(spark, f"BEGIN INSERT INTO b SELECT * FROM a.t; {delete}; END")) is None
