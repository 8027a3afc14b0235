"""Rows that a lifecycle rule expires move to the trash once a day; all others stay, whatever others write meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.entries import entries
from lakekeeper.engine.trash.expire_rows import expire_rows
from lakekeeper.errors import OptionError
from lakekeeper.spi import Observer
from lakekeeper.testing.lake import MemoryTable, Settings
from tests.engine.scene import Scene
from tests.engine.trash.partitions import Crash, back, crash, rows
from tests.observers import once_at

TODAY = datetime(2026, 3, 31, tzinfo=timezone.utc)
RULE: Mapping[str, Any] = {"lifecycle.column": "d", "lifecycle.retain": "30d"}


def days(*ages: int | None) -> list[dict[str, Any]]:
    """A row for each age in days; None: no date."""
    return [
        {"d": None if age is None else date(2026, 3, 31) - timedelta(days=age), "k": age or 0} for age in ages
    ]


@pytest.fixture(params=[Settings(), Settings(row_deletes=False, linear=False)], ids=["masks", "copies"])
def scene(request: pytest.FixtureRequest) -> Scene:
    """Five files: expired as a whole, all but a NULL expired, partly expired, not expired, and NULLs only."""
    table = MemoryTable("db.t", {"d": "date", "k": "int"}, settings=request.param)
    for ages in ((60, 50), (70, 40, None), (40, 31, 30, 10), (5, 1), (None, None)):
        table.append(days(*ages))
    return Scene(table)


def expired(
    scene: Scene,
    observer: Observer | None = None,
    *,
    after_hours: float = 12,
    dry_run: bool = False,
    options: Mapping[str, Any] = RULE,
) -> LifecycleReport:
    at_ms = int(TODAY.timestamp() * 1000 + after_hours * HOUR_MS)
    clock = Clock(now_ms=lambda: at_ms, wait=scene.pauses.append)
    return expire_rows(
        scene.adapter, scene.runner, resolve(options), dry_run=dry_run, observer=observer, clock=clock
    )


def ages(scene: Scene) -> list[int | None]:
    found = [row["d"] and (date(2026, 3, 31) - row["d"]).days for row in scene.table.rows()]
    return sorted(found, key=lambda age: (age is None, age or 0))


def test_old_rows_leave_and_rows_without_a_date_stay(scene: Scene) -> None:
    report = expired(scene)
    assert ages(scene) == [1, 5, 10, 30, None, None, None]
    assert (report.status, report.deleted_rows_count) == ("done", 6)
    assert (report.due_data_files_count, report.due_whole_files_count, report.due_rows_count) == (3, 1, 9)
    assert report.where == "d < DATE '2026-03-01'"
    assert report.version_after == scene.table.current.number


def test_a_dry_run_reads_and_writes_nothing(scene: Scene) -> None:
    scene.untouched(lambda: expired(scene, dry_run=True))
    report = expired(scene, dry_run=True)
    assert (report.status, report.due_data_files_count) == ("planned", 3)
    assert report.ended.code == Code.ROWS_DUE
    assert report.deleted_rows_count == 0


def test_expired_rows_come_back_from_the_trash(scene: Scene) -> None:
    before = rows(scene)
    report = expired(scene)
    [entry] = entries(scene.adapter).values()
    assert (entry.where, entry.rows, entry.run_id) == (report.where, 6, report.run_id)
    back(scene)
    assert rows(scene) == before


def test_the_same_day_finds_nothing_and_reads_no_file(scene: Scene) -> None:
    expired(scene)
    for hours in (12, 13, 23.9):
        scene.untouched(lambda hours=hours: expired(scene, after_hours=hours))  # type: ignore[misc]  # a default
    assert expired(scene, after_hours=23.9).ended.code == Code.NONE_EXPIRED
    tomorrow = expired(scene, after_hours=24)
    assert tomorrow.deleted_rows_count == 1
    assert ages(scene) == [1, 5, 10, None, None, None]


def appended(scene: Scene, ages: list[int], *, after_hours: float) -> None:
    at_ms = int(TODAY.timestamp() * 1000 + after_hours * HOUR_MS)
    scene.table.later(max(at_ms - scene.table.now_ms, 0))
    scene.table.append(days(*ages))


def test_rows_that_come_late_expire_with_those_of_the_next_day(scene: Scene) -> None:
    """In each pass, they took a slot of the trash: 64 passes later it was full, and every call that needs it failed."""
    first = expired(scene)
    [entry] = entries(scene.adapter).values()
    for hours in (12, 13, 20):
        appended(scene, [99, 2], after_hours=hours)
        planned = expired(scene, after_hours=hours + 0.5, dry_run=True)
        scene.untouched(lambda hours=hours: expired(scene, after_hours=hours + 0.5))  # type: ignore[misc]  # a default
        again = expired(scene, after_hours=hours + 0.5)
        assert (planned.status, again.status, again.where) == ("idle", "idle", first.where)
        assert planned.ended == again.ended
        assert (again.ended.code, again.ended["entry"]) == (Code.ROWS_CAME_LATE, entry.name)
    tomorrow = expired(scene, after_hours=24.1)
    assert (tomorrow.status, tomorrow.deleted_rows_count) == ("done", 4)
    assert [each.where for each in entries(scene.adapter).values()] == [first.where, tomorrow.where]
    assert 99 not in ages(scene)


def test_files_that_an_expiry_has_searched_have_no_late_rows(scene: Scene) -> None:
    """They may be searched again, as a commit may be slow; but nothing came after the expiry."""
    appended(scene, [99, 2], after_hours=11.9)
    assert expired(scene).deleted_rows_count == 7
    assert expired(scene, after_hours=12.1).ended.code == Code.NONE_EXPIRED


@pytest.mark.parametrize("note", ["", None, '{"rule": "other", "at_ms": 9e15}'])
def test_late_rows_wait_though_the_note_is_lost(scene: Scene, note: str | None) -> None:
    expired(scene)
    appended(scene, [99], after_hours=13)
    if note is None:
        scene.adapter.notes.remove("lifecycle.json")
    else:
        scene.adapter.notes.replace("lifecycle.json", note)
    assert expired(scene, after_hours=14).ended.code == Code.ROWS_CAME_LATE


def test_rows_that_were_restored_expire_in_the_next_call(scene: Scene) -> None:
    expired(scene)
    appended(scene, [1], after_hours=12)
    back(scene)
    assert expired(scene, after_hours=13).deleted_rows_count == 6


@pytest.mark.parametrize("committed", [True, False])
def test_an_expiry_that_was_killed_keeps_no_row_for_a_day(scene: Scene, *, committed: bool) -> None:
    with pytest.raises(Crash):
        expired(scene, once_at("committed" if committed else "before_commit", crash))
    [left] = entries(scene.adapter).values()
    assert left.state == "pending"
    again = expired(scene, after_hours=13)
    assert ages(scene) == [1, 5, 10, 30, None, None, None]
    assert again.status == ("idle" if committed else "done")


def test_expiries_leave_a_quarter_of_the_trash_to_other_calls() -> None:
    """Kept for 90 days in the trash, one expiry a day would take every slot."""
    scene = Scene(MemoryTable("db.t", {"d": "date", "k": "int"}))
    options = {**RULE, "vacuum.trash-retention-hours": 90 * 24}
    for day in range(60):
        appended(scene, [40 - day], after_hours=24 * day)
        report = expired(scene, after_hours=24 * day + 1, options=options)
        assert report.status == ("done" if day < 48 else "failed")
    assert (report.ended.code, report.ended["entries"], report.due_data_files_count) == (
        Code.TRASH_FULL,
        48,
        12,
    )
    assert "nothing was committed" in str(report)
    assert "empty it" in str(report)
    assert len(entries(scene.adapter)) == 48
    scene.untouched(lambda: expired(scene, after_hours=24 * 60, options=options))
    assert expired(scene, after_hours=24 * 60, dry_run=True, options=options).status == "planned"
    later = expired(scene, after_hours=24 * 91, options=options)
    assert (later.status, later.deleted_rows_count) == ("done", 12)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"rule": "other", "at_ms": 9e15}', '{"rule": 1}'])
def test_a_damaged_note_costs_a_search_and_no_row(scene: Scene, note: str) -> None:
    scene.adapter.notes.replace("lifecycle.json", note)
    assert expired(scene).deleted_rows_count == 6


@pytest.mark.parametrize("options", [{}, {"lifecycle.column": "d"}, {"lifecycle.retain": "30d"}])
def test_without_a_rule_nothing_expires(scene: Scene, options: Mapping[str, Any]) -> None:
    def act() -> None:
        with pytest.raises(OptionError, match="a rule"):
            expired(scene, options=options)

    scene.untouched(act)


@pytest.mark.parametrize("column", ["k", "nothing"])
def test_a_column_without_an_age_is_refused(scene: Scene, column: str) -> None:
    def act() -> None:
        with pytest.raises(OptionError):
            expired(scene, options={**RULE, "lifecycle.column": column})

    scene.untouched(act)


def test_a_concurrent_merge_hides_no_row(scene: Scene) -> None:
    expired(scene, once_at("before_commit", lambda: scene.run("full")))
    assert ages(scene) == [1, 5, 10, 30, None, None, None]


def test_concurrently_appended_rows_stay(scene: Scene) -> None:
    expired(scene, once_at("before_commit", lambda: scene.table.append(days(2))))
    assert ages(scene) == [1, 2, 5, 10, 30, None, None, None]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_timestamps_are_compared_with_midnight_in_utc(kind: str) -> None:
    table = MemoryTable("db.t", {"d": kind, "k": "int"})
    limit = datetime(2026, 3, 1, tzinfo=timezone.utc if kind == "timestamp" else None)
    table.append([{"d": limit + timedelta(microseconds=each), "k": each} for each in (-1, 0, 1)])
    scene = Scene(table)
    assert expired(scene).deleted_rows_count == 1
    assert sorted(row["k"] for row in table.rows()) == [0, 1]


def test_an_empty_table_has_nothing_to_expire() -> None:
    scene = Scene(MemoryTable("db.t", {"d": "date", "k": "int"}))
    scene.untouched(lambda: expired(scene))
    assert expired(scene).status == "idle"
