"""Rows found again by value: every type of a table, equal rows numbered, no row found that does not exist."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyspark.sql
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Held, Traces
from tests.apart import APART

pytestmark = pytest.mark.spark

VARIANTS = {
    "variant": ("parse_json('{\"a\": 1}')", 'parse_json(\'{"a": "1"}\')'),
    "variant null": ("parse_json('null')", "cast(null as variant)"),
}
HAS_VARIANTS = hasattr(T, "VariantType")  # from PySpark 4.0 on
SAME = {
    "NaN": ("cast('NaN' as double)", "-cast('NaN' as double)"),
    "map order": ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
}


def places(spark: SparkSession, lost: DataFrame, written: DataFrame, most: int = 100) -> tuple[Any, int, int]:
    runner = SparkRunner(spark)
    matched = runner.match(Traces(lost, written), most)
    found = matched.hits.where("position IS NOT NULL").collect()
    hits = sorted((r["file"], r["position"]) for r in found)
    runner.release(matched)
    return hits, matched.lost, matched.found


def rows(spark: SparkSession, values: list[str], *, placed: bool) -> DataFrame:
    """One column of any type, in a struct with another, in the order of ``values``."""
    made = [
        f"SELECT struct({v} AS v, 'x' AS n) AS row, id AS i FROM range({i}, {i} + 1)"
        for i, v in enumerate(values)
    ]
    frame = spark.sql(" UNION ALL ".join(made))
    if not placed:
        return frame.select("row")
    return frame.select("row", F.lit("f").alias("file"), F.col("i").alias("position"))


@pytest.mark.parametrize("name", [*APART, *(VARIANTS if HAS_VARIANTS else ())])
def test_different_values_are_distinguished(spark: SparkSession, name: str) -> None:
    one, other = {**APART, **VARIANTS}[name]
    written = rows(spark, [other, one, other, one], placed=True)
    lost = rows(spark, [one, other, one, one], placed=False)
    # Both copies of `one`, the first of `other`; there is no third copy of `one`.
    assert places(spark, lost, written) == ([("f", 0), ("f", 1), ("f", 3)], 4, 3)


@pytest.mark.parametrize("name", APART)
def test_pyspark_need_not_know_variants(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark 3.5 has no such type."""
    one, other = APART[name]
    written, lost = rows(spark, [other, one], placed=True), rows(spark, [one], placed=False)
    known = {name: kind for name, kind in vars(T).items() if name != "VariantType"}
    monkeypatch.setattr(pyspark.sql, "types", SimpleNamespace(**known))
    assert places(spark, lost, written) == ([("f", 1)], 1, 1)


@pytest.mark.parametrize("name", SAME)
def test_equal_values_are_found(spark: SparkSession, name: str) -> None:
    one, other = SAME[name]
    assert places(spark, rows(spark, [one], placed=False), rows(spark, [other], placed=True))[2] == 1


def test_wide_columns_are_read_only_if_the_others_do_not_decide(spark: SparkSession) -> None:
    """The same numbers with other texts: the numbers alone would match the wrong rows."""
    made = "struct(cast(id % 4 AS int) AS n, concat('v', id % 8) AS v) AS row, 'f' AS file, id AS position"
    written = spark.sql(f"SELECT {made} FROM range(16)")
    # n = 1 lives at 1, 5, 9 and 13, v1 at 1 and 9.
    one_text = written.where("position in (1, 9)").select("row")
    assert places(spark, one_text, written) == ([("f", 1), ("f", 9)], 2, 2)
    all_of_it = written.where("position % 4 = 1").select("row")
    assert places(spark, all_of_it, written) == ([("f", n) for n in (1, 5, 9, 13)], 4, 4)
    both = one_text.unionByName(written.where("position % 4 = 2").select("row"))
    assert places(spark, both, written) == ([("f", n) for n in (1, 2, 6, 9, 10, 14)], 6, 6)
    gone = spark.sql("SELECT struct(cast(1 AS int) AS n, 'not there' AS v) AS row")
    assert places(spark, gone, written) == ([], 1, 0)


def test_row_ids_are_compared_as_they_are(spark: SparkSession) -> None:
    lost = spark.sql("SELECT explode(array(7L, 9L)) AS row")
    written = spark.sql("SELECT id AS row, 'f' AS file, id * 10 AS position FROM range(20)")
    assert places(spark, lost, written) == ([("f", 70), ("f", 90)], 2, 2)


def test_too_many_rows_are_counted_and_not_searched(spark: SparkSession) -> None:
    lost = spark.sql("SELECT id AS row FROM range(50)")
    written = spark.sql("SELECT id AS row, 'f' AS file, id AS position FROM range(50)")
    assert places(spark, lost, written, most=49) == ([], 50, 0)
    assert places(spark, lost.limit(0), written) == ([], 0, 0)


def test_a_position_that_occurs_twice_proves_nothing(spark: SparkSession) -> None:
    lost = spark.sql("SELECT explode(array(7L, 7L)) AS row")
    written = spark.sql("SELECT 7L AS row, 'f' AS file, explode(array(3L, 3L)) AS position")
    _, wanted, found = places(spark, lost, written)
    assert (wanted, found) == (2, -1)


def test_names_of_columns_do_not_matter(spark: SparkSession) -> None:
    names = ["file", "position", "row", "key", "quick", "copies", "number", "a.b", "a`b", "_metadata", "é"]
    of = ", ".join(f"id % 3 AS `{n.replace('`', '``')}`" for n in names)
    frame = spark.sql(f"SELECT struct({of}) AS row, 'f' AS file, id AS position FROM range(9)")
    hits, wanted, found = places(spark, frame.where("position in (0, 4)").select("row"), frame)
    assert (hits, wanted, found) == ([("f", 0), ("f", 1)], 2, 2)


def test_against_a_multiset_in_plain_python(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT struct(id % 7 AS a, if(id % 5 = 0, null, concat('v', id % 3)) AS b, array(id % 2) AS c) AS row, "
        "concat('f', id % 4) AS file, id AS position FROM range(400)"
    ).cache()
    lost = frame.where("position % 3 = 1").select("row")
    matched = SparkRunner(spark).match(Traces(lost, frame), 1000)
    found = matched.hits.join(frame, ["file", "position"]).select(F.to_json("row")).collect()
    expected = lost.select(F.to_json("row")).collect()
    assert Counter(r[0] for r in found) == Counter(r[0] for r in expected)
    assert matched.lost == matched.found == len(expected)
    frame.unpersist()


def test_types_that_cannot_be_compared_are_refused(spark: SparkSession) -> None:
    class Odd(T.DataType):
        pass

    from lakekeeper.spark.row_match import spelling_of

    with pytest.raises(TypeError, match="cannot be compared"):
        spelling_of(F.lit(1), Odd())


def test_positions_are_held_and_narrowed(spark: SparkSession) -> None:
    runner = SparkRunner(spark)
    held = runner.hold(spark.sql("SELECT concat('f', id % 3) AS file, id AS position FROM range(10)"))
    assert dict(held.per_file) == {"f0": 4, "f1": 3, "f2": 3}
    some = runner.only(held, {"f1", "elsewhere"})
    assert dict(some.per_file) == {"f1": 3}
    assert sorted(r["position"] for r in some.hits.collect()) == [1, 4, 7]
    assert runner.only(held, {"f0", "f1", "f2"}) is held
    runner.release(held)


def test_rows_that_cannot_be_freed_hide_no_outcome(spark: SparkSession) -> None:
    """They are freed after the commit, when the executors that cached them may be gone."""

    class Gone:
        def unpersist(self) -> None:
            raise OSError("the block manager does not respond")

    gone: Any = Gone()
    SparkRunner(spark).release(Held(gone, {}))
