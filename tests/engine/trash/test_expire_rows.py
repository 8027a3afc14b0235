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
from tests.engine.trash.partitions import back, rows
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


def test_rows_that_arrive_late_on_the_same_day_expire_too(scene: Scene) -> None:
    expired(scene)
    scene.table.later(int(TODAY.timestamp() * 1000) + 12 * HOUR_MS - scene.table.now_ms)
    scene.table.append(days(99, 2))
    again = expired(scene, after_hours=13)
    assert (again.due_data_files_count, again.deleted_rows_count) == (1, 1)


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
