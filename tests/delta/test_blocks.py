"""Bounds are never narrower than the data, for every kind of key, however Delta truncates its statistics."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.blocks import UNKNOWN, Block, Snapshot
from lakekeeper.errors import OptionError
from lakekeeper.spark.shims import shim
from tests.delta.scene import Scene
from tests.oracles import delta_log
from tests.rewrites import recluster

pytestmark = pytest.mark.delta

_BIG = Decimal("99999999999999999999.123456789012345678")
_FLOWER = "\U0001f33c"

# column type → values of file 1, 2, …
CASES: dict[str, list[list[Any]]] = {
    "TINYINT": [[-128, 127], [None, 0]],
    "BIGINT": [[-(2**63), 2**63 - 1], [0], [None]],
    "FLOAT": [
        [0.1, 3.4e38],
        [-0.0],
        [float("nan"), 1.0],
        [float("nan")],
        [float("-inf"), float("inf")],
        [None],
    ],
    "DOUBLE": [[0.1, 1.7e308], [-0.0, 0.0], [float("nan"), 1.0], [float("nan")], [5e-324, None], [None]],
    "DECIMAL(38,18)": [[_BIG, -_BIG], [Decimal("0.000000000000000001")], [None]],
    "DECIMAL(9,2)": [[Decimal("-9999999.99"), Decimal("0.10")], [None, Decimal(0)]],
    "DATE": [[dt.date(1, 1, 1), dt.date(9999, 12, 31)], [dt.date(1582, 10, 4)], [None]],
    "TIMESTAMP": [
        [dt.datetime(2024, 1, 1, 0, 0, 0, 456789, dt.timezone.utc)],
        [dt.datetime(1850, 1, 1, 3, 4, 5, 678901, dt.timezone.utc), None],
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc)],
        [None],
    ],
    "TIMESTAMP_NTZ": [
        [dt.datetime.fromisoformat("2024-01-01T00:00:00.456789")],
        [dt.datetime.fromisoformat("1850-01-01T03:04:05.678901"), None],
        [dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")],
    ],
    "STRING": [
        ["", "a"],
        ["x" * 32, "x" * 33],
        ["x" * 31 + _FLOWER, "x" * 40],
        [_FLOWER * 40],
        ["\uffff" * 50, "\x7f" * 100],
        ["\U0010ffff" * 200],
        [None, "é" * 17],
        [None],
    ],
}

_ARROW = {
    "TINYINT": pa.int8(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(38,18)": pa.decimal128(38, 18),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "STRING": pa.string(),
}


def _make(
    spark: SparkSession, scene: Scene, kind: str, files: Sequence[Sequence[Any]], properties: str = ""
) -> None:
    extra = f"TBLPROPERTIES ({properties})" if properties else ""
    scene.run(f"CREATE TABLE {{t}} (k {kind}) USING delta {extra}")
    table = pa.table(
        {
            "k": pa.array([v for values in files for v in values], _ARROW[kind]),
            "file": pa.array([n for n, values in enumerate(files) for _ in values], pa.int32()),
        }
    )
    frame = shim().repartition_by_id(shim().from_arrow(spark, table), len(files), F.col("file"))
    frame.select(F.col("k").cast(kind.lower())).write.format("delta").mode("append").save(str(scene.path))


def _order(value: Any) -> Any:
    """Spark's order as a Python sort key: NaN last, text by bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _check(scene: Scene, snapshot: Snapshot) -> None:
    state = delta_log.replay(scene.path)
    for block in snapshot.blocks:
        rows = delta_log.file_rows(scene.path, state.adds[block.path, ""], state.metadata)
        _check_block(block, [row["k"] for row in rows])


def _check_block(block: Block, values: list[Any]) -> None:
    present = [_order(v) for v in values if v is not None]
    assert block.null_count[0] in (len(values) - len(present), UNKNOWN)
    assert block.rows == len(values)
    lo, hi = block.lo[0], block.hi[0]
    assert (lo is None) == (hi is None)
    if lo is None:
        return  # unbounded, or only NULL
    assert present
    assert _order(lo) <= min(present)
    assert _order(hi) >= max(present)
    if block.exact[0]:
        assert _order(lo) == min(present)
        assert _order(hi) == max(present)


@pytest.mark.parametrize("kind", list(CASES))
def test_bounds_hold_all_values(spark: SparkSession, scene: Scene, kind: str) -> None:
    _make(spark, scene, kind, CASES[kind])
    snapshot = scene.adapter().snapshot(["K"])
    assert len(snapshot.blocks) == len(CASES[kind])
    _check(scene, snapshot)
    known = [b for b in snapshot.blocks if b.lo[0] is not None]
    assert len(known) >= len(CASES[kind]) - 2, "bounds are missing although Delta has them"
    rows = scene.spark_rows()
    recluster(scene, target_rows=2)
    assert scene.spark_rows() == rows == scene.log_rows()
    _check(scene, scene.adapter().snapshot(["k"]))


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns", "Africa/Monrovia"])
def test_offsets_cut_to_minutes_do_not_narrow(spark: SparkSession, scene: Scene, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        _make(spark, scene, "TIMESTAMP", CASES["TIMESTAMP"])
        _check(scene, scene.adapter().snapshot(["k"]))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_the_end_of_time(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k TIMESTAMP) USING delta",
        "INSERT INTO {t} VALUES (timestamp_micros(9223372036854775807L))",
        "INSERT INTO {t} VALUES (timestamp'9999-12-31 23:59:59.999999')",
    )
    blocks = scene.adapter().snapshot(["k"]).blocks
    highest = [v for v in blocks.hi[0].cast("int64").to_pylist() if v is not None]
    assert 253_402_300_799_999_999 in highest
    assert all(v >= 0 for v in highest)


def test_bytes_that_are_not_text(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k STRING) USING delta",
        "INSERT INTO {t} SELECT cast(X'80FF' AS STRING)",
        "INSERT INTO {t} SELECT 'plain'",
    )
    bounds = {(b.lo[0], b.hi[0]) for b in scene.adapter().snapshot(["k"]).blocks}
    assert bounds == {(None, None), ("plain", "plain")}


def test_falsy_bounds_are_bounds(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (a INT, b STRING, c DOUBLE) USING delta", "INSERT INTO {t} VALUES (0, '', -0.0)"
    )
    block = next(iter(scene.adapter().snapshot(["a", "b", "c"]).blocks))
    assert block.lo == (0, "", 0.0)
    assert block.exact == (True, True, True)


def test_files_without_statistics_are_counted_and_have_no_bounds(spark: SparkSession, scene: Scene) -> None:
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        scene.run(
            "CREATE TABLE {t} (k INT, p STRING) USING delta PARTITIONED BY (p)",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a%20 b' FROM range(7)",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a%20 b' FROM range(9)",
        )
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a%20 b' FROM range(11)")
    blocks = sorted(scene.adapter().snapshot(["k"]).blocks, key=lambda b: b.rows)
    assert [(b.rows, b.lo[0], b.null_count[0]) for b in blocks] == [
        (7, None, UNKNOWN),
        (9, None, UNKNOWN),
        (11, 0, 0),
    ]
    rows = scene.spark_rows()
    recluster(scene)
    assert scene.spark_rows() == rows == scene.log_rows()


def test_partition_columns_as_key(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k INT, d DATE, s STRING, ts TIMESTAMP, b BOOLEAN) USING delta PARTITIONED BY (d, s, ts, b)",
        "INSERT INTO {t} VALUES (1, date'2024-02-29', 'a%20b', timestamp'2024-01-01 10:00:00.123456', true), "
        "(2, null, '', null, null)",
    )
    snapshot = scene.adapter().snapshot(["d", "s", "ts", "b"])
    by_null = sorted(snapshot.blocks, key=lambda b: b.null_count[0])
    instant = dt.datetime(2024, 1, 1, 10, 0, 0, 123456, dt.timezone.utc)
    assert by_null[0].lo == by_null[0].hi == (dt.date(2024, 2, 29), "a%20b", instant, True)
    assert by_null[0].exact == (True,) * 4
    assert by_null[1].lo == (None,) * 4
    assert by_null[1].null_count == (1,) * 4
    assert set(snapshot.blocks.partitions) == {
        '{"b":"true","d":"2024-02-29","s":"a%20b","ts":"2024-01-01T10:00:00.123456Z"}',
        '{"b":null,"d":null,"s":null,"ts":null}',
    }


def test_bounds_stay_wide_under_deletes(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(100)",
        "DELETE FROM {t} WHERE k < 10 OR k > 90",
    )
    block = next(iter(scene.adapter().snapshot(["k"]).blocks))
    assert (block.lo[0], block.hi[0], block.rows, block.deleted_rows) == (0, 99, 100, 19)
    assert block.delete_id
    assert block.delete_bytes > 0


@pytest.mark.parametrize(
    "column, expected",
    [
        ("bin", "no minimum and maximum for type binary"),
        ("flag", "no minimum and maximum for type boolean"),
        ("arr", "array"),
        ("mp", "map"),
        ("st", "struct"),
        ("arr.x", "of type array"),
        ("k.x", "of type long"),
        ("nope", "a column of the table"),
        ("kk", "did you mean 'k'"),
        ("`k", "column name"),
    ],
)
def test_columns_that_cannot_be_a_key(scene: Scene, column: str, expected: str) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, bin BINARY, flag BOOLEAN, arr ARRAY<INT>, mp MAP<INT,INT>, st STRUCT<x:INT>) "
        "USING delta"
    )
    with pytest.raises(OptionError, match=expected) as caught:
        scene.adapter().snapshot([column])
    assert caught.value.key == "columns"


@pytest.mark.parametrize(
    "prop, value, expected",
    [
        ("delta.dataSkippingNumIndexedCols", "1", "delta.dataSkippingNumIndexedCols"),
        ("delta.dataSkippingStatsColumns", "a", "delta.dataSkippingStatsColumns"),
    ],
)
def test_a_column_without_statistics_reports_the_property_to_set(
    scene: Scene, prop: str, value: str, expected: str
) -> None:
    scene.run(f"CREATE TABLE {{t}} (a INT, b INT) USING delta TBLPROPERTIES ('{prop}'='{value}')")
    assert len(scene.adapter().snapshot(["a"]).blocks) == 0
    with pytest.raises(OptionError, match=expected):
        scene.adapter().snapshot(["b"])


def test_names_that_differ_by_case_only_with_case_sensitivity(spark: SparkSession, scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (Id INT) USING delta")
    assert str(scene.adapter().snapshot(["ID"]).key) == "(Id)"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(OptionError, match="did you mean 'Id'"):
            scene.adapter().snapshot(["ID"])
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_columns_named_like_internal_ones(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (path INT, stats INT, tags INT, minValues INT) USING delta",
        "INSERT INTO {t} VALUES (1, 2, 3, 4)",
        "INSERT INTO {t} VALUES (1, 2, 3, 4)",
    )
    columns = ["path", "stats", "tags", "minValues"]
    assert next(iter(scene.adapter().snapshot(columns).blocks)).lo == (1, 2, 3, 4)
    rows = scene.spark_rows()
    recluster(scene, columns)
    assert scene.spark_rows() == rows == scene.log_rows()
