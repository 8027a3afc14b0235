"""Indexes of a snapshot that several parts of a plan share: intervals by partition, and the distribution of bytes.

Ranking the bounds is the most expensive step of planning. The results are cached with the snapshot, which never
changes: the next plan on it takes the time of the blocks that overlap, however many others there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.depth import DepthCurve, depth_curve
from lakekeeper.core.layout.key_distribution import Line, data_mass, places
from lakekeeper.core.layout.levels import partition_group
from lakekeeper.core.layout.overlap_groups import by_name
from lakekeeper.core.layout.ranks import Intervals, column_ranks, has_null, rank_blocks
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.units import Ints
from lakekeeper.errors import AdapterError

T = TypeVar("T")


def place_of(snapshot: Snapshot) -> Ints:
    """A number per block for its (partition, spec)."""
    return kept(snapshot, "place", lambda: partition_group(snapshot.blocks))


def column_line(snapshot: Snapshot, column: int) -> tuple[Ints, Ints, int]:
    """The ranks of one key column's bounds: see :func:`lakekeeper.core.layout.ranks.column_ranks`."""
    return kept(snapshot, f"column {column}", lambda: column_ranks(snapshot.blocks, column))


def table_line(snapshot: Snapshot, *, null_region: bool = True) -> Intervals:
    """All blocks of a snapshot that has a key as intervals, each partition on its own stretch.

    Raises AdapterError unless the blocks are placed as the key requires: see ``rank_boundaries.placed``.
    """
    if not null_region and not _any_null(snapshot):
        null_region = True  # no block has a NULL region: one line serves both
    return kept(snapshot, f"line {null_region}", lambda: _ranked(snapshot, null_region))


def table_curve(snapshot: Snapshot, *, null_region: bool = True) -> DepthCurve:
    """The depth along :func:`table_line`."""
    line = table_line(snapshot, null_region=null_region)
    shared = not (null_region or _any_null(snapshot))
    return kept(snapshot, f"curve {null_region or shared}", lambda: depth_curve(line))


def overlapping(snapshot: Snapshot) -> Bools:
    """The blocks that overlap another one along ``table_line(snapshot, null_region=False)``.

    Blocks that meet at an end only do not overlap: see :class:`lakekeeper.core.layout.depth.DepthCurve`.
    """

    def made() -> Bools:
        line, deep = (
            table_line(snapshot, null_region=False),
            table_curve(snapshot, null_region=False).folded > 1,
        )
        before = np.cumsum(deep, dtype=np.int32)
        return np.asarray((before[line.hi] > before[line.lo]) | deep[line.lo])

    return kept(snapshot, "overlapping", made)


def level_counts(snapshot: Snapshot) -> Mapping[int, int]:
    """Level under the snapshot's key → number of blocks."""

    def made() -> dict[int, int]:
        levels, counts = np.unique(snapshot.blocks.level_under(snapshot.key), return_counts=True)
        return {int(n): int(c) for n, c in zip(levels, counts, strict=True)}

    return kept(snapshot, "levels", made)


def order_of(snapshot: Snapshot) -> Index:
    """The blocks along ``table_line(snapshot, null_region=False)``, ordered by content and not by input order.

    Sums of doubles depend on their order; in this order they are the same for the same blocks.
    """
    return kept(snapshot, "order", lambda: _ordered(snapshot))


def _ordered(snapshot: Snapshot) -> Index:
    blocks, line = snapshot.blocks, table_line(snapshot, null_region=False)
    code = line.lo * max(line.points, 1) + line.hi
    order = np.argsort(code)
    if (code[order][1:] != code[order][:-1]).all():
        return order
    keys = (blocks.added_at, blocks.deleted_rows, blocks.rows, blocks.bytes, code)
    order = np.lexsort(keys)
    same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
    if not same.any():
        return order
    tied = np.append(same, False) | np.append(False, same)
    place = np.zeros(len(order), np.int64)
    place[order[tied]] = by_name(blocks.path.take(pa.array(order[tied])))
    return np.lexsort((place, *keys))


def data_line(snapshot: Snapshot) -> Line:
    """The live bytes along ``table_line(snapshot, null_region=False)``."""

    def made() -> Line:
        line, order = table_line(snapshot, null_region=False), order_of(snapshot)
        place = places(snapshot.blocks, line)
        return data_mass(line.at(order), place, snapshot.blocks.live_bytes[order])

    return kept(snapshot, "mass", made)


def _any_null(snapshot: Snapshot) -> bool:
    return kept(snapshot, "nulls", lambda: bool(has_null(snapshot.blocks).any()))


def _ranked(snapshot: Snapshot, null_region: bool) -> Intervals:
    key, place = snapshot.key, place_of(snapshot)
    if len(snapshot.blocks) and (key is not None and key.curved) != bool(snapshot.blocks.placed_by):
        raise AdapterError(
            f"{snapshot.table}: its blocks are not placed by the key {key}; boundaries.placed(snapshot) does that"
        )
    return rank_blocks(snapshot.blocks, place if place.any() else None, null_region=null_region)


def kept(snapshot: Snapshot, name: str, make: Callable[[], T]) -> T:
    """What ``make`` returns, which depends on the snapshot alone; made once for each snapshot and name."""
    memo = snapshot.memo
    if name not in memo:
        memo[name] = make()
    found: T = memo[name]
    return found
