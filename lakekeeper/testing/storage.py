"""The files of a table of the memory lake, as a vacuum sees them: ``lakekeeper.spi.Storage`` over a dictionary.

Locations are ``mem:/<folder>/<file>``. Versions leave the metadata as Iceberg's snapshots do, or stay named as Delta's
do (``Settings.linear``); in both cases an expired version can be read as long as its files exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import NOTES, Grounds, move_refusal, refusal
from lakekeeper.core.vacuum.retention import Kept, Ref, Versions
from lakekeeper.core.vacuum.retention import Version as Known
from lakekeeper.core.vacuum.stream_positions import SinkCommit, newest_of_each, sink_commits
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Dead,
    Doomed,
    FileInfo,
    Garbage,
    region_of,
)
from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.spi.storage import MetadataChange
from lakekeeper.testing.lake import MemoryTable

USUAL_AGE_MS = 168 * HOUR_MS


class MemoryStorage:
    """One table's files. Counts listings and deletes in ``MemoryTable.touched``."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    @property
    def grounds(self) -> Grounds:
        """The table's own folder."""
        return Grounds((f"mem:/{self._table.location}",))

    def allowing(self, locations: Sequence[str]) -> MemoryStorage:
        """The same storage: each table of the lake has one folder."""
        return self

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        """Whether it is the same table, by the uuid alone."""
        self._table.before("same_table")
        return table_uuid == self._table.uuid

    def versions(self, since: int | None = None) -> Versions:
        """All versions; ``since`` does not save the memory lake any work."""
        table = self._table
        with table.lock:
            known = [v for v in table.versions if v.number not in table.expired]
            linear = table.settings.linear
            first = since or 0
            items = [
                Known(v.number, v.at_ms, v.number - 1 if v.number else None)
                for v in known
                if not linear or v.number >= first
            ]
            refs = [Ref("main", table.current.number), *table.refs.values()]
            return Versions(
                table_uuid=table.uuid,
                items=tuple(items),
                refs=tuple(refs),
                linear=linear,
                usual_age_ms=USUAL_AGE_MS,
                live_bytes=sum(e.file.bytes for e in table.current.files.values()),
                sinks=() if linear else tuple(_sink_commits(table)),
            )

    def sinks(self) -> Sequence[SinkCommit]:
        """From the summaries of versions; on a linear log no version has to be kept for them."""
        with self._table.lock:
            newest = newest_of_each(_sink_commits(self._table))
        return [replace(c, version=None) for c in newest] if self._table.settings.linear else newest

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        """Files that expired versions name and no kept version does."""
        table = self._table
        with table.lock:
            needed = {p for n in kept.reasons if n < len(table.versions) for p in named_by(table, n)}
            # A commit after the versions were read keeps the files that it names, too.
            needed |= {p for n in range(versions.newest, len(table.versions)) for p in named_by(table, n)}
            dead: dict[str, Dead] = {}
            for number in kept.gone:
                for path, partition in named_by(table, number).items():
                    if path not in needed:
                        why = f"named last by version {number}"
                        dead[path] = Dead(self._full(path), "data", number, number, partition, why)
            for full in hints:
                path = self._short(full)
                if path not in needed and path not in dead:
                    why = "found dead by an earlier vacuum"
                    dead[path] = Dead(full, "data", -1, 0, why=why, logged=False)
        through = min(kept.reasons) if versions.linear else None
        return Garbage(tuple(dead.values()), examined=len(versions.items), through=through)

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        """Expire versions, except one that a name holds now; on a linear log, Conflict if a file is named again."""
        table = self._table
        if versions.linear:
            self.require_dead(versions, kept, files)
            return set()
        if kept.gone or kept.expired_refs:
            table.before("expire")
        with table.lock:
            self.require_unnamed(versions, kept)
            table.expired |= set(kept.gone)
            for name in kept.expired_refs:
                table.refs.pop(name, None)
            return self.named_since(versions, files)

    def require_dead(self, versions: Versions, kept: Kept, files: Collection[str]) -> None:
        """Conflict if a name holds an expired version now, or a file is named again."""
        with self._table.lock:
            self.require_unnamed(versions, kept)
            if back := self.named_since(versions, files):
                raise Conflict(
                    f"{self._table.name}: a commit restored {len(back)} files that were to be deleted"
                )

    def require_unnamed(self, versions: Versions, kept: Kept) -> None:
        due, known = set(kept.gone), {ref.name: ref for ref in versions.refs}
        for name, ref in self._table.refs.items():
            changed = known.get(name) != ref if name in kept.expired_refs else ref.head in due
            if changed:
                raise Conflict(f"{self._table.name}: {name} names version {ref.head} now", name)

    def named_since(self, versions: Versions, files: Collection[str]) -> set[str]:
        table = self._table
        later = {p for n in range(versions.newest + 1, len(table.versions)) for p in named_by(table, n)}
        return {full for full in files if self._short(full) in later}

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """Each file as it is on the disk."""
        with self._table.lock:
            return [self._info(self._short(path)) for path in paths]

    def missing(self, paths: Collection[str]) -> set[str]:
        """The missing data files; deletes are not files of their own here."""
        self._table.before("missing")
        with self._table.lock:
            return {path for path in paths if path.startswith("data/") and path not in self._table.disk}

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """Delete what may be deleted; a fault leaves files where they are."""
        gone = []
        for file in files:
            if refusal(file.path, self.grounds, region_of(file.kind)):
                continue
            self._table.before("delete")
            with self._table.lock:
                path = self._short(file.path)
                if path in self._table.stuck:
                    continue
                if self._table.disk.pop(path, None) is not None:
                    self._table.touched.deleted.append(path)
                gone.append(file.path)
        return gone

    def refuses_trash(self) -> str:
        """Empty: renaming in a dictionary costs nothing."""
        return ""

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """Rename, never over a file."""
        done = []
        for source, target in moves.items():
            if move_refusal(source, target, self.grounds):
                continue
            self._table.before("move")
            with self._table.lock:
                disk, old, new = self._table.disk, self._short(source), self._short(target)
                if old in disk and new not in disk:
                    disk[new] = disk.pop(old)
                    self._table.made_at[new] = self._table.now_ms
                    done.append(source)
        return done

    def files(self) -> Iterator[FileInfo]:
        """List all files except lakekeeper's own."""
        return self._listed(lambda path: not path.startswith(f"{NOTES}/"))

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        """List the folders of these runs."""
        folders = tuple(f"data/{run}/" for run in runs)
        return self._listed(lambda path: path.startswith(folders))

    def _listed(self, wanted: Callable[[str], bool]) -> Iterator[FileInfo]:
        with self._table.lock:
            self._table.touched.listings += 1
            infos = [self._info(path) for path in self._table.disk if wanted(path)]
        return (info for info in infos if info is not None)

    def forget(self, run: str) -> None:
        """Without effect: nothing is recorded for a run, and a dictionary has no folders."""

    def recognised(self, paths: Collection[str]) -> set[str]:
        """The files in the folders to which the lake's writers write."""
        return {path for path in paths if self._short(path).startswith("data/")}

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Paths that a version named when ``versions`` were read."""
        table = self._table
        if not versions.items:
            raise AdapterError(f"{table.name}: no version could be read, so the files in use are not known")
        with table.lock:
            known = {
                self._full(p)
                for v in table.versions[: versions.newest + 1]
                if v.number not in table.expired
                for p in named_by(table, v.number)
            }
        return set(paths) & known

    def live(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Paths that the version of a name reads; ``main`` is one."""
        with self._table.lock:
            read = {self._full(p) for ref in versions.refs for p in named_by(self._table, ref.head)}
        return set(paths) & read

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """No change: the metadata of the memory lake is one object."""
        return MetadataChange(1, 1, None, Reason.of(Code.NOTHING_TO_DO))

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        """The tables that a test names (``MemoryTable.foreign_tables``)."""
        return self._table.foreign_tables

    def _info(self, path: str) -> FileInfo | None:
        file = self._table.disk.get(path)
        if file is None:
            return None
        return FileInfo(self._full(path), file.bytes, self._table.made_at.get(path, 0))

    def _full(self, path: str) -> str:
        return f"mem:/{self._table.location}/{path}"

    def _short(self, full: str) -> str:
        return full.removeprefix(f"mem:/{self._table.location}/")


def named_by(table: MemoryTable, number: int) -> dict[str, str]:
    """Path → partition of all files that a version names."""
    return {path: entry.file.partition for path, entry in table.versions[number].files.items()}


def _sink_commits(table: MemoryTable) -> Iterator[SinkCommit]:
    for version in table.versions:
        if version.number not in table.expired:
            yield from sink_commits(
                version.number, version.at_ms, version.summary, table.settings.format_version
            )
