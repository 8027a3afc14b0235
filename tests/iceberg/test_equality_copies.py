"""An equality delete that a merge has to keep is copied: a file that leaves the table does not come back."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest

from lakekeeper.errors import Conflict
from lakekeeper_iceberg import producer
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import rewritten, tasks_of

pytestmark = pytest.mark.iceberg


def two_files(scene: Scene, version: int) -> Scene:
    scene.create("k INT, v STRING", version)
    for start in (0, 10):
        rows = f"SELECT /*+ COALESCE(1) */ cast(id AS int), concat('v', id) FROM range({start}, {start + 15})"
        scene.run(f"INSERT INTO {{t}} {rows}")
    return scene


@pytest.mark.parametrize("version", [2, 3])
def test_an_expiry_by_other_engines_leaves_the_delete_in_place(scene: Scene, version: int) -> None:
    """Loss L152: the delete was removed and added under its path; the expiry of that snapshot deleted its file."""
    two_files(scene, version)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    delete_equal(scene, "k", [3, 13])
    delete_equal(scene, "v", ["v7"])
    scene.run("INSERT INTO {t} VALUES (100, 'new'), (3, 'again')")
    rows = scene.spark_rows()
    done = adapter.commit(made, snapshot, "run-1")
    assert done.removed_delete_files == 0
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 2
    scene.run("INSERT INTO {t} VALUES (101, 'later')")
    table = scene.java()
    table.expireSnapshots().expireOlderThan(time.time_ns() // 1_000_000).retainLast(1).commit()
    later = scene.spark_rows()
    assert later == scene.log_rows()
    assert later.total() == rows.total() + 1
    assert rows < later
    assert scene.leftovers() == scene.metadata_leftovers() == set()


def test_a_commit_that_fails_leaves_no_copy(scene: Scene) -> None:
    two_files(scene, 2)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    delete_equal(scene, "k", [3, 13])
    scene.run("INSERT INTO {t} VALUES (100, 'new')")
    rows, version = scene.spark_rows(), scene.version
    find = producer.Producer.lost_deletes

    def lost(self: producer.Producer, base: object) -> list[object]:
        return find(self, base) or [old for old, _ in self.rescued]

    with (
        patch.object(producer.Producer, "lost_deletes", lost),
        pytest.raises(Conflict, match="1 equality delete file "),
    ):
        adapter.commit(made, snapshot, "run-1")
    adapter.discard(made)
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert (scene.version, scene.spark_rows()) == (version, rows)
