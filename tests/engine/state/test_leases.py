"""A writer of files is registered while it runs, so that a vacuum finds what it leaves when it is killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.report import DeleteReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.delete_files import merge_deletes
from lakekeeper.engine.state.leases import (
    SLOTS,
    VACUUM,
    Intent,
    Registration,
    read_intent,
    register,
    registered,
)
from lakekeeper.engine.state.note_slots import slot_note
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError, Conflict, Rejected
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.runner import MemoryRunner
from tests.engine.scene import Scene, intent

DAY = 24 * HOUR_MS


class _Crash(BaseException):
    pass


class _Killed(MemoryTable):
    """A table whose writer dies at its next commit, after writing its files; ``noted`` are the notes at that time."""

    dies = False
    noted: dict[str, str]

    def apply(self, *args: Any) -> int:
        if self.dies:
            self.noted = dict(self.notes)
            raise _Crash
        return super().apply(*args)


def made() -> _Killed:
    table = _Killed("db.t", {"k": "int"}, settings=Settings(row_deletes=False))
    table.append([{"k": i} for i in range(6)])
    table.later(DAY)
    return table


def clock(table: MemoryTable) -> Clock:
    return Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)


def delete(table: MemoryTable, *, observer: Callable[..., Any] | None = None) -> DeleteReport:
    return delete_rows(
        MemoryAdapter(table), MemoryRunner(), "k < 3", resolve({}), observer=observer, clock=clock(table)
    )


def swept(table: MemoryTable) -> VacuumReport:
    options = resolve({"vacuum.max-share": 1})
    return vacuum(MemoryAdapter(table), VacuumRequest(options), clock=clock(table))


def intents(table: MemoryTable) -> list[str]:
    return [name for name in table.notes if name.startswith("intents/")]


def test_a_killed_delete_is_settled_by_the_next_vacuum() -> None:
    table = made()
    table.dies = True
    with pytest.raises(_Crash):
        delete(table)
    table.dies = False
    table.notes = table.noted  # the killed writer removed nothing
    left = table.leftovers()
    assert left
    assert len(intents(table)) == 1
    table.later(DAY)
    assert swept(table).deleted_files_count == 0  # it may still be running
    table.later(3 * DAY)
    assert swept(table).settled_runs
    assert set(table.touched.deleted) == left
    assert intents(table) == []
    assert len(table.rows()) == 6


def test_a_version_that_a_delete_has_read_stays_while_the_delete_runs() -> None:
    table = made()
    before = table.rows()
    seen: list[int] = []

    def meanwhile(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and not seen:
            seen.append(table.current.number)
            table.overwrite([{"k": 1}])
            table.later(DAY // 2)
            options = resolve({"vacuum.max-share": 1})
            request = VacuumRequest(options, age_ms=0, allow_unsafe=True)
            vacuum(MemoryAdapter(table), request, clock=clock(table))
            assert table.rows(seen[0]) == before

    report = delete(table, observer=meanwhile)
    assert seen
    assert report.retries == 1
    assert table.rows() == []


def test_a_delete_that_counts_as_dead_deletes_nothing() -> None:
    table = made()

    def sleep(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            table.later(10 * DAY)
            swept(table)

    with pytest.raises(Rejected, match=r"did not renew its registration within vacuum.intent-timeout-hours"):
        delete(table, observer=sleep)
    assert len(table.rows()) == 6


@pytest.mark.parametrize("rival", [False, True])
def test_a_delete_that_ends_well_leaves_no_intent(rival: bool) -> None:
    table = made()

    def race(phase: str, info: Mapping[str, Any]) -> None:
        if rival and phase == "before_commit" and info["attempt"] == 0:
            table.rewrite_foreign()

    report = delete(table, observer=race)
    assert report.deleted_rows_count == 3
    # Files of a lost attempt may be anywhere: a vacuum has to look for them.
    assert len(intents(table)) == int(rival)
    table.later(5 * DAY)
    swept(table)
    assert intents(table) == []
    assert len(table.rows()) == 3


def test_a_delete_that_finds_no_file_does_not_register() -> None:
    table = made()
    table.delete("k >= 0")
    noted = dict(table.notes)
    assert delete(table).deleted_rows_count == 0
    assert table.notes == noted


def test_a_killed_cleanup_is_settled_by_the_next_vacuum() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    table.append([{"k": 1}])
    table.leave_dangling()

    def kill(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            raise _Crash

    request = scene.request("deletes")
    with pytest.raises(_Crash):
        merge_deletes(scene.adapter, scene.runner, request, observer=kill, clock=clock(table))
    [intent] = registered(scene.adapter.notes).values()
    assert intent.table_uuid == table.uuid
    table.later(5 * DAY)
    assert len(swept(table).settled_runs) == 1
    assert intents(table) == []


def test_a_cleanup_that_counts_as_dead_commits_nothing() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    table.append([{"k": 1}])
    table.leave_dangling()
    versions = len(table.versions)

    def sleep(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            table.later(5 * DAY)
            swept(table)

    with pytest.raises(Rejected, match=r"did not renew its registration within vacuum.intent-timeout-hours"):
        merge_deletes(
            scene.adapter, scene.runner, scene.request("deletes"), observer=sleep, clock=clock(table)
        )
    assert len(table.versions) == versions


def test_a_cleanup_that_ends_leaves_no_intent() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    scene.table.append([{"k": 1}])
    scene.table.leave_dangling()
    report = merge_deletes(scene.adapter, scene.runner, scene.request("deletes"), clock=scene.clock)
    assert report.removed_delete_files_count == 1
    assert intents(scene.table) == []


def test_a_cleanup_that_gives_up_is_settled_by_the_next_vacuum() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    table.append([{"k": 1}])
    table.leave_dangling()

    class _Lost(MemoryAdapter):
        def attempt(self) -> Any:
            raise Conflict("db.t: another writer won", "version 9")

    request = scene.request("deletes", options={"commit.retry.num-retries": 1})
    with pytest.raises(Conflict):
        merge_deletes(_Lost(table), scene.runner, request, clock=clock(table))
    assert len(intents(table)) == 1
    table.later(5 * DAY)
    swept(table)
    assert intents(table) == []


class _AtOnce(MemoryNotes):
    """Notes whose readers of the last slot wait for one another: each has seen all slots before any writes."""

    def __init__(self, table: MemoryTable, runs: int) -> None:
        super().__init__(table)
        self._barrier = Barrier(runs)

    def read(self, name: str) -> str | None:
        if name == slot_note("intents", SLOTS - 1):
            self._barrier.wait(60)
        return super().read(name)


def test_runs_that_register_at_once_take_different_slots_of_ended_runs() -> None:
    table, runs = MemoryTable("db.t", {"k": "int"}), 4
    for number in range(SLOTS):
        register(MemoryNotes(table), "db.t", intent(table, f"r-{number}", ended=True), clock(table))
    notes = _AtOnce(table, runs)

    def run(number: int) -> Registration:
        return register(notes, "db.t", intent(table, f"new-{number}"), clock(table))

    with ThreadPoolExecutor(runs) as pool:
        taken = list(pool.map(run, range(runs)))
    assert len({each.slot for each in taken}) == runs
    for each in taken:
        each.renew()
        each.require()
    live = {there.run_id for there in registered(MemoryNotes(table)).values() if not there.ended}
    assert live == {f"new-{number}" for number in range(runs)}
    assert len(intents(table)) == SLOTS


def test_a_vacuum_gets_a_slot_though_live_runs_hold_all_of_theirs() -> None:
    """It would be the one to free them."""
    table, notes = MemoryTable("db.t", {"k": "int"}), MemoryNotes(MemoryTable("db.t", {"k": "int"}))
    for number in range(64):
        register(notes, "db.t", intent(table, f"r-{number}"), clock(table))
    with pytest.raises(AdapterError, match="64 runs are registered on it; nothing was written"):
        register(notes, "db.t", intent(table, "one-more-1"), clock(table))
    assert register(notes, "db.t", intent(table, "v-1", kind=VACUUM), clock(table)).slot == "intents/64.json"


@pytest.mark.parametrize(
    "changed",
    [
        {"run_id": "../../data"},
        {"run_id": "r-1/../r-2"},
        {"run_id": "R-1"},
        {"run_id": 1},
        {"run_id": "../v-1", "kind": "vacuum"},
        {"kind": "merge"},
        {"table_uuid": None},
        {"at_ms": -1},
        {"at_ms": 2**53 + 1},
        {"at_ms": 1.5},
        {"at_ms": True},
        {"read_version": 2**63},
        {"read_version": -(2**63) - 1},
        {"read_version": "5"},
        {"parts": 5_001},
        {"timeout_ms": None},
        {"renewed_ms": -1},
    ],
    ids=str,
)
def test_an_intent_that_no_run_writes_is_not_read(changed: Mapping[str, Any]) -> None:
    """Others may write beside the table, and folders are named after what is in a note."""
    written = Intent("r-1", "rewrite", 5, "u", -(2**63), True, 5_000, 2**53, 7)
    assert read_intent(written.to_json()) == written
    assert read_intent(json.dumps({**json.loads(written.to_json()), **changed})) is None


def test_a_run_whose_slot_is_lost_before_its_first_write_registers_again() -> None:
    table = MemoryTable("db.t", {"k": "int"})
    notes = MemoryNotes(table)
    run = register(notes, "db.t", intent(table), clock(table))
    notes.replace(run.slot, intent(table, "other-1").to_json())
    run.renew()
    run.require()
    assert {there.run_id for there in registered(notes).values()} == {"r-1", "other-1"}
    notes.remove(run.slot)
    run.renew()  # it has written, and half of its time has not passed
    with pytest.raises(Rejected, match="the registration is gone"):
        run.require()
    table.later(DAY * 6 // 10)
    with pytest.raises(Rejected, match="the registration is gone"):
        run.renew()


def test_a_vacuum_whose_list_was_taken_over_does_not_register_again() -> None:
    table = MemoryTable("db.t", {"k": "int"})
    notes = MemoryNotes(table)
    run = register(notes, "db.t", intent(table, kind=VACUUM), clock(table))
    notes.remove(run.slot)
    with pytest.raises(Rejected, match="it deletes nothing more"):
        run.renew()
    assert intents(table) == []


def test_a_run_that_cannot_read_its_slot_before_its_first_write_does_not_register_again_later() -> None:
    """Files that it has written by then may be gone."""
    table = MemoryTable("db.t", {"k": "int"})

    class _Down(MemoryNotes):
        down = False

        def read(self, name: str) -> str | None:
            if self.down:
                raise AdapterError("503 Slow Down")
            return super().read(name)

    notes = _Down(table)
    run = register(notes, "db.t", intent(table), clock(table))
    notes.remove(run.slot)
    notes.down = True
    run.renew()
    notes.down = False
    table.later(DAY * 6 // 10)
    with pytest.raises(Rejected, match="the registration is gone"):
        run.renew()
