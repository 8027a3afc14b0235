"""The table's files for a vacuum: facts from the metadata and the storage; no decisions are made here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import NOTES, Grounds, grounds_of, within
from lakekeeper.core.vacuum.retention import Kept, Ref, Version, Versions
from lakekeeper.core.vacuum.stream_positions import SinkCommit, newest_of_each, sink_commits
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Doomed,
    FileInfo,
    Garbage,
)
from lakekeeper.errors import AdapterError, LakekeeperError, RetentionError, reason
from lakekeeper.spi import TableName
from lakekeeper.spi.storage import MetadataChange
from lakekeeper_iceberg import commit_attempts, expiry, flink, foreign_tables, garbage, levels, nessie
from lakekeeper_iceberg import metadata as folding
from lakekeeper_iceberg.file_recognition import is_data, is_metadata
from lakekeeper_iceberg.filesystem import Disk, inside, is_child
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.notes import IcebergNotes
from lakekeeper_iceberg.reachability import Reach

USUAL_AGE_MS = 120 * HOUR_MS
"""Iceberg's default of ``max-snapshot-age-ms``: 5 days."""

_EXPIRE = "history.expire."
_SNAPSHOT = "org.apache.iceberg.Snapshot"
_LOG_ENTRY = "org.apache.iceberg.HistoryEntry"


@dataclass(frozen=True, slots=True)
class IcebergStorage:
    """Implements ``spi.Storage``.

    ``table()`` returns the current table object, ``refresh`` refreshes it, and ``lock`` returns the lock that commits
    to the table with a given uuid hold. ``allowed`` are locations that an operator allows in addition to the table's
    own.
    """

    jvm: Iceberg
    identifier: TableName
    table: Callable[[], Any]
    refresh: Callable[[], None]
    lock: Callable[[str], AbstractContextManager[Any]]
    allowed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.identifier.text

    @property
    def grounds(self) -> Grounds:
        metadata = self.table().operations().current()
        location, properties = str(metadata.location()).rstrip("/"), self._properties(metadata)
        declared = {name: properties[name] for name in foreign_tables.DECLARED if properties.get(name)}
        own = self._metadata_folder(metadata)
        inner = {own.removeprefix(f"{location}/").split("/")[0]} if own.startswith(f"{location}/") else set()
        return grounds_of(location, sorted({"metadata", *inner}), declared, self.allowed)

    def allowing(self, locations: Sequence[str]) -> IcebergStorage:
        return replace(self, allowed=tuple(locations))

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        """Whether the table has this uuid, which never changes; ``version`` is not used."""
        return str(self._metadata_now().uuid()) == table_uuid.lower()

    def versions(self, since: int | None = None) -> Versions:
        """Reads one metadata file, if it has changed. A table without snapshots has no versions and no refs."""
        with self._answering():
            return self._versions(self._metadata_now())

    def _metadata_now(self) -> Any:
        with self._answering():
            self.refresh()
            return self.table().operations().current()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise any error of the metadata as AdapterError."""
        try:
            yield
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(f"{self.name}: the metadata cannot be read ({reason(error)})") from error

    def sinks(self) -> Sequence[SinkCommit]:
        return newest_of_each(self.versions().sinks)

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        """See ``spi.Storage.garbage``. Snapshots stay in the metadata until they expire, so ``backlog`` is not used."""
        return garbage.garbage_of(self._reach(versions), self.grounds, kept, hints)

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        self._require_own()
        expiry_ = expiry.Expiry(self.jvm, self.table(), self.name, versions.native)
        with self.lock(versions.table_uuid):
            newest = expiry_.commit(kept.gone, kept.expired_refs)
        return expiry_.named_since(newest, files)

    def require_dead(self, versions: Versions, kept: Kept, files: Collection[str]) -> None:
        self._require_own()
        with self._answering():
            expiry.Expiry(self.jvm, self.table(), self.name, versions.native).require_dead(kept.gone, files)

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        return self._disk().look(paths)

    def missing(self, paths: Collection[str]) -> set[str]:
        # No grounds: nothing is deleted, and reading them costs more than the check of a small commit.
        return (
            Disk(self.jvm, self.name, self.table().io(), Grounds(())).absent(list(paths)) if paths else set()
        )

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        self._require_own()
        return self._disk().delete(files)

    def move(self, moves: Mapping[str, str]) -> list[str]:
        return self._disk().move(moves)

    def refuses_trash(self) -> str:
        return self._disk().refuses_trash()

    def files(self) -> Iterator[FileInfo]:
        disk, roots = self._disk(), self.grounds.roots
        own = f"{roots[0]}/{NOTES}"
        for root in (r for r in roots if not any(inside(r, other) for other in roots)):
            yield from (info for info in disk.files(root) if not inside(info.path, own))

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        disk, base = self._disk(), self.table().operations().current()
        for folder in self._run_folders(runs):
            yield from disk.files(folder)
        home = commit_attempts.Home(self._metadata_folder(base), str(base.uuid()), garbage.log_files(base))
        notes = IcebergNotes(self.jvm, self.table(), self.name)
        noted = [attempt for run in runs for attempt in commit_attempts.noted(notes, run)]
        yield from commit_attempts.left_by(disk, home, noted)

    def forget(self, run: str) -> None:
        with suppress(Exception):  # at worst a small note or an empty folder remains
            IcebergNotes(self.jvm, self.table(), self.name).remove(commit_attempts.note_of(run))
            for folder in self._run_folders([run]):
                self._disk().prune(folder)

    def recognised(self, paths: Collection[str]) -> set[str]:
        metadata = self._metadata_folder(self.table().operations().current())
        roots = self._data_roots()
        return {
            path
            for path in paths
            if (is_metadata(path.rpartition("/")[2]) and is_child(path, metadata))
            or (is_data(path.rpartition("/")[2]) and any(inside(path, root) for root in roots))
        }

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        if not paths:
            return set()
        metadata = self._metadata_folder(versions.native)
        listed = any(within(metadata, root) for root in self.grounds.roots)
        places = (self._properties(versions.native).get(flink.FOLDER), None if listed else metadata)
        pending = flink.Pending(self.jvm, self.table().io(), self._disk(), tuple(filter(None, places)))
        return garbage.named_of(self._reach(versions), paths) | pending.named(paths)

    def live(self, versions: Versions, paths: Collection[str]) -> set[str]:
        heads = {ref.head for ref in versions.refs}
        with self._answering():
            return garbage.live_of(self._reach(versions), heads, paths)

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """Compact manifests; see ``metadata.compact_metadata``."""
        self.refresh()
        return folding.compact_metadata(self.jvm, self.table(), self.name, dry_run=dry_run)

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        disk, base, roots = self._disk(), self.table().operations().current(), self.grounds.roots
        folders = None if runs is None else self._run_folders(runs)

        def metadata_file() -> str:
            return str(self._metadata_now().metadataFileLocation())

        listed = roots if folders is None else folders
        return sorted(
            {
                *foreign_tables.in_catalogs(self.jvm, self.identifier, roots, folders, metadata_file),
                *foreign_tables.around(disk, roots),
                *foreign_tables.inside(disk, listed, str(base.uuid()), garbage.log_files(base)),
                *self.newer(),
            }
        )

    def newer(self) -> set[str]:
        """Metadata of the table that its catalog does not name, because another catalog has the table too."""
        return foreign_tables.newer(self._disk(), self._metadata_now, garbage.log_files)

    def _require_own(self) -> None:
        """Raise RetentionError if branches or tags of the catalog may need files that this metadata does not name."""
        why = nessie.shares_files(self.table().operations())
        if why:
            raise RetentionError(f"{self.name}: {why}; nothing was deleted")

    def _versions(self, base: Any) -> Versions:
        properties = self._properties(base)
        snapshots = base.snapshots()
        columns = [
            self.jvm.values_of(snapshots, _SNAPSHOT, method, returns)
            for method, returns in (
                ("snapshotId", "long"),
                ("timestampMillis", "long"),
                ("parentId", "java.lang.Long"),
            )
        ]
        items = [
            Version(int(v), int(at), int(parent) if parent else None)
            for v, at, parent in zip(*columns, strict=True)
        ]
        log = base.snapshotLog()
        moves = [
            self.jvm.values_of(log, _LOG_ENTRY, method, "long")
            for method in ("timestampMillis", "snapshotId")
        ]
        summaries = self.jvm.maps(snapshots, _SNAPSHOT, "summary")
        format_version = int(base.formatVersion())
        current = base.currentSnapshot()
        size = None if current is None else current.summary().get("total-files-size")
        refused = nessie.keeps_files(self.table().operations(), properties)
        return Versions(
            table_uuid=str(base.uuid()),
            items=tuple(items),
            refs=self._refs(base, _number(self.name, properties, "max-ref-age-ms")),
            linear=False,
            usual_age_ms=USUAL_AGE_MS,
            min_age_ms=_number(self.name, properties, "max-snapshot-age-ms"),
            min_versions=_number(self.name, properties, "min-snapshots-to-keep"),
            live_bytes=None if size is None else int(size),
            refused=refused,
            sinks=tuple(
                commit
                for item, summary in zip(items, summaries, strict=True)
                for commit in sink_commits(item.id, item.at_ms, summary, format_version)
            ),
            main_log=tuple((int(at), int(version)) for at, version in zip(*moves, strict=True)),
            native=base,
        )

    def _refs(self, base: Any, usual_ref_age_ms: int | None) -> tuple[Ref, ...]:
        return tuple(
            Ref(
                name=str(entry.getKey()),
                head=int(ref.snapshotId()),
                branch=bool(ref.isBranch()),
                min_versions=_whole(ref.minSnapshotsToKeep()),
                max_age_ms=_whole(ref.maxSnapshotAgeMs()),
                max_ref_age_ms=usual_ref_age_ms if ref.maxRefAgeMs() is None else int(ref.maxRefAgeMs()),
            )
            for entry in sorted(self.jvm.items(base.refs().entrySet()), key=lambda each: str(each.getKey()))
            for ref in (entry.getValue(),)
        )

    def _reach(self, versions: Versions) -> Reach:
        return Reach(self.jvm, self.name, self.table().io(), versions.native)

    def _disk(self) -> Disk:
        return Disk(self.jvm, self.name, self.table().io(), self.grounds)

    def _data_roots(self) -> tuple[str, ...]:
        """Roots of data files that may be deleted: the configured data path, the default one, and other table roots."""
        metadata, roots = self.table().operations().current(), self.grounds.roots
        location = str(metadata.location())
        now = levels.data_root(location, self._properties(metadata))
        usual = levels.data_root(location, {})
        found = [root for root in (now, usual, *roots[1:]) if any(within(root, each) for each in roots)]
        return tuple(dict.fromkeys(found))

    def _run_folders(self, runs: Sequence[str]) -> list[str]:
        return [f"{root}/{run}" for root in self._data_roots() for run in runs]

    def _metadata_folder(self, metadata: Any) -> str:
        chosen = self._properties(metadata).get("write.metadata.path")
        return (chosen or f"{str(metadata.location()).rstrip('/')}/metadata").rstrip("/")

    def _properties(self, metadata: Any) -> dict[str, str]:
        return self.jvm.text_map(metadata.properties())


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(name: str, properties: Mapping[str, str], key: str) -> int | None:
    """A number from the table's retention properties. Raises AdapterError if it is malformed."""
    text = properties.get(_EXPIRE + key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise AdapterError(
            f"{name}: the property {_EXPIRE}{key} is not a whole number: {text!r}; nothing was deleted"
        ) from error
