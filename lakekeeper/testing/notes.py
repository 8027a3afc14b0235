"""What is kept beside a table of the memory adapter."""

from __future__ import annotations

from lakekeeper.testing.lake import MemoryTable


class MemoryNotes:
    """``lakekeeper.spi.Notes``: a dictionary of the table's."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def read(self, name: str) -> str | None:
        """The text under a name, if there is one."""
        return self._table.notes.get(name)

    def keep(self, name: str, text: str) -> str:
        """Write it unless there is one."""
        with self._table.lock:
            return self._table.notes.setdefault(name, text)

    def replace(self, name: str, text: str) -> None:
        """Write it, whatever was there."""
        self._table.before(f"note {name}")
        with self._table.lock:
            self._table.notes[name] = text

    def remove(self, name: str) -> None:
        """Take it away."""
        with self._table.lock:
            self._table.notes.pop(name, None)
