"""Prune the row groups that cannot contain given rows, by the statistics of a few columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakekeeper.columnar.parquet import Bounds, Leaves, ParquetFile
from lakekeeper.columnar.values import Longs, floats

WORTH = 0.9
"""Share of row groups left after pruning, above which a column does not help."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Place:
    """A row group of one output."""

    output: int
    group: int


def row_groups(outputs: Sequence[ParquetFile]) -> list[Place]:
    """All non-empty row groups."""
    return [
        Place(i, g)
        for i, file in enumerate(outputs)
        for g in range(file.groups)
        if file.starts[g + 1] > file.starts[g]
    ]


def that_may_hold(
    places: Sequence[Place],
    outputs: Sequence[ParquetFile],
    columns: Sequence[tuple[Sequence[Leaves], pa.Array]],
) -> list[Place]:
    """The row groups whose statistics admit all values of at least one row.

    ``columns`` gives each column's leaves per output, and the rows' values in canonical form.
    """
    values = [_Ordered.of(found, leaves[0]) for leaves, found in columns if outputs]
    kept = []
    for place in places:
        file = outputs[place.output]
        may = [
            known.may_lie_in(file.bounds(place.group, leaves[place.output]))
            for known, (leaves, _) in zip(values, columns, strict=True)
        ]
        if not may or np.logical_and.reduce(may).any():
            kept.append(place)
    return kept


def best(
    places: Sequence[Place], outputs: Sequence[ParquetFile], columns: Mapping[int, Sequence[Leaves]]
) -> int | None:
    """The column (by its number in ``columns``) whose row groups overlap least; None if no column helps."""
    shares = {
        number: _share([outputs[p.output].bounds(p.group, leaves[p.output]) for p in places])
        for number, leaves in columns.items()
    }
    chosen = min(shares, key=lambda number: shares[number], default=None)
    return chosen if chosen is not None and shares[chosen] < WORTH else None


def span(bounds: Sequence[Bounds]) -> int | None:
    """How many values an integer column can have within these bounds; None if unknown."""
    if not bounds or any(not isinstance(b.lo, int) or not isinstance(b.hi, int) for b in bounds):
        return None
    return int(max(b.hi for b in bounds) - min(b.lo for b in bounds) + 1)


def _share(bounds: Sequence[Bounds]) -> float:
    """The share of row groups that a row group overlaps, on average."""
    if not bounds or any(b.lo is None for b in bounds):
        return 1.0
    lows, highs = sorted(b.lo for b in bounds), sorted(b.hi for b in bounds)
    begun = np.array([bisect_right(lows, b.hi) for b in bounds])
    ended = np.array([bisect_left(highs, b.lo) for b in bounds])
    return float((begun - ended).mean()) / len(bounds)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Values of some rows in the form of bounds; ``sure`` where bounds apply to the value (not NULL, not NaN)."""

    values: npt.NDArray[np.float64] | Longs | list[bytes]
    sure: Mask
    null: Mask

    @classmethod
    def of(cls, found: pa.Array, leaves: Leaves) -> _Ordered:
        null = found.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_binary(found.type):
            return cls([value or b"" for value in found.to_pylist()], ~null, null)
        bits: Longs = found.fill_null(0).to_numpy(zero_copy_only=False)
        kind = leaves.shape[0][1]
        if kind in ("FLOAT", "DOUBLE"):
            numbers = floats(bits, double=kind == "DOUBLE")
            return cls(numbers, ~null & ~np.isnan(numbers), null)
        return cls(bits, ~null, null)

    def may_lie_in(self, bounds: Bounds) -> Mask:
        """Which of the rows the bounds admit, as booleans."""
        admits: Mask = np.ones(len(self.null), np.bool_)
        if bounds.nulls == 0:
            admits &= ~self.null
        if bounds.lo is not None:
            admits &= self._inside(bounds) | ~self.sure
        return admits

    def _inside(self, bounds: Bounds) -> Mask:
        if isinstance(self.values, list):  # NumPy's own bytes type drops trailing zeros
            return np.array([bounds.lo <= value <= bounds.hi for value in self.values], np.bool_)
        return np.asarray((self.values >= bounds.lo) & (self.values <= bounds.hi), np.bool_)
