"""The trash: files that a vacuum moved there are restored or deleted for good, whichever step was killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import Grounds, grounds_of
from lakekeeper.core.vacuum.retention import Version, Versions
from lakekeeper.core.vacuum.vacuum_plan import Backlog, Doomed, VacuumPlan, Waiting
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import register, registered
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import (
    DROPPED,
    KEPT,
    PENDING,
    RESTORING,
    TrashEntry,
    change,
    entries,
    find,
    forget_at,
    held_versions,
)
from lakekeeper.engine.trash.moves import entries_with
from lakekeeper.engine.trash.put import TrashFolder, put
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.vacuum.journal import Records
from lakekeeper.errors import AdapterError, NotFound, RetentionError
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import intent, written
from tests.engine.vacuums import DAY, readable, run


class _Crash(BaseException):
    pass


def test_files_go_to_the_trash_and_back(table: MemoryTable) -> None:
    before = {v: table.rows(v) for v in range(6)}
    report = run(table, age_ms=DAY, trash=True)
    assert report.trash
    adapter = MemoryAdapter(table)
    [entry] = entries(adapter).values()
    assert (entry.files, entry.bytes) == (report.deleted_files_count, report.deleted_bytes_count)
    assert 2 not in readable(table)
    restore_files(adapter, entry.name[:6], table.now_ms)
    assert {v: table.rows(v) for v in range(6)} == before
    assert entries(adapter) == {}
    # The restored files are garbage as before.
    assert run(table, age_ms=DAY).deleted_files_count == report.deleted_files_count


def test_the_trash_is_emptied_when_its_retention_ends(table: MemoryTable) -> None:
    run(table, age_ms=DAY, trash=True)
    adapter = MemoryAdapter(table)
    assert list(empty(adapter, 168 * HOUR_MS, table.now_ms + 167 * HOUR_MS)) == []
    [gone] = empty(adapter, 168 * HOUR_MS, table.now_ms + 168 * HOUR_MS)
    assert gone.files > 0
    assert not [path for path in table.disk if "trash" in path]
    with pytest.raises(NotFound, match="it is empty"):
        restore_files(adapter, gone.name, table.now_ms)


def test_the_trash_is_emptied_though_an_earlier_attempt_was_killed(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(table, age_ms=DAY, trash=True)
    adapter, remove = MemoryAdapter(table), MemoryNotes.remove
    removed: list[str] = []

    def crash(self: MemoryNotes, name: str) -> None:
        if removed:
            raise _Crash
        removed.append(name)
        remove(self, name)

    monkeypatch.setattr(MemoryNotes, "remove", crash)
    with pytest.raises(_Crash):
        list(empty(adapter, None, table.now_ms))
    monkeypatch.setattr(MemoryNotes, "remove", remove)
    list(empty(adapter, None, table.now_ms))
    assert entries(adapter) == {}
    assert not [path for path in table.disk if "trash" in path]


@pytest.mark.parametrize("live", ["current", "tag"])
def test_an_entry_with_files_of_a_live_version_is_kept(table: MemoryTable, live: str) -> None:
    """Loss L87: no format checks the files of a version that a rollback or a tag makes live again."""
    old, rows = dict(table.versions[1].files), table.rows(1)
    name = run(table, age_ms=DAY, trash=True).trash
    if live == "tag":
        table.tag("late", 1)
    else:
        table.apply("ROLLBACK", lambda now: replace(now, files=dict(old)))
    number = 1 if live == "tag" else table.current.number
    table.later(9 * DAY)
    adapter, there = MemoryAdapter(table), set(table.disk)
    with pytest.raises(RetentionError, match=rf"the current version, a branch or a tag.*restore\('{name}'\)"):
        list(empty(adapter, 168 * HOUR_MS, table.now_ms))
    assert set(table.disk) == there
    restore_files(adapter, name, table.now_ms)
    assert table.rows(number) == rows
    assert list(empty(adapter, None, table.now_ms)) == []


def test_other_entries_are_emptied_though_one_is_needed(table: MemoryTable) -> None:
    old = dict(table.versions[1].files)
    needed = run(table, age_ms=3 * DAY, trash=True).trash
    other = run(table, age_ms=DAY, trash=True).trash
    table.apply("ROLLBACK", lambda now: replace(now, files=dict(old)))
    adapter = MemoryAdapter(table)
    with pytest.raises(RetentionError, match=needed):
        list(empty(adapter, None, table.now_ms))
    assert [entry.name for entry in entries(adapter).values()] == [needed]
    assert not [path for path in table.disk if other in path]
    list(empty(adapter, None, table.now_ms, dropped=True))
    assert entries(adapter) == {}


def test_a_file_that_is_back_at_its_place_keeps_no_entry(table: MemoryTable) -> None:
    old, disk = dict(table.versions[1].files), dict(table.disk)
    run(table, age_ms=DAY, trash=True)
    table.apply("ROLLBACK", lambda now: replace(now, files=dict(old)))
    table.disk |= {path: disk[path] for path in old}
    assert len(list(empty(MemoryAdapter(table), None, table.now_ms))) == 1
    assert not [path for path in table.disk if "trash" in path]


class _Roots(MemoryStorage):
    """Storage of a table with files at ``mem:/ext`` too, where an operator may allow them."""

    allowed: tuple[str, ...] = ()

    @property
    def grounds(self) -> Grounds:
        own = super().grounds
        return grounds_of(own.roots[0], own.reserved, {"write.data.path": _EXT}, self.allowed)

    def allowing(self, locations: Sequence[str]) -> _Roots:
        other = _Roots(self._table)
        other.allowed = tuple(locations)
        return other

    def _full(self, path: str) -> str:
        return path if path.startswith("mem:/") else f"{self.grounds.roots[0]}/{path}"


class _WithRoots(MemoryAdapter):
    @property
    def storage(self) -> _Roots:
        return _Roots(self.store)


_EXT, _AT_EXT = "mem:/ext", "mem:/ext/data/a.parquet"


def moved_from_elsewhere(table: MemoryTable) -> tuple[_WithRoots, str]:
    """A file outside the table's location, which a vacuum that was allowed it has moved to the trash; its entry."""
    adapter = _WithRoots(table)
    table.disk[_AT_EXT], table.made_at[_AT_EXT] = next(iter(table.disk.values())), 0
    plan = VacuumPlan("db.t", table.uuid, 1, (Doomed(_AT_EXT, "data", 10, 1),), {}, ())
    clock = Clock(lambda: table.now_ms, lambda _: None)
    folder = TrashFolder(adapter, adapter.storage.allowing([_EXT]), "abcdef0123456789", resolve(), clock)
    folder.open(plan)
    assert folder.take(plan.files) == [_AT_EXT]
    return adapter, folder.name


@pytest.mark.parametrize("act", ["restore", "empty"])
def test_an_entry_with_files_of_places_that_the_call_does_not_allow_is_kept(
    table: MemoryTable, act: str
) -> None:
    """Loss: the call reported success, and removed the entry and the list of its files, but left these in the trash."""
    adapter, name = moved_from_elsewhere(table)
    there, notes = set(table.disk), dict(table.notes)

    def call(*locations: str) -> None:
        if act == "restore":
            assert restore_files(adapter, name, table.now_ms, locations).files == 1
        else:
            assert [each.files for each in empty(adapter, None, table.now_ms, locations)] == [1]

    error = AdapterError if act == "restore" else RetentionError
    with pytest.raises(error, match=rf"db\.t: .*'{name}'.*{_AT_EXT}: .*vacuum\.allowed-locations"):
        call()
    assert (set(table.disk), dict(table.notes)) == (there, notes)
    assert entries_with(adapter, [_AT_EXT]) == [name], "an undo names the entry"
    call(_EXT)
    assert entries(adapter) == {}
    assert not [path for path in table.disk if "trash" in path]
    assert (_AT_EXT in table.disk) == (act == "restore")


def test_other_entries_are_emptied_though_one_has_files_of_a_place_that_is_not_allowed(
    table: MemoryTable,
) -> None:
    other = run(table, age_ms=DAY, trash=True).trash
    adapter, name = moved_from_elsewhere(table)
    with pytest.raises(RetentionError, match=name):
        list(empty(adapter, None, table.now_ms))
    assert [each.name for each in entries(adapter).values()] == [name]
    assert not [path for path in table.disk if other in path]
    list(empty(adapter, None, table.now_ms, dropped=True))  # the table goes, and nothing will restore them
    assert entries(adapter) == {}
    assert not [path for path in table.disk if "trash" in path]


def test_forged_moves_out_of_an_entry_do_nothing(table: MemoryTable) -> None:
    """Only files in the entry's own folder are moved or deleted, and only to places that the call allows."""
    adapter, name = moved_from_elsewhere(table)
    home = f"{adapter.storage.grounds.roots[0]}/_lakekeeper/trash"
    table.disk["mem:/ext/live"] = table.disk[next(iter(table.disk))]
    own = next(path for path in table.disk if path.startswith("data/"))
    moves = [
        ["mem:/ext/x", "mem:/ext/live", 1],
        ["mem:/ext/x", f"{home.removesuffix('_lakekeeper/trash')}{own}", 1],
        ["mem:/ext/x", f"{home}/another/0/x", 1],
        ["mem:/ext/x", f"{home}/{name}/../x", 1],
        ["mem:/ext/x", f"{home}/{name}", 1],
    ]
    table.notes[f"trash/{name}/moves-0000.json"] = json.dumps(moves)
    there = set(table.disk)
    list(empty(adapter, None, table.now_ms, [_EXT]))
    assert set(table.disk) == there
    assert entries(adapter) == {}


def with_trash(table: MemoryTable) -> str:
    """Moves old versions' files and those of a dead run to the trash; returns the entry's name."""
    clock, notes = Clock(lambda: table.now_ms), MemoryAdapter(table).notes
    register(notes, "t", intent(table, "dead-1"), clock)
    left = written(table, "dead-1")
    table.later(5 * DAY)
    name = run(table, age_ms=DAY, trash=True).trash
    assert left not in table.disk
    return name


def test_restored_files_are_found_by_the_next_vacuum(table: MemoryTable) -> None:
    there = set(table.disk)
    restore_files(MemoryAdapter(table), with_trash(table), table.now_ms)
    assert set(table.disk) > there
    run(table, age_ms=DAY)
    assert set(table.disk) == set(table.current.files)
    assert registered(MemoryAdapter(table).notes) == {}


@pytest.mark.parametrize("ended", ["finished", "killed"])
def test_a_restored_orphan_is_deleted_only_by_a_search_for_orphans(table: MemoryTable, ended: str) -> None:
    """Loss L116: the next vacuum deleted it, however young, though its writer was about to commit it."""
    orphan = written(table)
    table.later(5 * DAY)

    def killed(phase: str, _info: object) -> None:
        if phase == "deleted" and ended == "killed":
            raise _Crash

    with suppress(_Crash):
        run(table, age_ms=DAY, orphans=True, trash=True, observer=killed)
    assert orphan not in table.disk
    table.later(2 * DAY)  # a killed vacuum counts as dead
    [entry] = entries(MemoryAdapter(table)).values()
    restore_files(MemoryAdapter(table), entry.name, table.now_ms)
    run(table, age_ms=DAY)
    assert set(table.disk) == {orphan, *table.current.files}


def test_a_restore_keeps_the_backlog(table: MemoryTable) -> None:
    """The log may have lost the commits that dropped the files in it: no later vacuum would find them."""
    name, adapter = with_trash(table), MemoryAdapter(table)
    table.notes["vacuum/cursor.json"] = json.dumps({"through": 4, "uuid": table.uuid, "parts": 1, "seen": 5})
    table.notes["vacuum/backlog-0000.json"] = json.dumps([["data/a", "data", 3, 1, ""]])
    restore_files(adapter, name, table.now_ms)
    records = Records(adapter.notes, "v-1", Clock(lambda: table.now_ms), DAY)
    versions = records.versions(adapter.storage, (), lambda _: True)
    assert versions.items[0].id == 0, "the whole log is read again"
    assert records.backlog(versions) == Backlog((Waiting("data/a", "data", 3, 1),), seen=5)


@pytest.mark.parametrize("note", ["{half", "[1]", '{"through": 4, "uuid": "u"}'])
def test_a_restore_removes_a_cursor_without_a_backlog(table: MemoryTable, note: str) -> None:
    name, adapter = with_trash(table), MemoryAdapter(table)
    table.notes["vacuum/cursor.json"] = note
    restore_files(adapter, name, table.now_ms)
    assert "vacuum/cursor.json" not in table.notes


def test_files_restored_while_a_vacuum_ends_are_found_by_the_next() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=True))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    name = with_trash(table)

    def back(what: str) -> None:
        if what == "note vacuum/cursor.json":
            table.before = lambda _: None
            restore_files(MemoryAdapter(table), name, table.now_ms)

    table.before = back
    run(table, age_ms=DAY)  # advances the cursor past the restored files
    assert set(table.disk) > set(table.current.files)
    run(table, age_ms=DAY)
    assert set(table.disk) == set(table.current.files)


def entry(name: str, **changed: Any) -> TrashEntry:
    """A dropped partition of day 1, from version 2."""
    known = {"kind": "partition", "at_ms": 1000, "version": 2, "where": "day = 1", "state": DROPPED}
    return TrashEntry(name, **{**known, "table_uuid": MemoryTable("db.t", {"k": "int"}).uuid, **changed})


def test_entries_are_listed_oldest_first_whatever_else_is_in_the_slots(table: MemoryTable) -> None:
    for each in (entry("b-1", at_ms=2000), entry("a-1", at_ms=1000), entry("c-1", table_uuid="another")):
        put(MemoryAdapter(table), each, resolve())
    table.notes["trash/07.json"] = "{half a not"
    table.notes["trash/08.json"] = json.dumps(
        {"name": "../../etc", "kind": "files", "at_ms": 0, "version": 0}
    )
    for slot, damaged in enumerate(("null", "[1]", '"x"', "1e999", "[" * 100_000), 9):
        table.notes[f"trash/{slot:02d}.json"] = damaged
    huge = json.dumps(asdict(entry("d-1"))).replace("1000", "1e999")
    table.notes["trash/20.json"] = huge
    assert [each.name for each in entries(MemoryAdapter(table)).values()] == ["a-1", "b-1"]
    assert run(table, age_ms=DAY).deleted_files_count > 0


@pytest.mark.parametrize("note", ["{half", "null", "7", "{}", "[1]", '[["a", "b", 1e999]]'])
def test_an_entry_with_a_damaged_list_of_moves_is_kept(table: MemoryTable, note: str) -> None:
    name, adapter = run(table, age_ms=DAY, trash=True).trash, MemoryAdapter(table)
    table.notes[f"trash/{name}/moves-0000.json"] = note
    for call in (
        lambda: restore_files(adapter, name, table.now_ms),
        lambda: list(empty(adapter, None, table.now_ms)),
    ):
        with pytest.raises(AdapterError, match="the list of its files is gone or damaged"):
            call()
    assert entries_with(adapter, ["data/x"]) == []
    assert [each.name for each in entries(adapter).values()] == [name]


def test_the_65th_entry_is_refused(table: MemoryTable) -> None:
    adapter = MemoryAdapter(table)
    for number in range(64):
        put(adapter, entry(f"r-{number}"), resolve())
    with pytest.raises(AdapterError, match="the trash holds 64 entries, none of which may be deleted yet"):
        put(adapter, entry("r-64"), resolve())


@pytest.mark.parametrize("doubt", [False, True], ids=["no slot is free", "the note may be written"])
def test_the_list_of_an_entry_that_was_not_written_goes_too(
    monkeypatch: pytest.MonkeyPatch, table: MemoryTable, doubt: bool
) -> None:
    """Of each vacuum that found the trash full, the list of its moves stayed, and no entry named it."""
    adapter, keep = MemoryAdapter(table), MemoryNotes.keep
    for number in range(64):
        put(adapter, entry(f"r-{number}", at_ms=table.now_ms), resolve())

    def cut_off(self: MemoryNotes, name: str, text: str) -> str:
        if name.startswith("trash/") and doubt:
            raise AdapterError("the answer was cut off")
        return keep(self, name, text)

    monkeypatch.setattr(MemoryNotes, "keep", cut_off)
    with pytest.raises(AdapterError, match="cut off" if doubt else "holds 64 entries"):
        run(table, age_ms=DAY, trash=True)
    lists = [name for name in table.notes if name.startswith("trash/") and "/moves-" in name]
    assert len(lists) == doubt


def test_an_entry_that_another_call_has_removed_is_left_alone(table: MemoryTable) -> None:
    adapter = MemoryAdapter(table)
    first, later = entry("r-1"), entry("r-2")
    slot = put(adapter, first, resolve())
    forget_at(adapter.notes, slot, first)
    assert entries(adapter) == {}
    forget_at(adapter.notes, slot, first)
    assert put(adapter, later, resolve()) == slot
    forget_at(adapter.notes, slot, first)
    assert entries(adapter) == {slot: later}


def test_an_entry_takes_the_slot_of_one_whose_retention_has_ended(table: MemoryTable) -> None:
    """Expiry with late rows, several times a day, filled the trash, and then failed until a user emptied it."""
    adapter, keep_ms = MemoryAdapter(table), resolve().vacuum.trash_retention_ms
    report = run(table, age_ms=DAY, trash=True)
    [moved] = entries(adapter).values()
    for number in range(62):
        put(adapter, entry(f"r-{number}", at_ms=moved.at_ms + 1), resolve())
    put(adapter, entry("other", table_uuid="another", at_ms=moved.at_ms + 1), resolve())
    put(adapter, entry("r-64", at_ms=moved.expires_ms(keep_ms)), resolve())
    assert [each for each in entries(adapter).values() if each.name == moved.name] == []
    assert not [path for path in table.disk if report.trash in path]
    assert len(entries(adapter)) == 63
    assert "other" in table.notes["trash/63.json"], "what another table has put there has its retention too"
    with pytest.raises(AdapterError, match="the trash holds 64 entries"):
        put(adapter, entry("r-65", at_ms=moved.expires_ms(keep_ms)), resolve())


def test_entries_of_a_former_table_make_room_once_they_have_expired(table: MemoryTable) -> None:
    """After DROP and CREATE at one place, no call emptied them, and each later drop of a partition failed."""
    adapter, keep_ms = MemoryAdapter(table), resolve().vacuum.trash_retention_ms
    put(adapter, entry("files", table_uuid="former", kind="files", at_ms=1), resolve())
    for number in range(63):
        put(adapter, entry(f"r-{number}", table_uuid="former", at_ms=1000 + number), resolve())
    with pytest.raises(AdapterError, match="the trash holds 64 entries"):
        put(adapter, entry("early", at_ms=keep_ms), resolve())
    for number in range(63):
        put(adapter, entry(f"new-{number}", at_ms=2000 + keep_ms), resolve())
    assert '"former"' in table.notes["trash/00.json"], "an entry with files makes room last"
    put(adapter, entry("new-63", at_ms=2000 + keep_ms), resolve())
    assert len(entries(adapter)) == 64


@pytest.mark.parametrize("act", ["restore", "empty"])
def test_an_entry_is_kept_while_its_vacuum_still_moves_files(table: MemoryTable, act: str) -> None:
    """Loss L111: of files that came later, no entry was left, and nothing restored or deleted them any more."""
    other, before = MemoryAdapter(table), {v: table.rows(v) for v in range(6)}
    names: list[str] = []

    def meanwhile(phase: str, _info: object) -> None:
        if phase == "deleted" and not names:
            [name] = [each.name for each in entries(other).values()]
            names.append(name)
            if act == "empty":
                found = [*empty(other, None, table.now_ms)]
                assert [(each.files > 0, each.state) for each in found] == [(True, KEPT)]
            else:
                with pytest.raises(AdapterError, match="Run the restore again when the vacuum has ended"):
                    restore_files(other, name, table.now_ms)

    options = {"vacuum.max-concurrent-deletes": 1}
    report = run(table, age_ms=DAY, trash=True, observer=meanwhile, options=options)
    assert [each.name for each in entries(other).values()] == names == [report.trash]
    if act == "restore":
        restore_files(other, report.trash, table.now_ms)
        assert {v: table.rows(v) for v in range(6)} == before
    else:
        list(empty(other, None, table.now_ms))
    assert entries(other) == {}
    assert not [path for path in table.disk if "trash" in path]


@pytest.mark.parametrize("ended", ["interrupted", "finished"])
def test_an_entry_is_kept_while_its_vacuum_moves_files_though_another_vacuum_has_listed_them_too(
    table: MemoryTable, ended: str
) -> None:
    """Loss L112: the second vacuum took over the first one's list, so that the entry counted as complete."""
    other, before = MemoryAdapter(table), {v: table.rows(v) for v in range(6)}
    one_by_one = {"vacuum.max-concurrent-deletes": 1, "vacuum.max-batch-delete-size": 1}
    names: list[str] = []

    def interrupt(what: str) -> None:
        if what == "move":
            raise KeyboardInterrupt

    def meanwhile(phase: str, _info: object) -> None:
        if phase != "deleted" or names:
            return
        [name] = [each.name for each in entries(other).values()]
        names.append(name)
        if ended == "interrupted":
            table.before = interrupt
            with pytest.raises(KeyboardInterrupt):
                run(table, age_ms=DAY, trash=True, options=one_by_one)
            table.before = lambda _: None
        else:
            run(table, age_ms=DAY, trash=True, options=one_by_one)
        with pytest.raises(AdapterError, match="Run the restore again"):
            restore_files(other, name, table.now_ms)

    report = run(table, age_ms=DAY, trash=True, observer=meanwhile, options=one_by_one)
    assert report.trash == names[0]
    for each in [each.name for each in entries(other).values()]:
        with suppress(AdapterError):  # what both have listed is back by the other's entry
            restore_files(other, each, table.now_ms + 10 * DAY)
    assert {v: table.rows(v) for v in range(6)} == before
    assert not [path for path in table.disk if "trash" in path]


def test_a_new_state_does_not_overwrite_that_of_another_call(table: MemoryTable) -> None:
    notes, mine = MemoryNotes(table), entry("r-1")
    put(MemoryAdapter(table), mine, resolve())
    theirs = replace(mine, state=RESTORING, since=4)
    change(notes, "trash/00.json", mine, theirs)
    change(notes, "trash/00.json", mine, replace(mine, rows=7))
    assert list(entries(MemoryAdapter(table)).values()) == [theirs]
    table.notes["trash/00.json"] = damaged = "[1]"
    change(notes, "trash/00.json", mine, replace(mine, rows=7))
    assert table.notes["trash/00.json"] == damaged


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"kind": "files", "files": 2, "bytes": 2048}, "files of a vacuum  2 files, 2.0 KiB"),
        ({"where": "day = 1", "rows": 3, "state": DROPPED}, "partition day = 1  3 rows"),
        ({"where": "day = 1", "rows": 1, "state": PENDING}, "partition day = 1 (pending)  1 row"),
    ],
)
def test_an_entry_as_text_says_what_it_holds(changed: dict[str, Any], text: str) -> None:
    assert str(entry("r-1", at_ms=90_000, **changed)) == f"r-1  1970-01-01 00:01  {text}"


def test_an_entry_is_found_by_a_unique_prefix_of_its_name(table: MemoryTable) -> None:
    adapter = MemoryAdapter(table)
    for name in ("abc-1", "abd-1"):
        put(adapter, entry(name), resolve())
    assert find(adapter, "abd") == ("trash/01.json", entry("abd-1"))
    with pytest.raises(NotFound, match="'ab' matches several entries of the trash: abc-1, abd-1"):
        find(adapter, "ab")
    for unknown in ("", "x"):
        with pytest.raises(NotFound, match=f"the trash has no entry '{unknown}'; it holds abc-1, abd-1"):
            find(adapter, unknown)


@pytest.mark.parametrize(
    "changed, now_ms, held",
    [
        ({}, 1999, {2}),
        ({}, 2000, set()),  # its retention in the trash is over
        ({"dropped": 4}, 1999, {2, 4}),
        ({"version": 0, "dropped": 1}, 1999, {0, 1}),  # the first version of a Delta table
        ({"state": PENDING}, 1999, {2, 3, 4}),  # the drop was based on one of these
        (
            {"state": RESTORING, "dropped": 2, "since": 4},
            1999,
            {2, 3, 4},
        ),  # a restore may have made one of these, and a rollback to version 3 may have left version 4
        ({"kind": "files"}, 1999, set()),  # files are moved, and need no version
    ],
)
def test_versions_that_a_restore_of_a_partition_needs_are_held(
    table: MemoryTable, changed: dict[str, Any], now_ms: int, held: set[int]
) -> None:
    put(MemoryAdapter(table), entry("r-1", **changed), resolve())
    items = tuple(Version(number, 100 * number) for number in range(1, 5))
    versions = Versions("u", items, (), False, DAY)
    found = held_versions(MemoryNotes(table), versions, 1000, now_ms)
    assert set(found) == held
    assert {str(why) for why in found.values()} <= {"a partition in the trash: 'r-1'"}
