"""The table's files as a vacuum sees them: facts of the metadata and of the disk; nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.containment import Grounds, spelled
from lakekeeper.core.plan import MergeTask
from lakekeeper.core.retention import HOUR_MS, Kept, Ref, Version, Versions
from lakekeeper.core.vacuum import Doomed, FileInfo, Garbage
from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, reason
from lakekeeper.spi import MetadataChange
from lakekeeper_iceberg import expiry, garbage, levels, strangers
from lakekeeper_iceberg import metadata as folding
from lakekeeper_iceberg.disk import Disk, inside, is_child
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.notes import FOLDER
from lakekeeper_iceberg.reach import Reach

USUAL_AGE_MS = 120 * HOUR_MS
"""What Iceberg's own expiry keeps where nobody says anything: 5 days."""

_DATA_ROOTS = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)
_EXPIRE = "history.expire."
_SNAPSHOT = "org.apache.iceberg.Snapshot"


@dataclass(frozen=True, slots=True)
class IcebergStorage:
    """Satisfies ``spi.Storage``.

    ``table()`` is the table object at hand, ``refresh`` brings it to the newest version, and ``lock`` is the lock of
    those who commit to a table of this uuid.
    """

    jvm: Iceberg
    name: str
    table: Callable[[], Any]
    refresh: Callable[[], None]
    lock: Callable[[str], AbstractContextManager[Any]]

    @property
    def grounds(self) -> Grounds:
        return Grounds(self._roots(), ("metadata", FOLDER))

    def versions(self, since: int | None = None) -> Versions:
        """Reads one metadata file, if it is a new one. A table without a snapshot has no versions and no names."""
        try:
            self.refresh()
            base = self.table().operations().current()
            return self._versions(base)
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(f"{self.name}: the metadata cannot be read ({reason(error)})") from error

    def garbage(self, versions: Versions, kept: Kept, hints: Collection[str] = ()) -> Garbage:
        return garbage.garbage_of(self._reach(versions), self.grounds, kept, hints)

    def expire(self, versions: Versions, kept: Kept, run_id: str) -> int | None:
        if not kept.gone and not kept.expired_refs:
            return None
        with self.lock(versions.table_uuid):
            table = self.table()
            if str(table.operations().current().uuid()) != versions.table_uuid:
                raise Conflict(f"{self.name}: the table was dropped and created again under its name")
            expiry.expire(self.jvm, table, self.name, versions.native, kept.gone, kept.expired_refs)
        return versions.newest

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        return self._disk().look(paths)

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        return self._disk().delete(files)

    def move(self, moves: Mapping[str, str]) -> list[str]:
        return self._disk().move(moves)

    def files(self, folders: Sequence[str] | None = None) -> Iterator[FileInfo]:
        """Below a folder of a level at any depth, since partitions and hashes lie between; else directly in it."""
        disk, roots = self._disk(), self._roots()
        own = f"{roots[0]}/{FOLDER}"
        outer = [r for r in roots if not any(inside(r, other) for other in roots)]
        for folder in outer if folders is None else dict.fromkeys(folders):
            deep = folders is None or levels.is_level(folder)
            for info in disk.files(folder):
                if not inside(info.path, own) and (deep or is_child(info.path, folder)):
                    yield info

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        return garbage.named_of(self._reach(versions), paths) if paths else set()

    def folders(self, tasks: Sequence[MergeTask]) -> tuple[str, ...]:
        metadata = self.table().operations().current()
        root = levels.data_root(str(metadata.location()), self._properties(metadata))
        made = {levels.folder(root, t.key.key_id if t.key else "", t.level) for t in tasks}
        # Delete files lie where the table's own writers put them.
        made |= {root, *(f"{root}/{t.partition}" for t in tasks if t.partition)}
        return (*sorted(made), self._metadata_folder(metadata))

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """Fold metadata; see ``metadata.compact_metadata``."""
        return folding.compact_metadata(self.jvm, self.table(), self.name, dry_run=dry_run)

    def strangers(self) -> Sequence[str]:
        base = self.table().operations().current()
        return strangers.strangers_of(self._disk(), self._roots(), str(base.uuid()), garbage.log_files(base))

    def _versions(self, base: Any) -> Versions:
        properties = self._properties(base)
        snapshots = base.snapshots()
        told = [
            self.jvm.told(snapshots, _SNAPSHOT, method, returns)
            for method, returns in (
                ("snapshotId", "long"),
                ("timestampMillis", "long"),
                ("parentId", "java.lang.Long"),
            )
        ]
        current = base.currentSnapshot()
        size = None if current is None else current.summary().get("total-files-size")
        owned = properties.get("gc.enabled", "true").lower() == "true"
        refused = "" if owned else "gc.enabled is false on the table: its files may belong to others"
        return Versions(
            table_uuid=str(base.uuid()),
            items=tuple(
                Version(int(v), int(at), int(parent) if parent else None)
                for v, at, parent in zip(*told, strict=True)
            ),
            refs=self._refs(base, _number(self.name, properties, "max-ref-age-ms")),
            linear=False,
            usual_age_ms=USUAL_AGE_MS,
            min_age_ms=_number(self.name, properties, "max-snapshot-age-ms"),
            min_versions=_number(self.name, properties, "min-snapshots-to-keep"),
            live_bytes=None if size is None else int(size),
            refused=refused,
            native=base,
        )

    def _refs(self, base: Any, usual_ref_age_ms: int | None) -> tuple[Ref, ...]:
        return tuple(
            Ref(
                name=str(name),
                head=int(ref.snapshotId()),
                branch=bool(ref.isBranch()),
                min_versions=_whole(ref.minSnapshotsToKeep()),
                max_age_ms=_whole(ref.maxSnapshotAgeMs()),
                max_ref_age_ms=usual_ref_age_ms if ref.maxRefAgeMs() is None else int(ref.maxRefAgeMs()),
            )
            for name, ref in sorted(dict(base.refs()).items())
        )

    def _reach(self, versions: Versions) -> Reach:
        return Reach(self.jvm, self.name, self.table().io(), versions.native)

    def _disk(self) -> Disk:
        return Disk(self.jvm, self.name, self.table().io(), self.grounds)

    def _roots(self) -> tuple[str, ...]:
        metadata = self.table().operations().current()
        properties = self._properties(metadata)
        declared = [properties[name] for name in _DATA_ROOTS if properties.get(name)]
        return tuple(
            {spelled(r): r for r in (r.rstrip("/") for r in (str(metadata.location()), *declared))}.values()
        )

    def _metadata_folder(self, metadata: Any) -> str:
        chosen = self._properties(metadata).get("write.metadata.path")
        return (chosen or f"{str(metadata.location()).rstrip('/')}/metadata").rstrip("/")

    def _properties(self, metadata: Any) -> dict[str, str]:
        return {str(k): str(v) for k, v in dict(metadata.properties()).items()}


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(name: str, properties: Mapping[str, str], key: str) -> int | None:
    """A number of the table's own retention; a wrong one is no permission to keep less."""
    text = properties.get(_EXPIRE + key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise AdapterError(
            f"{name}: the property {_EXPIRE}{key} is no whole number: {text!r}; nothing was deleted"
        ) from error
