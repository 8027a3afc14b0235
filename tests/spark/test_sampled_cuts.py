"""Ranges of a merge by rows: even whatever the distribution of the key, each row in one, in the key's order."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.layout.rank_boundaries import curve_index
from lakekeeper.core.model.boundaries import Boundaries
from lakekeeper.core.model.keys import ClusterKey, KeyColumn, arrow_type, to_json_value
from lakekeeper.core.model.plan import SORTED_BYTES, MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.sampled_cuts import Cut, sampled_cuts
from lakekeeper.spark.shims import shim
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import token

pytestmark = pytest.mark.spark

MANY = 40_000


def task_of(kinds: Sequence[str], rows: int, parts: int, **fields: Any) -> MergeTask:
    """A task by the columns ``c 0``, ``c 1`` …, of a size that is cut into so many ranges."""
    key = ClusterKey(tuple(KeyColumn((f"c {k}",), kind, str(k)) for k, kind in enumerate(kinds)))
    task = MergeTask(
        "t1", "full", "db.t", "uuid", 1, ("a", "b"), ("", ""), "", 0, key, 0, 1, 1 << 20, None, 1 << 33,
        parts * SORTED_BYTES, rows, rows, 1.0, Reason.of(Code.FULL_SORT, files=2),
    )  # fmt: skip
    return replace(task, **fields)


def frame_of(spark: SparkSession, kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> DataFrame:
    columns = [
        pa.array(each, arrow_type(kind)) for each, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    names = [f"c {k}" for k in range(len(kinds))]
    table = pa.table([*columns, pa.array(range(len(rows)))], [*names, "n"])
    return (
        shim().from_arrow(spark, table).repartition(2)
    )  # of a local relation, the optimizer computes curves slowly


def merged(spark: SparkSession, frame: DataFrame, task: MergeTask) -> list[list[int]]:
    """The numbers of the rows of each range, in order."""
    found = SparkRunner(spark).merge(frame, task).select("n", F.spark_partition_id().alias("at")).collect()
    return [[row["n"] for row in rows] for _, rows in itertools.groupby(found, key=lambda row: row["at"])]


def cuts_of(rows: DataFrame, task: MergeTask) -> list[Cut]:
    assert task.key is not None
    return sampled_cuts(rows, task, task.key)


def order_of(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(token(value) for value in row)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_every_kind_is_cut_in_its_own_order(spark: SparkSession, kind: str) -> None:
    rng = random.Random(kind)
    values = [(rng.choice([*SAMPLES[kind], None]),) for _ in range(600)]
    ranges = merged(spark, frame_of(spark, [kind], values), task_of([kind], 600, 4))
    assert Counter(itertools.chain(*ranges)) == Counter(range(600))
    distinct = {order_of(value) for value in values}
    assert min(3, len(distinct)) <= len(ranges) <= 4
    keys = [[order_of(values[n]) for n in rows] for rows in ranges]
    assert all(rows == sorted(rows) for rows in keys)
    assert all(left[-1] < right[0] for left, right in itertools.pairwise(keys))


@pytest.mark.parametrize(
    "key",
    [
        lambda n: n,
        lambda n: int(2 ** (40 * ((n * 7919) % MANY) / MANY)),  # most values are far below the middle
        lambda n: None if n % 3 == 0 else n,  # a third is NULL
        lambda n: -n if n % 20 else 10**15,
    ],
    ids=["uniform", "skewed", "null", "far"],
)
def test_ranges_are_even_for_every_distribution(spark: SparkSession, key: Any) -> None:
    values = [(key(n),) for n in range(MANY)]
    ranges = merged(spark, frame_of(spark, ["int"], values), task_of(["int"], MANY, 8))
    heaviest = Counter(values).most_common(1)[0][1]
    assert sum(map(len, ranges)) == MANY
    assert max(map(len, ranges)) < 1.1 * MANY / 8 + (heaviest if heaviest > 1 else 0)
    if heaviest == 1:
        assert len(ranges) == 8
        assert min(map(len, ranges)) > 0.9 * MANY / 8


def test_a_leading_column_of_few_values_is_cut_by_the_next_one(spark: SparkSession) -> None:
    """Cut by the leading column alone, one range would hold 70% of the rows."""
    rng = random.Random(5)
    values = [(rng.choice(["a"] * 7 + [None, "b", "c"]), rng.randrange(10**6)) for _ in range(MANY)]
    ranges = merged(spark, frame_of(spark, ["string", "int"], values), task_of(["string", "int"], MANY, 8))
    keys = [[order_of(values[n]) for n in rows] for rows in ranges]
    assert all(rows == sorted(rows) for rows in keys)
    assert all(left[-1] <= right[0] for left, right in itertools.pairwise(keys))
    assert all(0.9 * MANY / 8 < len(rows) < 1.1 * MANY / 8 for rows in ranges)


def test_one_column_is_compared_where_it_suffices(spark: SparkSession) -> None:
    values = [(n, "x") for n in range(1_000)]
    cuts = cuts_of(frame_of(spark, ["int", "string"], values), task_of(["int", "string"], 1_000, 4))
    assert cuts == [(250,), (500,), (750,)]


def test_equal_rows_are_never_divided(spark: SparkSession) -> None:
    values = [(7, "x")] * 1_000
    ranges = merged(spark, frame_of(spark, ["int", "string"], values), task_of(["int", "string"], 1_000, 4))
    assert list(map(len, ranges)) == [1_000]


def test_ranges_of_a_curve_are_even(spark: SparkSession) -> None:
    rng = random.Random(6)
    values = [(int(rng.expovariate(1) * 100), rng.randrange(1_000)) for _ in range(MANY)]
    task = task_of(["int", "int"], MANY, 8)
    assert task.key is not None
    key = ClusterKey(task.key.columns, "hilbert")
    places = (tuple(range(5, 400, 10)), tuple(range(0, 1_000, 20)))
    kept = Boundaries(key.key_id, 0, ("int", "int"), places)
    frame = frame_of(spark, ["int", "int"], values)
    runner = SparkRunner(spark)
    assert runner.merge(frame, replace(task, key=key, boundaries=kept)).columns == frame.columns
    ranges = merged(spark, frame, replace(task, key=key, boundaries=kept))
    columns = [pa.array(each, pa.int64()) for each in zip(*values, strict=True)]
    place = curve_index(kept, "hilbert", columns).tolist()
    keys = [[(place[n], values[n]) for n in rows] for rows in ranges]
    assert all(rows == sorted(rows) for rows in keys)
    assert all(left[-1][0] < right[0][0] for left, right in itertools.pairwise(keys))
    assert all(0.85 * MANY / 8 < len(rows) < 1.15 * MANY / 8 for rows in ranges)


@pytest.mark.parametrize("layout", ["linear", "zorder"])
def test_fields_of_a_struct_are_sampled(spark: SparkSession, layout: str) -> None:
    columns = (KeyColumn(("s", "a.b"), "int", "1"), KeyColumn(("s", "c"), "int", "2"))
    key = ClusterKey(columns, layout)
    frame = frame_of(spark, ["int", "int"], [(n % 50, n) for n in range(1_000)])
    rows = frame.select(F.struct(F.col("c 0").alias("a.b"), F.col("c 1").alias("c")).alias("s"), "n")
    places = (tuple(range(1, 50, 5)), tuple(range(1, 1_000, 50)))
    kept = Boundaries(key.key_id, 0, ("int", "int"), places) if key.curved else None
    ranges = merged(spark, rows, replace(task_of(["int", "int"], 1_000, 4), key=key, boundaries=kept))
    assert Counter(itertools.chain(*ranges)) == Counter(range(1_000))
    assert len(ranges) == 4
    assert max(map(len, ranges)) < 350


def test_the_sample_reads_the_columns_of_the_key_only(spark: SparkSession, tmp_path: Any) -> None:
    """A wide table would otherwise be read twice as a whole: the column read here is one that cannot be read."""
    frame_of(spark, ["int"], [(n,) for n in range(100)]).write.parquet(str(tmp_path / "t"))
    broken = F.raise_error(F.col("n").cast("string"))
    rows = spark.read.parquet(str(tmp_path / "t")).withColumn("broken", broken)
    assert len(cuts_of(rows, task_of(["int"], 100, 4))) == 3


def test_no_row_leaves_no_cut(spark: SparkSession) -> None:
    assert cuts_of(frame_of(spark, ["int"], [(1,)]).limit(0), task_of(["int"], 0, 4)) == []


def test_stored_values_are_those_of_the_key(spark: SparkSession) -> None:
    for kind, samples in SAMPLES.items():
        values = sorted({token(v): v for v in samples}.items())
        rows = [(value,) for _, value in values]
        cuts = cuts_of(frame_of(spark, [kind], rows), task_of([kind], len(rows), len(rows)))
        expected = [to_json_value(value, kind) for (value,) in rows[1:]]
        assert [cut for (cut,) in cuts] == expected, kind
