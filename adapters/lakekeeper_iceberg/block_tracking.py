"""What became of a snapshot's blocks, followed from one look to the next.

    read         seen              now
    ──●────●────●──●────●────●────●──     the walk goes back from the newest snapshot to the last one seen

Of a commit only the manifests are read that it wrote itself. Where one of them has deletes that may apply to more than
one data file, all live files are listed, once, and later commits are followed from there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.rebase import Changes
from lakekeeper_iceberg.changes import Committed, obstacle_to, unrelated, winners_after
from lakekeeper_iceberg.deletes import FileDelete, Index, apply_deletes, index_of
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.listing import Listing, list_files
from lakekeeper_iceberg.native import Iceberg

_NAMED = ("path", "seq", "file_seq", "spec", "partition")
_MANY = 200  # delete files of a commit from which on a listing takes less time than a look at each

DeleteKey = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot, the last version that was looked at since, and what had become of its blocks by then.

    ``listing`` is of the version from which commits were followed, and ``index`` of its deletes, as changed since.
    ``added`` are delete files by data file, and ``gone`` those that left, since the snapshot; None after a listing.
    """

    snapshot: Snapshot
    version: int | None
    changes: Changes
    listing: Listing | None = None
    index: Index | None = None
    added: Mapping[str, tuple[Any, ...]] | None = field(default_factory=dict)
    gone: frozenset[DeleteKey] = frozenset()


@dataclass(slots=True)
class Follower:
    """Follows the commits of one table; safe to use from several driver threads."""

    jvm: Iceberg
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listed: tuple[int, Listing] | None = None
    _seen: Seen | None = None

    def listed(self, version: int, files: Listing) -> None:
        """Remember what was listed for a snapshot, without its statistics."""
        with self._lock:
            self._listed = (version, Listing(files.data.select(_NAMED), files.deletes))

    def changes_since(self, pinned: Any, schema: SchemaFields, snapshot: Snapshot) -> Changes:
        """See ``spi.Adapter.changes_since``, up to the current snapshot of a pinned table."""
        metadata = pinned.operations().current()
        current = metadata.currentSnapshot()
        version = -1 if current is None else int(current.snapshotId())
        obstacle = obstacle_to(metadata, schema, snapshot)
        with self._lock:
            seen = self._start(snapshot)
            commits, met = winners_after(metadata, current, {seen.version, snapshot.version})
            if met != seen.version:
                seen = self._first(snapshot)  # rolled back
            winners = (*seen.changes.winners, *(c.winner for c in commits))
            if not obstacle and met == -1:
                obstacle = unrelated(snapshot, version)
            if obstacle:
                return Changes(version, winners, obstacle=obstacle)
            after = self._followed(pinned, seen, commits)
            self._seen = replace(
                after,
                version=snapshot.version if current is None else version,
                changes=replace(after.changes, version=version, winners=winners),
            )
            return self._seen.changes

    def deletes_of(
        self, snapshot: Snapshot, changes: Changes, path: str, read: Sequence[Any]
    ) -> list[Any] | None:
        """The delete files in force for a block after ``changes``, if followed; ``read`` were in force before."""
        with self._lock:
            seen = self._seen
        if seen is None or seen.snapshot is not snapshot or seen.added is None:
            return None
        if seen.changes.version != changes.version:
            return None
        return [d for d in read if key_of(d) not in seen.gone] + list(seen.added.get(path, ()))

    def _start(self, snapshot: Snapshot) -> Seen:
        known = self._seen
        return known if known is not None and known.snapshot is snapshot else self._first(snapshot)

    def _first(self, snapshot: Snapshot) -> Seen:
        listed = self._listed
        listing = listed[1] if listed is not None and listed[0] == snapshot.version else None
        version = snapshot.version
        return Seen(snapshot, version, Changes(-1 if version is None else version), listing)

    def _followed(self, pinned: Any, seen: Seen, commits: Sequence[Committed]) -> Seen:
        if not len(seen.snapshot.blocks):
            return seen
        for commit in commits:
            if commit.quiet:
                continue
            after = self._after(pinned, seen, seen.listing, commit) if seen.listing is not None else None
            if after is None:
                return self._by_listing(pinned, seen)
            seen = after
        return seen

    def _after(self, pinned: Any, seen: Seen, listing: Listing, commit: Committed) -> Seen | None:
        """One commit further; None where its deletes may apply to more than one file each, or a file came back."""
        built = self.jvm.api.SnapshotChanges.builderFor(pinned).snapshot(commit.snapshot).build()
        added, removed = list(built.addedDeleteFiles()), list(built.removedDeleteFiles())
        if len(added) + len(removed) > _MANY:
            return None
        until = self._until(pinned, seen.snapshot)
        index = seen.index or index_of(listing.deletes, _unpartitioned(pinned), until)
        came, went = self._single(added, until), self._single(removed, until, index)
        if came is None or went is None:
            return None
        blocks = seen.snapshot.blocks.path
        location = ("org.apache.iceberg.ContentFile", "location", "java.lang.String")
        if among(blocks, self.jvm.told(built.addedDataFiles(), *location)):
            return None
        gone = among(blocks, self.jvm.told(built.removedDataFiles(), *location))
        index = index.changed(went, came)
        touched = among(blocks, [d.target for d in (*came, *went)]) - gone - seen.changes.removed
        ids = {p: i for p, i in seen.changes.delete_ids.items() if p not in gone} | self._ids(
            seen, index, touched
        )
        changes = replace(seen.changes, removed=seen.changes.removed | gone, delete_ids=ids)
        return replace(seen, changes=changes, index=index, **_moved(seen, came, added, removed))

    def _single(
        self, deletes: Sequence[Any], until: int, known: Index | None = None
    ) -> list[FileDelete] | None:
        """Position deletes of one data file each; None where one is about more. Young equality deletes are left out.

        Of deletes that leave, a manifest keeps no bounds: those ``known`` say which file they were about.
        """
        target = self.jvm.static("org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation")
        found = []
        for delete in deletes:
            seq = int(delete.dataSequenceNumber())
            if str(delete.content()) == "EQUALITY_DELETES":
                if seq <= until:
                    return None
                continue
            offset = delete.contentOffset()
            path, at = str(delete.location()), None if offset is None else int(offset)
            about = target(delete)
            if about is None and known is not None:
                about = known.target_of(path)
            if about is None:
                return None
            size = int(delete.fileSizeInBytes()) if offset is None else int(delete.contentSizeInBytes())
            rows = int(delete.recordCount())
            found.append(FileDelete(str(about), seq, path, rows, size, at))
        return found

    def _ids(self, seen: Seen, index: Index, paths: set[str]) -> dict[str, str]:
        if not paths or seen.listing is None:
            return {}
        data = seen.listing.data
        rows = data.filter(pc.is_in(data["path"], value_set=pa.array(sorted(paths), pa.string())))
        columns = (rows[name].to_pylist() for name in _NAMED)
        return {
            path: index.of(path, (seq, added), (spec, partition))[0]
            for path, seq, added, spec, partition in zip(*columns, strict=True)
        }

    def _by_listing(self, pinned: Any, seen: Seen) -> Seen:
        """What all live files say at the newest version."""
        files = list_files(self.jvm, pinned)
        until = self._until(pinned, seen.snapshot)
        applied = apply_deletes(files, _unpartitioned(pinned), until)
        now = dict(zip(files.data["path"].to_pylist(), applied.delete_id, strict=True))
        blocks = seen.snapshot.blocks
        before = dict(zip(blocks.path.to_pylist(), blocks.delete_id.to_pylist(), strict=True))
        ids = {path: now[path] for path, known in before.items() if now.get(path, known) != known}
        removed = frozenset(path for path in before if path not in now)
        changes = replace(seen.changes, removed=removed, delete_ids=ids)
        return replace(seen, changes=changes, listing=files, index=None, added=None, gone=frozenset())

    def _until(self, pinned: Any, snapshot: Snapshot) -> int:
        """The sequence number of the snapshot: equality deletes that are younger apply to a rewrite's outputs too."""
        start = None if snapshot.version is None else pinned.snapshot(snapshot.version)
        return 0 if start is None else int(start.sequenceNumber())


def _moved(
    seen: Seen, came: Sequence[FileDelete], added: Sequence[Any], removed: Sequence[Any]
) -> dict[str, Any]:
    """The delete files of each data file after a commit, as fields of :class:`Seen`."""
    if seen.added is None:
        return {}
    gone = {key_of(delete) for delete in removed}
    targets = {(d.path, d.offset): d.target for d in came}
    now = {path: tuple(d for d in found if key_of(d) not in gone) for path, found in seen.added.items()}
    for delete in added:
        target = targets.get(key_of(delete))
        if target is not None:
            now[target] = (*now.get(target, ()), delete)
    return {"added": now, "gone": seen.gone | gone}


def key_of(delete: Any) -> DeleteKey:
    """What tells delete files apart: vectors of several data files lie in one file."""
    offset = delete.contentOffset()
    return str(delete.location()), None if offset is None else int(offset)


def among(paths: pa.Array, asked: Sequence[str]) -> set[str]:
    """Those of the paths asked that are among others, which may be many more."""
    if not asked:
        return set()
    found = paths.filter(pc.is_in(paths, value_set=pa.array(list(asked), pa.string())))
    return set(found.to_pylist())


def _unpartitioned(pinned: Any) -> frozenset[int]:
    specs = pinned.operations().current().specs()
    return frozenset(int(spec.specId()) for spec in specs if spec.isUnpartitioned())
