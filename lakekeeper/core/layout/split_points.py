"""Split points of a large group, from block statistics alone: no sampling job reads data for them.

Each block spreads its rows evenly between its bounds; the summed distribution is piecewise linear, and its inverse at
1/n, 2/n … gives cuts of about equal weight:

    rows  ▁▁▂▂▄▄▄▂▂▁      sum of the blocks' even spreads
          ├──┼─┼┼─┼──┤    cuts at equal shares

Cuts need not be exact: a range that turns out larger is still cut by size when it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.model.keys import ClusterKey, to_json_value
from lakekeeper.core.units import Floats

_NARROW = 1e-12  # share of the line: a narrower block is a step
_COUNTED = ("date", "timestamp", "timestamp_ntz")


def range_cuts(blocks: BlockSet, at: slice, key: ClusterKey, parts: int) -> tuple[int, tuple[Any, ...]]:
    """A key column, and its values at which to cut into ``parts`` ranges (ascending, distinct, in JSON form).

    ``at`` selects the stretch of ``blocks`` to cut.

    The column is the first one in which the blocks differ. Returns fewer cuts where the statistics are insufficient,
    and no cuts where all blocks are constant or without statistics.
    """
    for column, described in enumerate(key.columns):
        cuts = column_cuts(blocks, at, column, described.kind, parts)
        if cuts is not None:
            return column, cuts
    return 0, ()


def column_cuts(blocks: BlockSet, at: slice, column: int, kind: str, parts: int) -> tuple[Any, ...] | None:
    """Values of one key column, ascending and distinct, in JSON form; None if all blocks agree in the column."""
    bounds = [
        (lo, hi, int(rows))
        for lo, hi, rows in zip(
            _plain(blocks.lo[column][at]), _plain(blocks.hi[column][at]), blocks.rows[at], strict=True
        )
        if lo is not None and hi is not None
    ]
    if all(lo == bounds[0][0] and hi == bounds[0][0] for lo, hi, _ in bounds):
        return None
    cuts = _cut(bounds, kind, parts)
    whole = kind in _COUNTED  # already in JSON form: days or µs
    return tuple(c if whole else to_json_value(c, kind) for c in cuts)


def curve_cuts(blocks: BlockSet, at: slice, parts: int) -> tuple[int, ...]:
    """Curve positions at which to cut, ascending and distinct, from the blocks' curve ranges."""
    lo, hi = blocks.curve_lo[at].astype(np.float64), blocks.curve_hi[at].astype(np.float64)
    found = positions(lo, hi, blocks.rows[at].astype(np.float64), np.arange(1, parts) / parts)
    first = int(blocks.curve_lo[at].min())
    return tuple(sorted({place for place in np.ceil(found).astype(np.int64).tolist() if place > first}))


def _plain(bounds: pa.Array) -> list[Any]:
    """Python values; dates as days and timestamps as µs, since both can exceed the range of Python's types."""
    if pa.types.is_date32(bounds.type):
        bounds = bounds.cast(pa.int32())
    elif pa.types.is_timestamp(bounds.type):
        bounds = bounds.cast(pa.int64())
    values: list[Any] = bounds.to_pylist()
    return values


def _cut(bounds: list[tuple[Any, Any, int]], kind: str, parts: int) -> list[Any]:
    to_line, from_line = _line(kind, [value for lo, hi, _ in bounds for value in (lo, hi)])
    lo = np.array([to_line(b[0]) for b in bounds], dtype=np.float64)
    hi = np.array([to_line(b[1]) for b in bounds], dtype=np.float64)
    weight = np.array([b[2] for b in bounds], dtype=np.float64)
    finite = np.isfinite(lo) & np.isfinite(hi)
    if not finite.any():
        return []
    shares = np.arange(1, parts) / parts
    at = positions(lo[finite], hi[finite], weight[finite], shares)
    known = [b for b, is_finite in zip(bounds, finite, strict=True) if is_finite]
    first, last = min(b[0] for b in known), max(b[1] for b in known)
    cuts: list[Any] = []
    for position in at:
        value = min(max(from_line(position), first), last)  # a double may round beyond the ends
        if not cuts or to_line(value) > to_line(cuts[-1]):
            cuts.append(value)
    return cuts


def positions(lo: Floats, hi: Floats, weight: Floats, shares: Floats) -> Floats:
    """Positions of ``shares`` (0 to 1, ascending) of all weight, each block spread evenly from ``lo`` to ``hi``."""
    start = lo.min() / 4  # divided by 4: neither widths nor slopes overflow near the largest doubles
    span = hi.max() / 4 - start or 1.0
    lo, hi = (lo / 4 - start) / span, (hi / 4 - start) / span
    width = hi - lo
    step = width <= _NARROW
    points = np.unique(np.concatenate([lo, hi]))
    slope = np.zeros(len(points))
    np.add.at(slope, np.searchsorted(points, lo[~step]), weight[~step] / width[~step])
    np.add.at(slope, np.searchsorted(points, hi[~step]), -weight[~step] / width[~step])
    grown = np.concatenate([[0.0], np.cumsum(np.maximum(np.cumsum(slope)[:-1], 0.0) * np.diff(points))])
    jump = np.zeros(len(points))
    np.add.at(jump, np.searchsorted(points, lo[step]), weight[step])
    after = grown + np.cumsum(jump)  # rows at or below each point
    mass, place = np.repeat(after, 2), np.repeat(points, 2)
    mass[0::2] -= jump
    return np.asarray((np.interp(mass[-1] * shares, mass, place) * span + start) * 4)


def _line(kind: str, values: list[Any]) -> tuple[Callable[[Any], float], Callable[[float], Any]]:
    """Functions that map values of a kind to positions on a line of floats, and back."""
    if kind.startswith("decimal"):
        scale = int(kind[:-1].rsplit(",", 1)[1])
        return (float, lambda x: Decimal(int(x * 10**scale)).scaleb(-scale))
    if kind in ("string", "binary"):
        return _text_line(kind, values)
    if kind == "float":
        return (float, float)
    return (float, bool if kind == "boolean" else int)


def _text_line(kind: str, values: list[Any]) -> tuple[Callable[[Any], float], Callable[[float], Any]]:
    """Text by the six bytes that follow the prefix that all values share (a double holds 53 bits exactly)."""
    raw = [v.encode() if isinstance(v, str) else v for v in values]
    first, last = min(raw), max(raw)
    shared = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    prefix = first[:shared]

    def to_line(value: Any) -> float:
        data = value.encode() if isinstance(value, str) else value
        return float(int.from_bytes(data[shared : shared + 6].ljust(6, b"\0"), "big"))

    def from_line(place: float) -> Any:
        data = prefix + int(place).to_bytes(6, "big").rstrip(b"\0")
        return data if kind == "binary" else data.decode(errors="ignore")

    return to_line, from_line
