"""A table in memory, as its users see it: versions, writers, time travel, and counters of all accesses.

Commits are atomic under one lock; files are immutable; an older version always reads the same. Writers
ignore maintenance, and win every race against it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.vacuum.retention import Ref
from lakekeeper.errors import NotFound, OptionError
from lakekeeper.testing.predicate import parse
from lakekeeper.testing.values import Row, Statistics, fingerprint, statistics
from lakekeeper.testing.versions import (
    ROW_ID,
    Column,
    DataFile,
    Entry,
    Kinds,
    Schema,
    Version,
    columns_of,
    live_rows,
    row_bytes,
    visible,
)

Where = Callable[[Row], bool] | str
"""Which rows a writer means: a function of a row, or a predicate's text."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the table's writers behave.

    truncate         the number of characters that bounds of text and binary keep (None: all)
    milliseconds     bounds of timestamps are rounded to milliseconds
    no_statistics    columns without statistics in any file
    measured         users' writers store statistics, and so row counts, with their files; rewrites always do
    location         the table's folder, as the file system spells it ("": the table's name)
    byte_scale       the bytes that a byte of text represents, so that small rows make large files
    row_deletes, stores_level, native_key    as in the capabilities
    stores_curve     each file of a rewrite is stored with its own range on the key's curve
    row_ids          lost rows are identified by their ids, otherwise by their values
    finds_rows       lost rows are found directly, otherwise by a scan of all rows
    counts_rows      the log records the number of rows that deletes remove
    linear           versions stay in the log, and a kept one keeps all later ones, as in Delta; else they expire singly
    format_version   as Iceberg's: what sinks check from 3 on (lakekeeper.core.vacuum.stream_positions)
    serializable     a delete fails if rows that may match were added since its search; otherwise they count as later
    """

    truncate: int | None = None
    milliseconds: bool = False
    no_statistics: frozenset[str] = frozenset()
    measured: bool = True
    location: str = ""
    byte_scale: int = 1
    row_deletes: bool = True
    row_ids: bool = True
    finds_rows: bool = True
    counts_rows: bool = True
    stores_level: bool = True
    stores_curve: bool = True
    native_key: bool = True
    linear: bool = True
    format_version: int = 2
    serializable: bool = True


@dataclass(slots=True)
class Touched:
    """Accesses since the table was created; the lists hold a path for each access."""

    data_reads: list[str] = field(default_factory=list)
    footers: list[str] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    snapshots: int = 0
    commits: int = 0
    attempts: int = 0
    listings: int = 0
    deleted: list[str] = field(default_factory=list)


class LiveFileDiscarded(BaseException):
    """A live file was to be deleted as an uncommitted one: a fault of the caller, which must not handle it.

    The engine handles every Exception of a removal.
    """

    def __init__(self, table: str, path: str) -> None:
        super().__init__(f"{table}: {path} is part of the table and was to be discarded")


class MemoryTable:
    """One table. Times are counted, not read from a clock: each commit is a second after the one before."""

    def __init__(
        self,
        name: str,
        kinds: Kinds,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.name = name
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
        self.settings = settings or Settings()
        self.location = self.settings.location or name
        self.lock = threading.RLock()
        self.disk: dict[str, DataFile] = {}
        self.made_at: dict[str, int] = {}
        self.notes: dict[str, str] = {}
        self.refs: dict[str, Ref] = {}
        self.expired: set[int] = set()
        self.stuck: set[str] = set()
        self.foreign_tables: tuple[str, ...] = ()
        self.before: Callable[[str], object] = lambda _what: None
        self.touched = Touched()
        self._jump_ms = 0
        self._numbers = {"row": 0, "file": 0, "delete": 0, "column": 0}
        columns = columns_of(kinds)
        self._numbers["column"] = len(columns)
        schema = Schema(columns)
        parts = tuple(schema.find(c).field_id for c in partition_by)
        self.versions = [
            Version(0, 1000, "CREATE", schema, partition_by=parts, properties=dict(properties or {}))
        ]

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Version:
        """The newest version."""
        return self.versions[-1]

    def version(self, number: int | None = None) -> Version:
        """A version by number, or the newest; raises NotFound."""
        if number is not None and not 0 <= number < len(self.versions):
            raise NotFound(self.name, f"no version {number}")
        return self.current if number is None else self.versions[number]

    def rows(self, version: int | None = None) -> list[Row]:
        """All live rows of a version, under its own schema."""
        pinned = self.readable(version)
        return [visible(row) for row in live_rows(pinned.files.values(), pinned.schema)]

    def fingerprint(self, version: int | None = None) -> tuple[str, ...]:
        """The multiset of a version's rows with their row ids."""
        pinned = self.readable(version)
        return fingerprint(live_rows(pinned.files.values(), pinned.schema))

    def readable(self, number: int | None) -> Version:
        """A version all of whose files exist; NotFound if it expired or lost a file."""
        pinned = self.version(number)
        if pinned.number in self.expired:
            raise NotFound(self.name, f"version {pinned.number} expired")
        gone = [path for path in pinned.files if path not in self.disk]
        if gone:
            raise NotFound(self.name, f"version {pinned.number} names {gone[0]}, which is gone from the disk")
        return pinned

    def leftovers(self) -> set[str]:
        """Files on the disk that no version names."""
        named = {path for v in self.versions if v.number not in self.expired for path in v.files}
        return {path for path in self.disk if not path.startswith("_lakekeeper/")} - named

    # -- writers ------------------------------------------------------------------------------------------------

    def append(self, *batches: Sequence[Row], with_statistics: bool = True) -> int:
        """One commit that adds a file for each batch (and partition); the new version's number."""
        entries = [
            entry for batch in batches for entry in self._entries(batch, with_statistics=with_statistics)
        ]
        return self.apply("WRITE", lambda now: _with_files(now, add=entries))

    def delete(self, where: Where) -> int:
        """Delete rows: by position where the table supports it, else by rewriting the files."""
        means = self._means(where)

        def change(now: Version) -> Version:
            drop: list[str] = []
            add: list[Entry] = []
            for path, entry in now.files.items():
                hit = {
                    i
                    for i, stored in enumerate(entry.file.rows)
                    if i not in entry.deleted and means(now.schema.load(stored))
                }
                if not hit:
                    continue
                drop.append(path)
                if len(hit) + len(entry.deleted) == len(entry.file.rows):
                    continue  # no row is left: the whole file is removed
                if self.settings.row_deletes:
                    add.append(
                        replace(entry, deleted=entry.deleted | hit, delete_id=self._next("delete", "dv"))
                    )
                else:
                    kept = [row for i, row in enumerate(entry.file.rows) if i not in hit | entry.deleted]
                    add.append(Entry(self.write_file(now, kept), self._now(now)))
            return _with_files(now, drop=drop, add=add)

        return self.apply("DELETE", change)

    def update(self, where: Where, values: Row) -> int:
        """Set leaves of rows, which keep their ids, by rewriting the files."""
        means = self._means(where)
        schema = self.current.schema
        new = {schema.find(name).field_id: value for name, value in values.items()}

        def change(now: Version) -> Version:
            drop: list[str] = []
            add: list[Entry] = []
            for path, entry in now.files.items():
                if any(means(now.schema.load(row)) for row in entry.live):
                    rows = [{**row, **new} if means(now.schema.load(row)) else row for row in entry.live]
                    drop.append(path)
                    add.append(Entry(self.write_file(now, rows), self._now(now)))
            return _with_files(now, drop=drop, add=add)

        return self.apply("UPDATE", change)

    def overwrite(self, *batches: Sequence[Row]) -> int:
        """Replace all rows, in one commit."""
        entries = [entry for batch in batches for entry in self._entries(batch)]
        return self.apply("OVERWRITE", lambda now: _with_files(now, drop=list(now.files), add=entries))

    def drop_files(self, *paths: str) -> int:
        """Remove whole files from the table."""
        return self.apply("DELETE", lambda now: _with_files(now, drop=paths))

    def rewrite_foreign(self, *paths: str) -> int:
        """Compact files (default: all) as another engine does, into one per partition: level and key are lost."""

        def change(now: Version) -> Version:
            chosen = paths or tuple(now.files)
            by_place: dict[tuple[int, str], list[Row]] = {}
            for path in chosen:
                entry = now.files[path]
                by_place.setdefault((entry.file.spec, entry.file.partition), []).extend(entry.live)
            made = [Entry(self.write_file(now, rows), self._now(now)) for rows in by_place.values() if rows]
            return _with_files(now, drop=chosen, add=made)

        return self.apply("OPTIMIZE", change)

    def leave_dangling(self, count: int = 1) -> int:
        """Leave delete files behind, as a writer may, that apply to no row."""
        left = tuple(self.next_delete() for _ in range(count))
        return self.apply("DELETE", lambda now: replace(now, dangling=now.dangling + left))

    def tag(self, name: str, number: int, **retention: int) -> None:
        """Tag a version, so that it is kept; ``retention`` as in ``Ref``."""
        with self.lock:
            self.refs[name] = Ref(name, number, branch=False, **retention)

    def later(self, ms: int) -> None:
        """Let time pass before the next commit."""
        self._jump_ms += ms

    @property
    def now_ms(self) -> int:
        """The time, as the table counts it."""
        return self.current.at_ms + self._jump_ms

    def set_property(self, name: str, value: str) -> int:
        """Set one table property."""
        return self.apply(
            "SET PROPERTIES", lambda now: replace(now, properties={**now.properties, name: value})
        )

    def set_key(self, columns: Sequence[str], layout: str = "linear") -> int:
        """Store the cluster key, or remove it if there are no columns."""
        key = self.checked_key(columns, layout)
        ids = tuple(c.field_id for c in key.columns) if key else ()
        return self.apply("CLUSTER BY", lambda now: replace(now, key=ids, layout=layout if key else "linear"))

    def checked_key(self, columns: Sequence[str], layout: str = "linear") -> ClusterKey | None:
        """The key of these columns, None without columns; OptionError if they cannot be a key."""
        if not columns:
            return None
        key = self.current.schema.key(columns, layout)
        for column in key.columns:
            self._require_statistics(column.name)
        return key

    def require_key(self, columns: Sequence[str] | None) -> None:
        """Raise OptionError for key columns that no file has statistics for."""
        for name in columns or ():
            self._require_statistics(name)

    def _require_statistics(self, name: str) -> None:
        if name in self.settings.no_statistics:
            raise OptionError(
                "columns", name, "a column with statistics: take it out of Settings.no_statistics"
            )

    # -- schema and partitioning ----------------------------------------------------------------------------------

    def add_column(self, name: str, kind: str) -> int:
        """Add a column at the end; rows written before have None there."""
        self._numbers["column"] += 1
        column = columns_of({name: kind}, self._numbers["column"])
        return self._set_columns((*self.current.schema.columns, *column))

    def rename_column(self, old: str, new: str) -> int:
        """Rename a leaf; its position stays."""
        found = self.current.schema.find(old)
        renamed = replace(found, path=(*found.path[:-1], new))
        return self._set_columns(tuple(renamed if c == found else c for c in self.current.schema.columns))

    def drop_column(self, name: str) -> int:
        """Drop a leaf; older versions still show it."""
        found = self.current.schema.find(name)
        return self._set_columns(tuple(c for c in self.current.schema.columns if c != found))

    def repartition(self, *columns: str) -> int:
        """Set another partition spec for new files; existing files keep theirs."""
        parts = tuple(self.current.schema.find(c).field_id for c in columns)
        return self.apply("SET SPEC", lambda now: replace(now, partition_by=parts, spec=now.spec + 1))

    def _set_columns(self, columns: tuple[Column, ...]) -> int:
        return self.apply("SET SCHEMA", lambda now: replace(now, schema=Schema(columns, now.schema.id + 1)))

    # -- what adapters and writers build on -----------------------------------------------------------------------

    def apply(
        self,
        operation: str,
        change: Callable[[Version], Version],
        run_id: str = "",
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """Apply ``change`` to the newest version atomically; returns the number of the new version."""
        with self.lock:
            now = self.current
            made = change(now)
            number, made_ms = now.number + 1, self._now(now)
            self._jump_ms = 0
            made = replace(made, number=number, at_ms=made_ms, operation=operation)
            self.versions.append(replace(made, run_id=run_id, summary=dict(summary or {})))
            self.touched.commits += 1
            return number

    def write_file(
        self, at: Version, stored: Sequence[Row], *, with_statistics: bool = True, run: str = ""
    ) -> DataFile:
        """Put a file on the disk, in the folder of a run if one is given; no version names it yet.

        Its rows are of one partition. If the table's writers store no statistics, only runs do.
        """
        with_statistics = with_statistics and (self.settings.measured or bool(run))
        built = DataFile(
            path=self._next("file", f"data/{run}/f" if run else "data/f"),
            spec=at.spec,
            partition=at.partition(stored[0]),
            rows=tuple(stored),
            bytes=sum(map(row_bytes, stored)) * self.settings.byte_scale,
            statistics=self.measured(at, stored) if with_statistics else {},
            filters=frozenset(at.properties.get("bloom-filters", "").split(",")),
        )
        with self.lock:
            self.disk[built.path] = built
            self.made_at[built.path] = self._now(self.current)
        return built

    def measured(self, at: Version, stored: Sequence[Row]) -> dict[str, Statistics]:
        """The statistics of stored rows, by field id."""
        return {
            c.field_id: statistics(
                [row.get(c.field_id) for row in stored],
                self.settings.truncate,
                milliseconds=self.settings.milliseconds,
            )
            for c in at.schema.columns
            if self._has_statistics(c)
        }

    def next_row(self) -> int:
        """A new row id."""
        return self.next_number("row")

    def deleted(self, path: str, delete_id: str | None) -> frozenset[int]:
        """The deleted positions of a file; all positions for None, which means that the file is gone."""
        for version in reversed(self.versions):
            entry = version.files.get(path)
            if entry is not None and delete_id is None:
                return frozenset(range(len(entry.file.rows)))
            if entry is not None and entry.delete_id == delete_id:
                return entry.deleted
        raise NotFound(self.name, f"no file {path} with deletes {delete_id!r}")

    def next_delete(self) -> str:
        """A new id for the deletes of a file."""
        return self._next("delete", "dv")

    def _has_statistics(self, column: Column) -> bool:
        return column.orders and ".".join(column.path) not in self.settings.no_statistics

    def _entries(self, rows: Sequence[Row], *, with_statistics: bool = True) -> list[Entry]:
        now = self.current
        by_place: dict[str, list[Row]] = {}
        for row in rows:
            stored = now.schema.store({**row, ROW_ID: self.next_number("row")})
            by_place.setdefault(now.partition(stored), []).append(stored)
        return [
            Entry(self.write_file(now, part, with_statistics=with_statistics), self._now(now))
            for part in by_place.values()
        ]

    def _means(self, where: Where) -> Callable[[Row], bool]:
        return parse(where, self.current.schema.kinds) if isinstance(where, str) else where

    def _now(self, version: Version) -> int:
        return version.at_ms + 1000 + self._jump_ms

    def next_number(self, what: str) -> int:
        with self.lock:
            self._numbers[what] += 1
            return self._numbers[what]

    def _next(self, what: str, prefix: str) -> str:
        return f"{prefix}{self.next_number(what):06d}"


def _with_files(now: Version, *, drop: Iterable[str] = (), add: Iterable[Entry] = ()) -> Version:
    gone = set(drop)
    kept: dict[str, Any] = {path: entry for path, entry in now.files.items() if path not in gone}
    return replace(now, files={**kept, **{entry.file.path: entry for entry in add}})
