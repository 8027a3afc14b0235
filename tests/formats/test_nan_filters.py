"""Rows with NaN and zeros are found: Spark orders NaN above all numbers and takes -0.0 for 0.0, unlike bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.formats.lakes import Lake

pytestmark = pytest.mark.usefixtures("merged_by")

FILTERS: dict[str, Callable[[float], bool]] = {
    "{} > 5": lambda x: math.isnan(x) or x > 5,
    "{} >= 2.5": lambda x: math.isnan(x) or x >= 2.5,
    "{} = double('NaN')": math.isnan,
    "{} <> 1": lambda x: x != 1,
    "{} > 1 AND {} <> 100": lambda x: math.isnan(x) or 1 < x < 100,
    "NOT {} <= 2": lambda x: math.isnan(x) or x > 2,
    "{} IN (double('NaN'), 7)": math.isnan,
    "{} < 2": lambda x: x < 2,
    "isnan({})": math.isnan,
}


def value(k: int) -> float:
    """NaN among ones in the first row group, after ones in the second, alone in the third; 100 in the last."""
    if k < 10_000:
        return math.nan if k in (3, 4_321) else 1.0
    if k < 20_000:
        return 1.0 if k < 19_999 else math.nan
    return math.nan if k < 30_000 else 100.0


def table_of(lake: Lake) -> str:
    properties = {"write.parquet.row-group-size-bytes": "20000"} if lake.iceberg else {}
    name = lake.create(
        "k INT, x DOUBLE, f FLOAT, s STRUCT<x: DOUBLE>, l ARRAY<DOUBLE>", properties=properties
    )
    x = (
        "CASE WHEN k IN (3, 4321, 19999) OR k BETWEEN 20000 AND 29999 THEN double('NaN') "
        "WHEN k < 20000 THEN 1D ELSE 100D END"
    )
    for first in (1, 0):
        rows = (
            lake.spark.range(first, 31_000, 2, 1)
            .selectExpr("cast(id AS INT) AS k")
            .selectExpr("k", f"{x} AS x")
        )
        made = "k", "x", "cast(x AS FLOAT) AS f", "named_struct('x', x) AS s", "array(x, 0D) AS l"
        lake.append(name, rows.selectExpr(*made))
    return name


def test_filters_find_rows_with_nan(lake: Lake) -> None:
    name = table_of(lake)
    assert lake.table(name).recluster("k", policy="full").changed
    for text, holds in FILTERS.items():
        expected = sum(holds(value(k)) for k in range(31_000))
        for column in ("x", "f", "s.x", "l[0]"):
            where = text.format(*[column] * 2)
            assert lake.spark.table(name).where(where).count() == expected, where


def test_a_delete_finds_rows_with_nan(lake: Lake) -> None:
    name = table_of(lake)
    lake.table(name).recluster("k", policy="full")
    lake.table(name).delete("x > 5")
    assert lake.spark.table(name).count() == sum(value(k) == 1.0 for k in range(31_000))


@pytest.mark.parametrize("where", ["x > 5", "NOT x <= 5", "f >= 5 OR k = 9", "s.x > 5"])
def test_a_delete_finds_rows_with_nan_in_a_file_of_their_own(lake: Lake, where: str) -> None:
    """On Iceberg it depended on the file, so that a delete which lost to a rewrite found other rows than before."""
    name = lake.create("k INT, x DOUBLE, f FLOAT, s STRUCT<x: DOUBLE>")
    for values in ("(1, double('NaN')), (2, double('NaN'))", "(3, 1D), (4, 100D)"):
        rows = (
            f"SELECT k, x, cast(x AS FLOAT) AS f, named_struct('x', x) AS s FROM VALUES {values} AS t(k, x)"
        )
        lake.append(name, lake.spark.sql(rows).coalesce(1))
    assert lake.table(name).delete(where).deleted_rows_count == 3
    assert [row.k for row in lake.spark.table(name).collect()] == [3]


@pytest.mark.parametrize(
    "where, left",
    [
        ("x = 0", [1, 4]),
        ("x IN (0, 7)", [1, 4]),
        ("x >= 0", [1]),
        ("f >= 0", [1]),
        ("f <= -0.0D AND f > -1", [1, 4]),
        ("x = -0.0D", [1, 4]),
        ("NOT x < 0", [1]),
        ("x <> 0", [2, 3]),
        ("x > 0", [1, 2, 3]),
    ],
)
def test_a_delete_finds_both_zeros(lake: Lake, where: str, left: list[int]) -> None:
    """Loss L133: on Iceberg it skipped a file whose bounds end with the other zero."""
    name = lake.create("k INT, x DOUBLE, f FLOAT")
    for values in ("(1, -3D), (2, -0.0D)", "(3, 0.0D), (4, 5D)"):
        rows = f"SELECT k, x, cast(x AS FLOAT) AS f FROM VALUES {values} AS t(k, x)"
        lake.append(name, lake.spark.sql(rows).coalesce(1))
    assert lake.table(name).delete(where).deleted_rows_count == 4 - len(left)
    assert sorted(row.k for row in lake.spark.table(name).collect()) == left


@pytest.mark.parametrize("where", ["x = 0", "x IN (0, 7)", "x >= 0", "s.f <=> 0"])
def test_a_delete_finds_the_other_zero_in_a_dictionary(lake: Lake, where: str) -> None:
    """Loss L150: Parquet's dictionary of a row group has -0.0 and no 0.0, so the reader skipped the row group."""
    name = lake.create("k INT, x DOUBLE, s STRUCT<f: FLOAT>")
    made = "IF(id % 2 = 0, -0.0D, -3D)"
    rows = lake.spark.range(0, 1000, 1, 1).selectExpr(
        "cast(id AS int) k", f"{made} x", f"named_struct('f', cast({made} AS float)) s"
    )
    lake.append(name, rows)
    assert lake.table(name).delete(where).deleted_rows_count == 500
    left = lake.spark.table(name).where("k % 2 = 0")
    assert left.count() == 0
