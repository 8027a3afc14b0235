"""The merge of delete files beside other writers: its one commit checks what it was prepared for."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError

import lakekeeper as lk
from lakekeeper.errors import Conflict, Unknown
from lakekeeper_iceberg import commit
from lakekeeper_iceberg import delete_files as tidying
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.race import fill
from tests.iceberg.scene import Scene, delete_equal
from tests.iceberg.swaps import landed_and_lost, tampered
from tests.iceberg.tidying import UPGRADE, delete_files, tidy, with_crowd

pytestmark = pytest.mark.iceberg


def raced(scene: Scene, *rival: str, outcome: type[Exception] | None) -> None:
    """Tidy while a rival commits just before the swap; no reader sees another row than without the merge."""
    adapter, swaps = tampered(scene.spark, scene.sql)
    snapshot, left, rows = adapter.snapshot(), [rival], []

    def race(real: Any, base: Any, updated: Any) -> None:
        if left:
            scene.run(*left.pop())
            rows.append((scene.spark_rows(), scene.log_rows()))
        real.commit(base, updated)

    with swaps.acting(race):
        if outcome is None:
            adapter.deletes.tidy(snapshot, "run-1")
        else:
            with pytest.raises(outcome):
                adapter.deletes.tidy(snapshot, "run-1")
    assert rows == [(scene.spark_rows(), scene.log_rows())]
    assert rows[0][0] == rows[0][1]
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    tidy(scene)
    assert scene.spark_rows() == rows[0][0]


def test_a_delete_during_the_merge_leaves_one_vector(scene: Scene) -> None:
    """Loss L95: the data file had two deletion vectors, and the table could not be read any more."""
    with_crowd(scene).run(UPGRADE)
    raced(scene, "DELETE FROM {t} WHERE k = 30", outcome=Conflict)
    assert delete_files(scene) == [("PUFFIN", 6), ("PUFFIN", 7)]


def test_a_rollback_during_the_merge_brings_no_deleted_row_back(scene: Scene) -> None:
    """Loss L95: the data file was live again, but not the positions that were deleted from it."""
    good = with_crowd(scene).version
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
    scene.run("DELETE FROM {t} WHERE k = 20")
    back = f"CALL {scene.catalog}.system.rollback_to_snapshot('db.{scene.name}', {good})"
    raced(scene, back, outcome=Conflict)
    assert scene.spark.table(scene.sql).count() == 80 - 12


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_a_delete_during_the_merge_applies_beside_it(scene: Scene, granularity: str) -> None:
    """With file granularity, Spark replaces a delete file that the merge would remove."""
    with_crowd(scene)
    if granularity == "file":
        scene.run("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.delete.granularity')")
        tidy(scene)
        scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
        scene.run(*(f"DELETE FROM {{t}} WHERE k IN ({i}, {40 + i})" for i in range(10, 16)))
        scene.run("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.delete.granularity')")
    raced(
        scene,
        "DELETE FROM {t} WHERE k IN (30, 70)",
        outcome=Conflict if granularity == "file" else None,
    )


def test_new_rows_during_the_merge_are_no_conflict(scene: Scene) -> None:
    with_crowd(scene).run(UPGRADE)
    raced(scene, "INSERT INTO {t} VALUES (100, 'new')", outcome=None)
    assert delete_files(scene) == [("PUFFIN", 6)] * 2


def test_an_upgrade_during_the_merge_is_a_conflict(scene: Scene) -> None:
    with_crowd(scene)
    raced(scene, UPGRADE, outcome=Conflict)
    assert delete_files(scene) == [("PUFFIN", 6)] * 2


def test_an_unknown_outcome_is_settled_by_the_run_id(scene: Scene) -> None:
    with_crowd(scene)
    rows = scene.spark_rows()
    adapter, swaps = tampered(scene.spark, scene.sql)
    snapshot = adapter.snapshot()

    with swaps.acting(landed_and_lost), pytest.raises(Unknown):
        adapter.deletes.tidy(snapshot, "run-1")
    assert adapter.changes_since(snapshot).landed("run-1") == scene.version
    assert scene.spark_rows() == scene.log_rows() == rows
    assert scene.leftovers() == set()


def test_files_of_an_attempt_that_landed_late_are_kept(scene: Scene) -> None:
    """A catalog applies a commit after it has reported that it lost; the next attempt loses to it."""
    with_crowd(scene)
    rows = scene.spark_rows()
    adapter, swaps = tampered(scene.spark, scene.sql)
    late: list[Any] = []
    nothing = Iceberg(scene.spark).array(Iceberg(scene.spark).view.java.lang.Object, [])
    lost = Iceberg(scene.spark).api.exceptions.CommitFailedException("refused", nothing)

    def race(real: Any, base: Any, updated: Any) -> None:
        if not late:
            late.append((base, updated))
            raise Py4JJavaError("refused", lost)
        if late[0] is not None:
            real.commit(*late[0])
            late[0] = None
        real.commit(base, updated)

    with swaps.acting(race), patch.object(commit, "remove_manifests"), pytest.raises(Conflict):
        adapter.deletes.tidy(adapter.snapshot(), "run-1")
    assert delete_files(scene) == [("PARQUET", 12)]
    assert scene.spark_rows() == scene.log_rows() == rows


@pytest.mark.parametrize("where, name", [(tidying, "choice"), (Iceberg, "delete_files")])
def test_an_error_that_is_over_soon_costs_neither_the_tidying_nor_the_report(
    scene: Scene, where: Any, name: str
) -> None:
    """Once the rewrites had landed, an error while tidying raised, and their report was lost."""
    scene.create("k INT, v STRING", 2).run(fill(0, 40), fill(40, 80), "DELETE FROM {t} WHERE k % 2 = 0")
    delete_equal(scene, "k", [5])
    real, left = getattr(where, name), [OSError("reset by peer")]

    def once(*given: Any) -> Any:
        if left:
            raise left.pop()
        return real(*given)

    rows = scene.spark_rows()
    with patch.object(where, name, once):
        report = lk.table(scene.spark, scene.sql).merge_deletes()
    assert not left
    assert report.rewritten_data_files_count > 0
    assert (report.commits, len(report.run_ids)) == (2, 2)
    assert report.removed_delete_files_count > 0
    assert scene.spark_rows() == scene.log_rows() == rows
