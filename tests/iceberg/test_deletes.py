"""No deleted row reappears: position deletes, deletion vectors, equality deletes, before and during a rewrite."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest

import lakekeeper as lk
from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper.core.planning.rebase import rebase
from lakekeeper_iceberg import producer, staging
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg


def three_files(scene: Scene, version: int) -> Scene:
    scene.create("k INT, v STRING", version)
    for start in (0, 10, 20):
        rows = f"SELECT /*+ COALESCE(1) */ cast(id AS int), concat('v', id) FROM range({start}, {start + 15})"
        scene.run(f"INSERT INTO {{t}} {rows}")
    return scene


@pytest.mark.parametrize("version", [2, 3])
def test_row_deletes_of_the_inputs_are_applied_and_removed_with_them(scene: Scene, version: int) -> None:
    three_files(scene, version).run("DELETE FROM {t} WHERE k % 5 = 1", "DELETE FROM {t} WHERE k % 5 = 2")
    before = scene.every_version()
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert blocks.deleted_rows.tolist() == [6, 6, 6]
    assert (blocks.delete_bytes > 0).all()
    assert len(set(blocks.delete_id.to_pylist())) == 3
    done = recluster(scene)
    assert done.removed_delete_files == 3
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 0
    assert scene.spark_rows() == scene.log_rows() == before[scene.versions()[-2]][0]
    assert {v: rows for v, rows in scene.every_version().items() if v in before} == before


def test_deletes_of_other_files_are_kept(scene: Scene) -> None:
    three_files(scene, 2).run("DELETE FROM {t} WHERE k IN (1, 12, 33)")
    rows = scene.spark_rows()
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    (task,) = tasks_of(adapter.snapshot(["k"], "k < 5"))
    done = adapter.commit([rewritten(adapter, task)], snapshot, "run-1")
    assert (len(done.removed), done.removed_delete_files) == (1, 1)
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 2
    assert scene.spark_rows() == scene.log_rows() == rows


def test_deletes_of_a_whole_partition_are_counted_as_unknown(scene: Scene) -> None:
    """One delete file for many data files does not say how many rows it deletes from each."""
    scene.create(
        "k INT, d INT", more="PARTITIONED BY (d)", properties={"write.delete.granularity": "partition"}
    )
    for start in (0, 10, 20):
        scene.run(
            f"INSERT INTO {{t}} SELECT cast(id AS int), cast(id % 2 AS int) FROM range({start}, {start + 10})"
        )
    scene.run("DELETE FROM {t} WHERE k IN (2, 12, 22)")
    rows = scene.spark_rows()
    snapshot = scene.adapter().snapshot(["k"])
    by_partition = {b.partition: (b.deleted_rows, bool(b.delete_id)) for b in snapshot.blocks}
    assert by_partition == {'{"d":0}': (UNKNOWN, True), '{"d":1}': (0, False)}
    recluster(scene)
    assert scene.spark_rows() == scene.log_rows() == rows
    assert {b.deleted_rows for b in scene.adapter().snapshot(["k"]).blocks} == {0}


def test_equality_deletes_before_the_read_are_applied(scene: Scene) -> None:
    three_files(scene, 2)
    delete_equal(scene, "k", [1, 12])
    rows = scene.spark_rows()
    assert scene.log_rows() == rows
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert blocks.deleted_rows.tolist() == [UNKNOWN] * 3
    recluster(scene)
    assert scene.spark_rows() == scene.log_rows() == rows
    scene.run("INSERT INTO {t} VALUES (1, 'back')")
    recluster(scene, run_id="run-2")
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).where("k = 1").count() == 1


def test_the_filter_of_the_page_finds_files_with_an_unknown_number_of_deleted_rows(scene: Scene) -> None:
    """Loss L42: the page showed -1, the column was NULL, and its filter left out exactly these files."""
    three_files(scene, 2)
    delete_equal(scene, "k", [1, 12])
    page = Path(__file__).parents[2] / "docs" / "how-to" / "merge-deletes.md"
    [condition] = re.findall(r't\.blocks\(\)\.where\("(.+?)"\)', page.read_text())
    found = lk.table(scene.spark, scene.sql).blocks().where(condition)
    assert [row.deleted_rows for row in found.collect()] == [None] * 3


def test_live_rows_are_counted_if_the_log_does_not_record_them(scene: Scene) -> None:
    """Rows in − deleted = rows out holds for equality deletes too: the reader counts the rows it returns."""
    three_files(scene, 2)
    delete_equal(scene, "k", [1, 12])
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    assert task.live_rows is None
    rewrite = rewritten(adapter, task)
    assert rewrite.rows_in == rewrite.rows_out == scene.spark.table(scene.sql).count()
    adapter.discard([rewrite])


@pytest.mark.parametrize("seen", [200, 0, None])
def test_rows_that_a_lost_executor_had_counted_are_counted_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, seen: int | None
) -> None:
    """Loss L31: rows that Spark read twice were counted twice, and the group failed as if rows had been lost."""
    three_files(scene, 2)
    delete_equal(scene, "k", [1, 12])
    rows = scene.spark_rows()
    adapter = scene.adapter()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    monkeypatch.setattr(staging, "rows_read", lambda *_: seen)
    rewrite = rewritten(adapter, task)
    assert rewrite.rows_in == rewrite.rows_out == rows.total()
    adapter.discard([rewrite])


def test_an_equality_delete_during_the_rewrite_still_applies(scene: Scene) -> None:
    """Iceberg would drop it as too old, since the outputs keep an older sequence number."""
    three_files(scene, 2)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    delete_equal(scene, "k", [3, 13])
    scene.run("INSERT INTO {t} VALUES (100, 'new'), (3, 'again')")
    rows = scene.spark_rows()
    changes = adapter.changes_since(snapshot)
    assert [w.operation for w in changes.winners] == ["delete", "append"]
    assert rebase(made, changes).keep == tuple(made)
    done = adapter.commit(made, snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows
    assert done.removed_delete_files == 0
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    recluster(scene, run_id="run-2")
    assert scene.spark_rows() == scene.log_rows() == rows


def test_without_the_guard_deleted_rows_reappear(scene: Scene) -> None:
    """Iceberg still has the bug; once it is fixed, the guard can be removed."""
    three_files(scene, 2)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    delete_equal(scene, "k", [3, 13])
    scene.run("INSERT INTO {t} VALUES (100, 'new')")
    rows = scene.spark_rows()
    with patch.object(producer.Producer, "lost_deletes", return_value=[]):
        adapter.commit(made, snapshot, "run-1")
    assert (scene.spark_rows() - rows).total() == 3  # k = 3, and 13 in two files
