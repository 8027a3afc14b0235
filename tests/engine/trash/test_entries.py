"""Entries of the trash: their list, their state, and the versions that they hold."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.vacuum.retention import Version, Versions
from lakekeeper.engine.trash.entries import (
    DROPPED,
    PENDING,
    RESTORING,
    TrashEntry,
    change,
    entries,
    find,
    forget_at,
    held_versions,
)
from lakekeeper.engine.trash.put import put
from lakekeeper.errors import NotFound
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.vacuums import DAY, run


def entry(name: str, **changed: Any) -> TrashEntry:
    """A dropped partition of day 1, from version 2."""
    known = {"kind": "partition", "at_ms": 1000, "version": 2, "where": "day = 1", "state": DROPPED}
    return TrashEntry(name, **{**known, "table_uuid": MemoryTable("db.t", {"k": "int"}).uuid, **changed})


def test_entries_are_listed_oldest_first_whatever_else_is_in_the_slots(table: MemoryTable) -> None:
    for each in (entry("b-1", at_ms=2000), entry("a-1", at_ms=1000), entry("c-1", table_uuid="another")):
        put(MemoryAdapter(table), each, resolve())
    table.notes["trash/07.json"] = "{half a not"
    table.notes["trash/08.json"] = json.dumps(asdict(entry("../../etc", kind="files")))
    for slot, damaged in enumerate(("null", "[1]", '"x"', "1e999", "[" * 100_000), 9):
        table.notes[f"trash/{slot:02d}.json"] = damaged
    huge = json.dumps(asdict(entry("d-1"))).replace("1000", "1e999")
    table.notes["trash/20.json"] = huge
    assert [each.name for each in entries(MemoryAdapter(table)).values()] == ["a-1", "b-1"]
    assert run(table, age_ms=DAY).deleted_files_count > 0


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
    assert {str(why) for why in found.values()} <= {"the trash entry 'r-1' can be restored from it"}
