"""Proof, list and cursor: written before the deletes that they describe, and harmless where lost or forged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_plan import VacuumPlan
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import VACUUM, Intent, register, registered
from lakekeeper.engine.vacuum.journal import Records
from lakekeeper.errors import AdapterError, Conflict, Rejected
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.scene import intent
from tests.engine.vacuums import DAY, run


class _Crash(BaseException):
    pass


def test_the_cursor_of_an_earlier_table_at_this_location_is_ignored(table: MemoryTable) -> None:
    plain = run(table, age_ms=DAY, dry_run=True)
    table.notes["vacuum/cursor.json"] = '{"through": 4, "uuid": "another"}'
    notes = dict(table.notes)
    preview = run(table, age_ms=DAY, dry_run=True)
    assert table.notes == notes
    assert preview.plan is not None
    assert plain.plan is not None
    assert preview.plan.files == plain.plan.files != ()
    assert run(table, age_ms=DAY).deleted_files_count == len(plain.plan.files)
    if table.settings.linear:
        assert table.uuid in table.notes["vacuum/cursor.json"]


def test_the_proof_is_written_before_the_first_delete(table: MemoryTable) -> None:
    seen: list[Mapping[str, Any]] = []

    def look(what: str) -> None:
        if what in ("expire", "delete"):
            [name] = [name for name in table.notes if name.endswith("proof.json")]
            seen.append(json.loads(table.notes[name]))

    table.before = look
    report = run(table, age_ms=DAY)
    assert seen
    assert seen[0]["files"] == report.deleted_files_count
    assert report.plan is not None
    assert seen[0]["sha256"] == report.plan.digest()
    done = json.loads(table.notes[f"vacuum/{report.run_id}/done.json"])
    assert done["bytes"] == report.deleted_bytes_count


def test_without_a_proof_nothing_is_deleted(table: MemoryTable) -> None:
    def refuse(what: str) -> None:
        if what.endswith("proof.json"):
            raise AdapterError("the disk is full")

    table.before = refuse
    with pytest.raises(AdapterError, match="full"):
        run(table, age_ms=DAY)
    assert table.touched.deleted == []
    assert table.expired == set()


def test_a_vacuum_that_keeps_more_keeps_the_list_of_another_that_is_about_to_expire() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])

    def meanwhile(what: str) -> None:
        table.before = crash
        if what == "expire":
            assert run(table, age_ms=30 * DAY).ended.code == "nothing_to_do"

    def crash(what: str) -> None:
        if what == "delete":
            raise _Crash

    table.before = lambda what: meanwhile(what) if what == "expire" else None
    with pytest.raises(_Crash):
        run(table, age_ms=DAY)
    table.before = lambda _: None
    left = table.leftovers()
    assert left
    run(table, age_ms=DAY)
    assert table.leftovers() == set()


def test_a_second_attempt_is_registered_though_another_vacuum_took_over_the_first() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    expiries: list[int] = []

    def meanwhile(what: str) -> None:
        if what == "expire" and not expiries:
            expiries.append(1)
            run(table, age_ms=DAY)  # takes over the list of the first attempt
            table.later(2 * DAY)
            table.overwrite([{"k": 9}])
            expiries.append(2)
            raise Conflict("look again")
        if what == "delete" and len(expiries) == 2:
            raise _Crash

    table.before = meanwhile
    with pytest.raises(_Crash):
        run(table, age_ms=DAY)
    table.before = lambda _: None
    assert table.leftovers()
    run(table, age_ms=DAY)
    assert table.leftovers() == set()
    assert not [name for name in table.notes if "list-" in name]


def test_a_vacuum_that_gives_up_keeps_the_list_that_it_took_over() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])

    def crash(what: str) -> None:
        if what == "delete":
            raise _Crash

    table.before = crash
    with pytest.raises(_Crash):
        run(table, age_ms=DAY)
    left = table.leftovers()
    assert left
    table.later(3 * DAY)
    table.overwrite([{"k": 5}])

    def lose(what: str) -> None:
        if what == "expire":
            raise Conflict("another commit came first")

    table.before = lose
    with pytest.raises(Conflict):
        run(table, age_ms=0, allow_unsafe=True)
    table.before = lambda _: None
    run(table, age_ms=DAY)
    assert not left & set(table.disk)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "null",
        "[]",
        "{half",
        '{"uuid": "u"}',
        '{"through": "x", "uuid": "u"}',
        '{"through": {}, "uuid": "u"}',
        "[1]",
        '"x"',
        '{"through": 1e999, "uuid": "u"}',
        "[" * 100_000,
    ],
    ids=lambda note: note[:30],
)
def test_a_cursor_that_no_vacuum_wrote_is_ignored(table: MemoryTable, note: str) -> None:
    plain = run(table, age_ms=DAY, dry_run=True).plan
    table.notes["vacuum/cursor.json"] = note
    again = run(table, age_ms=DAY, dry_run=True).plan
    assert plain is not None
    assert again is not None
    assert again.files == plain.files != ()


def records(table: MemoryTable, run_id: str = "v-1") -> Records:
    return Records(MemoryNotes(table), run_id, Clock(now_ms=lambda: table.now_ms, wait=lambda _: None), DAY)


def listed(table: MemoryTable, run_id: str, parts: int) -> Mapping[str, Intent]:
    """A vacuum that died after it registered a list of so many parts."""
    dead = Intent(run_id, VACUUM, table.now_ms, table.uuid, 5, parts=parts, timeout_ms=DAY)
    registration = register(MemoryNotes(table), "db.t", dead, Clock(lambda: table.now_ms))
    return {registration.slot: dead}


def test_hints_are_the_paths_of_existing_lists(table: MemoryTable) -> None:
    dead = listed(table, "dead-1", parts=3)
    table.notes["vacuum/dead-1/list-0000.json"] = '["data/a", "data/b"]'
    table.notes["vacuum/dead-1/list-0001.json"] = '["data/c'  # half written
    assert records(table).hints(dead) == {"data/a", "data/b"}
    assert records(table).hints({"intents/01.json": intent(table, "r-1")}) == frozenset()


@pytest.mark.parametrize(
    "dealt_with, hours, stays",
    [
        ({"data/a", "data/b"}, 0, False),  # all of its files are deleted, or in our own list
        ({"data/a"}, 0, True),  # it may still be running, and name data/b
        ({"data/a"}, 25, False),
    ],
)
def test_a_list_is_removed_with_the_last_of_its_files_or_with_its_vacuum(
    table: MemoryTable, dealt_with: set[str], hours: int, *, stays: bool
) -> None:
    theirs = listed(table, "other-1", parts=1)
    table.notes["vacuum/other-1/list-0000.json"] = '["data/a", "data/b"]'
    table.later(hours * HOUR_MS)
    records(table).took_over(theirs, frozenset(dealt_with), DAY)
    assert ("vacuum/other-1/list-0000.json" in table.notes) == stays
    assert bool(registered(MemoryNotes(table))) == stays


def test_a_half_written_list_is_not_taken_over(table: MemoryTable) -> None:
    theirs = listed(table, "other-1", parts=2)
    table.notes["vacuum/other-1/list-0000.json"] = '["data/a"]'
    records(table).took_over(theirs, frozenset({"data/a"}), None)
    assert registered(MemoryNotes(table)) == theirs


@pytest.mark.parametrize(
    "note", ["null", "7", "[7]", "{}", '""', '{"data/a": 1}', "[" * 100_000], ids=lambda n: n[:9]
)
def test_a_list_of_another_shape_counts_as_half_written(table: MemoryTable, note: str) -> None:
    theirs = listed(table, "other-1", parts=1)
    table.notes["vacuum/other-1/list-0000.json"] = note
    assert records(table).hints(theirs) == frozenset()
    records(table).took_over(theirs, frozenset({"data/a"}), None)
    assert registered(MemoryNotes(table)) == theirs
    assert run(table, age_ms=DAY).deleted_files_count > 0


@pytest.mark.parametrize("note", ["null", "7", "{half", '[["data/b", "data", 1, 1e999, ""]]'])
def test_a_damaged_part_of_the_backlog_lists_no_file(table: MemoryTable, note: str) -> None:
    table.notes["vacuum/cursor.json"] = json.dumps({"through": 1, "uuid": table.uuid, "parts": 2, "seen": 4})
    table.notes["vacuum/backlog-0000.json"] = note
    table.notes["vacuum/backlog-0001.json"] = json.dumps([["data/a", "data", 3, 1, ""]])
    ours = records(table)
    versions = ours.versions(MemoryAdapter(table).storage, (), lambda _: True)
    assert [file.path for file in ours.backlog(versions).files] == ["data/a"]


@pytest.mark.parametrize("hints, parts, all_of_them", [((), 0, False), (("data/a",), 0, True), ((), 1, True)])
def test_all_versions_are_read_where_a_note_names_files_and_the_cursor_does_not_reach_back(
    hints: tuple[str, ...], parts: int, *, all_of_them: bool
) -> None:
    """A version before the cursor may need a file that a vacuum of a shorter retention has listed."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=True))
    for day in range(5):
        table.overwrite([{"k": day}])
    table.notes["vacuum/cursor.json"] = json.dumps({"through": 3, "uuid": table.uuid, "parts": parts})
    storage = MemoryAdapter(table).storage
    found = records(table).versions(storage, hints, lambda _: False)
    assert [version.id for version in found.items] == ([0, 1, 2, 3, 4, 5] if all_of_them else [3, 4, 5])
    assert [version.id for version in records(table).versions(storage, hints, lambda _: True).items] == [
        3,
        4,
        5,
    ]


@pytest.mark.parametrize("age_days, stays", [(30, True), (2, True), (1, False)])
def test_a_listed_file_stays_where_the_retention_reaches_further_back_than_the_cursor(
    age_days: int, *, stays: bool
) -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=True))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    [old] = table.versions[3].files
    listed(table, "dead-1", parts=1)
    table.notes["vacuum/dead-1/list-0000.json"] = json.dumps([f"mem:/db.t/{old}"])
    table.notes["vacuum/cursor.json"] = json.dumps({"through": 4, "uuid": table.uuid})
    run(table, age_ms=age_days * DAY)
    assert (old in table.disk) == stays


def planned(table: MemoryTable) -> VacuumPlan:
    plan = run(table, age_ms=DAY, dry_run=True).plan
    assert plan is not None
    return plan


def own(table: MemoryTable) -> Intent:
    [there] = registered(MemoryNotes(table)).values()
    return there


def test_a_vacuum_is_registered_as_long_as_it_deletes(table: MemoryTable) -> None:
    """An undo that does not see it would bring back a file that is about to go."""
    plan, ours = planned(table), records(table)
    ours.before(plan)
    for _ in range(5):
        table.later(20 * HOUR_MS)
        ours.renew()
        assert own(table).deletes(DAY, table.now_ms + 3 * HOUR_MS)
    table.later(25 * HOUR_MS)
    with pytest.raises(Rejected, match="deletes nothing more"):
        ours.renew()


def test_a_vacuum_that_stopped_is_known_to_delete_nothing_more(table: MemoryTable) -> None:
    ours = records(table)
    ours.before(planned(table))
    ours.stopped()
    assert not own(table).deletes(DAY, table.now_ms)
    assert ours.hints(registered(MemoryNotes(table)))


@pytest.mark.parametrize(
    "error", [AdapterError("the disk is full"), KeyboardInterrupt()], ids=["error", "Ctrl-C"]
)
def test_a_vacuum_that_could_not_write_its_list_is_known_to_delete_nothing(
    table: MemoryTable, error: BaseException
) -> None:
    """It remained registered for a day, in which no run could be undone, whatever vacuum came after it."""

    def refuse(what: str) -> None:
        if "/list-" in what:
            raise error

    table.before = refuse
    with pytest.raises(type(error)):
        run(table, age_ms=DAY)
    table.before = lambda _: None
    assert not own(table).deletes(DAY, table.now_ms)
    assert run(table, age_ms=DAY).status == "done"
    assert not any(each.deletes(DAY, table.now_ms) for each in registered(MemoryNotes(table)).values())


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_a_vacuum_that_took_over_the_list_of_another_replaces_it(table: MemoryTable, *, ended: bool) -> None:
    """The other one may be in the middle of a batch, and is registered no more."""
    theirs = {slot: replace(each, ended=ended) for slot, each in listed(table, "other-1", parts=0).items()}
    ours = records(table)
    ours.before(planned(table))
    ours.took_over(theirs, frozenset(), DAY)
    ours.stopped()
    ours_now = next(each for each in registered(MemoryNotes(table)).values() if each.run_id == "v-1")
    assert ours_now.deletes(DAY, table.now_ms) is not ended


def test_a_vacuum_replaces_another_no_longer_than_that_one_would_have_lasted(table: MemoryTable) -> None:
    """A chain of vacuums, each of which met a file that cannot be deleted, refused an undo forever."""
    theirs = listed(table, "other-1", parts=0)
    [first] = theirs.values()
    for run_id in ("v-1", "v-2", "v-3"):
        table.later(DAY // 2 - 1)
        ours, plan = records(table, run_id), planned(table)
        ours.before(plan)
        ours.took_over(theirs, frozenset(file.path for file in plan.files), DAY)
        ours.stopped()
        theirs = {
            slot: each for slot, each in registered(MemoryNotes(table)).items() if each.run_id == run_id
        }
        [ours_now] = theirs.values()
        assert ours_now.deletes(DAY, table.now_ms) is (table.now_ms < first.dies_ms(DAY))
    assert table.now_ms >= first.dies_ms(DAY)


def vacuumed(table: MemoryTable, times: int = 1, *, fails: str = "", every_ms: int = DAY) -> list[str]:
    """The ids of vacuums, each with a version to delete; ``fails`` names the call at which each of them is killed."""
    found: list[str] = []

    def planned(what: str) -> None:
        run_id, _, note = what.removeprefix("note vacuum/").partition("/")
        if note == "proof.json":
            found.append(run_id)
        if what == fails:
            raise _Crash

    for number in range(times):
        table.later(every_ms)
        table.overwrite([{"k": number}])
        table.before = planned
        with suppress(_Crash):
            run(table, age_ms=every_ms // 2, allow_unsafe=True)
        table.before = lambda _: None
    return found


def recorded(table: MemoryTable, note: str = "proof.json") -> list[str]:
    return [name.split("/")[1] for name in table.notes if name.endswith(note)]


def test_the_records_of_the_newest_64_vacuums_stay() -> None:
    """They were never removed: a vacuum every 15 minutes leaves 70,080 notes in a year."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 0}])
    runs = vacuumed(table, 70)
    assert len(runs) == 70
    assert recorded(table) == recorded(table, "done.json") == runs[-64:]
    notes = dict(table.notes)
    assert run(table, age_ms=HOUR_MS, allow_unsafe=True).ended.code == "nothing_to_do"
    assert dict(table.notes) == notes


def test_the_record_of_a_vacuum_that_has_not_ended_stays() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 0}])
    table.tag("kept", table.current.number)
    [live] = table.current.files
    notes = MemoryAdapter(table).notes
    notes.replace("vacuum/running/list-0000.json", json.dumps([f"mem:/db.t/{live}"]))
    notes.replace("vacuum/running/proof.json", "{}")
    under_way = Intent("running", VACUUM, table.now_ms, table.uuid, 1, parts=1, timeout_ms=DAY)
    registration = register(notes, "db.t", under_way, Clock(lambda: table.now_ms))
    runs = vacuumed(table, 70, every_ms=HOUR_MS // 6)
    assert recorded(table) == ["running", *runs[-64:]]
    assert registration.is_registered()


def test_the_record_of_a_vacuum_that_was_killed_goes_like_any_other() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 0}])
    [killed] = vacuumed(table, fails="delete")
    assert vacuumed(table, 63)
    assert killed in recorded(table)
    assert vacuumed(table, 1)
    assert killed not in recorded(table)
    assert len(recorded(table)) == 64


@pytest.mark.parametrize("note", ["", "{", "[]", '{"runs": [1, null]}', '{"runs": ["../../data"]}'])
def test_a_damaged_note_of_the_records_harms_nothing(note: str) -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 0}])
    table.notes["vacuum/records.json"] = note
    [only] = vacuumed(table)
    assert json.loads(table.notes["vacuum/records.json"]) == {"runs": [only]}


def test_records_that_cannot_be_removed_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 0}])
    runs = vacuumed(table, 64)
    remove = MemoryNotes.remove

    def refuse(notes: MemoryNotes, name: str) -> None:
        if name.endswith(("proof.json", "done.json")):
            raise AdapterError("permission denied")
        remove(notes, name)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryNotes, "remove", refuse)
        runs += vacuumed(table, 2)
    assert recorded(table) == runs
    assert registered(MemoryAdapter(table).notes) == {}
    runs += vacuumed(table)
    assert recorded(table) == runs[-64:]
