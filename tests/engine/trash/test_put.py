"""An entry takes a free slot, or one of an entry that has expired; if there is none, nothing stays behind."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.engine.trash.entries import (
    DROPPED,
    TrashEntry,
    entries,
)
from lakekeeper.engine.trash.put import put
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.vacuums import DAY, run


def entry(name: str, **changed: Any) -> TrashEntry:
    """A dropped partition of day 1, from version 2."""
    known = {"kind": "partition", "at_ms": 1000, "version": 2, "where": "day = 1", "state": DROPPED}
    return TrashEntry(name, **{**known, "table_uuid": MemoryTable("db.t", {"k": "int"}).uuid, **changed})


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
