"""Notes that are found without a listing: slots for which writers race, and lists in parts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from lakekeeper.engine.state.note_slots import (
    claim,
    filled,
    in_parts,
    part,
    slot_note,
    take_over,
    write_parts,
)
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.notes import MemoryNotes

SLOTS = [slot_note("intents", number) for number in range(4)]


def notes() -> MemoryNotes:
    return MemoryNotes(MemoryTable("db.t", {"k": "int"}))


def test_the_first_free_slot_is_taken_and_an_error_says_that_all_are_full() -> None:
    kept = notes()
    assert [claim(kept, SLOTS, f"run {n}") for n in range(5)] == [*SLOTS, None]
    kept.remove(SLOTS[1])
    assert claim(kept, SLOTS, "run 5") == "intents/01.json"
    assert dict(filled(kept, SLOTS))[SLOTS[1]] == "run 5"


def test_writers_that_race_get_different_slots() -> None:
    kept, slots = notes(), [slot_note("intents", number) for number in range(32)]
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: claim(kept, slots, f"run {n}"), range(32)))
    assert sorted(str(slot) for slot in taken) == slots
    assert sorted(text for _, text in filled(kept, slots)) == sorted(f"run {n}" for n in range(32))


def test_of_all_writers_that_saw_a_text_one_replaces_it_and_the_slot_has_its_text() -> None:
    kept = notes()
    kept.replace(SLOTS[0], "old")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: take_over(kept, SLOTS[0], "old", f"run {n}"), range(32)))
    assert sum(won) == 1
    assert kept.table.notes == {SLOTS[0]: f"run {won.index(True)}"}


def test_a_writer_that_saw_an_older_text_replaces_nothing() -> None:
    kept = notes()
    kept.replace(SLOTS[0], "old")
    assert take_over(kept, SLOTS[0], "old", "run 1")
    assert not take_over(kept, SLOTS[0], "old", "run 2")
    kept.remove(SLOTS[0])
    assert not take_over(kept, SLOTS[0], "run 1", "run 3")
    assert kept.table.notes == {}


class Failing(MemoryNotes):
    """Notes whose replacements are written, but answered with an error."""

    def replace(self, name: str, text: str) -> None:
        super().replace(name, text)
        raise AdapterError(f"{name}: 503 Slow Down")


def test_while_a_write_may_still_arrive_no_other_writer_replaces_the_text() -> None:
    kept = notes()
    kept.replace(SLOTS[0], "old")
    with pytest.raises(AdapterError, match="503"):
        take_over(Failing(kept.table), SLOTS[0], "old", "run 1")
    kept.replace(SLOTS[0], "old")  # as if the write were still on its way
    assert not take_over(kept, SLOTS[0], "old", "run 2")
    assert take_over(kept, SLOTS[0], "old", "run 1")
    assert kept.table.notes == {SLOTS[0]: "run 1"}


def test_a_long_list_is_read_back_from_its_parts() -> None:
    kept, paths = notes(), [f"data/{n}" for n in range(45_000)]
    parts = in_parts(paths)
    assert [len(each) for each in parts] == [20_000, 20_000, 5_000]
    write_parts(kept, "vacuum/r-1/list", parts, first=2)
    assert sorted(kept.table.notes) == [part("vacuum/r-1/list", n) for n in (2, 3, 4)]
    assert [
        path for n in (2, 3, 4) for path in json.loads(kept.table.notes[part("vacuum/r-1/list", n)])
    ] == paths
    assert in_parts([]) == []


class Remote(MemoryNotes):
    """Notes of which each read is a request: each read waits until four are in progress."""

    readers = 4

    def __init__(self, table: MemoryTable, broken: str = "") -> None:
        super().__init__(table)
        self._meeting = Barrier(4)
        self._broken = broken

    def read(self, name: str) -> str | None:
        self._meeting.wait(60)
        if name == self._broken:
            raise AdapterError(f"{name}: 503 Slow Down")
        return super().read(name)


def test_slots_of_a_remote_store_are_read_concurrently_and_returned_in_order() -> None:
    notes = Remote(MemoryTable("db.t", {"k": "int"}))
    slots = [slot_note("trash", n) for n in range(16)]
    for n in (9, 2, 14):
        notes.replace(slots[n], str(n))
    assert filled(notes, slots) == [(slots[n], str(n)) for n in (2, 9, 14)]


def test_a_slot_that_cannot_be_read_is_not_free() -> None:
    slots = [slot_note("trash", n) for n in range(8)]
    with pytest.raises(AdapterError, match="503"):
        filled(Remote(MemoryTable("db.t", {"k": "int"}), slots[5]), slots)
