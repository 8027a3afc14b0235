"""Entries of the trash are deleted for good, but for those with files that a live version needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import (
    entries,
)
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.errors import NotFound, RetentionError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.trash.partitions import Crash
from tests.engine.trash.trashed import moved_from_elsewhere
from tests.engine.vacuums import DAY, run


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
            raise Crash
        removed.append(name)
        remove(self, name)

    monkeypatch.setattr(MemoryNotes, "remove", crash)
    with pytest.raises(Crash):
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
