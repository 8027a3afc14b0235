"""The memory adapter: a whole table format in a process, so that the engine's own tests need no JVM.

    lake = Lake()
    table = lake.create("db.t", {"k": "int", "v": "string"})
    table.append([{"k": 1, "v": "a"}, {"k": 9, "v": "b"}])
    adapter = MemoryFormat(lake).open(None, TableName("db.t", "memory", "db.t"))

It has the features of the formats (snapshot isolation, logical files, atomic commits, run ids in the log), counts its
accesses, can be made to fail, and refuses a commit that loses, doubles or brings back a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.block_changes import changed_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot, no_blocks
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.core.planning.successors import Replacement
from lakekeeper.core.units import Ints
from lakekeeper.errors import AdapterError, Conflict, NotFound, OptionError, Rejected, Unknown
from lakekeeper.spi import Capabilities, Commit, TableName
from lakekeeper.testing.bloom_filters import MemoryBloomFilters
from lakekeeper.testing.curves import span
from lakekeeper.testing.deletes import MemoryDeletes, fresh
from lakekeeper.testing.lake import LiveFileDiscarded, MemoryTable, Settings
from lakekeeper.testing.listing import blocks_of, may_match
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.predicate import parse
from lakekeeper.testing.restores import MemoryRestores
from lakekeeper.testing.row_counts import physical_rows
from lakekeeper.testing.statistics import MemoryStatistics
from lakekeeper.testing.storage import MemoryStorage
from lakekeeper.testing.undos import MemoryUndos
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import LAYOUT, DataFile, Entry, Kinds, Version, row_bytes

Parts = list[list[Row]]
"""Rows as the adapter reads them and the runner sorts them: one list for each range, as a DataFrame's partitions."""

_METADATA = ("schema", "partition_by", "spec", "key", "layout", "properties")
"""Parts of a version that decide how its files are seen."""

Fault = Literal["rejected", "unknown, landed", "unknown, lost"]


@dataclass(slots=True)
class Faults:
    """Faults in the next commits of maintenance.

    outcomes   one for each of the next attempts, in order
    races      one for each attempt, called after the last check of the engine and before the commit itself
    """

    outcomes: deque[Fault] = field(default_factory=deque)
    races: deque[Callable[[], object]] = field(default_factory=deque)


class MemoryAdapter:
    """One table of a :class:`Lake`, as ``lakekeeper.spi.Adapter[Parts]``."""

    def __init__(self, table: MemoryTable, name: str | None = None) -> None:
        self.store = table
        self.faults = Faults()
        self._name = name or table.name

    @property
    def table(self) -> str:
        """The name the caller gave."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """As the table's settings say; rows always keep their ids."""
        settings = self.store.settings
        return Capabilities(
            row_deletes=settings.row_deletes,
            stores_level=settings.stores_level,
            row_lineage=True,
            time_travel=True,
            native_key=settings.native_key,
        )

    def require_writable(self, options: Options) -> None:
        """Commits of a lake are atomic."""

    def properties(self) -> Mapping[str, str]:
        """The table's properties, as of now."""
        return dict(self.store.current.properties)

    def set_cluster_key(
        self, columns: Sequence[str], layout: str = "linear", *, native: bool = False, dry_run: bool = False
    ) -> KeyReport:
        """Store the key in the table's metadata, or remove it; raises OptionError."""
        if native and not self.store.settings.native_key:
            raise OptionError("native", native, "False: this table has no place for a key of its own")
        before = self.store.current.cluster_key()
        after = self.store.checked_key(columns, layout)
        if not dry_run:
            self.store.set_key(columns, layout)
        return KeyReport(self.table, dry_run, str(before or ""), str(after or ""), "metadata")

    # -- snapshot -----------------------------------------------------------------------------------------------

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The newest version as blocks; reads no data file."""
        self.store.touched.snapshots += 1
        return self.seen(self.store.current, columns, where)

    def seen(self, now: Version, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """A version, as a snapshot of it would have shown it."""
        key = now.schema.key(columns) if columns else now.cluster_key()
        self.store.require_key([c.name for c in key.columns] if key else None)
        entries = list(now.files.values())
        if where is not None:
            means = parse(where, now.schema.kinds)
            entries = [entry for entry in entries if may_match(means, entry.file, now)]
        return Snapshot(
            table=self.table,
            format="memory",
            version=now.number,
            table_uuid=self.store.uuid,
            schema_id=f"{now.schema.id}.{now.spec}",
            key=key,
            blocks=self.blocks(entries, key),
            complete=where is None,
            properties=dict(now.properties),
            commits_ms=self._commits_ms(),
        )

    def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
        """The snapshot with the files that were removed, changed or added since; None after a change of metadata."""
        now = self.store.current
        if snapshot.table_uuid != self.store.uuid or snapshot.version is None:
            return None
        if snapshot.version == now.number:
            return snapshot
        then = self.store.version(snapshot.version)
        if any(getattr(then, name) != getattr(now, name) for name in _METADATA):
            return None
        touched = {path for path in then.files if now.files.get(path) is not then.files[path]}
        fresh_entries = [
            entry for path, entry in now.files.items() if path in touched or path not in then.files
        ]
        blocks = changed_blocks(snapshot.blocks, touched, self.blocks(fresh_entries, snapshot.key))
        return replace(snapshot, version=now.number, blocks=blocks, commits_ms=self._commits_ms())

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        """The files of the snapshot's version that may hold a match."""
        then = self.store.version(-1 if snapshot.version is None else snapshot.version)
        columns = [column.name for column in snapshot.key.columns] if snapshot.key else None
        found = set(self.seen(then, columns, where).blocks.path.to_pylist())
        chosen = np.array([path in found for path in snapshot.blocks.path.to_pylist()], np.bool_)
        return replace(snapshot, blocks=snapshot.blocks.take(chosen), complete=False)

    def blocks(self, entries: Sequence[Entry], key: ClusterKey | None) -> BlockSet:
        """Live files; their rows are counted if the log does not record the number."""
        rows = physical_rows(self.store, [entry.file for entry in entries])
        return blocks_of(entries, rows, key, stores_level=self.store.settings.stores_level)

    def _commits_ms(self) -> Ints:
        written = [v.at_ms for v in self.store.versions if v.operation in ("WRITE", "OVERWRITE", "DELETE")]
        return np.array(written, np.int64)

    def version(self) -> Snapshot:
        """The newest version without key and blocks."""
        now = self.store.current
        return Snapshot(
            table=self.table,
            format="memory",
            version=now.number,
            table_uuid=self.store.uuid,
            schema_id=f"{now.schema.id}.{now.spec}",
            key=None,
            blocks=no_blocks(),
            complete=False,
            properties=dict(now.properties),
        )

    # -- a rewrite ----------------------------------------------------------------------------------------------

    def read(self, task: MergeTask) -> Parts:
        """The live rows of the inputs as of the task's version, a part for each input."""
        pinned = self.store.version(task.read_version)
        parts: Parts = []
        for path, delete_id in zip(task.inputs, task.delete_ids, strict=True):
            entry = pinned.files.get(path)
            if entry is None or entry.delete_id != delete_id:
                raise AdapterError(
                    f"{self.table}: version {pinned.number} has no logical file {path} {delete_id!r}"
                )
            with self.store.lock:
                self.store.touched.data_reads.append(path)
            parts.append([pinned.schema.load(stored) for stored in entry.live])
        return parts

    def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        """Write each part separately, cut at the task's targets, under the current spec of the table."""
        if not task.live_rows and self.none_lives(task):
            return Rewrite(task, (), rows_in=0, native=(), run_id=run_id)
        pinned, now = self.store.version(task.read_version), self.store.current
        run = run_folder(task.table_uuid, run_id)
        files: list[DataFile] = []
        for part in rows:
            by_place: dict[str, list[Row]] = {}
            for row in part:
                stored = pinned.schema.store(row)
                by_place.setdefault(now.partition(stored), []).append(stored)
            for place in by_place.values():
                chunks = _cut(place, task, self.store.settings.byte_scale)
                files += [self.store.write_file(now, chunk, run=run) for chunk in chunks]
        outputs = tuple(Output(f.path, len(f.rows), f.bytes) for f in files)
        live = sum(len(pinned.files[path].live) for path in task.inputs)
        return Rewrite(task, outputs, rows_in=live, native=self._entries(files, task), run_id=run_id)

    def none_lives(self, task: MergeTask) -> bool:
        """Whether no row of the inputs is live, as the files show it, whatever the plan counted."""
        pinned = self.store.version(task.read_version)
        return not any(pinned.files[path].live for path in task.inputs)

    def _entries(self, files: Sequence[DataFile], task: MergeTask) -> tuple[Entry, ...]:
        """Files that no version names yet, each with its range on the curve where the table keeps such."""
        if not self.store.settings.stores_curve:
            return tuple(map(fresh, files))
        schema = self.store.version(task.read_version).schema
        return tuple(replace(fresh(f), curve=span([schema.load(r) for r in f.rows], task)) for f in files)

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        """One attempt; raises Conflict, Rejected or Unknown."""
        fault = self.attempt()
        with self.store.lock:
            now = self.store.current
            self.check_inputs(rewrites, snapshot)
            tagged = self.store.settings.stores_level
            moved = [self.store.disk[output.path] for r in rewrites for output in r.moved]
            change = replacement(rewrites, now, tagged=tagged)
            change = replace(
                change, files={**change.files, **{f.path: Entry(f, now.at_ms + 1000) for f in moved}}
            )
            number = self.store.apply("lakekeeper", lambda _: change, run_id)
        self.answer(fault)
        removed = tuple(path for r in rewrites for path, is_now in r.inputs_now.items() if is_now is not None)
        return Commit(
            version=number,
            run_id=run_id,
            removed=removed,
            added=tuple(path for r in rewrites for path in r.added),
            removed_delete_files=sum(1 for path in removed if now.files[path].delete_id),
        )

    def attempt(self) -> Fault | None:
        """Count an attempt to commit, let a race happen, and raise the fault that is due before the commit.

        A fault that is due after the commit is returned, for :meth:`answer`.
        """
        self.store.touched.attempts += 1
        if self.faults.races:
            self.faults.races.popleft()()
        fault = self.faults.outcomes.popleft() if self.faults.outcomes else None
        if fault == "rejected":
            raise Rejected(f"{self.table}: the commit was refused")
        if fault == "unknown, lost":
            raise Unknown(f"{self.table}: no answer to the commit")
        return fault

    def answer(self, fault: Fault | None) -> None:
        """The response to an attempt that has landed: raises Unknown if the response is lost."""
        if fault == "unknown, landed":
            raise Unknown(f"{self.table}: no answer to the commit")

    @property
    def deletes(self) -> MemoryDeletes:
        """The row-level half."""
        return MemoryDeletes(self)

    @property
    def columnar(self) -> None:
        """A table in memory has no Parquet files."""

    @property
    def restores(self) -> MemoryRestores:
        """How deleted rows are restored."""
        return MemoryRestores(self)

    @property
    def undos(self) -> MemoryUndos:
        """How runs are undone."""
        return MemoryUndos(self)

    @property
    def statistics(self) -> MemoryStatistics:
        """How statistics are computed."""
        return MemoryStatistics(self)

    @property
    def bloom_filters(self) -> MemoryBloomFilters:
        """Bloom filters of its files."""
        return MemoryBloomFilters(self.store)

    @property
    def notes(self) -> MemoryNotes:
        """What is kept beside the table."""
        return MemoryNotes(self.store)

    @property
    def storage(self) -> MemoryStorage:
        """The table's files."""
        return MemoryStorage(self.store)

    def release(self, task: MergeTask) -> None:
        """Without effect: nothing is held."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Remove outputs and extra files from the disk; those already gone are no error."""
        with self.store.lock:
            live = {path for version in self.store.versions for path in version.files}
            for path in (path for rewrite in rewrites for path in rewrite.paths):
                if path in live:
                    raise LiveFileDiscarded(self.table, path)
                if self.store.disk.pop(path, None) is not None:
                    self.store.touched.discarded.append(path)

    def changes_since(self, snapshot: Snapshot) -> Changes:
        """What was committed since, from the versions themselves."""
        with self.store.lock:
            then, now = self.store.version(snapshot.version), self.store.current
            since = self.store.versions[then.number + 1 :]
        winners, obstacle = tuple(map(_winner_of, since)), self._obstacle(snapshot, then, now)
        if obstacle:  # as in real logs, what happened to the files is then not known
            return Changes(now.number, winners, obstacle=obstacle)
        still = {p: now.files[p].delete_id for p in then.files if p in now.files}
        return Changes(
            version=now.number,
            winners=winners,
            removed=frozenset(p for p in then.files if p not in now.files),
            delete_ids={p: d for p, d in still.items() if d != then.files[p].delete_id},
            replacements=tuple(_replacement(a, b, then) for a, b in pairwise([then, *since])),
        )

    def _obstacle(self, snapshot: Snapshot, then: Version, now: Version) -> Reason | None:
        if snapshot.table_uuid != self.store.uuid:
            return Reason.of(Code.TABLE_RECREATED)
        changed = (then.schema, then.spec) != (now.schema, now.spec)
        return Reason.of(Code.SCHEMA_CHANGED) if changed else None

    def check_inputs(self, rewrites: Sequence[Rewrite], snapshot: Snapshot) -> None:
        """Raise Conflict for a lost race; AdapterError if a rewrite does not hold the rows that it read."""
        changes = self.changes_since(snapshot)
        now = self.store.current
        if changes.obstacle:
            raise Conflict(f"{self.table}: {changes.obstacle}", _winner(changes.winners))
        taken: set[str] = set()
        for rewrite in rewrites:
            task = rewrite.task
            for path, expected in rewrite.inputs_now.items():
                entry = now.files.get(path)
                if (entry.delete_id if entry else None) != expected:
                    winner = self.toucher(path, expected)
                    raise Conflict(f"{self.table}: {path} was changed by {winner}", winner)
                if path in taken:
                    raise AdapterError(f"{self.table}: {path} is an input of two rewrites of one commit")
                taken.add(path)
            read = (now.files.get(path) for path in rewrite.inputs_now)
            before = self.deletes.identities(read, now)
            moved = (fresh(self.store.disk[output.path]) for output in rewrite.moved)
            after = self.deletes.identities((*rewrite.native, *moved), now)
            if before != after:
                raise AdapterError(
                    f"{self.table}: task {task.id} read {len(before)} rows and wrote {len(after)} others"
                )
            if any(entry.file.path not in self.store.disk for entry in rewrite.native):
                raise AdapterError(f"{self.table}: an output of task {task.id} is gone from the disk")

    def toucher(self, path: str, delete_id: str | None) -> str:
        """The first commit after which the logical file no longer existed."""
        was = False
        for version in self.store.versions:
            entry = version.files.get(path)
            same = (entry.delete_id if entry else None) == delete_id
            if was and not same:
                return str(Winner(version.number, version.operation, version.run_id))
            was = was or same
        return "no version: it never existed"


def _winner_of(version: Version) -> Winner:
    return Winner(
        version.number,
        version.operation,
        version.run_id,
        layout=version.operation in LAYOUT,
        appends=version.operation == "WRITE",
        at_ms=version.at_ms,
    )


def _replacement(before: Version, after: Version, read: Version) -> Replacement:
    """What a commit removed and added; a file that came after ``read`` is removed if its deletes change."""
    was = {path: entry.delete_id for path, entry in before.files.items()}
    came = {path: entry for path, entry in after.files.items() if path not in was}
    masked = {
        path
        for path, entry in after.files.items()
        if path not in read.files and was.get(path, entry.delete_id) != entry.delete_id
    }
    plain = after.operation not in LAYOUT and not any(entry.deleted for entry in came.values())
    gone = frozenset(was.keys() - after.files.keys()) | masked
    return Replacement(gone, frozenset(came), plain and not masked)


def _winner(winners: Sequence[Winner]) -> str:
    return ", ".join(map(str, winners))


def _cut(rows: Iterable[Row], task: MergeTask, scale: int) -> Iterable[list[Row]]:
    """Rows cut at the target rows or bytes, whichever comes first, and always before the maximum."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        grown = row_bytes(row) * scale
        crowded = task.target_rows is not None and len(chunk) >= task.target_rows
        full = crowded or size >= task.target_bytes or size + grown > task.max_bytes
        if chunk and full:
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += grown
    if chunk:
        yield chunk


def replacement(rewrites: Sequence[Rewrite], now: Version, *, tagged: bool) -> Version:
    """The version in which outputs replace inputs."""
    gone = {path for r in rewrites for path in r.inputs_now}
    files = {path: entry for path, entry in now.files.items() if path not in gone}
    for rewrite in rewrites:
        task = rewrite.task
        key_id = task.key.key_id if task.key and tagged else ""
        level = task.level if tagged else 0
        for entry in rewrite.native:
            files[entry.file.path] = replace(entry, added_at=now.at_ms + 1000, level=level, key_id=key_id)
    return replace(now, files=files)


class Lake:
    """Tables by name: the registry that :class:`MemoryFormat` opens them from."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def create(
        self,
        name: str,
        kinds: Kinds,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> MemoryTable:
        """A new, empty table; raises OptionError if the name is taken."""
        if name in self.tables:
            raise OptionError("name", name, "a name that no table has")
        made = MemoryTable(name, kinds, partition_by=partition_by, properties=properties, settings=settings)
        self.tables[name] = made
        return made


class MemoryFormat:
    """``lakekeeper.spi.Format`` over a lake; ``spark`` is ignored."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    @property
    def name(self) -> str:
        """As a catalog would spell the provider."""
        return "memory"

    def open(self, spark: Any, identifier: TableName) -> MemoryAdapter:
        """The adapter of one table; raises NotFound."""
        found = self.lake.tables.get(identifier.text)
        if found is None:
            raise NotFound(identifier.text, "no such table in the lake")
        return MemoryAdapter(found, identifier.text)

    def refused(self, table: str, error: BaseException) -> None:
        """None: the lake opens all its tables."""

    def examine(self, spark: Any) -> tuple[()]:
        """No findings: nothing can be wrong with a lake in memory."""
        return ()

    def keeps_files(
        self,
        spark: Any,
        identifier: TableName,
        tables: Callable[[str], Sequence[Any]],
        allowed: Sequence[str] = (),
    ) -> str:
        """The property ``keeps-files`` of the table; empty without it, since tables of the lake share no files."""
        return self.open(spark, identifier).properties().get("keeps-files", "")

    def lost_race(self, error: BaseException) -> bool:
        """Whether it is a Conflict: writers of the lake themselves never lose a race."""
        return isinstance(error, Conflict)
