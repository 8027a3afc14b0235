"""Changes to a snapshot's data files, tracked incrementally from commit to commit.

    read         seen              now
    ──●────●────●──●────●────●────●──     the walk follows parents from the newest snapshot to the last one seen

For each commit, only the manifests that it added are read. If a commit has deletes that may apply to more than one
data file, all live files are listed once, and later commits are tracked from that listing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.successors import Replacement
from lakekeeper_iceberg.changes import (
    Committed,
    earlier_than,
    newest_of,
    obstacle_to,
    sequence_of,
    unrelated,
    winners_after,
)
from lakekeeper_iceberg.deletes import MATCHED, FileDelete, Index, apply_deletes, index_of
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.listing import Listing, list_files
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import DELETE_FILE

_MANY = 200  # above this number of delete files in a commit, a listing is faster than reading each

_VALUES = tuple(
    (DELETE_FILE, name, returns)
    for name, returns in {
        "content": "org.apache.iceberg.FileContent",
        "location": "java.lang.String",
        "contentOffset": "java.lang.Long",
        "dataSequenceNumber": "java.lang.Long",
        "recordCount": "long",
        "fileSizeInBytes": "long",
        "contentSizeInBytes": "java.lang.Long",
    }.items()
)
_TARGET = (("org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation", "java.lang.String"),)

EQUALITY = "EQUALITY_DELETES"
DeleteKey = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class _Delete:
    """The values of a delete file in a commit, as text, empty for null; ``target`` is its data file."""

    content: str
    path: str
    offset: str
    seq: str
    rows: str
    file_bytes: str
    content_bytes: str
    target: str

    @property
    def key(self) -> DeleteKey:
        return self.path, int(self.offset) if self.offset else None


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot, the last version seen since, and the changes to its blocks up to that version.

    ``listing`` is of the version from which commits are tracked; ``index`` holds its deletes, updated by later commits.
    ``added`` are the delete files added since the snapshot, by data file, with their keys, and ``gone`` the keys of the
    delete files removed since. After a listing, ``added`` is None. ``equality``: equality deletes may have been added
    since.
    """

    snapshot: Snapshot
    version: int | None
    changes: Changes
    listing: Listing | None = None
    index: Index | None = None
    added: Mapping[str, tuple[tuple[DeleteKey, Any], ...]] | None = field(default_factory=dict)
    gone: frozenset[DeleteKey] = frozenset()
    equality: bool = False


@dataclass(slots=True)
class Follower:
    """Tracks the commits of one table; thread-safe."""

    jvm: Iceberg
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listed: tuple[int, Listing] | None = None
    _seen: Seen | None = None

    def listed(self, version: int, files: Listing) -> None:
        """Keep the listing of a snapshot, without column statistics."""
        with self._lock:
            self._listed = (version, Listing(files.data.select(MATCHED), files.deletes))

    def changes_since(self, pinned: Any, schema: SchemaFields, snapshot: Snapshot) -> Changes:
        """See ``spi.Adapter.changes_since``, up to the current snapshot of a pinned table."""
        metadata = pinned.operations().current()
        current, version = metadata.currentSnapshot(), newest_of(metadata)
        obstacle = obstacle_to(metadata, schema, snapshot)
        with self._lock:
            seen = self._start(snapshot, metadata)
            commits, met = winners_after(self.jvm, metadata, current, {seen.version, snapshot.version})
            if met != seen.version:
                seen = self._first(snapshot, metadata)  # rolled back
            winners = (*seen.changes.winners, *(c.winner for c in commits))
            if not obstacle and met == -1:
                obstacle = unrelated(snapshot, metadata)
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
        """The delete files that apply to a data file after ``changes``; None if they were not tracked.

        ``read`` are those that applied when it was read.
        """
        with self._lock:
            seen = self._seen
        if seen is None or seen.snapshot is not snapshot or seen.added is None:
            return None
        if seen.changes.version != changes.version:
            return None
        kept = [d for d in read if key_of(d) not in seen.gone] if seen.gone else list(read)
        return kept + [delete for _, delete in seen.added.get(path, ())]

    def _start(self, snapshot: Snapshot, metadata: Any) -> Seen:
        known = self._seen
        if known is not None and known.snapshot is snapshot:
            return known
        return self._first(snapshot, metadata)

    def _first(self, snapshot: Snapshot, metadata: Any) -> Seen:
        listed = self._listed
        listing = listed[1] if listed is not None and listed[0] == snapshot.version else None
        version = snapshot.version
        earlier = earlier_than(self.jvm, metadata, version)
        return Seen(snapshot, version, Changes(-1 if version is None else version, earlier=earlier), listing)

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
        """The state after one more commit; None if a listing is needed instead.

        That is so if the commit has too many delete files, one that may apply to several data files, or adds a data
        file of the snapshot again.
        """
        built = self.jvm.api.SnapshotChanges.builderFor(pinned).snapshot(commit.snapshot).build()
        added, removed = self._deletes(built.addedDeleteFiles()), self._deletes(built.removedDeleteFiles())
        if len(added) + len(removed) > _MANY:
            return None
        until = self._until(pinned, seen.snapshot)
        index = seen.index or index_of(
            listing.deletes, unpartitioned(self.jvm, pinned.operations().current()), until
        )
        came, went = _single(added, until), _single(removed, until, index)
        if came is None or went is None:
            return None
        blocks = seen.snapshot.blocks.path
        location = ("org.apache.iceberg.ContentFile", "location", "java.lang.String")
        new = frozenset(self.jvm.values_of(built.addedDataFiles(), *location))
        if among(blocks, new):
            return None
        left = frozenset(self.jvm.values_of(built.removedDataFiles(), *location))
        gone = among(blocks, left)
        index = index.changed(went, came)
        touched = among(blocks, [d.target for d in (*came, *went)]) - gone - seen.changes.removed
        ids = {p: i for p, i in seen.changes.delete_ids.items() if p not in gone} | self._ids(
            seen, index, touched
        )
        targets = {d.target for d in (*came, *went)}
        replaced = _replaced(seen, commit, blocks=bool(gone), removed=left, added=new, masked=targets)
        changes = replace(
            seen.changes, removed=seen.changes.removed | gone, delete_ids=ids, replacements=replaced
        )
        files = self.jvm.items(self.jvm.collect.Lists.newArrayList(built.addedDeleteFiles()))
        java = dict(zip((each.key for each in added), files, strict=True))
        moved = _moved(seen, came, java, {each.key for each in removed})
        equality = seen.equality or any(each.content == EQUALITY for each in added)
        return replace(seen, changes=changes, index=index, equality=equality, **moved)

    def _deletes(self, deletes: Any) -> list[_Delete]:
        """These delete files, in their order."""
        return [_Delete(*values) for values in self.jvm.records(deletes, DELETE_FILE, _VALUES, _TARGET)]

    def _ids(self, seen: Seen, index: Index, paths: set[str]) -> dict[str, str]:
        if not paths or seen.listing is None:
            return {}
        data = seen.listing.data
        rows = data.filter(pc.is_in(data["path"], value_set=pa.array(sorted(paths), pa.string())))
        columns = (rows[name].to_pylist() for name in MATCHED)
        return {
            path: index.of(path, (seq, added), (spec, partition))[0]
            for path, seq, added, spec, partition in zip(*columns, strict=True)
        }

    def _by_listing(self, pinned: Any, seen: Seen) -> Seen:
        """The state at the newest version, from a listing of all live files."""
        files = list_files(self.jvm, pinned)
        until = self._until(pinned, seen.snapshot)
        applied = apply_deletes(files, unpartitioned(self.jvm, pinned.operations().current()), until)
        now = dict(zip(files.data["path"].to_pylist(), applied.delete_id, strict=True))
        blocks = seen.snapshot.blocks
        before = dict(zip(blocks.path.to_pylist(), blocks.delete_id.to_pylist(), strict=True))
        ids = {path: now[path] for path, known in before.items() if now.get(path, known) != known}
        removed = frozenset(path for path in before if path not in now)
        # A listing shows neither what replaced which file, nor whether equality deletes were added.
        changes = replace(seen.changes, removed=removed, delete_ids=ids, replacements=())
        return replace(
            seen, changes=changes, listing=files, index=None, added=None, gone=frozenset(), equality=True
        )

    def _until(self, pinned: Any, snapshot: Snapshot) -> int:
        """The sequence number of the snapshot: later equality deletes also apply to the outputs of a rewrite."""
        metadata = pinned.operations().current()
        return 0 if snapshot.version is None else sequence_of(metadata, snapshot.version)


def _replaced(
    seen: Seen,
    commit: Committed,
    *,
    blocks: bool,
    removed: frozenset[str],
    added: frozenset[str],
    masked: Collection[str],
) -> tuple[Replacement, ...]:
    """The replacements up to a commit, which removed ``blocks`` of the snapshot or not.

    A file that a replacement added counts as removed if its deletes change. An equality delete does not apply to the
    files of a later statement, which may hold such rows again, but it does apply to the outputs of a rewrite.
    """
    known = seen.changes.replacements
    successors = {path for each in known for path in each.added}
    stained = successors.intersection(masked)
    if not blocks and not stained and successors.isdisjoint(removed):
        return known
    followed = not (commit.winner.layout or seen.equality or stained or added.intersection(masked))
    return (*known, Replacement(removed | stained, added, followed))


def _single(deletes: Sequence[_Delete], until: int, known: Index | None = None) -> list[FileDelete] | None:
    """The deletes as file-scoped deletes; None if one may apply to several data files.

    Equality deletes with a sequence number above ``until`` are left out. A manifest keeps no bounds for a removed
    delete file, so ``known`` supplies its data file.
    """
    found = []
    for delete in deletes:
        if delete.content == EQUALITY:
            if int(delete.seq) <= until:
                return None
            continue
        path, offset = delete.key
        target = delete.target or (known.target_of(path) if known is not None else None)
        if not target:
            return None
        size = int(delete.file_bytes if offset is None else delete.content_bytes)
        found.append(FileDelete(target, int(delete.seq), path, int(delete.rows), size, offset))
    return found


def _moved(
    seen: Seen, came: Sequence[FileDelete], added: Mapping[DeleteKey, Any], gone: Collection[DeleteKey]
) -> dict[str, Any]:
    """The delete files of each data file after a commit, as fields of :class:`Seen`."""
    if seen.added is None:
        return {}
    now = {path: tuple(d for d in found if d[0] not in gone) for path, found in seen.added.items()}
    for delete in came:
        key = (delete.path, delete.offset)
        now[delete.target] = (*now.get(delete.target, ()), (key, added[key]))
    return {"added": now, "gone": seen.gone | frozenset(gone)}


def key_of(delete: Any) -> DeleteKey:
    """The identity of a delete file: path and offset, as one Puffin file holds several deletion vectors."""
    offset = delete.contentOffset()
    return str(delete.location()), None if offset is None else int(offset)


def among(paths: pa.Array, wanted: Collection[str]) -> set[str]:
    """The paths of ``wanted`` that are in ``paths``, which may be much larger."""
    if not wanted:
        return set()
    found = paths.filter(pc.is_in(paths, value_set=pa.array(list(wanted), pa.string())))
    return set(found.to_pylist())


def unpartitioned(jvm: Iceberg, metadata: Any) -> frozenset[int]:
    """The ids of the specs without partition fields."""
    return frozenset(int(spec.specId()) for spec in jvm.items(metadata.specs()) if spec.isUnpartitioned())
