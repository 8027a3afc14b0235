"""A snapshot along its key, at a bounded size: depth, runs of each level, and values to label the axis with.

    depth     ▂▂▅▅██▅▂▂▂          the deepest point in each of BINS equal shares of the data
    level 0     |-----|  |---|    blocks from the first to the last byte that they may hold,
              |-----|   |----|    in as few lanes as they need: a sorted run takes one
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
class LevelProfile:
    """The blocks of one level. ``first``, ``last``, ``lane`` and ``merged`` are those of the blocks that are drawn.

    first, last    positions, 0 to 1
    merged         whether the plan merges the block
    """

    level: int
    blocks: int
    lanes: int
    first: Floats
    last: Floats
    lane: Ints
    merged: Bools


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
        levels=_levels(snapshot, before[line.lo], upto[line.hi], line, merged),
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
    snapshot: Snapshot, first: Floats, last: Floats, line: Intervals, merged: Bools
) -> tuple[LevelProfile, ...]:
    level = snapshot.blocks.level_under(snapshot.key)
    found = []
    for number in np.unique(level):
        of = np.flatnonzero(level == number)
        of = of[np.lexsort((line.hi[of], line.lo[of]))]
        shown, lane = _drawn(of, line)
        lanes = int(lane.max(initial=0)) + 1
        found.append(
            LevelProfile(int(number), len(of), lanes, first[shown], last[shown], lane, merged[shown])
        )
    return tuple(found)


def _drawn(ordered: Index, line: Intervals) -> tuple[Index, Ints]:
    """Blocks that fit in the drawing, evenly chosen along the key, and the lane of each."""
    step = -(-len(ordered) // BLOCKS_PER_LEVEL)
    while True:
        shown = ordered[::step]
        lane = _lanes(line.lo[shown], line.hi[shown])
        lanes = int(lane.max(initial=0)) + 1
        if lanes <= LANES:
            return shown, lane
        step *= -(-lanes // LANES)


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
