"""Reachability: the manifests of snapshots and the files in them. Loops run in the JVM and return only matches.

    a path     s3a://bucket/t/data/f.parquet    file:///t//data/f.parquet    /t/x/.././data/f.parquet
    its key           t/data/f.parquet                 t/data/f.parquet       t/data/f.parquet

Catalogs and engines spell one location in several ways (apache/iceberg 4346, 10334), and a listing prints none of the
steps that change nothing (``//``, ``/./``, ``/x/../``). So paths are compared by keys: without scheme and authority,
and with plain steps only. Two files may share a key: then both count as referenced, and are kept.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakekeeper.errors import AdapterError, reason
from lakekeeper_iceberg.metadata_reads import read_again
from lakekeeper_iceberg.native import Iceberg

_PLACE = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)?/*"
_FOLDERS = r"(?s)^.*/"
_THREADS = 4
_AT_ONCE = 64  # manifest lists held in memory
_MANIFEST = "org.apache.iceberg.ManifestFile"
_SNAPSHOT = "org.apache.iceberg.Snapshot"

Item = TypeVar("Item")
Made = TypeVar("Made")


def path_key(path: str) -> str:
    """The path without scheme and authority, equal for all spellings of one location; :class:`Reach` has it in Java."""
    return posixpath.normpath(re.sub(_PLACE, "", path, count=1))


def name_of(path: str) -> str:
    """The last step of a path; :meth:`Reach.by_name` has it in Java."""
    return path.rpartition("/")[2]


def store_of(path: str) -> str:
    """The scheme and authority of a path, with the slashes after them."""
    return path[: len(path) - len(re.sub(_PLACE, "", path, count=1))]


def keys_of(paths: Iterable[str]) -> set[str]:
    """The keys of several paths."""
    return {path_key(path) for path in paths}


@dataclass(frozen=True, slots=True)
class Reach:
    """Reads manifest lists and manifests of one TableMetadata. Raises AdapterError for one that cannot be read.

    Java's ManifestFile objects are equal if their paths are, so Java sets and maps of them work without copies.
    """

    jvm: Iceberg
    name: str
    io: Any
    base: Any
    _cut: str = _PLACE
    _specs: Any = field(init=False)
    _key: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_specs", self.base.specsById())
        object.__setattr__(self, "_key", self.jvm.path_key(self._cut))

    def by_name(self) -> Reach:
        """The same metadata; the key of a file is its name, whatever its folder."""
        return Reach(self.jvm, self.name, self.io, self.base, _FOLDERS)

    def manifests(self, snapshots: Iterable[int]) -> Any:
        """A Java set of all manifests of these snapshots."""
        found = self.new_set()
        for _, named in self._lists(list(snapshots)):
            found.addAll(named)
        return found

    def last_named(self, snapshots: Iterable[int], but: Any) -> Iterator[tuple[int, Any]]:
        """(snapshot, ManifestFile) for each manifest of these snapshots, once, except those in ``but`` (a Java set).

        Each is paired with the first snapshot that references it: pass the newest snapshot first.
        """
        known = self.jvm.view.java.util.HashSet(but)
        fresh = getattr(self.jvm.base.Predicates, "not")(getattr(self.jvm.base.Predicates, "in")(known))
        for version, named in self._lists(list(snapshots)):
            new = self.jvm.collect.Lists.newArrayList(self.jvm.collect.Iterables.filter(named, fresh))
            known.addAll(new)
            for manifest in new:
                yield version, manifest

    def paths(self, manifests: Any) -> list[str]:
        """The paths of manifests."""
        return self.jvm.values_of(manifests, _MANIFEST, "path", "java.lang.String")

    def new_set(self) -> Any:
        """A thread-safe Java set."""
        return self.jvm.view.java.util.concurrent.ConcurrentHashMap.newKeySet()

    def add(self, manifests: Sequence[Any], keys: Any) -> None:
        """Add the keys of all live files of these manifests to a Java set."""

        def work(paths: Any) -> None:
            self.jvm.collect.Iterables.addAll(keys, self.jvm.collect.Iterables.transform(paths, self._key))

        self._each(manifests, work)

    def strike(self, manifests: Sequence[Any], keys: Any) -> None:
        """Remove the keys of all live files of these manifests from a Java set, without keeping their content."""
        known = getattr(self.jvm.base.Predicates, "in")(keys)

        def work(paths: Any) -> None:
            if not keys.isEmpty():
                met = self.jvm.collect.Iterables.filter(
                    self.jvm.collect.Iterables.transform(paths, self._key), known
                )
                keys.removeAll(self.jvm.collect.Lists.newArrayList(met))

        self._each(manifests, work)

    def chosen(self, manifests: Sequence[Any], keys: Any) -> list[list[str]]:
        """For each manifest, the paths of live files whose keys are in a Java set, as spelled in the manifest."""
        known = self.jvm.base.Predicates.compose(getattr(self.jvm.base.Predicates, "in")(keys), self._key)

        def work(paths: Any) -> list[str]:
            found = self.jvm.collect.Lists.newArrayList(self.jvm.collect.Iterables.filter(paths, known))
            return [] if found.isEmpty() else self.jvm.texts(found)

        return self._each(manifests, work)

    def texts(self, keys: Any) -> set[str]:
        """The keys in a Java set."""
        return set() if keys.isEmpty() else set(self.jvm.texts(keys))

    def _each(self, manifests: Sequence[Any], work: Callable[[Any], Made]) -> list[Made]:
        def read(manifest: Any) -> Made:
            with self.jvm.live_paths(manifest, self.io, self._specs) as paths:
                return work(paths)

        def one(manifest: Any) -> Made:
            try:
                return read_again(lambda: read(manifest))
            except Exception as error:
                raise self._unread(f"the manifest {manifest.path()}", error) from error

        return list(_in_threads(one, manifests))

    def _lists(self, snapshots: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """(snapshot, Java list of its manifests), in the order given."""
        parser = "org.apache.iceberg.SnapshotParser"
        to_json, from_json = self.jvm.static(parser, "toJson"), self.jvm.static(parser, "fromJson")

        def one(version: int) -> tuple[int, Any]:
            try:
                # A Snapshot object caches its manifests: read them from a copy that is released immediately.
                copy = from_json(to_json(self.base.snapshot(version)))
                return version, read_again(lambda: copy.allManifests(self.io))
            except Exception as error:
                raise self._unread(f"the manifest list of snapshot {version}", error) from error

        for start in range(0, len(snapshots), _AT_ONCE):
            yield from _in_threads(one, snapshots[start : start + _AT_ONCE])

    def _unread(self, what: str, error: Exception) -> AdapterError:
        return AdapterError(
            f"{self.name}: {what} cannot be read ({reason(error)}), so it is not known which files are in use; "
            "nothing was deleted"
        )


def metadata_paths(reach: Reach) -> dict[str, tuple[str, frozenset[int]]]:
    """Path → (kind, snapshots) of all manifest lists and statistics files that the metadata references.

    One file may be registered for several snapshots; statistics may be of a snapshot that has expired.
    """
    base, jvm = reach.base, reach.jvm
    places = jvm.values_of(base.snapshots(), _SNAPSHOT, "manifestListLocation", "java.lang.String")
    # Snapshots of old tables may have no manifest list.
    named = [
        (place, "manifest list", version)
        for version, place in zip(snapshot_ids(reach), places, strict=True)
        if place
    ]
    for files in (base.statisticsFiles(), base.partitionStatisticsFiles()):
        named += [(str(file.path()), "statistics", int(file.snapshotId())) for file in files]
    by_key: dict[str, tuple[str, str, frozenset[int]]] = {}
    for place, kind, version in named:
        first, _, versions = by_key.get(path_key(place), (place, kind, frozenset[int]()))
        by_key[path_key(place)] = (first, kind, versions | {version})
    return {place: (kind, versions) for place, kind, versions in by_key.values()}


def snapshot_ids(reach: Reach) -> list[int]:
    """The ids of all snapshots in the metadata, in its order."""
    return [
        int(snapshot)
        for snapshot in reach.jvm.values_of(reach.base.snapshots(), _SNAPSHOT, "snapshotId", "long")
    ]


def in_time(reach: Reach) -> dict[int, int]:
    """Snapshot → its rank in time, from 1: by sequence number (v1 has none), then by timestamp."""
    all_of = reach.base.snapshots()
    columns = [
        reach.jvm.values_of(all_of, _SNAPSHOT, name, "long") for name in ("sequenceNumber", "timestampMillis")
    ]
    rows = sorted((int(s), int(at), v) for s, at, v in zip(*columns, snapshot_ids(reach), strict=True))
    return {version: place for place, (_, _, version) in enumerate(rows, 1)}


def _in_threads(work: Callable[[Item], Made], items: Sequence[Item]) -> Iterator[Made]:
    """Results in order. The first error cancels the rest."""
    if len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(_THREADS, len(items)), thread_name_prefix="lakekeeper-reach") as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
