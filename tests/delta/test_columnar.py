"""The columnar path of Delta tables against the row path: the same rows, statistics and tags; and what it declines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakekeeper as lk
from lakekeeper.core.model.file_merge import FileMerge
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper_delta import columnar
from tests import long_texts, nested
from tests.delta.scene import Scene
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.delta

COLUMNS = (
    "k BIGINT, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, f FLOAT, d DOUBLE, n9 DECIMAL(9,2), n18 DECIMAL(18,4), "
    "n38 DECIMAL(38,10), s STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ"
)
# NULLs, NaN, infinities, both zeros, the ends of each type, text that is truncated, and times before 1582.
VALUES = (
    """
(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
(5, true, -128, -32768, -2147483648, float('NaN'), double('NaN'), -1.25, 99999999999999.9999,
 1234567890123456789012345678.0123456789, repeat('z', 40), X'FF', date'1500-01-01',
 timestamp'1500-01-01 00:00:00.123456', timestamp_ntz'0001-01-01 00:00:00')
(-9223372036854775808, false, 127, 32767, 2147483647, float('-Infinity'), -0.0D, 0, -0.0001, -0.0000000001, '', X'',
 date'9999-12-31', timestamp'2024-02-29 12:00:00.000999', timestamp_ntz'2024-02-29 12:00:00.999999')
(9223372036854775807, true, 0, 0, 0, float('0.1'), 0.0D, 9999999.99, 0.5, 0.5, concat(repeat('é', 31), '😀😀'),
 X'00', date'1970-01-01', timestamp'1899-12-31 23:59:59', timestamp_ntz'1582-10-10 00:00:00')
(0, false, 1, 1, 1, float('Infinity'), double('Infinity'), 1, 1, 1, repeat('\\udbff\\udfff', 40), X'7F80',
 date'0001-01-01', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999')
""".strip()
    .replace("\n ", " ")
    .split("\n")
)


def filled(scene: Scene, columns: str = COLUMNS, more: str = "") -> Scene:
    scene.run(f"CREATE TABLE {{t}} ({columns}) USING delta {more}")
    for number in range(0, len(VALUES), 2):
        scene.run(f"INSERT INTO {{t}} VALUES {', '.join(VALUES[number : number + 2])}")
    return scene


def both(scene: Scene, *columns: str, **changed: Any) -> tuple[Rewrite, Rewrite]:
    """Rewrite the whole table with the columnar path and with the row path."""
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(columns), **changed)
    planned = adapter.columnar.plan(task, "run-1")
    assert isinstance(planned, FileMerge), planned
    by_columns = rewritten(adapter, task)
    assert by_columns.native.outputs
    return by_columns, rewritten(adapter, task, columnar=False)


def actions_of(rewrite: Rewrite) -> list[dict[str, Any]]:
    return [json.loads(str(add.json()), parse_float=Decimal)["add"] for add in rewrite.native.outputs]


def stats_of(action: dict[str, Any]) -> dict[str, Any]:
    return json.loads(action["stats"], parse_float=Decimal)


def same(one: Any, other: Any) -> bool:
    """Whether Delta reads both statistics as equal: numbers by value, timestamps by instant."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, str) and isinstance(other, str):
        return one.replace("+00:00", "Z") == other.replace("+00:00", "Z")
    return bool(
        float(one) == float(other) if isinstance(one, Decimal) and math.isfinite(one) else one == other
    )


@pytest.mark.parametrize(
    "properties",
    [
        "",
        "'delta.enableDeletionVectors'='false'",
        "'delta.columnMapping.mode'='name'",
        "'delta.enableRowTracking'='true'",
        "'delta.enableRowTracking'='true', 'delta.columnMapping.mode'='id'",
        "'delta.dataSkippingNumIndexedCols'='4'",
        "'delta.dataSkippingStatsColumns'='k,s,at'",
        "'delta.dataSkippingNumIndexedCols'='0'",
    ],
)
def test_statistics_are_those_of_deltas_own_writer(scene: Scene, properties: str) -> None:
    filled(scene, more=f"TBLPROPERTIES ({properties})" if properties else "")
    by_columns, by_rows = both(scene, *([] if "'0'" in properties else ["k"]))
    (ours,), (theirs,) = actions_of(by_columns), actions_of(by_rows)
    assert same(stats_of(ours), stats_of(theirs)), (stats_of(ours), stats_of(theirs))
    for name in ("partitionValues", "dataChange", "tags"):
        assert ours.get(name) == theirs.get(name)


def test_bounds_include_long_texts(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row group with a text of 5,000 bytes the footer has no bounds."""
    monkeypatch.setattr(columnar, "ROW_GROUP_BYTES", 1_000)
    scene.run(
        f"CREATE TABLE {{t}} ({long_texts.COLUMNS}) USING delta", f"INSERT INTO {{t}} {long_texts.ROWS}"
    )
    by_columns, by_rows = both(scene, "k")
    (ours,), (theirs,) = actions_of(by_columns), actions_of(by_rows)
    assert same(stats_of(ours), stats_of(theirs)), (stats_of(ours), stats_of(theirs))
    (output,) = by_columns.outputs
    assert pq.read_metadata(scene.path / output.path).num_row_groups > 2
    recluster(scene)
    found = [scene.spark.sql(f"SELECT * FROM {scene.sql} WHERE {f}").count() for f in long_texts.FILTERS]
    assert found == list(long_texts.FOUND)


def test_statistics_of_columns_without_a_value_are_those_of_deltas_own_writer(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT, s STRING, d DOUBLE, at TIMESTAMP) USING delta")
    scene.run(
        "INSERT INTO {t} VALUES (NULL, NULL, double('NaN'), NULL)",
        "INSERT INTO {t} VALUES (1, NULL, NULL, NULL)",
    )
    (ours,), (theirs,) = (actions_of(each) for each in both(scene, "k"))
    assert same(stats_of(ours), stats_of(theirs)), (stats_of(ours), stats_of(theirs))


@pytest.mark.parametrize(
    "properties",
    [
        "'delta.enableDeletionVectors'='true'",
        "'delta.columnMapping.mode'='name'",
        "'delta.columnMapping.mode'='id', 'delta.enableRowTracking'='true'",
        "'delta.dataSkippingStatsColumns'='k,s.deep,s.x'",
        "'delta.dataSkippingNumIndexedCols'='3'",
    ],
)
def test_nested_columns_have_the_values_and_statistics_of_deltas_own_writer(
    scene: Scene, properties: str
) -> None:
    scene.run(f"CREATE TABLE {{t}} ({nested.COLUMNS}) USING delta TBLPROPERTIES ({properties})")
    for rows in nested.ROWS:
        scene.run(f"INSERT INTO {{t}} VALUES {rows}")
    before = scene.spark_rows()
    by_columns, by_rows = both(scene, "k")
    (ours,), (theirs,) = actions_of(by_columns), actions_of(by_rows)
    assert same(stats_of(ours), stats_of(theirs)), (stats_of(ours), stats_of(theirs))
    mine, its = (scene.path / each.outputs[0].path for each in (by_columns, by_rows))
    assert stored(mine)[0] == stored(its)[0]
    assert stored(mine)[1] == "parquet-cpp-arrow"
    recluster(scene)
    assert scene.spark_rows() == before
    scene.run("INSERT INTO {t} (k) VALUES (9)")
    before = scene.spark_rows()
    recluster(scene, level=2)
    assert scene.spark_rows() == before


def stored(path: Path) -> tuple[list[str], str]:
    """The schema of a file, and the library that wrote it. Spark writes timestamps as INT96."""
    file = pq.ParquetFile(path)
    schema = re.sub(r"int96 ([^;]*);|int64 ([^;(]*) \(Timestamp[^;]*;", r"timestamp \1\2;", str(file.schema))
    if "col-" not in schema:  # without column mapping, the fields have no ids
        schema = re.sub(r" field_id=-?\d+", "", schema)
    return schema.splitlines()[2:], str(file.metadata.created_by).partition(" ")[0]


def test_a_struct_that_has_changed_is_merged_by_rows_and_then_by_columns(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT, s STRUCT<x: INT>) USING delta")
    scene.run("INSERT INTO {t} VALUES (2, named_struct('x', 1))", "ALTER TABLE {t} ADD COLUMN s.y STRING")
    scene.run("INSERT INTO {t} VALUES (1, named_struct('x', 2, 'y', 'a'))")
    before = scene.spark_rows()
    recluster(scene)
    assert scene.spark_rows() == before == scene.log_rows()
    both(scene, "k")


OLD = "date'0001-01-01', timestamp'0001-01-01 00:00:00', named_struct('d', date'1000-01-01')"
STILL_OLD = "date'1000-01-01', timestamp'1000-01-01 00:00:00.000001', named_struct('d', date'0001-01-01')"


def test_old_dates_are_read_as_they_are_after_a_merge_and_merged_again(scene: Scene) -> None:
    """A reader in Spark 3.5's default mode fails on such dates in a file that no Spark is known to have written."""
    scene.run("CREATE TABLE {t} (k BIGINT, day DATE, at TIMESTAMP, s STRUCT<d: DATE>) USING delta")
    scene.run(f"INSERT INTO {{t}} VALUES (2, {OLD})", f"INSERT INTO {{t}} VALUES (1, {STILL_OLD})")
    before = scene.spark_rows()
    for _ in range(2):
        by_columns, by_rows = both(scene, "k")
        ours, theirs = (footer_of(scene, each) for each in (by_columns, by_rows))
        assert ours == {name: value for name, value in theirs.items() if name == b"org.apache.spark.version"}
        recluster(scene)
        with conf_of(scene, "spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"):
            assert scene.spark_rows() == before == scene.log_rows()


@contextmanager
def conf_of(scene: Scene, name: str, value: str) -> Iterator[None]:
    scene.spark.conf.set(name, value)
    try:
        yield
    finally:
        scene.spark.conf.unset(name)


def footer_of(scene: Scene, rewrite: Rewrite) -> dict[bytes, bytes]:
    """The key-value metadata of a file."""
    path = scene.path / rewrite.outputs[0].path
    return dict(pq.read_metadata(path).metadata or {})


@pytest.mark.parametrize("column", ["k", "s", "d", "day", "at", "wall", "n38", "i1"])
def test_rows_and_their_order_are_those_of_spark(scene: Scene, column: str) -> None:
    filled(scene)
    before = scene.spark_rows()
    by_columns, by_rows = both(scene, column)
    found, keys = [], []
    for rewrite in (by_columns, by_rows):
        log = scene.log()
        state = log.latest()
        rows = log.scan(state, log.jvm.array_list(rewrite.native.outputs)).collect()
        found.append(sorted(map(str, rows)))
        keys.append([str(row[column]).replace("-0.0", "0.0") for row in rows])  # the two zeros sort as equal
    assert keys[0] == keys[1]
    assert found[0] == found[1]
    recluster(scene, (column,))
    assert scene.spark_rows() == before == scene.log_rows()


def test_deleted_rows_are_left_out(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
    )
    for start in (0, 50):
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ REPARTITION(1) */ id, concat('v', id) FROM range({start}, {start + 80})"
        )
    scene.run("DELETE FROM {t} WHERE k % 7 = 3")
    before = scene.spark_rows()
    by_columns, by_rows = both(scene, "k")
    assert by_columns.rows_in == by_rows.rows_in == sum(before.values())
    recluster(scene)
    assert scene.spark_rows() == before == scene.log_rows()


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_rows_keep_their_ids_and_the_commits_that_wrote_them(scene: Scene, mapping: str) -> None:
    """Ids that follow from positions, ids that are stored, and rows that a later commit wrote again."""
    scene.run(
        "CREATE TABLE {t} (k BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking'='true', "
        f"'delta.enableDeletionVectors'='true', 'delta.columnMapping.mode'='{mapping}')"
    )
    for start in (0, 50, 90):
        scene.run(f"INSERT INTO {{t}} SELECT id, concat('v', id) FROM range({start}, {start + 60}, 1, 2)")
    scene.run("DELETE FROM {t} WHERE k % 7 = 3", "UPDATE {t} SET v = 'later' WHERE k % 10 = 1")
    for _ in range(2):
        before = lineage(scene)
        by_columns, by_rows = both(scene, "k")
        assert by_columns.rows_in == by_rows.rows_in == len(before)
        fields = [stored_fields(scene, each) for each in (by_columns, by_rows)]
        assert fields[0] == fields[1]
        recluster(scene)
        assert lineage(scene) == before
        assert len({row for row, *_ in before}) == len(before)
        scene.run("INSERT INTO {t} SELECT id, 'last' FROM range(40, 70)", "DELETE FROM {t} WHERE k = 44")
    assert scene.spark_rows() == scene.log_rows()


def lineage(scene: Scene) -> list[tuple[int, ...]]:
    ids = "SELECT _metadata.row_id AS r, _metadata.row_commit_version AS c, k, v FROM {t} ORDER BY r"
    return [tuple(row) for row in scene.spark.sql(ids.format(t=scene.sql)).collect()]


def stored_fields(scene: Scene, rewrite: Rewrite) -> list[tuple[str, str, bytes]]:
    """Name, type and field id of the columns of a rewrite's first file."""
    schema = pq.read_schema(scene.path / rewrite.outputs[0].path)
    return [(f.name, str(f.type), (f.metadata or {}).get(b"PARQUET:field_id", b"")) for f in schema]


def test_ranges_are_merged_by_one_spark_task_each(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT, v STRING) USING delta")
    for start in (0, 50):
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ REPARTITION(1) */ id, concat('v', id) FROM range({start}, {start + 80})"
        )
    before = scene.spark_rows()
    by_columns, _ = both(scene, "k", cuts=(40, 90), target_bytes=1 << 20)
    bounds = [stats_of(action) for action in actions_of(by_columns)]
    assert [(s["minValues"]["k"], s["maxValues"]["k"]) for s in bounds] == [(0, 39), (40, 89), (90, 129)]
    recluster(scene, cuts=(40, 90))
    assert scene.spark_rows() == before


def test_partitions_keep_their_values(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, p STRING, d DATE) USING delta PARTITIONED BY (p, d)",
    )
    for _ in range(2):
        scene.run(
            "INSERT INTO {t} SELECT id % 11, array('a b', 'a%20b', 'ä', null)[int(id % 4)], "
            "date'2024-02-29' FROM range(60)"
        )
    before = scene.spark_rows()
    recluster(scene)
    assert scene.spark_rows() == before == scene.log_rows()
    written = {a["add"]["path"] for a in scene.actions() if "add" in a}
    assert all(pq.read_schema(scene.path / path).names == ["k"] for path in written)


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "uncompressed"])
def test_the_codec_of_the_inputs_is_kept(scene: Scene, codec: str) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT) USING delta")
    for _ in range(2):
        frame = scene.spark.range(50).selectExpr("id AS k").coalesce(1)
        frame.write.format("delta").mode("append").option("compression", codec).save(str(scene.path))
    by_columns, _ = both(scene, "k")
    (output,) = by_columns.outputs
    found = pq.read_metadata(scene.path / output.path).row_group(0).column(0).compression
    assert found == codec.upper()
    scene.spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    try:
        by_columns, _ = both(scene, "k")
    finally:
        scene.spark.conf.unset("spark.sql.parquet.compression.codec")
    (output,) = by_columns.outputs
    assert pq.read_metadata(scene.path / output.path).row_group(0).column(0).compression == "ZSTD"


def test_an_unsupported_codec_is_left_to_spark(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT) USING delta", "INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)"
    )
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    scene.spark.conf.set("spark.sql.parquet.compression.codec", "lz4_raw")
    try:
        assert adapter.columnar.plan(task, "run-1") == Reason.of(
            Code.MERGED_BY_ROWS, cause="the codec lz4_raw"
        )
    finally:
        scene.spark.conf.unset("spark.sql.parquet.compression.codec")


REFUSED = {
    "bloom filter": (
        "k BIGINT",
        "TBLPROPERTIES ('parquet.bloom.filter.enabled#k'='true')",
        "the table sets parquet.bloom.filter.enabled#k",
    ),
    "nested": ("k BIGINT, a STRUCT<x: ARRAY<VARIANT>>", "", "column a.x.element is of type variant"),
    "nested char": ("k BIGINT, a STRUCT<x: CHAR(3)>", "", "column a has __CHAR_VARCHAR_TYPE_STRING"),
    "char": ("k BIGINT, a CHAR(3)", "", "column a has __CHAR_VARCHAR_TYPE_STRING"),
    "variant": ("k BIGINT, a VARIANT", "", "column a is of type variant"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_tables_are_merged_by_rows_with_a_reason(scene: Scene, name: str) -> None:
    columns, more, cause = REFUSED[name]
    scene.run(f"CREATE TABLE {{t}} ({columns}) USING delta {more}")
    for k in (2, 1):
        scene.run(f"INSERT INTO {{t}} (k) VALUES ({k}), (NULL)")
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    refused = adapter.columnar.plan(task, "run-1")
    assert isinstance(refused, Reason)
    assert refused["cause"] == cause


@pytest.mark.parametrize("most, planned", [(4, True), (3, False)])
def test_the_deleted_rows_of_all_files_together_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, most: int, planned: bool
) -> None:
    scene.run("CREATE TABLE {t} (k INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')")
    for start in (0, 10):
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id FROM range({start}, {start + 10})")
    scene.run("DELETE FROM {t} WHERE k % 10 IN (2, 3)")
    monkeypatch.setattr(columnar, "MOST_DELETED_ROWS", most)
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    assert isinstance(adapter.columnar.plan(task, "run-1"), FileMerge if planned else Reason)


def test_a_curve_is_merged_by_rows(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, v BIGINT) USING delta",
        "INSERT INTO {t} VALUES (1, 2)",
        "INSERT INTO {t} VALUES (2, 1)",
    )
    import lakekeeper as lk

    table = lk.table(scene.spark, str(scene.path))
    report = table.recluster("hilbert(k, v)", policy="full")
    (group,) = report.groups
    assert group.detail is not None
    assert group.detail["cause"] == "a key of layout hilbert"


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_the_option_chooses_the_engine(scene: Scene, engine: str) -> None:
    import lakekeeper as lk

    scene.run(
        "CREATE TABLE {t} (k BIGINT) USING delta",
        "INSERT INTO {t} VALUES (1), (3)",
        "INSERT INTO {t} VALUES (2), (NULL)",
    )
    before = scene.spark_rows()
    table = lk.table(scene.spark, str(scene.path))
    report = table.recluster(columns=["k"], policy="full", options={"merge-engine": engine})
    assert report.changed
    assert [group.detail for group in report.groups] == [None]
    (path,) = [a["add"]["path"] for a in scene.actions() if "add" in a]
    writer = str(pq.read_metadata(scene.path / path).created_by)
    assert writer.startswith("parquet-cpp" if engine == "auto" else "parquet-mr")
    assert scene.spark_rows() == before


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_min_and_max_of_zeros_are_values_of_rows(scene: Scene, engine: str) -> None:
    """Delta answers them by the statistics: the minimum of prices from 0.0 on was -0.0 after a merge by columns."""
    scene.run("CREATE TABLE {t} (k INT, x DOUBLE, y FLOAT) USING delta")
    for k in range(2):
        scene.run(f"INSERT INTO {{t}} VALUES ({k}, 0.0D, -0.0D), ({k + 5}, 1.5D, -2D)")
    query = f"SELECT min(x), max(x), min(y), max(y) FROM {scene.sql}"
    before = [str(value) for value in scene.spark.sql(query).collect()[0]]
    assert before == ["0.0", "1.5", "-2.0", "-0.0"]
    table = lk.table(scene.spark, str(scene.path))
    assert table.recluster("k", policy="full", options={"merge-engine": engine, "depth-threshold": 1}).changed
    assert [str(value) for value in scene.spark.sql(query).collect()[0]] == before
