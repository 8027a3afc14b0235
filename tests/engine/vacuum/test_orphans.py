"""Vacuums beside running writers: which runs are dead, whose files stay, and which notes can be removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.state.leases import SLOTS, register, registered, registered_run
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.scene import Scene, intent, written

DAY = 24 * HOUR_MS


class _Crash(BaseException):
    pass


@pytest.fixture(params=[True, False], ids=["linear", "expiring"])
def table(request: pytest.FixtureRequest) -> MemoryTable:
    """Five versions of one row each, a day apart; each replaces the files of the previous one."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=request.param))
    for day in range(5):
        made.later(DAY)
        made.overwrite([{"k": day}])
    return made


def run(table: MemoryTable, **wanted: Any) -> VacuumReport:
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    return vacuum(
        MemoryAdapter(table), VacuumRequest(resolve({"vacuum.max-share": 1}), **wanted), clock=clock
    )


def registered_at(table: MemoryTable, hours: float = 24, run_id: str = "r-1") -> Any:
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    adapter = MemoryAdapter(table)
    return registered_run(adapter, run_id, adapter.snapshot(), clock, int(hours * HOUR_MS))


def test_it_works_where_dead_runs_hold_all_slots(table: MemoryTable) -> None:
    notes, clock = MemoryAdapter(table).notes, Clock(lambda: table.now_ms)
    for number in range(SLOTS):
        register(notes, "t", intent(table, f"r-{number}"), clock)
    with pytest.raises(AdapterError, match="run vacuum"):
        register(notes, "t", intent(table, "more-1"), clock)
    table.later(30 * DAY)
    report = run(table, age_ms=DAY)
    assert report.deleted_files_count > 0
    assert len(report.settled_runs) == SLOTS
    assert registered(notes) == {}


def test_files_that_cannot_be_deleted_do_not_fill_the_slots(table: MemoryTable) -> None:
    table.stuck.add(next(iter(table.versions[1].files)))
    for _ in range(3):
        assert run(table, age_ms=DAY).failed_files_count == 1
        assert len(registered(MemoryAdapter(table).notes)) == 1
    assert len([name for name in table.notes if "list-" in name]) == 1


def test_files_of_a_run_that_takes_longer_than_the_grace_are_not_orphans(table: MemoryTable) -> None:
    with registered_at(table, hours=200):
        own = written(table, "r-1")
        table.later(5 * DAY)
        # The timeout of the run applies, not that of this vacuum.
        assert run(table, orphans=True, age_ms=100 * DAY).deleted_files_count == 0
        assert own in table.disk
        table.later(5 * DAY)
        run(table, orphans=True, age_ms=100 * DAY)
        assert table.touched.deleted == [own]


def test_the_clock_of_the_storage_may_be_behind_that_of_a_run(table: MemoryTable) -> None:
    with registered_at(table, hours=200):
        [began] = [intent.at_ms for intent in registered(MemoryAdapter(table).notes).values()]
        own, older = written(table, "r-1"), written(table)
        table.made_at |= {own: began - HOUR_MS + 1, older: began - HOUR_MS}
        table.later(5 * DAY)
        run(table, orphans=True, age_ms=100 * DAY)
        assert table.touched.deleted == [older]


def test_a_slot_that_another_writer_took_meanwhile_is_left_alone(table: MemoryTable) -> None:
    notes, clock = MemoryAdapter(table).notes, Clock(lambda: table.now_ms)
    dead = register(notes, "t", intent(table, "dead-1"), clock)
    table.later(30 * DAY)
    new = intent(table, "new-1")

    def taken(what: str) -> None:
        if what == "delete" and new.run_id not in {i.run_id for i in registered(notes).values()}:
            dead.close()
            register(notes, "t", new, clock)

    table.before = taken
    run(table, age_ms=DAY)
    assert [intent.run_id for intent in registered(notes).values()] == ["new-1"]


def test_it_stops_where_files_are_restored_while_it_deletes() -> None:
    """Versions of a linear log cannot be locked: files restored between batches stay, and the next vacuum continues."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=True))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    back = table.versions[3].files
    deleted: list[int] = []

    def restore(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "deleted":
            deleted.append(info["files"])
            if len(deleted) == 2:
                table.apply("RESTORE", lambda now: replace(now, files=back))

    small = {"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 1}
    clock = Clock(now_ms=lambda: table.now_ms + DAY, wait=lambda _: None)
    wanted = VacuumRequest(resolve(small), age_ms=0, allow_unsafe=True)
    report = vacuum(MemoryAdapter(table), wanted, observer=restore, clock=clock)
    assert (report.deleted_files_count, report.failed_files_count, deleted) == (2, 2, [1, 1])
    assert (report.ended.code, report.ended["files"]) == ("stopped", 2)
    assert [row["k"] for row in table.rows(table.current.number)] == [2]
    again = vacuum(MemoryAdapter(table), wanted, clock=clock)
    assert (again.deleted_files_count, again.ended.code) == (2, "done")
    assert [row["k"] for row in table.rows(table.current.number)] == [2]


def test_a_run_past_its_timeout_writes_nothing() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    for _ in range(4):
        table.append([{"k": i} for i in range(3)])
    disk = set(table.disk)
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    passed: list[str] = []

    def sleep(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "read" and not passed:
            passed.append(phase)
            table.later(10 * DAY)

    report = maintain(scene.adapter, scene.runner, scene.request("sizes"), observer=sleep, clock=clock)
    assert {group.status for group in report.groups} == {"failed"}
    assert all(
        "did not renew its registration within vacuum.intent-timeout-hours" in str(group.detail)
        for group in report.groups
    )
    assert set(table.disk) == disk


def test_vacuums_that_fail_repeatedly_do_not_fill_the_slots(table: MemoryTable) -> None:
    def refuse(what: str) -> None:
        if what == "delete":
            raise AdapterError("permission denied")

    table.later(2 * DAY)
    table.before = refuse
    for _ in range(3):
        report = run(table, age_ms=DAY)
        assert (report.ended.code, report.deleted_files_count) == ("stopped", 0)
        assert "denied" in str(report.ended)
        assert len(registered(MemoryAdapter(table).notes)) == 1
    table.before = lambda _: None
    run(table, age_ms=DAY)
    assert set(table.disk) == set(table.current.files)
    assert registered(MemoryAdapter(table).notes) == {}


def test_a_run_that_counted_as_dead_leaves_its_slot_to_the_next(table: MemoryTable) -> None:
    notes = MemoryAdapter(table).notes
    with registered_at(table) as late:
        table.later(30 * DAY)
        run(table, age_ms=100 * DAY)
        with registered_at(table, run_id="other-1"):
            late.clean = False
            late.close()
            [there] = registered(notes).values()
            assert (there.run_id, there.ended) == ("other-1", False)
