"""Position delete files that name a row twice: their record count is not the number of deleted rows."""

from __future__ import annotations

import pytest

import lakekeeper as lk
from lakekeeper.core.model.blocks import UNKNOWN
from tests.iceberg.scene import Scene, add_positions

pytestmark = pytest.mark.iceberg

Rows = list[tuple[int, int]]


def with_double_positions(scene: Scene, rows: int = 3, more: str = "PARTITIONED BY (d)") -> Scene:
    """Two files of ``rows`` rows; the first row of the first one is deleted, twice."""
    scene.create("k INT, d INT", 2, more=more)
    for d in (0, 1):
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ cast(id AS int), {d} FROM range({10 * d}, {10 * d + rows})"
        )
    file = scene.spark.table(scene.sql).where("d = 0").selectExpr("_file").first()
    assert file is not None
    add_positions(scene, str(file[0]), [0, 0])
    return scene


def assert_rows(scene: Scene, expected: Rows) -> None:
    """By both readers."""
    assert sorted((r.k, r.d) for r in scene.spark.table(scene.sql).collect()) == expected
    assert sorted((r["k"], r["d"]) for r in scene.log_records()) == expected


def test_live_rows_are_not_known_and_the_record_count_stays_a_bound(scene: Scene) -> None:
    blocks = with_double_positions(scene).adapter().snapshot(["k"]).blocks
    by_partition = dict(zip([blocks.partitions[c] for c in blocks.partition], range(2), strict=True))
    at = [by_partition['{"d":0}'], by_partition['{"d":1}']]
    assert blocks.live_rows[at].tolist() == [UNKNOWN, 3]
    assert blocks.least_live_rows[at].tolist() == [1, 3]
    assert blocks.deleted_rows[at].tolist() == [2, 0]


def test_a_deletion_vector_is_exact(scene: Scene) -> None:
    scene.create("k INT", 3).run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int) FROM range(5)")
    scene.run("DELETE FROM {t} WHERE k = 1")
    assert scene.adapter().snapshot(["k"]).blocks.live_rows.tolist() == [4]


@pytest.mark.parametrize("more", ["", "PARTITIONED BY (d)"])
def test_a_delete_of_another_row_keeps_the_last_one(scene: Scene, more: str) -> None:
    """Loss L65: one of two live rows was to be deleted, and the file with both was removed."""
    report = lk.table(with_double_positions(scene, more=more).spark, scene.sql).delete("k = 1")
    assert report.deleted_rows_count == 1
    assert_rows(scene, [(2, 0), (10, 1), (11, 1), (12, 1)])


def test_a_file_that_a_delete_leaves_empty_is_removed(scene: Scene) -> None:
    report = lk.table(with_double_positions(scene, more="").spark, scene.sql).delete("k IN (1, 2)")
    assert (report.deleted_rows_count, report.unread_data_files_count) == (2, 0)
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 1
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 0
    assert_rows(scene, [(10, 1), (11, 1), (12, 1)])


@pytest.mark.parametrize("where", ["k = 1", "d = 0", "k < 10"])
def test_the_remaining_row_is_deleted(scene: Scene, where: str) -> None:
    """Loss L65: the file was taken for one without a live row, and its row outlived the delete."""
    lk.table(with_double_positions(scene, rows=2).spark, scene.sql).delete(where)
    assert_rows(scene, [(10, 1), (11, 1)])


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_files_are_reclustered(scene: Scene, engine: str) -> None:
    """Loss L65: every merge of such a file was discarded, as if it had doubled rows."""
    table = lk.table(with_double_positions(scene, more="").spark, scene.sql)
    report = table.recluster(["k"], policy="full", options={"merge-engine": engine})
    assert [group.status for group in report.groups] == ["committed"]
    assert_rows(scene, [(1, 0), (2, 0), (10, 1), (11, 1), (12, 1)])
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 0


def test_a_dropped_partition_is_restored(scene: Scene) -> None:
    """Loss L65: the restore found one row more than the drop had counted, and refused."""
    table = lk.table(with_double_positions(scene).spark, scene.sql)
    table.drop_partition("d = 0")
    assert_rows(scene, [(10, 1), (11, 1), (12, 1)])
    (entry,) = table.trash()
    assert table.restore(entry.name).rows == 2
    assert_rows(scene, [(1, 0), (2, 0), (10, 1), (11, 1), (12, 1)])


def test_delete_files_are_merged_twice(scene: Scene) -> None:
    """Iceberg's merge of delete files keeps a position that two of them name."""
    table = lk.table(with_double_positions(scene, rows=5).spark, scene.sql)
    path = str(scene.spark.table(scene.sql).where("d = 0").selectExpr("_file").first()[0])  # type: ignore[index]
    add_positions(scene, path, [0, 1])
    expected = [(k, 0) for k in (2, 3, 4)] + [(k, 1) for k in range(10, 15)]
    for _ in range(2):
        table.merge_deletes(options={"delete-ratio-threshold": 0.99})
        assert_rows(scene, expected)
    table.delete("k = 2")
    table.merge_deletes(options={"delete-ratio-threshold": 0.01})
    assert_rows(scene, expected[1:])
