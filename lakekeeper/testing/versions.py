"""The parts of a table of the memory lake, as values: columns, immutable files, live entries, versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from lakekeeper.core.model.keys import ClusterKey, KeyColumn, arrow_type, parse_column
from lakekeeper.errors import OptionError, nearest
from lakekeeper.testing.values import Row, Statistics, at_path, text

Kinds = Mapping[str, Union[str, "Kinds"]]
"""Columns by name: a kind of ``lakekeeper.core.model.keys``, another word for a kind without an order, or a struct."""

ROW_ID = "_row_id"
"""The hidden column that follows a row through every rewrite."""

LAYOUT = ("OPTIMIZE", "lakekeeper")
"""Operations that move rows and change none."""

Path = tuple[str, ...]

Span = tuple[str, int, int]
"""A range on a key's curve: the id of its boundaries, the first place, the last place."""


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of the schema; ``field_id`` outlives renames, and files use it to name columns."""

    path: Path
    kind: str
    field_id: str

    @property
    def orders(self) -> bool:
        """Whether the column can be a cluster key."""
        try:
            arrow_type(self.kind)
        except OptionError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Schema:
    """The leaves in order; ``id`` changes when they do."""

    columns: tuple[Column, ...]
    id: int = 0

    @property
    def kinds(self) -> dict[Path, str]:
        """Kind by column path."""
        return {c.path: c.kind for c in self.columns}

    def find(self, name: str) -> Column:
        """The column of a Spark SQL spelling; raises OptionError naming the nearest."""
        path = parse_column(name)
        for column in self.columns:
            if column.path == path:
                return column
        known = [KeyColumn(c.path, c.kind, c.field_id).name for c in self.columns]
        raise OptionError("columns", name, f"a column of the table{nearest(name, known)}")

    def key(self, names: Sequence[str], layout: str = "linear") -> ClusterKey:
        """A cluster key over named columns; raises OptionError for a column that is unknown or does not order."""
        found = [self.find(name) for name in names]
        for name, column in zip(names, found, strict=True):
            if not column.orders:
                raise OptionError("columns", name, f"an orderable column; its type is {column.kind}")
        return ClusterKey(tuple(KeyColumn(c.path, c.kind, c.field_id) for c in found), layout)

    def store(self, row: Row) -> Row:
        """A row as files keep it: by field id, flat."""
        return {c.field_id: at_path(row, c.path) for c in self.columns} | {ROW_ID: row[ROW_ID]}

    def load(self, stored: Row) -> Row:
        """A stored row under this schema: columns added since are None, dropped ones are left out."""
        row: Row = {ROW_ID: stored[ROW_ID]}
        for column in self.columns:
            place = row
            for step in column.path[:-1]:
                place = place.setdefault(step, {})
            place[column.path[-1]] = stored.get(column.field_id)
        return row


def columns_of(kinds: Kinds, first_id: int = 1, prefix: Path = ()) -> tuple[Column, ...]:
    """The leaves of a nested description, numbered from ``first_id``."""
    leaves = list(_leaves(kinds, prefix))
    return tuple(Column(path, kind, str(first_id + i)) for i, (path, kind) in enumerate(leaves))


def _leaves(kinds: Kinds, prefix: Path) -> Iterator[tuple[Path, str]]:
    for name, kind in kinds.items():
        if isinstance(kind, str):
            yield (*prefix, name), kind
        else:
            yield from _leaves(kind, (*prefix, name))


@dataclass(frozen=True, slots=True)
class DataFile:
    """An immutable file. ``statistics`` are by field id; a column without an entry has none.

    ``filters`` are the columns with a Bloom filter.
    """

    path: str
    spec: int
    partition: str
    rows: tuple[Row, ...]
    bytes: int
    statistics: Mapping[str, Statistics]
    filters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """A live file in a version, with its deleted positions and what a rewrite recorded about it."""

    file: DataFile
    added_at: int
    deleted: frozenset[int] = frozenset()
    delete_id: str = ""
    level: int = 0
    key_id: str = ""
    curve: Span | None = None

    @property
    def live(self) -> list[Row]:
        """Stored rows that are not deleted, in file order."""
        return [row for i, row in enumerate(self.file.rows) if i not in self.deleted]


@dataclass(frozen=True, slots=True)
class Version:
    """One commit and the table as it left it.

    ``dangling`` are delete files that no longer apply to any row; ``summary`` is what the writer recorded with it.
    """

    number: int
    at_ms: int
    operation: str
    schema: Schema
    run_id: str = ""
    files: Mapping[str, Entry] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()  # field ids
    spec: int = 0
    key: tuple[str, ...] = ()  # field ids
    layout: str = "linear"
    properties: Mapping[str, str] = field(default_factory=dict)
    dangling: tuple[str, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)

    def cluster_key(self) -> ClusterKey | None:
        """The stored key under the names that its columns have now."""
        by_id = {c.field_id: c for c in self.schema.columns}
        found = [by_id[i] for i in self.key if i in by_id]
        if not found or len(found) < len(self.key):
            return None
        return ClusterKey(tuple(KeyColumn(c.path, c.kind, c.field_id) for c in found), self.layout)

    def partition(self, stored: Row) -> str:
        """The canonical text of a stored row's partition values."""
        names = {c.field_id: ".".join(c.path) for c in self.schema.columns}
        return "/".join(f"{names[i]}={text(stored.get(i))}" for i in self.partition_by)


def of_columns(file: DataFile, at: Version) -> dict[Path, Statistics]:
    """A file's statistics under the names that its columns have in a version."""
    return {c.path: file.statistics[c.field_id] for c in at.schema.columns if c.field_id in file.statistics}


def row_bytes(stored: Row) -> int:
    """Size of a row: the length of its values as text."""
    return sum(len(text(value)) + 1 for name, value in stored.items() if name != ROW_ID)


def visible(row: Row) -> Row:
    """A row without its hidden column."""
    return {name: value for name, value in row.items() if name != ROW_ID}


def live_rows(entries: Iterable[Entry], schema: Schema) -> list[Row]:
    """All rows of entries under a schema, with their ids."""
    return [schema.load(stored) for entry in entries for stored in entry.live]


def row_ids(rows: Iterable[Row]) -> list[Any]:
    """The rows' ids, sorted: equal before and after a rewrite that lost or doubled no row."""
    return sorted(row[ROW_ID] for row in rows)
