"""What is kept beside a table of the memory adapter."""

from __future__ import annotations

from lakekeeper.testing.lake import MemoryTable


class MemoryNotes:
    """``lakekeeper.spi.Notes``: a dictionary of the table's."""

    readers = 1

    def __init__(self, table: MemoryTable) -> None:
        self.table = table

    def read(self, name: str) -> str | None:
        """The text under a name, if there is one."""
        return self.table.notes.get(name)

    def keep(self, name: str, text: str) -> str:
        """Write a note unless there is one, and return the text that is stored."""
        with self.table.lock:
            return self.table.notes.setdefault(name, text)

    def replace(self, name: str, text: str) -> None:
        """Write a note, and replace one that exists."""
        self.table.before(f"note {name}")
        with self.table.lock:
            self.table.notes[name] = text

    def remove(self, name: str) -> None:
        """Remove a note."""
        with self.table.lock:
            self.table.notes.pop(name, None)
