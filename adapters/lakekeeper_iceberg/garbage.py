"""Files that only expired snapshots reference. Exact, from metadata alone; memory grows with the expired part.

    expired snapshots ─► manifests that no kept snapshot references ─► live files of these: candidates
    kept snapshots    ─► all their manifests ─► strike the candidates that they reference: the rest is dead

Sequence numbers and partitions prove nothing about a candidate: a file may have been removed and added again, and a
staged snapshot may have been cherry-picked. Only file paths are compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.vacuum.path_guard import NOTES, TRASH, Grounds, below, refusal
from lakekeeper.core.vacuum.retention import Kept
from lakekeeper.core.vacuum.vacuum_plan import METADATA_KINDS, Dead, Garbage
from lakekeeper.errors import AdapterError
from lakekeeper_iceberg.reachability import (
    Reach,
    in_time,
    keys_of,
    metadata_paths,
    name_of,
    path_key,
    snapshot_ids,
)

_IN_TRASH = f"/{NOTES}/{TRASH}/"
_MOST = 500_000  # candidates held in memory; more of them need another pass over the kept manifests
_CHUNK = 64
_CONTENT = {"DATA": "data", "DELETES": "deletes"}


@dataclass(frozen=True, slots=True)
class _Gone:
    """A manifest to remove, and the last snapshot that references it."""

    manifest: Any
    path: str
    kind: str
    version: int


def garbage_of(reach: Reach, grounds: Grounds, kept: Kept, hints: Collection[str]) -> Garbage:
    """See ``spi.Storage.garbage``.

    Previous metadata files are not garbage: the catalog deletes them if the table is configured so
    (``write.metadata.delete-after-commit.enabled``).
    """
    if not kept.gone and not hints:
        return Garbage(())
    order = in_time(reach)
    gone = sorted(kept.gone, key=order.__getitem__, reverse=True)
    stays = reach.manifests(kept.reasons)
    _refuse_empty(reach, stays)
    files = metadata_paths(reach)
    dropped = frozenset(gone)
    leaves = {path: leaving for path, leaving in files.items() if leaving[1] <= dropped}
    named = keys_of([*reach.paths(stays), *(files.keys() - leaves.keys()), *log_files(reach.base)])
    going = [
        _Gone(manifest, path, str(manifest.content()), version)
        for version, manifest in reach.last_named(gone, stays)
        if path_key(path := str(manifest.path())) not in named
    ]
    finds = _Finds(named, order, grounds)
    hinted = {path_key(path): path for path in hints}
    manifests = list(reach.jvm.view.java.util.ArrayList(stays))
    dead = _dead_keys(reach, [g.manifest for g in going], manifests, hinted)
    for g, path in _named_by(reach, going, dead):
        finds.add(path, _CONTENT[g.kind], g.version, f"last referenced by snapshot {g.version}")
    for g in going:
        finds.add(g.path, "manifest", g.version, f"last referenced by snapshot {g.version}")
    for path, (kind, versions) in leaves.items():
        version = max(versions, key=order.__getitem__)
        finds.add(path, kind, version, f"of snapshot {version}")
    for path in (hinted[key] for key in reach.texts(dead) & hinted.keys()):
        finds.add(path, kind_of(path), 0, "found unused before, and still not referenced", logged=False)
    return finds.garbage(len(manifests) + len(going) + len(kept.reasons) + len(gone))


@dataclass(slots=True)
class _Finds:
    """Dead files, each once; files that retained metadata references (``named``, by keys) are never among them."""

    named: Collection[str]
    order: Mapping[int, int]
    grounds: Grounds
    files: dict[str, Dead] = field(default_factory=dict)

    def add(self, path: str, kind: str, version: int, why: str, *, logged: bool = True) -> None:
        key = path_key(path)
        if kind and key not in self.named and key not in self.files:
            partition = "" if kind in METADATA_KINDS else _partition(path, self.grounds)
            self.files[key] = Dead(path, kind, version, self.order.get(version, 0), partition, why, logged)

    def garbage(self, examined: int) -> Garbage:
        outside = [f for f in self.files.values() if refusal(f.path, self.grounds, "metadata")]
        far = {f.path for f in outside}
        return Garbage(
            files=tuple(f for f in self.files.values() if f.path not in far),
            outside=tuple(f.path for f in outside),
            examined=examined,
        )


def named_of(reach: Reach, paths: Collection[str]) -> set[str]:
    """The paths that any snapshot or the metadata itself references, by their names alone except in the trash.

    A folder may have several paths, which their texts do not show: by a link, a mount or a router. After ``SET
    LOCATION``, the metadata names files by one and a listing by the other. The name of each file that a vacuum may
    delete has an id of its own. In the trash, a file has the name that it had before, which old snapshots may
    reference. Raises AdapterError if the table has no snapshot, or has data files but no manifest.
    """
    versions = snapshot_ids(reach)
    if not versions:
        raise AdapterError(f"{reach.name}: the table has no snapshot, so every file would look unused")
    stays = reach.manifests(versions)
    _refuse_empty(reach, stays)
    referenced = [*reach.paths(stays), *metadata_paths(reach), *log_files(reach.base)]
    found = set[str]()
    moved = {path for path in paths if _IN_TRASH in path}
    for some, look, key in ((moved, reach, path_key), (set(paths) - moved, reach.by_name(), name_of)):
        if some:
            left = _unreached(look, stays, set(map(key, some)) - set(map(key, referenced)))
            found |= {path for path in some if key(path) not in left}
    return found


def live_of(reach: Reach, heads: Collection[int], paths: Collection[str]) -> set[str]:
    """The paths of data and delete files that one of the snapshots ``heads`` references."""
    left = _unreached(reach, reach.manifests(heads), keys_of(paths))
    return {path for path in paths if path_key(path) not in left}


def _unreached(reach: Reach, manifests: Any, keys: Collection[str]) -> set[str]:
    """Those of ``keys`` that are of no live file in a Java set of manifests."""
    unreached = reach.new_set()
    unreached.addAll(reach.jvm.strings(keys))
    reach.strike(list(reach.jvm.view.java.util.ArrayList(manifests)), unreached)
    return reach.texts(unreached)


def log_files(base: Any) -> list[str]:
    """The current and previous metadata files, and the version hint of a Hadoop catalog."""
    found = [str(entry.file()) for entry in base.previousFiles()]
    current = base.metadataFileLocation()
    if current is not None:
        place = str(current)
        found += [place, f"{place.rpartition('/')[0]}/version-hint.text"]
    return found


def kind_of(path: str) -> str:
    """The kind of a file, by its name alone; empty for a file that must never be deleted."""
    name = path.rpartition("/")[2]
    if re.search(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$|^version-hint\.text$", name):
        return ""
    if name.endswith(".avro") and name.startswith("snap-"):
        return "manifest list"
    if re.search(r"-m\d+\.avro$|^optimized-m-[^/]*\.avro$", name):
        return "manifest"
    if name.endswith(".stats") or re.search(r"/metadata/[^/]*\.(parquet|puffin)$", path):
        return "statistics"
    return "deletes" if "-deletes" in name else "data"


def _dead_keys(reach: Reach, going: Sequence[Any], stays: Sequence[Any], hinted: Collection[str]) -> Any:
    """A Java set of the keys in manifests of expired snapshots, or in hints, that no kept manifest references."""
    dead, candidates = reach.new_set(), reach.new_set()
    candidates.addAll(reach.jvm.strings(hinted))
    for start in range(0, len(going), _CHUNK):
        reach.add(going[start : start + _CHUNK], candidates)
        if candidates.size() > _MOST:
            reach.strike(stays, candidates)
            dead.addAll(candidates)
            candidates.clear()
    if not candidates.isEmpty():
        reach.strike(stays, candidates)
        dead.addAll(candidates)
    return dead


def _refuse_empty(reach: Reach, manifests: Any) -> None:
    """Raise AdapterError for data files without a manifest: every file would look dead (apache/paimon 7710)."""
    current = reach.base.currentSnapshot()
    rows = "0" if current is None else current.summary().get("total-data-files") or "0"
    if int(rows) > 0 and manifests.isEmpty():
        raise AdapterError(
            f"{reach.name}: {rows} data files are live, but no manifest references any; nothing was deleted"
        )


def _named_by(reach: Reach, going: Sequence[_Gone], dead: Any) -> Iterator[tuple[_Gone, str]]:
    """(manifest, path) of the dead files, with paths as spelled in the manifest; newest manifests first."""
    for start in range(0, 0 if dead.isEmpty() else len(going), _CHUNK):
        part = going[start : start + _CHUNK]
        for g, paths in zip(part, reach.chosen([g.manifest for g in part], dead), strict=True):
            for path in paths:
                yield g, path


def _partition(path: str, grounds: Grounds) -> str:
    """The ``field=value`` segments of a path; files of one partition are deleted together."""
    return "/".join(step for step in below(path, grounds.roots).split("/")[:-1] if "=" in step)
