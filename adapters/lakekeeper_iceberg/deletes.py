"""Which deletes apply to which data file, by Iceberg's rules for sequence numbers and partitions.

kind                          applies to                             if the data sequence number is
deletion vector (v3)          the data file it references            ≤ its own; other position deletes are then ignored
position delete, file-scoped  the data file it references            ≤ its own
position delete, other        data files of its spec and partition   ≤ its own
equality delete               data files of its spec and partition;  < its own
                              all if its spec is unpartitioned

A position delete cannot reference a data file that was added after it, even if a rewrite gave the file a lower data
sequence number.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper.core.units import Ints
from lakekeeper_iceberg.listing import Listing

EQUALITY = 2
_NEVER = 1 << 62  # a commit time after all others
MATCHED = ("path", "seq", "file_seq", "spec", "partition")
"""Columns of a listing by which a data file is matched with deletes."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Per data file: the id of its set of deletes (``""``: none), the rows they delete (or UNKNOWN), their bytes.

    ``delete_rows`` are the rows in them: of delete files of a partition, most may name rows of other data files.
    ``counted``: False where the rows are an upper bound. A position delete file may name a row twice, and its record
    count counts it twice; the cardinality of a deletion vector is exact. ``delete_files`` is how many there are, and
    ``deleted_at`` the commit time of the oldest in ms since the epoch. It is 0 where one is unknown: its snapshot has
    expired, or it is of one data file, for which a writer replaces the deletes before by its own.
    """

    delete_id: list[str]
    deleted_rows: Ints
    delete_bytes: Ints
    delete_rows: Ints
    counted: npt.NDArray[np.bool_]
    delete_files: Ints
    deleted_at: Ints


class Deleted(NamedTuple):
    """The deletes of one data file; see :class:`Applied`."""

    delete_id: str = ""
    rows: int = 0
    bytes: int = 0
    files: int = 0
    at_ms: int = 0
    named: int = 0


@dataclass(slots=True)
class _Scope:
    """Deletes of one kind and partition, ordered by sequence number; a suffix of the list applies to a data file.

    ``found`` has the sequence number, path, bytes, commit time and rows of each.
    """

    found: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    suffixes: list[Deleted] = field(default_factory=list)

    def close(self) -> None:
        self.found.sort()
        self.seqs = [seq for seq, *_ in self.found]
        digest, total, named, oldest = hashlib.sha256(), 0, 0, _NEVER
        for count, (_, path, size, at_ms, rows) in enumerate(reversed(self.found), 1):
            digest.update(path.encode() + b"\0")
            total, named, oldest = total + size, named + rows, min(oldest, at_ms)
            self.suffixes.append(Deleted(digest.hexdigest()[:16], UNKNOWN, total, count, oldest, named))
        self.suffixes.reverse()

    def of(self, at: int) -> Deleted:
        return self.suffixes[at] if at < len(self.suffixes) else Deleted()


@dataclass(frozen=True, slots=True)
class FileDelete:
    """A file-scoped delete of one data file, ``target``; ``offset`` is that of a deletion vector in its Puffin file."""

    target: str
    seq: int
    path: str
    rows: int
    bytes: int
    offset: int | None = None


@dataclass(slots=True)
class Index:
    """Delete files by the data files that they can apply to.

    ``by_file`` has the sequence number, path, rows and bytes of each.
    """

    vectors: dict[str, Deleted] = field(default_factory=dict)
    by_file: dict[str, list[tuple[int, str, int, int]]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[tuple[int, str], _Scope] = field(default_factory=lambda: defaultdict(_Scope))
    equalities: dict[tuple[int, str], _Scope] = field(default_factory=lambda: defaultdict(_Scope))
    anywhere: _Scope = field(default_factory=_Scope)

    def changed(self, removed: Iterable[FileDelete], added: Iterable[FileDelete]) -> Index:
        """The index after a commit that changed file-scoped deletes only."""
        vectors, by_file = dict(self.vectors), self.by_file.copy()
        for delete in removed:
            if delete.offset is None:
                by_file[delete.target] = [own for own in by_file[delete.target] if own[1] != delete.path]
            elif vectors.get(delete.target, Deleted()).delete_id == _vector(delete):
                del vectors[delete.target]
        for delete in added:
            if delete.offset is None:
                own = (delete.seq, delete.path, delete.rows, delete.bytes)
                by_file[delete.target] = [*by_file[delete.target], own]
            else:
                vectors[delete.target] = _exactly(_vector(delete), delete.rows, delete.bytes)
        return replace(self, vectors=vectors, by_file=by_file)

    def target_of(self, delete: str) -> str | None:
        """The data file of the file-scoped position delete file at this path; None if unknown."""
        return next(
            (target for target, own in self.by_file.items() if any(path == delete for _, path, *_ in own)),
            None,
        )

    def of(self, path: str, seqs: tuple[int, int], place: tuple[int, str]) -> Deleted:
        """The deletes of a data file; ``seqs`` are its (data, file) sequence numbers."""
        return _one(self, path, seqs, place)


def _exactly(name: str, rows: int, size: int) -> Deleted:
    """A delete of one data file."""
    return Deleted(name, rows, size, 1, named=rows)


def _vector(delete: FileDelete) -> str:
    return f"{delete.path}#{delete.offset}"


def apply_deletes(
    listing: Listing,
    unpartitioned: frozenset[int],
    equality_until: int | None = None,
    committed_at: Mapping[int, int] | None = None,
) -> Applied:
    """The deletes that apply to each data file of a listing.

    ``unpartitioned`` are the partition specs without fields: their equality deletes apply to all data files. Equality
    deletes with a sequence number above ``equality_until`` are left out: they also apply to a rewrite's outputs, which
    keep the sequence number of the snapshot that was read, so the rewrite need not reflect them. ``committed_at`` are
    the commit times of snapshots.
    """
    n = listing.data.num_rows
    rows, size, files, at_ms, named = np.zeros((5, n), np.int64)
    if listing.deletes.num_rows == 0:
        return Applied([""] * n, rows, size, named, np.ones(n, np.bool_), files, at_ms)
    index = index_of(listing.deletes, unpartitioned, equality_until, committed_at)
    ids = [""] * n
    hit = np.flatnonzero(_in_reach(listing.data, index))
    data = listing.data.select(MATCHED).take(pa.array(hit))
    for i, path, seq, added, spec, partition in zip(
        hit.tolist(), *(column.to_pylist() for column in data.columns), strict=True
    ):
        found = _one(index, path, (seq, added), (spec, partition))
        ids[i], rows[i], size[i], files[i], at_ms[i], named[i] = found
    physical = listing.data["rows"].to_numpy()
    # More deleted rows than rows: a delete file has duplicate positions, and the count is not even an estimate.
    rows = np.where(rows > physical, UNKNOWN, rows)
    return Applied(ids, rows, size, named, (rows == 0) | _with_vector(listing.data, index), files, at_ms)


def _with_vector(data: pa.Table, index: Index) -> npt.NDArray[np.bool_]:
    named = pa.array(list(index.vectors), data["path"].type)
    return np.asarray(pc.is_in(data["path"], value_set=named).to_numpy(), np.bool_)


def _in_reach(data: pa.Table, index: Index) -> npt.NDArray[np.bool_]:
    """The data files that some delete may apply to: all others, most of a large table, are not looked at one by one."""
    partitions = {partition for _, partition in (*index.positions, *index.equalities)}
    found = np.zeros(data.num_rows, np.bool_)
    for column, named in (("path", {*index.vectors, *index.by_file}), ("partition", partitions)):
        if named:
            values = pa.array(list(named), data[column].type)
            found |= pc.is_in(data[column], value_set=values).to_numpy()
    if index.anywhere.seqs:
        found |= data["seq"].to_numpy() < index.anywhere.seqs[-1]
    return found


def _one(index: Index, path: str, seqs: tuple[int, int], place: tuple[int, str]) -> Deleted:
    """The deletes of a data file with its (data, file) sequence numbers."""
    seq, added = seqs
    parts: list[Deleted] = []
    vector = index.vectors.get(path)
    if vector is not None:
        parts.append(vector)
    else:
        own = sorted(d for d in index.by_file.get(path, ()) if d[0] >= seq)
        parts += [_exactly(name, rows, size) for _, name, rows, size in own]
        scope = index.positions.get(place)
        parts += [scope.of(bisect_left(scope.seqs, max(seq, added)))] if scope else []
    for scope in (index.equalities.get(place), index.anywhere):
        found = scope.of(bisect_right(scope.seqs, seq)) if scope else Deleted()
        parts.append(found._replace(delete_id=f"={found.delete_id}") if found.files else found)
    return _together([part for part in parts if part.files])


def _together(parts: list[Deleted]) -> Deleted:
    """All deletes of a data file. Two delete files may hold the same position, so that their rows have no sum."""
    if not parts:
        return Deleted()
    name = hashlib.sha256("\0".join(part.delete_id for part in parts).encode()).hexdigest()[:16]
    return Deleted(
        name,
        parts[0].rows if len(parts) == 1 else UNKNOWN,
        sum(part.bytes for part in parts),
        sum(part.files for part in parts),
        min(part.at_ms for part in parts),
        sum(part.named for part in parts),
    )


def index_of(
    deletes: pa.Table,
    unpartitioned: frozenset[int],
    equality_until: int | None,
    committed_at: Mapping[int, int] | None = None,
) -> Index:
    """The delete files of a listing; see :func:`apply_deletes`."""
    index, times = Index(), committed_at or {}
    for d in deletes.to_pylist():
        found = (d["seq"], d["path"], d["bytes"], times.get(d["snapshot_id"], 0), d["rows"])
        if d["content"] == EQUALITY:
            if equality_until is None or d["seq"] <= equality_until:
                scope = (
                    index.anywhere
                    if d["spec"] in unpartitioned
                    else index.equalities[d["spec"], d["partition"]]
                )
                scope.found.append(found)
        elif d["dv_offset"] is not None:
            name = f"{d['path']}#{d['dv_offset']}"
            index.vectors[d["referenced"]] = _exactly(name, d["rows"], d["dv_bytes"] or 0)
        elif (target := target_of(d)) is not None:
            index.by_file[target].append((d["seq"], d["path"], d["rows"], d["bytes"]))
        else:
            index.positions[d["spec"], d["partition"]].found.append(found)
    for scope in (*index.positions.values(), *index.equalities.values(), index.anywhere):
        scope.close()
    return index


def target_of(delete: dict[str, Any]) -> str | None:
    """The data file that a position delete file applies to, if it is file-scoped."""
    if delete["referenced"] is not None:
        return str(delete["referenced"])
    low, high = delete["path_low"], delete["path_high"]
    return bytes(low).decode() if low is not None and low == high else None
