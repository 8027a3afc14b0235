"""The distribution of a table's bytes along the key, from the bounds and sizes of its blocks.

Each block spreads its live bytes evenly over its range; the cumulative sum of all blocks is F:

    blocks     A |────────────────|  100 MB       share of the data in [lo, hi] = (F(hi) − F(lo)) / F(end)
               B      |──|           100 MB
    density    ▁▁▁▁▁▂▇▇▇▂▁▁▁▁▁▁▁▁
    F          0 ........╱‾‾‾‾‾‾‾ 200 MB          a single-value block is a step, and counts in [lo, hi] at both ends

F is a difference array like the depth curve, with bytes instead of ones: O(N) once the bounds are ranked. Along a
single-column key, the spread is by value (text by its first bytes). Along a compound key whose first column is a whole
number or a date, it is by that value, which is one unit wide, and by rank within it; otherwise by rank. If values are
skewed, a block's own bounds do not show it, but narrower blocks in the same range do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.units import Floats, Ints

_NARROW = 1e-9  # share of the group's line: a narrower block is a step
_PREFIX = 6  # bytes of text that determine its position; a double holds 53 bits exactly


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A measure over the ``P`` points of some intervals, in any unit (bytes, weight of queries).

    upto, before   P sums: of all that begins at or before a point, and of all that ends strictly before it. In point
                   numbers, ``upto[b] − before[a]`` is inside [a, b] or overlaps it. Sums continue from group to group.
    total          the sum over everything
    """

    upto: Floats
    before: Floats
    total: float

    def inside(self, lo: Ints, hi: Ints) -> Floats:
        """The measure in each closed [lo, hi]."""
        return np.asarray(np.maximum(self.upto[hi] - self.before[lo], 0.0))

    def share(self, lo: Ints, hi: Ints) -> Floats:
        """The measure in each closed [lo, hi], as a share of the total, 0 to 1."""
        return self.part(self.inside(lo, hi))

    def part(self, inside: Floats) -> Floats:
        """A measure as a share of the total, 0 to 1."""
        # Where sums cancel out, rounding may leave a part that is not zero of a total that is.
        whole = max(self.total, 1e-300)
        return np.asarray(np.minimum(inside, whole) / whole)


def data_mass(intervals: Intervals, place: Floats, size: Ints) -> Line:
    """Bytes along the line: N sizes, spread over the positions of the intervals' points."""
    points = intervals.points
    lo, hi = intervals.lo, intervals.hi
    width = place[hi] - place[lo]
    step = width <= _NARROW
    slope = np.where(step, 0.0, size / np.where(step, 1.0, width))
    rate = np.cumsum(np.bincount(lo, slope, points) - np.bincount(hi, slope, points))
    gap = np.diff(place, append=place[-1:])
    gap[:-1][intervals.group[1:] != intervals.group[:-1]] = 0.0  # no bytes between two groups
    grown = np.cumsum(np.maximum(rate, 0.0) * gap)
    left = np.concatenate([np.zeros(min(points, 1)), grown[:-1]])
    if not step.any():
        return Line(left, left, float(grown[-1]) if points else 0.0)
    atoms = np.bincount(lo[step], size[step], points)
    upto = left + np.cumsum(atoms)
    return Line(upto, upto - atoms, float(upto[-1]))


def places(blocks: BlockSet, intervals: Intervals) -> Floats:
    """Position of each of the ``P`` points: from 0 to 1 within its group, in order of the points.

    A point without a value of its own (NULL, the ends of blocks without statistics) takes the position of the nearest
    point that has one.
    """
    count = intervals.points
    rank = np.arange(count, dtype=np.float64)
    at = rank
    if len(blocks.lo) == 1 or blocks.placed_by:
        at = _values(blocks, intervals)
    elif _whole(blocks.lo[0].type):
        at = _within_cells(_values(blocks, intervals), intervals.group)
    starts = np.flatnonzero(np.diff(intervals.group, prepend=-1))
    length = np.diff(starts, append=count)
    for line in (at, rank):
        with np.errstate(over="ignore", invalid="ignore"):
            first, last = line[starts], line[starts + length - 1]
            span = last - first
            if not np.isfinite(span).all():
                continue  # an infinite value, or values too far apart: fall back to ranks
            if len(starts) == 1:
                return np.asarray((line - first[0]) / (span[0] or 1.0))
            span[span == 0] = 1.0
            return np.asarray((line - np.repeat(first, length)) / np.repeat(span, length))
    raise AssertionError("ranks are finite")


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind))


def _within_cells(first: Floats, group: Ints) -> Floats:
    """Positions of a compound key's points: by the first column's whole number; points that share it are spread evenly.

    points     (4, a)   (5, a)  (5, c)  (5, f)   (7, b)
    at           4.5     5.17    5.5     5.83      7.5
    """
    start = np.flatnonzero(np.append(True, (np.diff(first) != 0) | (np.diff(group) != 0)))
    count = np.diff(np.append(start, len(first)))
    rank = np.arange(len(first)) - np.repeat(start, count)
    return np.asarray(first + (rank + 0.5) / np.repeat(count, count))


def _values(blocks: BlockSet, intervals: Intervals) -> Floats:
    """The value at each point as a double, or its curve position; not finite where the point has no value."""
    # A block without statistics of one column covers its group: its first column's bounds are not those of the ends.
    ends = (blocks.curve_lo, blocks.curve_hi) if blocks.placed_by else numbers(blocks.lo[0], blocks.hi[0])
    lo, hi = (np.where(intervals.missing, np.nan, end) for end in ends)
    at = np.full(intervals.points, np.nan)
    whole = not (np.isnan(lo).any() or np.isnan(hi).any())
    known = slice(None) if whole else ~(np.isnan(lo) | np.isnan(hi))
    at[intervals.lo[known]] = lo[known]
    at[intervals.hi[known]] = hi[known]
    return _filled(at, intervals.group) if np.isnan(at).any() else at


def _filled(at: Floats, group: Ints) -> Floats:
    """Fill NaN with the nearest value before it in its group, else the nearest after it; 0 if the group has none."""
    number = np.arange(len(at))
    located = ~np.isnan(at)
    before = np.maximum.accumulate(np.where(located, number, -1))
    after = np.minimum.accumulate(np.where(located, number, len(at))[::-1])[::-1]
    for nearest in (before, after):
        valid = (nearest >= 0) & (nearest < len(at))
        valid[valid] = group[nearest[valid]] == group[valid]
        use = np.isnan(at) & valid
        at[use] = at[nearest[use]]
    return np.nan_to_num(at, nan=0.0, posinf=np.inf, neginf=-np.inf)


def numbers(lo: pa.Array, hi: pa.Array) -> tuple[Floats, Floats]:
    """Bounds as doubles that order as the values do. Null becomes NaN; NaN becomes infinity, as it orders last."""
    kind = lo.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text(lo, hi)
    if pa.types.is_decimal(kind):
        return _doubles(lo.cast(pa.float64())), _doubles(hi.cast(pa.float64()))
    if pa.types.is_floating(kind):
        return _doubles(lo, nan=np.inf), _doubles(hi, nan=np.inf)
    if pa.types.is_date32(kind):
        lo, hi = lo.cast(pa.int32()), hi.cast(pa.int32())
    return _doubles(lo.cast(pa.int64())), _doubles(hi.cast(pa.int64()))


def _doubles(values: pa.Array, *, nan: float | None = None) -> Floats:
    if nan is not None and values.null_count < len(values):
        values = pc.if_else(pc.is_nan(values), nan, values)
    if values.null_count:
        return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _text(lo: pa.Array, hi: pa.Array) -> tuple[Floats, Floats]:
    """Text as numbers made of the bytes that follow the prefix that all values share."""
    raw = pa.concat_arrays([lo, hi]).cast(pa.binary())
    known = np.asarray(raw.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    place = np.full(len(raw), np.nan)
    if not known.any():
        return place[: len(lo)], place[len(lo) :]
    least, most = _ends(raw)
    shared = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), len(least))
    offsets = np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(
        np.int64
    )
    data = np.frombuffer(raw.buffers()[2] or b"", np.uint8)
    place[known] = 0.0
    for i in range(shared, shared + _PREFIX):
        position = offsets[:-1] + i
        there = known & (position < offsets[1:])
        place[known] *= 256.0
        place[there] += data[position[there]]
    return place[: len(lo)], place[len(lo) :]


def _ends(raw: pa.Array) -> tuple[bytes, bytes]:
    found = pc.min_max(raw)
    return found["min"].as_py(), found["max"].as_py()
