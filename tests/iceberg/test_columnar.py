"""The columnar path of Iceberg tables against the row path: the same rows and metrics; and what it declines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakekeeper as lk
from lakekeeper.core.model.file_merge import FileMerge
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.testing.values import text
from lakekeeper_iceberg import columnar
from lakekeeper_iceberg.native import Iceberg
from tests import long_texts, nested
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg

COLUMNS = (
    "k BIGINT, b BOOLEAN, i4 INT, f FLOAT, d DOUBLE, n9 DECIMAL(9,2), n18 DECIMAL(18,4), n38 DECIMAL(38,10), "
    "s STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ"
)
VALUES = """
(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
(5, true, -2147483648, float('NaN'), double('NaN'), -1.25, 99999999999999.9999,
 1234567890123456789012345678.0123456789, repeat('z', 40), X'FF', date'1500-01-01',
 timestamp'1500-01-01 00:00:00.123456', timestamp_ntz'0001-01-01 00:00:00')
(-9223372036854775808, false, 2147483647, float('-Infinity'), -0.0D, 0, -0.0001, -0.0000000001, '', X'',
 date'9999-12-31', timestamp'2024-02-29 12:00:00.000999', timestamp_ntz'2024-02-29 12:00:00.999999')
(9223372036854775807, true, 0, float('0.1'), 0.0D, 9999999.99, 0.5, 0.5, concat(repeat('é', 31), '😀😀'),
 X'00', date'1970-01-01', timestamp'1899-12-31 23:59:59', timestamp_ntz'1582-10-10 00:00:00')
(0, false, 1, float('Infinity'), double('Infinity'), 1, 1, 1, repeat('\\udbff\\udfff', 40), X'7F80',
 date'0001-01-01', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999')
""".strip().replace("\n ", " ").split("\n")  # fmt: skip


def filled(scene: Scene, version: int = 2, **properties: str) -> Scene:
    scene.create(COLUMNS, version, properties={name.replace("_", "."): v for name, v in properties.items()})
    for number in range(0, len(VALUES), 2):
        scene.run(f"INSERT INTO {{t}} VALUES {', '.join(VALUES[number : number + 2])}")
    return scene


def both(scene: Scene, *columns: str, **changed: Any) -> tuple[Rewrite, Rewrite]:
    """Rewrite the whole table with the columnar path and with the row path."""
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(columns or None), **changed)
    planned = adapter.columnar.plan(task, "run-1")
    assert isinstance(planned, FileMerge), planned
    return rewritten(adapter, task), rewritten(adapter, task, columnar=False)


def metrics_of(scene: Scene, rewrite: Rewrite) -> list[dict[str, Any]]:
    """DataFiles as plain data, without what two writers may choose differently: names, sizes, offsets, order of ids."""
    jvm, table = Iceberg(scene.spark), scene.java()
    to_json = jvm.static("org.apache.iceberg.ContentFileParser", "toJson")
    plain = [json.loads(str(to_json(f, table.specs().get(f.specId())))) for f in rewrite.native.files]
    for file in plain:
        for name in ("file-path", "file-size-in-bytes", "column-sizes", "split-offsets"):
            assert file.pop(name)
    return [{name: _by_id(value) for name, value in file.items()} for file in plain]


def _by_id(value: Any) -> Any:
    return dict(zip(value["keys"], value["values"], strict=True)) if isinstance(value, dict) else value


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", ["truncate(16)", "full", "counts", "none"])
def test_metrics_are_those_of_icebergs_own_writer(scene: Scene, version: int, mode: str) -> None:
    filled(scene, version)
    scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.metadata.metrics.default'='{mode}')")
    by_columns, by_rows = both(scene, *(["k"] if mode in ("full", "truncate(16)") else []))
    ours, theirs = metrics_of(scene, by_columns), metrics_of(scene, by_rows)
    assert ours == theirs


@pytest.mark.parametrize("mode", ["truncate(16)", "full", "counts", "none"])
def test_bounds_include_long_texts(scene: Scene, mode: str) -> None:
    """Of a row group with a text of 5,000 bytes the footer has no bounds."""
    sizes = {"write.parquet.row-group-size-bytes": "1000", "write.metadata.metrics.default": mode}
    scene.create(long_texts.COLUMNS, properties=sizes)
    scene.run(f"INSERT INTO {{t}} {long_texts.ROWS}")
    by_columns, by_rows = both(scene, *(["k"] if mode in ("full", "truncate(16)") else []))
    assert metrics_of(scene, by_columns) == metrics_of(scene, by_rows)
    (output,) = by_columns.outputs
    assert pq.read_metadata(output.path.removeprefix("file:")).num_row_groups > 2
    recluster(scene, None if mode in ("counts", "none") else ("k",))
    found = [scene.spark.sql(f"SELECT * FROM {scene.sql} WHERE {f}").count() for f in long_texts.FILTERS]
    assert found == list(long_texts.FOUND)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", ["truncate(16)", "full", "counts"])
def test_nested_columns_have_the_values_and_metrics_of_icebergs_own_writer(
    scene: Scene, version: int, mode: str
) -> None:
    scene.create(nested.COLUMNS, version, properties={"write.metadata.metrics.default": mode})
    for rows in nested.ROWS:
        scene.run(f"INSERT INTO {{t}} VALUES {rows}")
    before = scene.spark_rows()
    by_columns, by_rows = both(scene, *([] if mode == "counts" else ["k"]))
    assert metrics_of(scene, by_columns) == metrics_of(scene, by_rows)
    mine, its = (each.outputs[0].path.removeprefix("file:") for each in (by_columns, by_rows))
    assert stored(mine)[:2] == stored(its)[:2]
    assert stored(mine)[2] == "parquet-cpp-arrow"
    recluster(scene, None if mode == "counts" else ("k",))
    assert scene.spark_rows() == before


def stored(path: str | Path) -> tuple[str, list[str], str]:
    """The schema of a file, its rows, and the library that wrote it."""
    file = pq.ParquetFile(path)
    schema = "\n".join(str(file.schema).splitlines()[2:])
    return schema, list(map(text, file.read().to_pylist())), str(file.metadata.created_by).partition(" ")[0]


def test_a_struct_that_has_changed_is_merged_by_rows_and_then_by_columns(scene: Scene) -> None:
    scene.create("k BIGINT, s STRUCT<x: INT, z: INT>")
    scene.run("INSERT INTO {t} VALUES (2, named_struct('x', 1, 'z', 5))")
    scene.run("ALTER TABLE {t} ADD COLUMN s.y STRING", "ALTER TABLE {t} RENAME COLUMN s.z TO zz")
    scene.run("INSERT INTO {t} VALUES (1, named_struct('x', 2, 'zz', 6, 'y', 'a'))")
    before = scene.spark_rows()
    recluster(scene)
    assert scene.spark_rows() == before == scene.log_rows()
    both(scene, "k")


@pytest.mark.parametrize("newest_first", [True, False])
def test_renamed_lists_keep_their_values(scene: Scene, newest_first: bool) -> None:
    """In a struct, and two columns that swap their names: the leaves of the files are equal, the groups are not."""
    scene.create("k BIGINT, s STRUCT<x: INT, tags: ARRAY<INT>>, a ARRAY<INT>, b ARRAY<INT>")
    scene.run("INSERT INTO {t} VALUES (2, named_struct('x', 2, 'tags', array(3, 4)), array(5), array(6))")
    (old,) = scene.adapter().snapshot(["k"]).blocks.path.to_pylist()
    for one, other in (("s.tags", "labels"), ("a", "c"), ("b", "a"), ("c", "b")):
        scene.run(f"ALTER TABLE {{t}} RENAME COLUMN {one} TO {other}")
    scene.run("INSERT INTO {t} VALUES (1, named_struct('x', 1, 'labels', array(1, 2)), array(7), array(8))")
    before = scene.spark_rows()
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    (task,) = tasks_of(snapshot)
    inputs = sorted(task.inputs, key=lambda path: (path == old) == newest_first)
    done = rewritten(adapter, replace(task, inputs=tuple(inputs)))
    adapter.commit([done], snapshot, "run-1")
    assert scene.spark_rows() == before == scene.log_rows()


@pytest.mark.parametrize("version", [2, 3])
def test_footers_are_those_of_icebergs_own_writer_and_old_dates_stay(scene: Scene, version: int) -> None:
    scene.create("k BIGINT, day DATE, at TIMESTAMP, s STRUCT<d: DATE>", version)
    for k, day in ((2, "0001-01-01"), (1, "1000-01-01")):
        scene.run(
            f"INSERT INTO {{t}} VALUES ({k}, date'{day}', timestamp'{day}', named_struct('d', date'{day}'))"
        )
    before = scene.spark_rows()
    for _ in range(2):
        paths = [each.outputs[0].path.removeprefix("file:") for each in both(scene, "k")]
        ours, theirs = (dict(pq.read_metadata(path).metadata or {}) for path in paths)
        assert stored(paths[0])[2] == "parquet-cpp-arrow"
        assert b"iceberg.schema" in theirs
        assert ours == theirs
        recluster(scene)
        assert scene.spark_rows() == before == scene.log_rows()


@pytest.mark.parametrize("cut_column, claimed", [(0, True), (1, False)])
def test_a_file_may_not_be_in_order_if_it_was_cut_by_another_column(
    scene: Scene, cut_column: int, claimed: bool
) -> None:
    """Where a range does not fit in memory, a worker sorts one part of it after the other into the same file."""
    scene.create("a INT, b INT")
    scene.run("ALTER TABLE {t} WRITE ORDERED BY a, b")
    for start in (0, 1):
        scene.run(f"INSERT INTO {{t}} SELECT if(id < 3, NULL, 5), int(id) FROM range({start}, 20, 2, 1)")
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(None), cut_column=cut_column, cuts=(7,))
    made = rewritten(adapter, task)
    order = int(scene.java().sortOrder().orderId())
    assert order > 0
    assert {file.sortOrderId() for file in made.native.files} == {order if claimed else 0}


@pytest.mark.parametrize("column", ["k", "s", "d", "day", "at", "n38"])
def test_rows_are_those_of_spark(scene: Scene, column: str) -> None:
    filled(scene)
    before = scene.every_version()
    rows = scene.spark_rows(), scene.log_rows()
    both(scene, column)
    done = recluster(scene, (column,))
    after = scene.every_version()
    assert {v: after[v] for v in before} == before
    assert after[done.version] == rows


def test_deleted_rows_are_left_out(scene: Scene) -> None:
    scene.create("k BIGINT, v STRING")
    for start in (0, 50):
        scene.run(f"INSERT INTO {{t}} SELECT id, concat('v', id) FROM range({start}, {start + 80}, 1, 1)")
    scene.run("DELETE FROM {t} WHERE k % 7 = 3")
    before = scene.spark_rows()
    by_columns, by_rows = both(scene, "k")
    assert by_columns.rows_in == sum(before.values())
    for made in (by_columns, by_rows):
        scene.adapter().discard([made])
    recluster(scene)
    assert scene.spark_rows() == before == scene.log_rows()
    assert scene.leftovers() == set()  # the paths in the metadata equal those on disk


def test_rows_keep_their_ids_and_the_snapshots_that_wrote_them(scene: Scene) -> None:
    """Ids that follow from positions, ids that are stored, and rows that a later snapshot wrote again."""
    scene.create("k BIGINT, v STRING", 3)
    for start in (0, 50, 90):
        scene.run(f"INSERT INTO {{t}} SELECT id, concat('v', id) FROM range({start}, {start + 60}, 1, 2)")
    scene.run("DELETE FROM {t} WHERE k % 7 = 3", "UPDATE {t} SET v = 'later' WHERE k % 10 = 1")
    for _ in range(2):
        before = lineage(scene)
        (by_columns, by_rows) = both(scene, "k")
        assert by_columns.rows_in == by_rows.rows_in == len(before)
        recluster(scene)
        assert lineage(scene) == before
        assert len({row for row, *_ in before}) == len(before)
        scene.run("INSERT INTO {t} SELECT id, 'last' FROM range(40, 70)", "DELETE FROM {t} WHERE k = 44")
    assert scene.spark_rows() == scene.log_rows()


def lineage(scene: Scene) -> list[tuple[int, ...]]:
    ids = "SELECT _row_id, _last_updated_sequence_number, k, v FROM {t} ORDER BY _row_id"
    return [tuple(row) for row in scene.spark.sql(ids.format(t=scene.sql)).collect()]


def test_files_older_than_the_row_ids_of_the_table_are_left_to_spark(scene: Scene) -> None:
    scene.create("k BIGINT").run("INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    assert refused(scene) == "a file older than the table's row ids"


def test_partitions_and_renamed_columns_are_kept(scene: Scene) -> None:
    scene.create("k INT, p STRING, ts TIMESTAMP", more="PARTITIONED BY (p, days(ts))")
    for _ in range(2):
        scene.run(
            "INSERT INTO {t} SELECT int(id % 11), array('a b', 'ä/', null)[int(id % 3)], "
            "timestamp_seconds(id % 2 * 86400) FROM range(60)"
        )
    scene.run("ALTER TABLE {t} RENAME COLUMN k TO key", "ALTER TABLE {t} ALTER COLUMN key TYPE BIGINT")
    scene.run("ALTER TABLE {t} ADD COLUMN later STRING")
    before = scene.spark_rows()
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["key"])
    tasks = tasks_of(snapshot)
    assert all(isinstance(adapter.columnar.plan(task, "run-1"), FileMerge) for task in tasks)
    recluster(scene, ("key",))
    assert scene.spark_rows() == before == scene.log_rows()
    assert scene.leftovers() == set()


def test_the_codec_of_the_inputs_is_kept(scene: Scene) -> None:
    scene.create("k BIGINT", properties={"write.parquet.compression-codec": "snappy"})
    scene.run("INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    for codec in ("SNAPPY", "ZSTD"):
        by_columns, _ = both(scene, "k")
        (output,) = by_columns.outputs
        found = pq.read_metadata(output.path.removeprefix("file:")).row_group(0).column(0).compression
        assert found == codec
        scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.compression-codec'='zstd')")


REFUSED = {
    "nested": ("k BIGINT, a STRUCT<x: ARRAY<VARIANT>>", 3, {}, "column a.x.element is of type variant"),
    "bloom filter": (
        "k BIGINT",
        2,
        {"write.parquet.bloom-filter-enabled.column.k": "true"},
        "the table sets write.parquet.bloom-filter-enabled.column.k",
    ),
    "level": (
        "k BIGINT",
        2,
        {"write.parquet.compression-level": "9"},
        "the table sets write.parquet.compression-level",
    ),
    "no statistics": (
        "k BIGINT, secret STRING",
        2,
        {"write.parquet.stats-enabled.column.secret": "false"},
        "the table sets write.parquet.stats-enabled.column.secret",
    ),
    "no dictionary": (
        "k BIGINT",
        2,
        {"write.parquet.dict-encoding-enabled.column.k": "false"},
        "the table sets write.parquet.dict-encoding-enabled.column.k",
    ),
    "object store": (
        "k BIGINT",
        2,
        {"write.object-storage.enabled": "true"},
        "the table sets write.object-storage.enabled",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_tables_are_merged_by_rows_with_a_reason(scene: Scene, name: str) -> None:
    columns, version, properties, cause = REFUSED[name]
    scene.create(columns, version, properties=properties)
    scene.run("INSERT INTO {t} (k) VALUES (2)", "INSERT INTO {t} (k) VALUES (1)")
    assert refused(scene) == cause


def test_a_property_that_has_its_default_refuses_nothing(scene: Scene) -> None:
    on, off = "write.parquet.stats-enabled.column.k", "write.parquet.bloom-filter-enabled.column.k"
    scene.create("k BIGINT", properties={on: "true", off: "false"})
    scene.run("INSERT INTO {t} VALUES (2)", "INSERT INTO {t} VALUES (1)")
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    assert isinstance(adapter.columnar.plan(task, "run-1"), FileMerge)


def refused(scene: Scene) -> str:
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    found = adapter.columnar.plan(task, "run-1")
    assert isinstance(found, Reason)
    return str(found["cause"])


@pytest.mark.parametrize("most, planned", [(4, True), (3, False)])
def test_the_deleted_rows_of_all_files_together_are_bounded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, most: int, planned: bool
) -> None:
    scene.create("k BIGINT")
    for start in (0, 10):
        scene.run(f"INSERT INTO {{t}} SELECT id FROM range({start}, {start + 10}, 1, 1)")
    scene.run("DELETE FROM {t} WHERE k % 10 IN (2, 3)")
    monkeypatch.setattr(columnar, "MOST_DELETED_ROWS", most)
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    assert isinstance(adapter.columnar.plan(task, "run-1"), FileMerge if planned else Reason)


def test_equality_deletes_are_left_to_spark(scene: Scene) -> None:
    scene.create("k INT, v STRING")
    scene.run("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')", "INSERT INTO {t} VALUES (3, 'c')")
    delete_equal(scene, "k", [1])
    assert refused(scene) == "equality deletes"


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_the_option_chooses_the_engine(scene: Scene, engine: str) -> None:
    scene.create("k BIGINT").run("INSERT INTO {t} VALUES (1), (3)", "INSERT INTO {t} VALUES (2), (NULL)")
    before = scene.spark_rows()
    report = lk.table(scene.spark, scene.sql).recluster(
        ["k"], policy="full", options={"merge-engine": engine}
    )
    assert report.changed
    assert [group.detail for group in report.groups] == [None]
    (file,) = scene.data_files(scene.java())
    writer = str(pq.read_metadata(str(file.location()).removeprefix("file:")).created_by)
    assert writer.startswith("parquet-cpp" if engine == "auto" else "parquet-mr")
    assert scene.spark_rows() == before


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_partitions_of_floats_are_merged_by_rows(scene: Scene, kind: str) -> None:
    """A merge by columns could not describe the files of the partition of NaN, and failed after all its work."""
    scene.create(f"k INT, p {kind}", more="PARTITIONED BY (p)")
    values = "double('NaN')", "double('Infinity')", "-0.0D", "1.5D"
    for number in range(2):
        rows = ", ".join(f"({number + 10 * i}, cast({value} AS {kind}))" for i, value in enumerate(values))
        scene.run(f"INSERT INTO {{t}} VALUES {rows}")
    before = scene.spark_rows()
    report = lk.table(scene.spark, scene.sql).recluster("k", policy="full", options={"depth-threshold": 1})
    assert {group.status for group in report.groups} == {"committed"}
    assert all("floating-point" in str(group.detail) for group in report.groups)
    assert scene.spark_rows() == scene.log_rows() == before
