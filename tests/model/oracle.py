"""What users may expect to read: a plain multiset of rows, without files, blocks or deletes.

A row is ``(id, k, v, p, more …)``: values by column position, so that a rename changes names only. If the table
identifies rows by their values alone, all ids are 0: equal rows are interchangeable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.testing.versions import ROW_ID, Version

Values = tuple[Any, ...]
Read = tuple[tuple[Any, ...], ...]


class Violation(AssertionError):
    """A guarantee was broken."""


@dataclass(frozen=True, slots=True)
class Model:
    """Sorted rows, and the column names in order."""

    rows: tuple[Values, ...]
    columns: tuple[str, ...]

    def without(self, gone: Callable[[Values], bool]) -> Model:
        return replace(self, rows=tuple(row for row in self.rows if not gone(row)))

    def less(self, rows: Iterable[Values]) -> Model:
        """Without these rows, each once; a row that is not live cannot be deleted."""
        left, gone = Counter(self.rows), Counter(rows)
        if gone - left:
            raise Violation(f"rows are deleted that are not live: {list((gone - left).elements())}")
        return self.of((left - gone).elements())

    def plus(self, rows: Iterable[Values]) -> Model:
        return self.of([*self.rows, *rows])

    def of(self, rows: Iterable[Values]) -> Model:
        return replace(self, rows=tuple(sorted(rows, key=repr)))

    @property
    def reads(self) -> Read:
        """What a reader returns: the column names, then the rows."""
        width = len(self.columns) + 1
        return (self.columns, *sorted((row + (None,) * (width - len(row)) for row in self.rows), key=repr))


def read(version: Version, *, row_ids: bool) -> Read:
    """The rows of a version as a reader returns them, sorted like the model's; its files are read one by one."""
    columns = version.schema.columns
    found = []
    for entry in version.files.values():
        for position, row in enumerate(entry.file.rows):
            if position not in entry.deleted:
                values = tuple(row.get(column.field_id) for column in columns)
                found.append((row[ROW_ID] if row_ids else 0, *values))
    return (tuple(c.path[-1] for c in columns), *sorted(found, key=repr))
