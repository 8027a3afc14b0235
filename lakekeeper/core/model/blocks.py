"""The block model: a table's live data files with their deletes, as columns.

A table can have 10⁶ files and more, so a :class:`BlockSet` is a struct of arrays (numpy for numbers,
Arrow for text and bounds). :class:`Block` is a view of one row, for printing and for small groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.keys import ClusterKey, arrow_type
from lakekeeper.core.units import Ints

if TYPE_CHECKING:
    from lakekeeper.core.model.boundaries import Boundaries

Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]
UNKNOWN = -1  # a count or position that the statistics do not record


@dataclass(frozen=True, slots=True)
class Block:
    """One live data file; sizes in bytes, ``added_at`` in ms since the epoch, bounds as Python values."""

    path: str
    partition: str
    spec: int
    rows: int
    bytes: int
    deleted_rows: int
    delete_bytes: int
    delete_id: str
    level: int
    key_id: str
    lo: tuple[Any, ...]
    hi: tuple[Any, ...]
    null_count: tuple[int, ...]
    exact: tuple[bool, ...]
    added_at: int


@dataclass(frozen=True, slots=True, eq=False)
class BlockSet:
    """``N`` blocks, column by column.

    path          N distinct strings: the name of the file in the log
    partition     N codes into ``partitions`` (canonical text of the partition values, ``""`` for none)
    spec          N partition spec ids (0 where the format has none)
    rows, bytes   physical rows and bytes of the file, including the ``deleted_rows`` that deletes remove
    counted       N flags: False where ``deleted_rows`` is an upper bound, since a delete file may name a row twice
    delete_id     N strings that identify the deletes in force, ``""`` for none: (path, delete_id) is the logical file
    delete_files  N counts of the delete files that a reader of the block opens
    delete_rows   N counts of the rows in these, which may name rows of other blocks too, ``UNKNOWN`` where not recorded
    deleted_at    N commit times (ms since the epoch) of the oldest of them, 0 where unknown: then they count as half as
                  old as the block
    level         how often the rows were reclustered under the key ``key_ids[key_id]`` (code -1: under no key)
    lo, hi        per key column, N bounds in the column's Arrow type; null where missing
    null_count    per key column, N counts, ``UNKNOWN`` where the statistics do not record it
    exact         per key column, N flags: False where the bounds were truncated (they are then wider, never narrower)
    added_at      N times in ms since the epoch (0 where unknown)
    curve_lo, curve_hi  N first and last curve positions of the rows, ``UNKNOWN`` where none is stored; exact under the
                  rank boundaries ``curve_ids[curve_id]``, wide where that code is -1
    placed_by     id of the boundaries under which all N curve ranges compare, see ``rank_boundaries.placed``;
                  ``""``: the ranges are those stored with the files, of any key, and do not apply to this one
    """

    path: pa.Array
    partition: npt.NDArray[np.int32]
    partitions: tuple[str, ...]
    spec: npt.NDArray[np.int32]
    rows: Ints
    bytes: Ints
    deleted_rows: Ints
    counted: Bools
    delete_bytes: Ints
    delete_id: pa.Array
    delete_files: Ints
    delete_rows: Ints
    deleted_at: Ints
    level: npt.NDArray[np.int16]
    key_id: npt.NDArray[np.int32]
    key_ids: tuple[str, ...]
    lo: tuple[pa.Array, ...]
    hi: tuple[pa.Array, ...]
    null_count: tuple[Ints, ...]
    exact: tuple[Bools, ...]
    added_at: Ints
    curve_lo: Ints
    curve_hi: Ints
    curve_id: npt.NDArray[np.int32]
    curve_ids: tuple[str, ...]
    placed_by: str = ""

    def __len__(self) -> int:
        return len(self.path)

    def __iter__(self) -> Iterator[Block]:
        return (self.block(i) for i in range(len(self)))

    def block(self, i: int) -> Block:
        """Row ``i`` as a value."""
        code = int(self.key_id[i])
        return Block(
            path=self.path[i].as_py(),
            partition=self.partitions[int(self.partition[i])],
            spec=int(self.spec[i]),
            rows=int(self.rows[i]),
            bytes=int(self.bytes[i]),
            deleted_rows=int(self.deleted_rows[i]),
            delete_bytes=int(self.delete_bytes[i]),
            delete_id=self.delete_id[i].as_py(),
            level=int(self.level[i]),
            key_id=self.key_ids[code] if code >= 0 else "",
            lo=tuple(python_value(column[i]) for column in self.lo),
            hi=tuple(python_value(column[i]) for column in self.hi),
            null_count=tuple(int(column[i]) for column in self.null_count),
            exact=tuple(bool(column[i]) for column in self.exact),
            added_at=int(self.added_at[i]),
        )

    def take(self, index: Index | Bools) -> BlockSet:
        """The blocks at ``index`` (positions or a mask), in that order; code tables are kept whole."""
        at = np.flatnonzero(index) if index.dtype == np.bool_ else index
        indices = pa.array(at)
        changed: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                changed[f.name] = value[at]
            elif isinstance(value, pa.Array):
                changed[f.name] = value.take(indices)
            elif f.name in ("lo", "hi"):
                changed[f.name] = tuple(column.take(indices) for column in value)
            elif f.name in ("null_count", "exact"):
                changed[f.name] = tuple(column[at] for column in value)
        return replace(self, **changed)

    @property
    def live_rows(self) -> Ints:
        """Rows that are not deleted; ``UNKNOWN`` where the statistics do not record exactly how many are."""
        sure = (self.deleted_rows == 0) | (self.counted & (self.deleted_rows > 0))
        return np.where(sure, self.rows - self.deleted_rows, UNKNOWN)

    @property
    def least_live_rows(self) -> Ints:
        """A lower bound of the rows that are not deleted; 0 where the statistics give none."""
        return np.where(self.deleted_rows < 0, 0, np.maximum(self.rows - self.deleted_rows, 0))

    @property
    def live_bytes(self) -> Ints:
        """Bytes that would remain without the deleted rows, in proportion to their share of the rows."""
        if not self.deleted_rows.any():
            return np.array(self.bytes, np.int64)
        alive = 1.0 - self.deleted_rows / np.maximum(self.rows, 1)
        return np.asarray(self.bytes * np.clip(alive, 0.0, 1.0), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays, in bytes."""
        total = 0
        for f in fields(self):
            value = getattr(self, f.name)
            for column in value if isinstance(value, tuple) else (value,):
                total += int(getattr(column, "nbytes", 0))
        return total

    def level_under(self, key: ClusterKey | None) -> Ints:
        """Levels under ``key``: a block reclustered under another key, or none, is at level 0."""
        if key is None or key.key_id not in self.key_ids:
            return np.zeros(len(self), dtype=np.int64)
        same = self.key_id == self.key_ids.index(key.key_id)
        return np.where(same, self.level, 0).astype(np.int64)


def python_value(scalar: pa.Scalar) -> Any:
    """A bound as a Python value; beyond the year 9999, where Python's dates end, text with the days or µs."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return f"{scalar.value} {'days' if pa.types.is_date(scalar.type) else 'µs'} since 1970"


def encode(values: Sequence[str]) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Dictionary-encode text: (codes, distinct values in order of first appearance)."""
    coded = pa.array(values, pa.string()).dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int32), tuple(coded.dictionary.to_pylist())


def _named(values: Sequence[str]) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Like :func:`encode`, with code -1 for the empty text."""
    codes, names = encode(values)
    named = np.array([bool(name) for name in names], dtype=np.bool_)
    return (np.where(named[codes], codes, -1).astype(np.int32) if len(codes) else codes), names


def make_blocks(columns: Mapping[str, Any], key: ClusterKey | None) -> BlockSet:
    """A BlockSet from columns of equal length; all but ``path``, ``rows`` and ``bytes`` have defaults.

    By default, deletes count as one delete file that can delete ``deleted_rows`` rows.

    ``partition``, ``key_id`` and ``curve_id`` are plain text here (``""`` for none); ``lo``, ``hi``, ``null_count``
    and ``exact`` have one column for each column of ``key``, and are required with a key. Bounds whose least is above
    the greatest count as missing. Raises ValueError if lengths differ.
    """
    path = _text(columns["path"])
    n = len(path)
    width = 0 if key is None else len(key.columns)
    kinds = [] if key is None else [arrow_type(c.kind) for c in key.columns]
    bounds = [
        _in_order(_typed(columns["lo"][i], kinds[i]), _typed(columns["hi"][i], kinds[i]))
        for i in range(width)
    ]
    zeros = np.zeros(n, np.int64)
    partition, partitions = encode(columns.get("partition", [""] * n))
    key_id, key_ids = _named(columns.get("key_id", [""] * n))
    curve_id, curve_ids = _named(columns.get("curve_id", [""] * n))
    unknown = np.full(n, UNKNOWN, np.int64)
    deleted_rows = np.asarray(columns.get("deleted_rows", zeros), np.int64)
    delete_id = _text(columns.get("delete_id", [""] * n))
    deletes = np.asarray(pc.not_equal(delete_id, "").to_numpy(zero_copy_only=False), np.bool_)
    built = BlockSet(
        path=path,
        partition=partition,
        partitions=partitions,
        spec=np.asarray(columns.get("spec", zeros), np.int32),
        rows=np.asarray(columns["rows"], np.int64),
        bytes=np.asarray(columns["bytes"], np.int64),
        deleted_rows=deleted_rows,
        counted=np.asarray(columns.get("counted", np.ones(n, np.bool_)), np.bool_),
        delete_bytes=np.asarray(columns.get("delete_bytes", zeros), np.int64),
        delete_id=delete_id,
        delete_files=np.asarray(columns.get("delete_files", deletes | (deleted_rows > 0)), np.int64),
        delete_rows=np.asarray(columns.get("delete_rows", deleted_rows), np.int64),
        deleted_at=np.asarray(columns.get("deleted_at", zeros), np.int64),
        level=np.asarray(columns.get("level", zeros), np.int16),
        key_id=key_id,
        key_ids=key_ids,
        lo=tuple(lo for lo, _ in bounds),
        hi=tuple(hi for _, hi in bounds),
        null_count=tuple(np.asarray(columns["null_count"][i], np.int64) for i in range(width)),
        exact=tuple(np.asarray(columns["exact"][i], np.bool_) for i in range(width)),
        added_at=np.asarray(columns.get("added_at", zeros), np.int64),
        curve_lo=np.asarray(columns.get("curve_lo", unknown), np.int64),
        curve_hi=np.asarray(columns.get("curve_hi", unknown), np.int64),
        curve_id=curve_id,
        curve_ids=curve_ids,
    )
    _check_lengths(built, n)
    return built


def no_blocks() -> BlockSet:
    """An empty BlockSet without a key."""
    return make_blocks({"path": [], "rows": [], "bytes": []}, None)


def _check_lengths(blocks: BlockSet, n: int) -> None:
    for f in fields(blocks):
        value = getattr(blocks, f.name)
        if f.name in ("partitions", "key_ids", "curve_ids", "placed_by"):
            continue
        for column in value if isinstance(value, tuple) else (value,):
            if len(column) != n:
                raise ValueError(f"blocks: column {f.name} has {len(column)} values, path has {n}")


def _text(values: Any) -> pa.Array:
    return _typed(values, pa.string())


def _in_order(lo: pa.Array, hi: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bounds of blocks, missing where the least is above the greatest: such statistics are wrong, and say nothing."""
    if len(lo) != len(hi):
        return lo, hi  # refused below
    wrong = pc.greater(lo, hi)
    if pa.types.is_floating(lo.type):  # NaN is the greatest value
        wrong = pc.or_kleene(wrong, pc.and_(pc.is_nan(lo), pc.invert(pc.is_nan(hi))))
    wrong = pc.fill_null(wrong, fill_value=False)
    if not pc.any(wrong).as_py():
        return lo, hi
    missing = pa.scalar(None, lo.type)
    return pc.if_else(wrong, missing, lo), pc.if_else(wrong, missing, hi)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if values.type == kind else values.cast(kind)
    return pa.array(values, kind)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One pinned version of one table; immutable, independent of later commits.

    table         the name that the caller passed
    format        the adapter's name (``delta``, ``iceberg``, ``memory``)
    version       the format's version or snapshot id; ``None`` for a table without a version
    table_uuid    distinguishes a re-created table of the same name
    schema_id     changes with the columns or the partitioning
    key           the cluster key that ``lo`` and ``hi`` belong to
    complete      False where a ``where`` predicate excluded blocks: never vacuum from such a snapshot
    properties    the table's own properties
    commits_ms    times (ms since the epoch, ascending) of the recent commits that added or deleted rows, as far back as
                  the log shows without further reads; empty if it shows none
    rewritten     (2, K): times (ms, ascending) of our own recent rewrites, and the bytes that each read; None where the
                  log does not record them without further reads
    memo          cache of values derived from this snapshot, by name; valid because a snapshot never changes
    boundaries    rank boundaries stored next to the table's data, for a key that follows a curve; None: missing, or not
                  loaded
    key_problem   why ``key`` is None although the table stores one: its column was dropped, has no statistics …
    log_mark      what distinguishes the version's commit from one of the same number, which a log has that was restored
                  from a backup and written on; empty if that commit was not looked at, or if a version is unique
    """

    table: str
    format: str
    version: int | None
    table_uuid: str
    schema_id: str
    key: ClusterKey | None
    blocks: BlockSet
    complete: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    commits_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    rewritten: Ints | None = field(default=None, compare=False)
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    boundaries: Boundaries | None = None
    key_problem: str = ""
    log_mark: str = ""

    def at_version(self, version: int | None) -> Snapshot:
        """A name for another version of the table, whose commit was not looked at; the blocks are still these."""
        return replace(self, version=version, log_mark="")
