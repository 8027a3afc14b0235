"""A snapshot along its key, at a bounded size: depth, runs of each level, and values to label the axis with.

    depth     ▂▂▅▅██▅▂▂▂          the deepest point in each of BINS equal shares of the data
    level 1     |-----|  |---|    blocks from the first to the last byte that they may hold,
              |-----|   |----|    in as few lanes as they need: a sorted run takes one
    level 0   ▂▂▂▅▅▅▅▅▂▂▂         of a level with too many blocks or lanes, its depth
    position  0              1    share of the table's live bytes, in key order

Partitions follow one another. However many blocks a table has, a profile holds some thousand numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.depth import Counts, curve_over, range_max
from lakekeeper.core.layout.key_distribution import data_mass, places
from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.layout.snapshot_index import table_curve, table_line
from lakekeeper.core.model.blocks import Bools, Index, Snapshot, python_value
from lakekeeper.core.model.plan import Tasks
from lakekeeper.core.units import Floats, Ints

BINS = 200
LANES = 40
BLOCKS_PER_LEVEL = 300
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_NEAR = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Blocks as intervals: positions from 0 to 1, a lane that each shares with no overlapping block, and its fate.

    merged    whether the plan merges the block
    """

    first: Floats
    last: Floats
    lane: Ints
    merged: Bools

    @property
    def count(self) -> int:
        """Lanes in use."""
        return int(self.lane.max(initial=-1)) + 1


@dataclass(frozen=True, slots=True, eq=False)
class LevelProfile:
    """The blocks of one level.

    depth, merged_depth    of all its blocks, and of those that the plan merges, as in :class:`KeyProfile`
    lanes                  its blocks one by one, None if there are too many
    """

    level: int
    blocks: int
    depth: Ints
    merged_depth: Ints
    lanes: Lanes | None


@dataclass(frozen=True, slots=True, eq=False)
class KeyProfile:
    """A snapshot along its key.

    depth       greatest depth in each of ``BINS`` equal shares of the data
    after       the same once the plan is carried out: each group is one sorted run, which is one block deep
    levels      by level, lowest first
    ticks       (position, text): the value of the first key column, or the partition, at that position
    """

    depth: Ints
    after: Ints
    levels: tuple[LevelProfile, ...]
    ticks: tuple[tuple[float, str], ...]


def key_profile(snapshot: Snapshot, tasks: Tasks) -> KeyProfile | None:
    """The profile of a snapshot and of a plan made on it; None without blocks or without a key."""
    if snapshot.key is None or not len(snapshot.blocks):
        return None
    line, curve = table_line(snapshot), table_curve(snapshot)
    before, upto = _positions(snapshot, line)
    merged = np.zeros(len(snapshot.blocks), np.bool_)
    merged[tasks.members] = True
    lo, hi = _after(line, tasks, ~merged)
    then = curve_over(lo, hi, line.group)
    return KeyProfile(
        depth=_binned(before, upto, curve.depth, curve.through),
        after=_binned(before, upto, then.depth, then.through),
        levels=_levels(snapshot, line, (before, upto), merged),
        ticks=_ticks(snapshot, line, before),
    )


def _positions(snapshot: Snapshot, line: Intervals) -> tuple[Floats, Floats]:
    """For each point, the share of the data before it, and up to and including it. Without bytes, by rank."""
    mass = data_mass(line, places(snapshot.blocks, line), snapshot.blocks.live_bytes)
    if mass.total <= 0:
        rank = np.arange(line.points) / max(line.points - 1, 1)
        return rank, rank
    upto = np.minimum(np.maximum.accumulate(mass.upto / mass.total), 1.0)
    return np.minimum(mass.before / mass.total, upto), upto


def _after(line: Intervals, tasks: Tasks, kept: Bools) -> tuple[Ints, Ints]:
    """Intervals once the plan is carried out: the blocks that it leaves, and the run of each group."""
    nulls = kept & (line.null_lo >= 0)
    runs = np.empty(0, np.int64), np.empty(0, np.int64)
    if len(tasks):
        starts = np.asarray(tasks.edges[:-1], np.intp)
        runs = (
            np.minimum.reduceat(line.lo[tasks.members], starts),
            np.maximum.reduceat(line.hi[tasks.members], starts),
        )
    return (
        np.concatenate([line.lo[kept], line.null_lo[nulls], runs[0]]),
        np.concatenate([line.hi[kept], line.null_hi[nulls], runs[1]]),
    )


def _binned(before: Floats, upto: Floats, at: Counts, through: Counts) -> Ints:
    """The greatest depth in each bin, over the points (``at``) and the open stretches between them (``through``)."""
    start = np.maximum.accumulate(np.stack([before, upto], axis=1).ravel())
    end = np.append(start[1:], 1.0)
    depth = np.stack([at, through], axis=1).ravel()
    edges = np.linspace(0.0, 1.0, BINS + 1)
    first = np.minimum(np.searchsorted(end, edges[:-1], side="left"), len(end) - 1)
    # A stretch that ends where the bin begins is outside it; a point there is inside.
    first += (first % 2 == 1) & (end[first] == edges[:-1]) & (start[first] < end[first])
    last = np.searchsorted(start, edges[1:], side="right") - 1
    last -= (last % 2 == 1) & (start[last] == edges[1:]) & (end[last] > start[last])
    first = np.minimum(first, len(end) - 1)
    return range_max(depth, first, np.maximum(first, last)).astype(np.int64)


def _levels(
    snapshot: Snapshot, line: Intervals, positions: tuple[Floats, Floats], merged: Bools
) -> tuple[LevelProfile, ...]:
    level = snapshot.blocks.level_under(snapshot.key)
    return tuple(
        LevelProfile(
            int(number),
            int((level == number).sum()),
            _depth_of(line, positions, level == number),
            _depth_of(line, positions, (level == number) & merged),
            _drawn(np.flatnonzero(level == number), line, positions, merged),
        )
        for number in np.unique(level)
    )


def _depth_of(line: Intervals, positions: tuple[Floats, Floats], some: Bools) -> Ints:
    """The binned depth of some of the blocks alone."""
    nulls = some & (line.null_lo >= 0)
    lo = np.concatenate([line.lo[some], line.null_lo[nulls]])
    hi = np.concatenate([line.hi[some], line.null_hi[nulls]])
    curve = curve_over(lo, hi, line.group)
    return _binned(*positions, curve.depth, curve.through)


def _drawn(of: Index, line: Intervals, positions: tuple[Floats, Floats], merged: Bools) -> Lanes | None:
    """These blocks in lanes, in key order. A sample of them would hide how they overlap, so it is all or none."""
    if len(of) > BLOCKS_PER_LEVEL:
        return None
    of = of[np.lexsort((line.hi[of], line.lo[of]))]
    before, upto = positions
    lanes = Lanes(before[line.lo[of]], upto[line.hi[of]], _lanes(line.lo[of], line.hi[of]), merged[of])
    return lanes if lanes.count <= LANES else None


def _lanes(lo: Ints, hi: Ints) -> Ints:
    """The first free lane of each interval, which may begin at the point where the one before it ends."""
    ends: list[int] = []
    lane = np.zeros(len(lo), np.int64)
    for i, (start, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        free = next((n for n, taken in enumerate(ends) if taken <= start), len(ends))
        ends[free : free + 1] = [end]
        lane[i] = free
    return lane


def _ticks(snapshot: Snapshot, line: Intervals, before: Floats) -> tuple[tuple[float, str], ...]:
    """Labels of the axis; along a curve there are no values to show."""
    blocks = snapshot.blocks
    ends = (line.lo, blocks.lo), (line.hi, blocks.hi)
    found = []
    for share in _TICKS:
        point = int(np.argmin(np.abs(before - share))) if 0 < share < 1 else int(share) * (line.points - 1)
        text = ""
        if abs(before[point] - share) > _NEAR and 0 < share < 1:
            pass  # no bound of a block is near: no value is known here
        elif len(blocks.partitions) > 1:
            at = int(np.argmax(line.group[line.lo] == line.group[point]))
            text = blocks.partitions[int(blocks.partition[at])]
        elif snapshot.key is not None and not snapshot.key.curved:
            # A point that bounds no block is in the region of NULL.
            text = next((_value(bounds[0], at, point) for at, bounds in ends if (at == point).any()), "NULL")
        found.append((share, text))
    return tuple(found)


def _value(bounds: pa.Array, at: Ints, point: int) -> str:
    bound = bounds[int(np.argmax(at == point))]
    return str(python_value(bound)) if bound.is_valid else "NULL"
