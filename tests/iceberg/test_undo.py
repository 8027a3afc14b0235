"""An undo on Iceberg returns to a snapshot as a whole, with everything that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import UndoError
from tests.iceberg.race import fill
from tests.iceberg.scene import Scene, delete_equal

pytestmark = pytest.mark.iceberg


def merged(scene: Scene) -> str:
    [run] = lk.table(scene.spark, scene.sql).recluster("k", policy="full").run_ids
    return run


def test_equality_deletes_apply_to_the_same_rows_afterwards(scene: Scene) -> None:
    """They apply by the files' sequence numbers, which a new commit could not restore."""
    scene.create("k INT, v STRING").run(fill(0, 20))
    delete_equal(scene, "k", [3])
    scene.run(fill(20, 40))
    delete_equal(scene, "k", [5])
    scene.run("INSERT INTO {t} VALUES (5, 'later')")
    rows = scene.log_rows()
    run = merged(scene)
    assert scene.log_rows() == rows
    lk.table(scene.spark, scene.sql).undo(run, allow_rollback=True)
    assert scene.log_rows() == scene.spark_rows() == rows


def test_all_commits_of_merge_deletes_are_undone_together(scene: Scene) -> None:
    """It rewrites in one commit and tidies delete files in another."""
    scene.create("k INT, v STRING").run(fill(0, 40), fill(40, 80), "DELETE FROM {t} WHERE k < 5")
    before, rows = scene.version, scene.log_rows()
    runs: list[str] = []

    def note(_: str, info: Mapping[str, Any]) -> None:
        runs.append(str(info["run_id"]))

    report = lk.table(scene.spark, scene.sql).merge_deletes(
        observer=note, options={"delete-ratio-threshold": 0.01}
    )
    assert report.changed
    operation = runs[0].partition("-")[0]
    lk.table(scene.spark, scene.sql).undo(operation, allow_rollback=True)
    assert (scene.version, scene.log_rows()) == (before, rows)


def test_other_branches_and_tags_are_unchanged(scene: Scene) -> None:
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    run = merged(scene)
    scene.run("ALTER TABLE {t} CREATE TAG after", "ALTER TABLE {t} CREATE BRANCH audit")
    refs = {row["name"]: row["snapshot_id"] for row in scene.spark.table(f"{scene.sql}.refs").collect()}
    lk.table(scene.spark, scene.sql).undo(run, allow_rollback=True)
    now = {row["name"]: row["snapshot_id"] for row in scene.spark.table(f"{scene.sql}.refs").collect()}
    assert now.pop("main") != refs.pop("main")
    assert now == refs


def test_a_run_whose_descendants_have_expired_does_not_count_as_undone(scene: Scene) -> None:
    """It was not among the ancestors that were left, and the undo reported success without doing anything."""
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    run = merged(scene)
    scene.run("ALTER TABLE {t} CREATE TAG after", *(fill(100 * n, 100 * n + 5) for n in range(1, 4)))
    table = lk.table(scene.spark, scene.sql)
    table.vacuum(
        retention_hours=0, retain_last=1, allow_unsafe_retention=True, options={"vacuum.max-share": 1}
    )
    with pytest.raises(UndoError, match="not known whether it was undone"):
        table.undo(run, allow_rollback=True)
