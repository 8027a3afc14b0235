"""Files in the trash go back to their places, also beside a vacuum, and the next vacuum finds them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest

from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import (
    KEPT,
    entries,
)
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import written
from tests.engine.trash.partitions import Crash
from tests.engine.trash.trashed import with_trash
from tests.engine.vacuums import DAY, readable, run


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
            raise Crash

    with suppress(Crash):
        run(table, age_ms=DAY, orphans=True, trash=True, observer=killed)
    assert orphan not in table.disk
    table.later(2 * DAY)  # a killed vacuum counts as dead
    [entry] = entries(MemoryAdapter(table)).values()
    restore_files(MemoryAdapter(table), entry.name, table.now_ms)
    run(table, age_ms=DAY)
    assert set(table.disk) == {orphan, *table.current.files}


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


def test_an_entry_is_kept_while_a_file_could_not_be_moved_back(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, before = MemoryAdapter(table), {v: table.rows(v) for v in range(6)}
    name, move = run(table, age_ms=DAY, trash=True).trash, MemoryStorage.move

    def all_but_one(self: MemoryStorage, moves: Mapping[str, str]) -> list[str]:
        return move(self, dict([*moves.items()][1:]))

    with monkeypatch.context() as patched:
        patched.setattr(MemoryStorage, "move", all_but_one)
        with pytest.raises(
            AdapterError, match=r"1 of \d files could not be moved back .*Run the restore again"
        ):
            restore_files(adapter, name, table.now_ms)
    assert [each.name for each in entries(adapter).values()] == [name]
    assert restore_files(adapter, name, table.now_ms).files == 1
    assert {v: table.rows(v) for v in range(6)} == before


def test_an_entry_is_restored_while_a_vacuum_fills_another(table: MemoryTable) -> None:
    first = run(table, age_ms=DAY, trash=True).trash
    table.later(2 * DAY)
    table.overwrite([{"k": 99}])
    restored: list[int] = []

    def meanwhile(phase: str, _info: object) -> None:
        if phase == "before_delete" and not restored:
            restored.append(restore_files(MemoryAdapter(table), first, table.now_ms).files)

    second = run(table, age_ms=DAY, trash=True, observer=meanwhile).trash
    assert restored[0] > 0
    assert [each.name for each in entries(MemoryAdapter(table)).values()] == [second]


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
