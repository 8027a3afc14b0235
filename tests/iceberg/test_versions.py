"""Both readers read every version the same before and after a rewrite, for tables of all shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import lakekeeper as lk
from lakekeeper.errors import Rejected, Unsupported
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg

_FILL = "INSERT INTO {t} SELECT cast(id % 7 AS int) AS k, concat('v', id) AS v FROM range(0, 40)"
_MORE = "INSERT INTO {t} SELECT cast(id % 5 AS int), concat('w', id) FROM range(0, 30)"
_KINDS = (
    "k BIGINT, i INT, f FLOAT, d DOUBLE, c DECIMAL(38,18), s DECIMAL(9,2), day DATE, at TIMESTAMP, "
    "local TIMESTAMP_NTZ, t STRING, b BINARY, ok BOOLEAN"
)
_VALUES = """
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
;
1, 2, cast('NaN' AS float), cast('NaN' AS double), 99999999999999999999.999999999999999999, -0.01, date'1600-01-01',
timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'2026-03-29 02:30:00.000001', repeat('b', 40), X'FFFF', true
;
-9223372036854775808, -1, cast('-Infinity' AS float), -0.0D, -99999999999999999999.999999999999999999, 9999999.99,
date'9999-12-31', timestamp'2200-01-01 00:00:00.123456', timestamp_ntz'1969-12-31 00:00:00', '𝄞', X'', false
;
9223372036854775807, 0, 1.5F, 0.0D, 0, 0, date'1970-01-01', timestamp'2026-03-29 01:59:59.123457',
timestamp_ntz'2200-01-01 00:00:00', '', X'00', NULL
"""


@dataclass(frozen=True)
class Shape:
    """How to create a table; ``oracle`` is off if pyiceberg cannot read it or reads it wrong."""

    columns: str
    steps: Sequence[str]
    key: tuple[str, ...] = ("k",)
    more: str = ""
    oracle: bool = True
    properties: dict[str, str] = field(default_factory=dict)


_ONE_ROW = [f"INSERT INTO {{t}} VALUES ({row})" for row in _VALUES.split(";")]
_STRUCTS = """INSERT INTO {t} VALUES
(1, named_struct('b', 'x', 'y.z', 3, 'deep', named_struct('x', 9L)), 1, map('q', 1), array(1, 2)),
(2, NULL, NULL, NULL, NULL), (3, named_struct('b', NULL, 'y.z', 1, 'deep', NULL), 0, map(), array())
"""
SHAPES = {
    "plain": Shape("k INT, v STRING", [_FILL, _MORE, "DELETE FROM {t} WHERE v = 'v3'"]),
    "partitioned": Shape(
        "k INT, v STRING", [_FILL, _MORE, "DELETE FROM {t} WHERE v LIKE 'v%1'"], more="PARTITIONED BY (k)"
    ),
    "evolved spec": Shape(
        "k INT, v STRING",
        [
            _FILL,
            "ALTER TABLE {t} ADD PARTITION FIELD truncate(v, 1)",
            _MORE,
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)",
            _FILL,
            "UPDATE {t} SET v = concat(v, '!') WHERE k = 3",
            "ALTER TABLE {t} DROP PARTITION FIELD truncate(v, 1)",
        ],
    ),
    "evolved columns": Shape(
        "k INT, v STRING, w INT",
        [
            "INSERT INTO {t} VALUES (1, 'a', 1), (5, 'b', 2)",
            "ALTER TABLE {t} RENAME COLUMN k TO key",
            "ALTER TABLE {t} ALTER COLUMN key TYPE BIGINT",
            "ALTER TABLE {t} DROP COLUMN w",
            "INSERT INTO {t} VALUES (5000000000, 'c'), (2, 'd')",
            "ALTER TABLE {t} ADD COLUMN w DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN v FIRST",
            "INSERT INTO {t} VALUES ('e', 3, 1.5), ('f', 4, NULL)",
            "DELETE FROM {t} WHERE v = 'd'",
        ],
        key=("key", "w"),
    ),
    "all kinds": Shape(_KINDS, _ONE_ROW, key=("f", "c", "at", "t")),
    "more kinds": Shape(_KINDS, _ONE_ROW, key=("d", "b", "ok", "day")),
    "still more kinds": Shape(_KINDS, _ONE_ROW, key=("local", "s", "i", "k")),
    "nested": Shape(
        "i INT, a STRUCT<b: STRING, `y.z`: INT, deep: STRUCT<x: BIGINT>>, `c.d` INT, m MAP<STRING, INT>, l ARRAY<INT>",
        [_STRUCTS, _STRUCTS.replace("3", "7")],
        key=("a.`y.z`", "`c.d`", "a.deep.x", "a.b"),
    ),
    "one giant value": Shape(
        "k INT, v STRING",
        [
            "INSERT INTO {t} VALUES (1, repeat('x', 2000000)), (2, 'y')",
            "INSERT INTO {t} VALUES (0, 'z'), (3, 'z')",
        ],
    ),
    "one file": Shape("k INT, v STRING", ["INSERT INTO {t} VALUES (2, 'b'), (1, 'a')"]),
    "all rows deleted": Shape(
        "k INT, v STRING",
        [
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), 'x' FROM range(0, 10)",
            "DELETE FROM {t} WHERE k % 2 = 0",
            "DELETE FROM {t} WHERE k % 2 = 1",
        ],
    ),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", SHAPES)
def test_every_version_reads_the_same(scene: Scene, name: str, version: int) -> None:
    shape = SHAPES[name]
    scene.create(shape.columns, version, more=shape.more).run(*shape.steps)
    before, rows = scene.every_version(), scene.spark_rows()
    assert all(a == b for a, b in before.values())
    done = recluster(scene, shape.key)
    after = scene.every_version()
    assert {v: after[v] for v in before} == before
    assert scene.spark_rows() == rows
    assert after[done.version] == (rows, rows)
    assert scene.adapter().snapshot(shape.key).blocks.deleted_rows.sum() == 0
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    if rows:
        recluster(scene, shape.key, level=2, run_id="run-2")
    assert scene.spark_rows() == scene.log_rows() == rows


def test_format_1(scene: Scene) -> None:
    scene.create("k INT, v STRING", 1, more="PARTITIONED BY (truncate(v, 2))").run(_FILL, _MORE, _FILL)
    scene.run("DELETE FROM {t} WHERE k = 3")
    before, rows = scene.every_version(), scene.spark_rows()
    assert not scene.adapter().capabilities.row_deletes
    done = recluster(scene)
    after = scene.every_version()
    assert {v: after[v] for v in before} == before
    assert after[done.version] == (rows, rows)


def test_a_table_upgraded_from_1_to_3(scene: Scene) -> None:
    """Files of format 1 have sequence number 0; the first commit of format 3 assigns row ids."""
    scene.create("k INT, v STRING", 1).run(_FILL, _MORE)
    for version in (2, 3):
        scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version'='{version}')")
        scene.run(f"DELETE FROM {{t}} WHERE v LIKE '%{version}'")
        rows = scene.spark_rows()
        recluster(scene, run_id=f"run-{version}")
        assert scene.spark_rows() == scene.log_rows() == rows


def test_an_empty_table_has_no_version(scene: Scene) -> None:
    snapshot = scene.create("k INT, v STRING").adapter().snapshot(["k"])
    assert (snapshot.version, len(snapshot.blocks)) == (None, 0)
    scene.run(_FILL)
    changes = scene.adapter().changes_since(snapshot)
    assert [w.operation for w in changes.winners] == ["append"]


def test_outputs_keep_the_spec_of_their_inputs(scene: Scene) -> None:
    """Loss L15: one partition of the old spec holds rows of hundreds of the new one, each with a writer and a file."""
    scene.create("k INT, v STRING").run(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), string(id) FROM range(500)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), string(id) FROM range(300, 900)",
        "ALTER TABLE {t} ADD PARTITION FIELD truncate(2, k)",
        "INSERT INTO {t} VALUES (1, 'a'), (7, 'b')",
    )
    rows = scene.spark_rows()
    recluster(scene)
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert sorted(zip(blocks.spec.tolist(), blocks.rows.tolist(), strict=True)) == [(0, 1100), (1, 1), (1, 1)]
    assert set(blocks.level.tolist()) == {1}
    assert scene.spark_rows() == scene.log_rows() == rows


def test_outputs_go_to_the_current_spec_where_a_column_of_the_old_one_was_dropped(scene: Scene) -> None:
    scene.create("k INT, v STRING, d INT", more="PARTITIONED BY (d)").run(
        "INSERT INTO {t} VALUES (1, 'a', 1), (3, 'b', 1)",
        "INSERT INTO {t} VALUES (2, 'c', 1)",
        "ALTER TABLE {t} DROP PARTITION FIELD d",
        "ALTER TABLE {t} DROP COLUMN d",
    )
    rows = scene.spark_rows()
    recluster(scene)
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert (set(blocks.spec.tolist()), blocks.rows.tolist()) == ({1}, [3])
    assert scene.spark_rows() == scene.log_rows() == rows


def test_rows_that_got_ids_during_a_merge_keep_them(scene: Scene) -> None:
    """Loss L157: the first commit after an upgrade to format 3 gives ids; the merge gave the rows new ones."""
    scene.create("k INT").run("INSERT INTO {t} VALUES (1), (3)", "INSERT INTO {t} VALUES (2)")
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    [task] = tasks_of(snapshot)
    made = rewritten(adapter, task)
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')", "INSERT INTO {t} VALUES (9)")
    ids = scene.spark_rows(columns=("k", "_row_id"))
    with pytest.raises(Rejected, match="assigned row ids during the merge"):
        adapter.commit([made], snapshot, "run-1")
    adapter.discard([made])
    recluster(scene, run_id="run-2")
    assert scene.spark_rows(columns=("k", "_row_id")) == ids


def test_an_upgrade_without_a_commit_ends_no_merge(scene: Scene) -> None:
    scene.create("k INT").run("INSERT INTO {t} VALUES (1), (3)", "INSERT INTO {t} VALUES (2)")
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    rows = scene.spark_rows()
    adapter.commit(made, snapshot, "run-1")
    assert scene.spark_rows() == rows
    assert len(scene.spark_rows(columns=("_row_id",))) == 3


@pytest.mark.parametrize("deleted", ["old spec", "current spec"])
def test_outputs_do_not_leave_or_enter_the_partition_of_a_young_equality_delete(
    scene: Scene, deleted: str
) -> None:
    """Loss L156: it applied to the inputs and not to the outputs, or the other way round: rows came back, or went."""
    scene.create("k INT, ts TIMESTAMP", more="PARTITIONED BY (days(ts))").run(
        "INSERT INTO {t} VALUES (1, TIMESTAMP'2026-01-01'), (3, TIMESTAMP'2026-01-01')",
        "INSERT INTO {t} VALUES (2, TIMESTAMP'2026-01-01')",
        "ALTER TABLE {t} DROP PARTITION FIELD days(ts)",
        "ALTER TABLE {t} DROP COLUMN ts",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(1, k)",
        "INSERT INTO {t} VALUES (4)",
    )
    places = {int(file.specId()): file for file in scene.data_files(scene.java())}
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    [task] = [task for task in tasks_of(snapshot) if task.spec == 0]
    made = rewritten(adapter, task)
    delete_equal(scene, "k", [3], places[0 if deleted == "old spec" else max(places)])
    rows = scene.spark_rows()
    assert rows.total() == (3 if deleted == "old spec" else 4)
    with pytest.raises(Rejected, match="moves rows to another partition spec"):
        adapter.commit([made], snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows
    adapter.discard([made])
    assert scene.leftovers() == scene.metadata_leftovers() == set()


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_in_a_spec_without_its_source_are_refused(scene: Scene, version: int) -> None:
    """Iceberg wrote the delete files without a partition value: each later read of the table failed."""
    table = _without_source(scene, version)
    rows = scene.spark_rows()
    with pytest.raises(Unsupported, match="partition spec 0, of which a source column was dropped"):
        table.delete("k = 3")
    assert scene.spark_rows() == rows
    assert table.recluster("k", policy="full").changed
    assert table.delete("k = 3").deleted_rows_count == 1
    assert sorted(row["k"] for row in scene.spark.table(scene.sql).collect()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("version", [2, 3])
def test_merges_of_a_spec_without_its_source_are_refused_while_deletes_apply_to_it(
    scene: Scene, version: int
) -> None:
    """The manifest of the files that stay was written without the partition value: their deletes no longer applied."""
    table = _without_source(scene, version, "DELETE FROM {t} WHERE k = 1")
    rows = scene.spark_rows()
    assert len(rows) == 9
    said = "partition spec 0, of which a source column was dropped"
    report = table.recluster("k", policy="full")
    assert (report.status, [said in str(group.detail) for group in report.groups]) == ("failed", [True])
    assert scene.spark_rows() == rows
    with pytest.raises(Unsupported, match=said):
        table.delete("k >= 0")
    assert scene.spark_rows() == rows


def _later_files(scene: Scene, count: int = 4) -> None:
    """Appends in the current spec that merge no manifests, such as those of a stream."""
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
    scene.run(*[f"INSERT INTO {{t}} VALUES ({100 + number})" for number in range(count)])
    scene.run("ALTER TABLE {t} UNSET TBLPROPERTIES ('commit.manifest-merge.enabled')")


def _compact(table: lk.Table) -> object:
    return table.compact(options={"min-input-files": 2})


def _delete(table: lk.Table) -> object:
    return table.delete("k >= 100")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("act", [_compact, _delete])
def test_work_on_another_spec_leaves_the_manifests_of_one_without_its_source(
    scene: Scene, version: int, act: Callable[[lk.Table], object]
) -> None:
    """Loss L132: Iceberg merges manifests of all specs; those of this one lost its values, and no scan worked."""
    deletes = [f"DELETE FROM {{t}} WHERE k = {k}" for k in (1, 7)]
    table = _without_source(scene, version, *deletes)
    _later_files(scene)
    rows, files = scene.spark_rows(), scene.files()
    assert rows.total() == 12
    with pytest.raises(Unsupported, match=r"partition spec 0, .*commit\.manifest-merge\.enabled"):
        act(table)
    assert scene.spark_rows() == scene.log_rows() == rows
    assert scene.files() == files
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
    act(table)
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark_rows().total() == (12 if act is _compact else 8)


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_a_group_of_a_spec_without_its_source_costs_no_other_group(scene: Scene, engine: str) -> None:
    """It ended the call, and the finished groups of other specs were discarded."""
    table = _without_source(scene, 2, "DELETE FROM {t} WHERE k = 1")
    _later_files(scene)
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
    rows = scene.spark_rows()
    report = table.recluster("k", policy="full", options={"merge-engine": engine})
    assert sorted(group.status for group in report.groups) == ["committed", "failed"]
    assert scene.spark_rows() == scene.log_rows() == rows


def test_a_delete_in_a_v1_spec_without_its_source(scene: Scene) -> None:
    """The delete writes position deletes for a copy of each file, which would have no partition value."""
    table = _without_source(scene, 1)
    rows = scene.spark_rows()
    with pytest.raises(Unsupported, match="partition spec 0, of which a source column was dropped"):
        table.delete("k = 3")
    assert scene.spark_rows() == rows


def test_statistics_and_manifests_of_a_table_with_a_spec_without_its_source(scene: Scene) -> None:
    """Iceberg's action failed for that spec: each call left a file, and no manifest of another spec was rewritten."""
    table = _without_source(scene, 2)
    scene.run(*["INSERT INTO {t} VALUES (20)"] * 4)
    rows = scene.spark_rows()
    assert table.compute_statistics().changed
    assert not table.compute_statistics().changed
    metadata = Path(str(scene.java().location()).removeprefix("file:")) / "metadata"
    assert len(list(metadata.glob("*.stats"))) == 1
    done = table.compact_metadata()
    assert (done.files_before, done.files_after) == (4, 1)
    assert scene.spark_rows() == scene.log_rows() == rows


def _without_source(scene: Scene, version: int, *steps: str) -> lk.Table:
    """Two files of a spec, then ``steps``; then its only source column is dropped."""
    scene.create("k INT, d INT", version, more="PARTITIONED BY (d)").run(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS INT), 1 FROM range(0, 5)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS INT), 1 FROM range(5, 10)",
        *steps,
        "ALTER TABLE {t} DROP PARTITION FIELD d",
        "ALTER TABLE {t} DROP COLUMN d",
    )
    return lk.table(scene.spark, scene.sql)


def test_columns_and_specs_that_change_during_a_rewrite_are_no_obstacle(scene: Scene) -> None:
    """A stale table and a spec that evolved meanwhile end in Iceberg's NullPointerException."""
    scene.create("k INT, v STRING").run(_FILL, _MORE)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    (task,) = tasks_of(snapshot)
    made = rewritten(adapter, task)
    scene.run(
        "ALTER TABLE {t} ADD COLUMN w INT",
        "ALTER TABLE {t} RENAME COLUMN v TO x",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)",
        "INSERT INTO {t} VALUES (3, 'n', 1)",
    )
    rows = scene.spark_rows()
    assert not adapter.changes_since(snapshot).obstacle
    adapter.commit([made], snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows
