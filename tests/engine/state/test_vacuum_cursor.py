"""A restore resets the vacuum's cursor and keeps its backlog."""

from __future__ import annotations

import json

import pytest

from lakekeeper.core.vacuum.vacuum_plan import Backlog, Waiting
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.vacuum.journal import Records
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.trash.trashed import with_trash
from tests.engine.vacuums import DAY


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
