"""Rows that a copy lacks: every type of a table, equal rows counted, and no copy of other rows taken for one."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Remains
from tests.apart import APART

pytestmark = pytest.mark.spark


def rows(spark: SparkSession, values: list[str]) -> DataFrame:
    """One column of any type, in a struct with another, in the order of ``values``."""
    return spark.sql(
        " UNION ALL ".join(
            f"SELECT struct({v} AS v, 'x' AS n) AS row, 'f' AS file, id AS position FROM range({i}, {i} + 1)"
            for i, v in enumerate(values)
        )
    )


Result = tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]
NOTHING: Result = ((), {}, {})


def follow(read: DataFrame, *files: DataFrame, most: int = 100) -> Result:
    """The files that are followed, which are named by their numbers; the rows missing in them, and gained by them."""
    names = tuple(map(str, range(len(files))))
    left = [
        file.select("row", F.lit(name).alias("file"), F.monotonically_increasing_id().alias("position"))
        for name, file in zip(names, (file.coalesce(1) for file in files), strict=True)
    ]
    sizes = {name: file.count() for name, file in zip(names, files, strict=True)}
    found = SparkRunner(read.sparkSession).follow(
        Remains(read, reduce(DataFrame.unionAll, left), sizes), most
    )
    missing, gained = (
        {file: [int(at) for at in places] for file, places in side.items()}
        for side in (found.missing, found.gained)
    )
    return found.files, missing, gained


@pytest.mark.parametrize("name", APART)
def test_different_values_are_distinguished(spark: SparkSession, name: str) -> None:
    one, other = APART[name]
    read = rows(spark, [one, other, one, other])
    assert follow(read, rows(spark, [other, one, one])) == (("0",), {"f": [3]}, {})
    assert follow(read, rows(spark, [one, one])) == (("0",), {"f": [1, 3]}, {})
    assert follow(read, rows(spark, [one, one, one, other])) == (("0",), {"f": [3]}, {"0": [2]}), "an UPDATE"
    assert follow(rows(spark, [one]), rows(spark, [other])) == NOTHING
    both = follow(read, rows(spark, [one, one, other]), rows(spark, [other, other]))
    assert both == (("0", "1"), {}, {"1": [1]})


def test_a_file_of_mostly_other_rows_is_left_out(spark: SparkSession) -> None:
    read = spark.sql("SELECT struct(id) AS row, 'f' AS file, id AS position FROM range(50)")
    other = spark.sql("SELECT struct(id + 1000) AS row FROM range(5)")
    mixed = read.where("position < 4").select("row").unionAll(other)
    assert follow(read, read.where("position >= 5"), mixed) == (("0",), {"f": list(range(5))}, {})
    half = follow(read, read.where("position >= 5"), mixed.where("row.id <> 1000"))
    assert half == (("0", "1"), {"f": [4]}, {"1": [4, 5, 6, 7]})


def test_nan_is_nan_and_maps_have_no_order(spark: SparkSession) -> None:
    read = rows(spark, ["map('a', cast('NaN' as double), 'b', 2.0D)"])
    same = rows(spark, ["map('b', 2.0D, 'a', -cast('NaN' as double))"])
    assert follow(read, same) == (("0",), {}, {})


def test_more_rows_than_allowed_are_not_returned(spark: SparkSession) -> None:
    read = spark.sql("SELECT struct(id) AS row, 'f' AS file, id AS position FROM range(50)")
    left = read.where("position >= 10")
    assert follow(read, left, most=9) == NOTHING
    assert follow(read, left, most=10) == (("0",), {"f": list(range(10))}, {})
    equal = spark.sql("SELECT struct(1) AS row, 'f' AS file, id AS position FROM range(50)")
    assert follow(equal, equal.limit(10), most=39) == NOTHING
    assert follow(equal, equal.limit(0), most=50) == (("0",), {"f": list(range(50))}, {})


def test_names_of_columns_do_not_matter(spark: SparkSession) -> None:
    names = ["file", "position", "row", "key0", "missing", "odd_key0", "a.b", "a`b", "count"]
    of = ", ".join(f"id % 3 AS `{n.replace('`', '``')}`" for n in names)
    read = spark.sql(f"SELECT struct({of}) AS row, 'f' AS file, id AS position FROM range(9)")
    assert follow(read, read.where("position <> 4")) == (("0",), {"f": [7]}, {})


@pytest.mark.parametrize("seed", range(3))
def test_like_a_count_by_hand(spark: SparkSession, seed: int) -> None:
    """Equal rows in several files: of n rows with m left, the last n - m in the order of file and position."""
    rng = random.Random(seed)
    read = [((rng.randint(0, 6), rng.choice("ab")), rng.choice("fg")) for _ in range(120)]
    placed = [(row, file, i) for i, (row, file) in enumerate(read)]
    left = [*(row for row, _ in rng.sample(read, 80)), *((7, "c"),) * 3]
    have = Counter(left)
    expected: dict[str, list[int]] = {}
    for row, file, at in sorted(placed, key=lambda each: (each[1], each[2])):
        have[row] -= 1
        if have[row] < 0:
            expected.setdefault(file, []).append(at)
    kind = "struct<n: int, s: string>"
    before = spark.createDataFrame(placed, f"row {kind}, file string, position bigint")
    some, others = (
        spark.createDataFrame([(row,) for row in part], f"row {kind}") for part in (left[:40], left[40:])
    )
    assert follow(before, some, others) == (("0", "1"), expected, {"1": [40, 41, 42]})
