"""What an undo writes to a Delta log, and which logs prevent it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.core.model.run_name import RunName
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import registered_run
from lakekeeper.errors import NotFound, UndoError
from lakekeeper.spi import Reversal
from lakekeeper_delta import undo
from tests.delta.scene import Scene
from tests.observers import once_at
from tests.opening import HOUR_MS, adapter_of, table_later
from tests.oracles import delta_log

pytestmark = pytest.mark.delta
VECTORS = {"delta.enableDeletionVectors": "true"}
WEEK = 7 * 24


def filled(scene: Scene, **properties: str) -> Scene:
    """Three files over the same keys, one of them with a deletion vector."""
    given = VECTORS | {name.replace("_", "."): value for name, value in properties.items()}
    scene.create("k INT, v STRING", properties=given)
    for start in (0, 20, 40):
        rows = f"cast(id * 37 % 101 AS int) AS k, concat('v', id) AS v FROM range({start}, {start + 20})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}")
    return scene.run("DELETE FROM {t} WHERE v IN ('v3', 'v4')")


def merged(scene: Scene) -> str:
    [run] = lk.table(scene.spark, scene.sql).recluster("k", policy="full").run_ids
    return run


def undone(scene: Scene, run: str, hours: float = 0) -> None:
    table_later(scene.spark, scene.sql, hours).undo(run)


def adds(scene: Scene) -> dict[str, Any]:
    """The live AddFile actions, without the fields that a new commit may set."""
    found = delta_log.replay(scene.path, None).adds
    kept = {path: dict(add) for (path, _), add in found.items()}
    for add in kept.values():
        add.pop("dataChange", None)
        if not add.get("tags"):
            add.pop("tags", None)
    return kept


def test_each_action_is_restored_unchanged_without_data_change(scene: Scene) -> None:
    filled(scene, delta_enableRowTracking="true")
    lk.table(scene.spark, scene.sql).cluster_by("k")
    before, rows = adds(scene), scene.log_rows()
    run = merged(scene)
    undone(scene, run)
    assert json.dumps(adds(scene), sort_keys=True) == json.dumps(before, sort_keys=True)
    assert scene.log_rows() == scene.spark_rows() == rows
    files = [
        next(iter(action.items())) for action in scene.actions() if not {"add", "remove"}.isdisjoint(action)
    ]
    assert {kind for kind, _ in files} == {"add", "remove"}
    assert {file["dataChange"] for _, file in files} == {False}
    info = next(action["commitInfo"] for action in scene.actions() if "commitInfo" in action)
    assert (info["operation"], info["tags"]["lakekeeper.run"]) == ("OPTIMIZE", run.replace("-", "-undo"))
    assert (info["operationMetrics"]["numAddedFiles"], info["operationMetrics"]["numRemovedFiles"]) == (
        "3",
        "1",
    )


def test_change_feeds_and_streams_do_not_see_an_undo(scene: Scene, tmp_path_factory: Any) -> None:
    filled(scene, delta_enableChangeDataFeed="true")
    sink, checkpoint = (str(tmp_path_factory.mktemp(name)) for name in ("sink", "checkpoint"))

    def drain() -> int:
        reader = scene.spark.readStream.format("delta").option("ignoreDeletes", "true")
        stream = reader.option("skipChangeCommits", "true").load(str(scene.path)).writeStream
        stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        stream.format("parquet").start(sink).awaitTermination()
        return scene.spark.read.parquet(sink).count()

    before = drain()
    run = merged(scene)
    assert drain() == before
    undone(scene, run)
    assert drain() == before
    feed = scene.spark.read.format("delta").option("readChangeFeed", "true")
    assert feed.option("startingVersion", scene.version - 1).load(str(scene.path)).count() == 0
    scene.run("INSERT INTO {t} VALUES (1, 'new')")
    assert drain() == before + 1


def test_an_undo_beyond_the_retention_of_removed_files_is_refused(scene: Scene) -> None:
    """At that age any vacuum may be deleting the removed files."""
    run = merged(filled(scene))
    version = scene.version
    with pytest.raises(UndoError, match="older than the table's retention"):
        undone(scene, run, WEEK + 1)
    assert scene.version == version
    undone(scene, run, WEEK - 1)
    assert scene.version == version + 1


def test_no_undo_lands_while_a_vacuum_deletes(scene: Scene) -> None:
    """Loss L59: a vacuum may keep 24 hours, where an undo may go back 7 days."""
    run = merged(filled(scene))
    scene.run("INSERT INTO {t} VALUES (1, 'x')")
    rows, version = scene.log_rows(), scene.version
    attempts: list[str] = []

    def attempt() -> None:
        with pytest.raises(UndoError) as refused:
            undone(scene, run, 30)
        attempts.append(str(refused.value))

    later = table_later(scene.spark, scene.sql, 30)
    report = later.vacuum(retention_hours=24, observer=once_at("before_delete", attempt))
    assert report.deleted_files_count > 0
    assert len(attempts) == 1
    assert "is deleting files of the table; nothing was written" in attempts[0]
    assert scene.version == version
    assert scene.log_rows() == scene.spark_rows() == rows


def test_a_vacuum_keeps_the_files_of_an_undo_that_began_after_its_plan(scene: Scene) -> None:
    """Loss L59: the undo is registered, and has not committed when the vacuum deletes."""
    run = merged(filled(scene))
    scene.run("INSERT INTO {t} VALUES (1, 'x')")
    adapter = adapter_of(scene.spark, scene.sql)
    clock = Clock(now_ms=lambda: time.time_ns() // 1_000_000 + 30 * HOUR_MS)
    found = adapter.undos.find(RunName.parse(run))
    assert isinstance(found, Reversal)
    read = replace(adapter.version(), version=found.before)
    with ExitStack() as registered:
        later = table_later(scene.spark, scene.sql, 30)
        begin = partial(
            registered.enter_context, registered_run(adapter, "a" * 16 + "-1", read, clock, 24 * HOUR_MS)
        )
        report = later.vacuum(retention_hours=24, observer=once_at("planned", begin))
        assert adapter.storage.missing([*found.restored, *found.needed]) == set()
        assert report.retries == 1
        adapter.undos.commit(found, RunName.parse(run).undo_id)
    assert scene.log_rows() == scene.spark_rows()


@pytest.mark.parametrize(
    "later, why",
    [
        (lambda s: s.run("ALTER TABLE {t} ADD COLUMN w INT"), "the columns changed"),
        (lambda s: s.run("DELETE FROM {t} WHERE v = 'v30'"), "DELETE"),
        (lambda s: s.run("OPTIMIZE {t}", "INSERT INTO {t} VALUES (1, 'x')", "OPTIMIZE {t}"), "OPTIMIZE"),
        (lambda s: s.run("RESTORE TABLE {t} TO VERSION AS OF 1"), "RESTORE"),
        (lambda s: s.run("UPDATE {t} SET v = 'u' WHERE k = 5"), "UPDATE"),
    ],
    ids=["columns", "delete", "optimize", "restore", "update"],
)
def test_an_obstacle_is_named_and_nothing_is_written(
    scene: Scene, later: Callable[[Scene], Any], why: str
) -> None:
    run = merged(filled(scene))
    later(scene)
    version, rows = scene.version, scene.log_rows()
    with pytest.raises(UndoError, match=why):
        undone(scene, run)
    assert (scene.version, scene.log_rows()) == (version, rows)


def test_a_run_whose_commit_was_cleaned_up_is_not_found(scene: Scene) -> None:
    run = merged(filled(scene))
    at = scene.version
    scene.run("INSERT INTO {t} VALUES (1, 'x')")
    lk.table(scene.spark, scene.sql).compact_metadata()
    scene.log().log.checkpoint()
    for version in range(at + 1):
        (scene.path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(NotFound, match="no commit of run"):
        undone(scene, run)


def cleaned_up(scene: Scene, versions: range) -> None:
    """Their commits are removed as log cleanup does; a checkpoint has what they left."""
    for version in versions:
        (scene.path / "_delta_log" / f"{version:020d}.json").unlink()


def files(scene: Scene) -> list[str]:
    return sorted(scene.spark.read.format("delta").load(str(scene.path)).inputFiles())


def test_a_run_is_found_in_a_log_that_begins_just_before_it(scene: Scene) -> None:
    """All commits that were searched at once counted as gone if one of them was: the run was said not to exist."""
    filled(scene).log().log.checkpoint()
    cleaned = range(scene.version)
    scene.run("INSERT INTO {t} VALUES (1, 'x')")
    before, rows = files(scene), scene.spark_rows()
    run = merged(scene)
    assert files(scene) != before
    cleaned_up(scene, cleaned)
    undone(scene, run)
    assert (files(scene), scene.spark_rows()) == (before, rows)


@pytest.mark.parametrize("chunk", [1, 2, 64])
def test_a_run_is_not_undone_in_part(scene: Scene, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Commits of the run that were still in the log counted as gone, and the others were undone and reported as all."""
    monkeypatch.setattr(undo, "CHUNK", chunk)
    scene.create("k INT, v STRING", more="PARTITIONED BY (v)")
    for value in ("a", "b") * 3:
        scene.run(f"INSERT INTO {{t}} VALUES (1, '{value}')")
    parts = {"partial-progress.bytes-per-commit": 1, "min-input-files": 2}
    report = lk.table(scene.spark, scene.sql).compact(options=parts)
    assert len(report.run_ids) == 2
    scene.run("INSERT INTO {t} VALUES (1, 'x')")
    rows = scene.spark_rows()
    scene.log().log.checkpoint()
    cleaned_up(scene, range(scene.version - 1))
    with pytest.raises(UndoError, match="a part of a run cannot be undone"):
        undone(scene, report.run_ids[0].partition("-")[0])
    assert scene.spark_rows() == rows
