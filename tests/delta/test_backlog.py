"""Vacuum of tables whose log deletes a commit before the files that it removed may be deleted."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from tests.delta.scene import Scene
from tests.delta.vacuum import on_disk
from tests.rewrites import recluster

pytestmark = pytest.mark.delta

DAY = 24 * HOUR_MS
_OPTIONS = {"vacuum.max-share": 1}


def at(scene: Scene, days: float, **request: Any) -> VacuumReport:
    """Run a vacuum ``days`` from now."""
    clock = Clock(now_ms=lambda: time.time_ns() // 1_000_000 + round(days * DAY))
    return vacuum(scene.adapter(), VacuumRequest(resolve(_OPTIONS), **request), clock=clock)


def clean(scene: Scene) -> None:
    """Append, write a checkpoint and remove all earlier commits, as Delta's log cleanup does."""
    scene.run("INSERT INTO {t} VALUES (1000, 'later')")
    log = scene.log()
    state = log.latest()
    log.log.checkpoint(state.snapshot, log.jvm.none())
    for commit in (scene.path / "_delta_log").glob("0*.json"):
        if int(commit.stem) < state.version:
            commit.rename(scene.path.parent / commit.name)


def rows_by_the_log(scene: Scene) -> Counter[str]:
    """Rows by a reader that needs the removed commits."""
    for commit in scene.path.parent.glob("0*.json"):
        commit.rename(scene.path / "_delta_log" / commit.name)
    return scene.log_rows()


def rewritten(scene: Scene, log: str) -> set[str]:
    """Recluster a table with the given log retention; return the files that the recluster removed."""
    scene.run(
        "CREATE TABLE {t} (k int, s string) USING delta TBLPROPERTIES "
        f"('delta.logRetentionDuration' = 'interval {log}', 'delta.enableDeletionVectors' = true)",
        "INSERT INTO {t} SELECT id, 'a' FROM range(0, 40, 1, 2)",
        "INSERT INTO {t} SELECT id, 'b' FROM range(0, 40, 1, 2)",
        "DELETE FROM {t} WHERE k % 10 = 3",
    )
    before = on_disk(scene.path)
    recluster(scene)
    return before


def notes(scene: Scene) -> set[str]:
    """The notes of a vacuum, but for the list of its records, which stay."""
    found = (scene.path / "_lakekeeper" / "vacuum").glob("*.json")
    return {path.name for path in found} - {"records.json"}


def test_removed_files_are_deleted_after_their_commits_were_cleaned_up(scene: Scene) -> None:
    """Loss L23: no file was ever deleted if the log retention was no longer than the file retention."""
    dropped = rewritten(scene, "7 days")
    assert at(scene, 0).deleted_files_count == 0
    clean(scene)
    rows = scene.spark_rows()
    there = on_disk(scene.path)
    assert at(scene, 6.9).deleted_files_count == 0
    report = at(scene, 7.1)
    assert there - on_disk(scene.path) == dropped
    assert report.plan is not None
    assert report.plan.note == ""
    assert at(scene, 7.2).deleted_files_count == 0
    assert notes(scene) == {"cursor.json"}
    assert scene.spark_rows() == rows == rows_by_the_log(scene)


def test_restored_files_are_kept(scene: Scene) -> None:
    dropped = rewritten(scene, "7 days")
    at(scene, 0)
    scene.run("RESTORE TABLE {t} TO VERSION AS OF 3")
    live = on_disk(scene.path)
    clean(scene)
    rows = scene.spark_rows()
    at(scene, 8)
    assert dropped <= on_disk(scene.path)
    assert live & dropped == dropped
    assert scene.spark_rows() == rows == rows_by_the_log(scene)


def test_files_wait_on_after_others_came_back_from_the_trash(scene: Scene) -> None:
    """A restore removed the cursor, and with it the extent of the backlog."""
    rewritten(scene, "7 days")
    trashed = at(scene, 0, age_ms=0, allow_unsafe=True, trash=True)
    assert trashed.deleted_files_count > 0
    dropped = on_disk(scene.path)
    scene.run("DELETE FROM {t}")
    at(scene, 0)
    restore_files(scene.adapter(), trashed.trash, 0)
    clean(scene)
    at(scene, 7.1)
    assert dropped.isdisjoint(on_disk(scene.path))


def test_a_long_log_retention_needs_no_note(scene: Scene) -> None:
    dropped = rewritten(scene, "30 days")
    at(scene, 0)
    assert notes(scene) == {"cursor.json"}
    there = on_disk(scene.path)
    at(scene, 8)
    assert there - on_disk(scene.path) == dropped


@pytest.mark.parametrize("kind", ["list", "backlog"])
def test_a_note_does_not_shorten_the_retention(scene: Scene, kind: str) -> None:
    """A cursor that another program wrote, and a note that lists files which kept versions need."""
    dropped = rewritten(scene, "7 days")
    adapter = scene.adapter()
    uuid = adapter.version().table_uuid
    folder = scene.path / "_lakekeeper"
    version, root = scene.version, adapter.storage.grounds.roots[0]
    paths = [f"{root}/{name}" for name in sorted(dropped)]
    cursor: dict[str, Any] = {"through": version, "uuid": uuid}
    if kind == "list":
        run = "0123456789abcdef"
        intent = {
            "run_id": run, "kind": "vacuum", "at_ms": 1, "table_uuid": uuid, "read_version": 1, "ended": False,
            "parts": 1, "timeout_ms": HOUR_MS,
        }  # fmt: skip
        _write(folder / "intents" / "64.json", intent)
        _write(folder / "vacuum" / run / "list-0000.json", paths)
    else:
        cursor |= {"parts": 1, "seen": version}
        _write(folder / "vacuum" / "backlog-0000.json", [[path, "data", 1, 1, ""] for path in paths])
    _write(folder / "vacuum" / "cursor.json", cursor)
    assert at(scene, 0).deleted_files_count == 0
    assert dropped <= on_disk(scene.path)
    assert sum(scene.spark_rows(3).values()) == 72


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["a"]]', '[["/etc/passwd", "data", 1, 1, ""]]', '"x"'])
def test_an_invalid_backlog_is_ignored(scene: Scene, text: str) -> None:
    rewritten(scene, "7 days")
    at(scene, 0)
    (scene.path / "_lakekeeper" / "vacuum" / "backlog-0000.json").write_text(text)
    assert at(scene, 7.1).deleted_files_count > 0  # from the log, whose commits still exist


def _write(place: Path, plain: Any) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(plain))
