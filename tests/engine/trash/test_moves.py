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


@pytest.mark.parametrize(
    "target",
    ["mem:/ext/live", "{root}/{own}", "{trash}/another/0/x", "{trash}/{name}/../x", "{trash}/{name}"],
)
def test_an_entry_with_a_move_that_leads_out_of_it_is_kept(table: MemoryTable, target: str) -> None:
    """Only files in the entry's own folder are moved or deleted; the list may be all that shows where they belong."""
    adapter, name = moved_from_elsewhere(table)
    root = adapter.storage.grounds.roots[0]
    own = next(path for path in table.disk if path.startswith("data/"))
    forged = target.format(root=root, trash=f"{root}/_lakekeeper/trash", name=name, own=own)
    note = f"trash/{name}/moves-0000.json"
    table.notes[note] = json.dumps([*json.loads(table.notes[note]), ["mem:/ext/x", forged, 1]])
    for path in ("mem:/ext/live", f"_lakekeeper/trash/{name}/../x", "_lakekeeper/trash/another/0/x"):
        table.disk[path] = table.disk[own]
    there = set(table.disk)
    for call in (
        lambda: restore_files(adapter, name, table.now_ms, [EXT]),
        lambda: list(empty(adapter, None, table.now_ms, [EXT])),
    ):
        with pytest.raises(AdapterError, match="the list of its files is gone or damaged"):
            call()
    assert set(table.disk) == there
    assert [each.name for each in entries(adapter).values()] == [name]


@pytest.mark.parametrize("act", ["restore", "empty"])
def test_an_entry_of_a_table_whose_folder_has_another_name_now(table: MemoryTable, act: str) -> None:
    """Loss L148: the call reported success, and removed the entry with its list, but left the files in the trash."""
    dead = set(table.disk)
    name, adapter = run(table, age_ms=DAY, trash=True).trash, MemoryAdapter(table)
    dead -= set(table.disk)
    note = f"trash/{name}/moves-0000.json"
    table.notes[note] = table.notes[note].replace(
        f'"{adapter.storage.grounds.roots[0]}/', '"mem://old:80/db/t/'
    )
    if act == "restore":
        assert restore_files(adapter, name, table.now_ms).files == len(dead) > 0
    else:
        assert [each.files for each in empty(adapter, None, table.now_ms)] == [len(dead)]
    assert entries(adapter) == {}
    assert not [path for path in table.disk if "trash" in path]
    assert dead.issubset(table.disk) == (act == "restore")


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
