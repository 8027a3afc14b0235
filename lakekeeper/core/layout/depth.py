"""The depth curve: how many blocks cover each point of the key.

Databend's recluster RFC and Snowflake's automatic clustering both decide by it.

A block covers the closed interval [lo, hi]. With the distinct bounds as points p0 < p1 < …

    blocks            A |---------|
                      B      |---------|
                      C                     |----|
    points            p0     p1   p2   p3   p4   p5
    opened            1      2    2    2    3    3      number of lo ≤ p   (running sum of starts)
    closed before     0      0    0    1    2    2      number of hi < p   (running sum of ends, shifted)
    depth             1      2    2    1    1    1      the difference

This is the difference-array construction: O(N) once the bounds are ranked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.units import Ints

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class DepthCurve:
    """Depth at each of ``P`` points.

    depth    blocks that cover the point, bounds included: what a point query reads
    folded   the same, except that a block that ends at a point and one that starts there count once: two adjacent
             blocks of one sorted run that share a value are not an overlap that a merge should remove
    through  blocks that cover the open interval from this point to the next
    opened, closed_before    running counts of blocks, as drawn above
    """

    group: Ints
    depth: Counts
    folded: Counts
    through: Counts
    opened: Counts
    closed_before: Counts

    @property
    def average(self) -> float:
        """Mean depth over overlapping points only (Snowflake's AvgDepth); 1.0 where nothing overlaps."""
        over = self.depth > 1
        return float(self.depth[over].mean()) if over.any() else 1.0

    @property
    def max(self) -> int:
        return int(self.depth.max(initial=0))


def depth_curve(intervals: Intervals) -> DepthCurve:
    """The curve over all intervals, including NULL regions."""
    nulls = intervals.null_lo >= 0
    lo = np.concatenate([intervals.lo, intervals.null_lo[nulls]])
    hi = np.concatenate([intervals.hi, intervals.null_hi[nulls]])
    return curve_over(lo, hi, intervals.group)


def curve_over(lo: Ints, hi: Ints, group: Ints) -> DepthCurve:
    """The curve of closed intervals [lo, hi], given as point numbers; ``group`` is the group of each point."""
    size = len(group)
    starts = np.bincount(lo, minlength=size).astype(np.int32)
    ends = np.bincount(hi, minlength=size).astype(np.int32)
    opened = np.cumsum(starts, dtype=np.int32)
    through = opened - np.cumsum(ends, dtype=np.int32)
    depth = through + ends
    folded = depth - np.minimum(starts, ends)
    single = lo[lo == hi]
    if len(single):  # single-point blocks both start and end here: do not fold them
        folded += np.bincount(single, minlength=size).astype(np.int32)
    return DepthCurve(group, depth, folded, through, opened, opened - depth)


def block_depth(curve: DepthCurve, intervals: Intervals) -> Counts:
    """For each block, the greatest depth at any point that it covers."""
    deepest = range_max(curve.depth, intervals.lo, intervals.hi)
    nulls = np.flatnonzero(intervals.null_lo >= 0)
    if len(nulls):
        at_null = range_max(curve.depth, intervals.null_lo[nulls], intervals.null_hi[nulls])
        deepest[nulls] = np.maximum(deepest[nulls], at_null)
    return deepest


def overlaps(intervals: Intervals) -> Ints:
    """For each block, how many other blocks share a point with it.

    A block with both NULL and values has two intervals. All such blocks meet in the NULL region, so the pairs that meet
    in both regions are the pairs whose value ranges meet. A block without statistics meets every block of its group,
    once.
    """
    nulls = np.flatnonzero(intervals.null_lo >= 0)
    values = curve_over(intervals.lo, intervals.hi, intervals.group)
    count = _meet(values, intervals.lo, intervals.hi) - 1
    if not len(nulls):
        return count
    group = intervals.group[intervals.lo]
    region_lo, region_hi = intervals.null_lo[nulls], intervals.null_hi[nulls]
    region = curve_over(region_lo, region_hi, intervals.group)
    mixed = curve_over(intervals.lo[nulls], intervals.hi[nulls], intervals.group)
    count += _meet(region, intervals.lo, intervals.hi)  # its values (or NULLs) in another NULL region
    count[nulls] += _meet(values, region_lo, region_hi)  # other intervals in its NULL region
    both = _meet(region, region_lo, region_hi) - _meet(mixed, intervals.lo[nulls], intervals.hi[nulls])
    blind = np.bincount(group[intervals.missing], minlength=int(group.max()) + 1)
    count[nulls] += both - blind[group[nulls]]  # blocks without statistics already met the values
    others = np.bincount(group, minlength=int(group.max()) + 1) - 1
    return np.where(intervals.missing, others[group], count)


def _meet(curve: DepthCurve, lo: Ints, hi: Ints) -> Ints:
    """How many of the curve's intervals meet each [lo, hi]: those that start by hi, less those that end before lo."""
    return (curve.opened[hi] - curve.closed_before[lo]).astype(np.int64)


def range_max(values: Counts | Ints, first: Counts | Ints, last: Counts | Ints) -> Counts:
    """max(values[first_j..last_j]) for each j; builds one level of a sparse table at a time, so memory stays O(P)."""
    out = np.empty(len(first), values.dtype)
    if not len(first):
        return out.astype(np.int32)
    length = last - first + 1
    power = (np.frexp(length.astype(np.float64))[1] - 1).astype(np.int8)
    order = np.argsort(power, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(power)))
    table = values
    for k in range(len(edges) - 1):
        at, width = order[edges[k] : edges[k + 1]], 1 << k
        if len(at):
            out[at] = np.maximum(table[first[at]], table[last[at] - width + 1])
        if len(table) > width:
            table = np.maximum(table[:-width], table[width:])
    return out


def histogram(depths: Counts) -> dict[str, int]:
    """Blocks per depth in Snowflake's buckets: 00000…00016 individually, then doubling: 00032 is (16, 32]."""
    low = np.bincount(np.minimum(depths, 17), minlength=18)
    buckets = {f"{i:05d}": int(low[i]) for i in range(17)}
    floor, top = 16, 32
    while floor < int(depths.max(initial=0)):
        buckets[f"{top:05d}"] = int(((depths > floor) & (depths <= top)).sum())
        floor, top = top, top * 2
    return buckets
