"""The row-level half of the memory adapter: which rows are deleted, where they are now, and how to delete them.

Rows are known by their ids, or (``Settings.row_ids`` off) by their values only, as in formats without lineage.
If the table does not support row-level deletes, files are rewritten without the rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import applied_now
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.spi import Commit, Followed, Held, Lost, Places, Prepared, Remains, Tidied, Traces
from lakekeeper.testing.lake import LiveFileDiscarded
from lakekeeper.testing.listing import may_match, must_match
from lakekeeper.testing.predicate import parse
from lakekeeper.testing.values import Row, text
from lakekeeper.testing.versions import LAYOUT, ROW_ID, DataFile, Entry, Version

if TYPE_CHECKING:
    from lakekeeper.testing.memory import MemoryAdapter, Parts

_Rows = frozenset[int]


class MemoryDeletes:
    """``lakekeeper.spi.RowDeletes[Parts]`` over the table of a :class:`MemoryAdapter`."""

    def __init__(self, adapter: MemoryAdapter) -> None:
        self._adapter = adapter
        self._store = adapter.store

    def compared(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Followed | None:
        """None if the settings require a scan."""
        if not self._store.settings.finds_rows:
            return None
        return followed(self.remains(rewrite, snapshot, changes, files))

    def remains(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Remains[Parts]:
        """The rows of the inputs that are gone, and those of their successors."""
        task, now = rewrite.task, self._store.version(changes.version)
        then = self._store.version(task.read_version)
        read = self._read([path for path in task.inputs if path in changes.removed], then)
        left = [row for path in files for row in self._rows_of(now.files[path].file, then)]
        return Remains([read], [left], {path: len(now.files[path].file.rows) for path in files})

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        """Rows of the inputs deleted since the last replay. Raises Conflict if rows came back since the read."""
        now = self._dead_now(rewrite.task, changes, followed)
        base, dead = rewrite, self.dead_since(rewrite, now)
        if dead is None and rewrite.unmasked is not None:
            base, dead = rewrite.written, self.dead_since(rewrite.written, now)
        if dead is None:
            raise Conflict(f"{self._adapter.table}: rows came back after they were deleted")
        rows = sum(map(len, dead.values()))
        return Lost(
            rewrite, base, changes, rows if self._store.settings.counts_rows else None, dead, followed
        )

    def _dead_now(self, task: MergeTask, changes: Changes, followed: Followed | None) -> Mapping[str, _Rows]:
        """Input → all positions that are deleted now."""
        now = self._store.version(changes.version)
        left = followed.missing if followed is not None and followed.files else None
        return {
            path: self._dead_of(path, read, now.files[path].delete_id if path in now.files else None, left)
            for path, read in zip(task.inputs, task.delete_ids, strict=True)
        }

    def dead_since(self, rewrite: Rewrite, now: Mapping[str, _Rows]) -> dict[str, list[int]] | None:
        """Input → positions deleted since the rewrite was read or masked; None if some rows came back."""
        found = {}
        for path, was in self.reflected(rewrite).items():
            if was - now[path]:
                return None
            found[path] = sorted(now[path] - was)
        return found

    def reflected(self, rewrite: Rewrite) -> Mapping[str, _Rows]:
        """Input → the deleted positions that the outputs reflect."""
        task = rewrite.task
        applied = rewrite.applied or task.delete_ids
        left = self._missing(rewrite) if rewrite.successors else None
        return {
            path: self._dead_of(path, read, deletes, left)
            for path, read, deletes in zip(task.inputs, task.delete_ids, applied, strict=True)
        }

    def _dead_of(self, path: str, read: str, deletes: str | None, left: Places | None) -> _Rows:
        """The deleted rows of an input: all of one that is gone, or those ``left`` out of its successors."""
        if deletes is None and left is not None:
            return self._store.deleted(path, read) | frozenset(left.get(path, ()))
        return self._store.deleted(path, deletes)

    def _missing(self, rewrite: Rewrite) -> Places:
        """The rows that a rewrite's successors lack, as its last replay found them."""
        task, then = rewrite.task, self._store.version(rewrite.task.read_version)
        gone = [path for path, now in zip(task.inputs, rewrite.applied, strict=True) if now is None]
        files = {path: self._store.disk[path] for path in rewrite.successors or ()}
        left = [row for file in files.values() for row in self._rows_of(file, then)]
        sizes = {path: len(file.rows) for path, file in files.items()}
        return followed(Remains([self._read(gone, then)], [left], sizes)).missing

    def _read(self, paths: Iterable[str], then: Version) -> list[Row]:
        """The rows of inputs that were live when they were read."""
        entries = [then.files[path] for path in paths]
        return [
            row
            for entry in entries
            for row in self._rows_of(entry.file, then)
            if row["position"] not in entry.deleted
        ]

    def _rows_of(self, file: DataFile, then: Version) -> list[Row]:
        """All rows of a file with their places."""
        return [
            {"row": self._whole(row, then), "file": file.path, "position": i}
            for i, row in enumerate(file.rows)
        ]

    def _whole(self, stored: Row, at: Version) -> Row:
        """All values of a row, and its id if rows have one."""
        return self._identity(stored, at) if not self._store.settings.row_ids else at.schema.load(stored)

    def places(self, lost: Lost) -> Mapping[str, Sequence[int]] | None:
        """Places of the lost rows, by id or by values as in Spark; None if the settings require a scan."""
        if not self._store.settings.finds_rows:
            return None
        wanted = Counter(text(row["row"]) for part in self.traces(lost).lost for row in part)
        found: dict[str, list[int]] = defaultdict(list)
        for row in (row for part in self.traces(lost).written for row in part):
            if wanted[text(row["row"])] > 0:
                wanted[text(row["row"])] -= 1
                found[row["file"]].append(row["position"])
        return found

    def traces(self, lost: Lost) -> Traces[Parts]:
        """The lost rows as they were read, and the rows of the outputs that are not masked."""
        then = self._store.version(lost.rewrite.task.read_version)
        rows = [
            {"row": self._identity(then.files[path].file.rows[i], then)}
            for path, at in lost.native.items()
            for i in at
        ]
        written = [
            {"row": self._identity(row, then), "file": entry.file.path, "position": i}
            for entry in lost.base.native
            for i, row in enumerate(entry.file.rows)
            if i not in entry.deleted
        ]
        return Traces([rows], [written])

    def _identity(self, stored: Row, at: Version) -> Any:
        if self._store.settings.row_ids:
            return stored[ROW_ID]
        return {name: value for name, value in at.schema.load(stored).items() if name != ROW_ID}

    def identities(self, entries: Iterable[Entry | None], at: Version) -> list[str]:
        """The ids or values of the live rows of some files, sorted: equal before and after a correct rewrite."""
        rows = (row for entry in entries if entry is not None for row in entry.live)
        return sorted(text(self._identity(row, at)) for row in rows)

    def mask(self, lost: Lost, hits: Parts | Places) -> Rewrite:
        """Delete positions in place, or rewrite the affected files."""
        base = lost.base
        run = run_folder(base.task.table_uuid, base.run_id)
        positions = _by_file(hits)
        outputs: list[Output] = []
        entries: list[Entry] = []
        for entry in base.native:
            dead = positions.get(entry.file.path, frozenset())
            if dead & entry.deleted or any(not 0 <= i < len(entry.file.rows) for i in dead):
                raise AdapterError(
                    f"{self._adapter.table}: {entry.file.path} has no live rows at {sorted(dead)}"
                )
            if len(dead) == len(entry.live):
                continue
            made = self._without(entry, dead, run) if dead else entry
            entries.append(made)
            outputs.append(
                Output(made.file.path, len(made.live), made.file.bytes, len(made.file.rows) - len(made.live))
            )
        written = {output.path for output in base.written.outputs}
        return base.masked(
            outputs,
            tuple(entries),
            applied=applied_now(base.task, lost.changes),
            rows=sum(map(len, positions.values())),
            extra=[output.path for output in outputs if output.path not in written],
            before=lost.rewrite,
            successors=lost.successors,
            moved=self._moved(lost, run),
        )

    def _moved(self, lost: Lost, run: str) -> list[Output]:
        """A file with the rows that successors have gained."""
        gained = lost.followed.gained if lost.followed is not None else {}
        rows = [self._store.disk[path].rows[i] for path, places in gained.items() for i in places]
        made = [self._store.write_file(self._store.current, rows, run=run)] if rows else []
        return [Output(file.path, len(file.rows), file.bytes) for file in made]

    def _without(self, entry: Entry, dead: frozenset[int], run: str) -> Entry:
        if self._store.settings.row_deletes:
            return replace(entry, deleted=entry.deleted | dead, delete_id=self._store.next_delete())
        kept = [row for i, row in enumerate(entry.file.rows) if i not in entry.deleted | dead]
        file = self._store.write_file(self._store.current, kept, run=run)
        return replace(entry, file=file, deleted=frozenset())

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> Parts:
        """Places of the matching live rows in the version of the snapshot."""
        pinned = self._store.version(snapshot.version)
        means = parse(where, pinned.schema.kinds)
        chosen = snapshot.blocks.path.to_pylist() if paths is None else list(paths)
        with self._store.lock:
            self._store.touched.data_reads += chosen
        return [
            [
                {"file": path, "position": i}
                for i, row in enumerate(pinned.files[path].file.rows)
                if i not in pinned.files[path].deleted and means(pinned.schema.load(row))
            ]
            for path in chosen
        ]

    def release(self, found: Parts) -> None:
        """Without effect: nothing is held."""

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        """Files in which every row matches, according to statistics."""
        pinned = self._store.version(snapshot.version)
        means = parse(where, pinned.schema.kinds)
        chosen = snapshot.blocks.path.to_pylist() if paths is None else paths
        return frozenset(path for path in chosen if must_match(means, pinned.files[path].file, pinned))

    def prepare(
        self, hits: Held[Parts] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        """Positions as they are, or copies of the files without them; None for a file that is removed whole."""
        then = self._store.version(snapshot.version)
        made: dict[str, Entry | frozenset[int] | None] = dict.fromkeys(whole)
        rows = {path: len(then.files[path].live) for path in whole}
        written: list[str] = []
        for path, dead in (_by_file(hits.hits) if hits else {}).items():
            assert path not in made, f"{path} is removed whole"
            entry = then.files[path]
            rows[path] = len(dead - entry.deleted)
            if len(dead | entry.deleted) == len(entry.file.rows):
                made[path] = None
            elif self._store.settings.row_deletes:
                made[path] = dead
            else:
                copy = self._without(entry, dead, run_folder(snapshot.table_uuid, run_id))
                written.append(copy.file.path)
                made[path] = copy
        return Prepared(rows, tuple(written), made)

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        """The part that concerns these files, if it is of the kind that the table uses now."""
        masks = self._store.settings.row_deletes
        native = {
            path: made
            for path, made in prepared.native.items()
            if path in paths and (made is None or isinstance(made, frozenset) == masks)
        }
        used = [made.file.path for made in native.values() if isinstance(made, Entry)]
        return Prepared({path: prepared.rows[path] for path in native}, tuple(used), native)

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt to commit, with the faults and races of the adapter."""
        fault = self._adapter.attempt()
        goes = {path: made for each in prepared for path, made in each.native.items() if path in each.rows}
        run = run_folder(snapshot.table_uuid, run_id)
        with self._store.lock:
            self.require_live(goes, snapshot)
            self.require_none_came(snapshot, where)
            files = dict(self._store.current.files)
            added: list[str] = []
            for path, made in goes.items():
                now = self._replaced(files.pop(path, None), made, run)
                if now is not None:
                    files[now.file.path] = now
                    added.append(now.file.path)
            number = self._store.apply("DELETE", lambda at: replace(at, files=files), run_id)
        self._adapter.answer(fault)
        return Commit(number, run_id, tuple(goes), tuple(added))

    def _replaced(self, entry: Entry | None, made: Entry | frozenset[int] | None, run: str) -> Entry | None:
        """The entry that replaces a file: a copy, or the file with more deletes.

        As in the formats, only ``require_live`` detects that the file is gone: without it, positions in the file would
        delete nothing, and a copy would double its rows.
        """
        if isinstance(made, frozenset):
            return None if entry is None else self._without(entry, made, run)
        return made

    def require_live(self, goes: Collection[str], snapshot: Snapshot) -> None:
        """Raise Conflict if a file to remove was changed, or is already gone."""
        name = self._adapter.table
        then, now = self._store.version(snapshot.version), self._store.current
        for path in goes:
            entry = now.files.get(path)
            if entry is None or entry.delete_id != then.files[path].delete_id:
                winner = self._adapter.toucher(path, then.files[path].delete_id)
                raise Conflict(f"{name}: {path} was changed by {winner}", winner)

    def require_none_came(self, snapshot: Snapshot, where: str) -> None:
        """Raise Conflict if rows were added that the search should have covered."""
        if not self._store.settings.serializable:
            return
        name, then = self._adapter.table, self._store.version(snapshot.version)
        for before, version in pairwise(self._store.versions[then.number :]):
            if version.operation in LAYOUT:
                continue
            means = parse(where, version.schema.kinds)
            new = (entry.file for path, entry in version.files.items() if path not in before.files)
            if any(may_match(means, file, version) for file in new):
                winner = f"version {version.number} ({version.operation})"
                raise Conflict(f"{name}: rows that may match came with {winner}", winner)

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Remove copies from the disk that no version names."""
        with self._store.lock:
            live = {path for version in self._store.versions for path in version.files}
            for path in (path for each in prepared for path in each.written):
                if path in live:
                    raise LiveFileDiscarded(self._adapter.table, path)
                if self._store.disk.pop(path, None) is not None:
                    self._store.touched.discarded.append(path)

    def may_tidy(self, snapshot: Snapshot) -> bool:
        return bool(self._store.version(snapshot.version).dangling)

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        """Remove the delete files that dangled in the snapshot; all others are stored with their data files."""
        dangling = self._store.version(snapshot.version).dangling
        if not dangling:
            return Tidied()
        fault = self._adapter.attempt()
        with self._store.lock:
            gone = [path for path in dangling if path not in self._store.current.dangling]
            if gone:
                raise Conflict(f"{self._adapter.table}: {gone[0]} is gone already", "another tidying")
            number = self._store.apply("lakekeeper", lambda now: _without_dangling(now, dangling), run_id)
        self._adapter.answer(fault)
        return Tidied(number, len(dangling))


def _without_dangling(now: Version, gone: Collection[str]) -> Version:
    return replace(now, dangling=tuple(path for path in now.dangling if path not in gone))


def _by_file(hits: Parts | Places) -> Mapping[str, frozenset[int]]:
    if isinstance(hits, Mapping):
        return {path: frozenset(positions) for path, positions in hits.items()}
    found: dict[str, set[int]] = defaultdict(set)
    for row in (row for part in hits for row in part):
        found[row["file"]].add(row["position"])
    return {path: frozenset(positions) for path, positions in found.items()}


def fresh(file: DataFile) -> Entry:
    """A file that no version names yet."""
    return Entry(file, 0)


def followed(remains: Remains[Parts]) -> Followed:
    """The files at least half of whose rows were read, and the last ones of equal rows that make the difference."""
    read = [row for part in remains.read for row in part]
    left = [row for part in remains.left for row in part]
    files = dict(remains.files)
    while True:
        kept = [row for row in left if row["file"] in files]
        missing, gained = _surplus(read, kept), _surplus(kept, read)
        others = [file for file, rows in gained.items() if 2 * len(rows) > files[file]]
        if not others:
            return Followed(tuple(sorted(files)), missing, gained)
        for file in others:
            del files[file]


def _surplus(rows: Sequence[Row], others: Sequence[Row]) -> dict[str, list[int]]:
    """The places of the rows that are not among the others: of equal ones, the last."""
    have = Counter(text(row["row"]) for row in others)
    found: dict[str, list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r["file"], r["position"])):
        what = text(row["row"])
        have[what] -= 1
        if have[what] < 0:
            found[row["file"]].append(row["position"])
    return found
