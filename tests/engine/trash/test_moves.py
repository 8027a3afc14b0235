"""The list of the files in an entry of the trash: what others write into it moves and deletes nothing."""

from __future__ import annotations

import json

import pytest

from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import (
    entries,
)
from lakekeeper.engine.trash.moves import entries_with
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.errors import AdapterError, RetentionError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.trash.trashed import AT_EXT, EXT, moved_from_elsewhere
from tests.engine.vacuums import DAY, run


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
    for target in (
        f"_lakekeeper/trash/{name}/../x",
        f"_lakekeeper/trash/{name}",
        "_lakekeeper/trash/another/0/x",
    ):
        table.disk[target] = table.disk[own]
    there = set(table.disk)
    list(empty(adapter, None, table.now_ms, [EXT]))
    assert set(table.disk) == there
    assert entries(adapter) == {}


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
    with pytest.raises(error, match=rf"db\.t: .*'{name}'.*{AT_EXT}: .*vacuum\.allowed-locations"):
        call()
    assert (set(table.disk), dict(table.notes)) == (there, notes)
    assert entries_with(adapter, [AT_EXT]) == [name], "an undo names the entry"
    call(EXT)
    assert entries(adapter) == {}
    assert not [path for path in table.disk if "trash" in path]
    assert (AT_EXT in table.disk) == (act == "restore")
