"""Space-filling curves map several columns of ranks to one line (z-order: Morton 1966; Hilbert 1891).

A curve visits the cells of a grid, 2^BITS buckets per side, one after another. It halves every side recursively, so it
is a small state machine: in a state, the bits of a cell (one per column, the first column's is the highest) give the
cell's position among its 2^d siblings and the state within it. z-order has one state, Hilbert at most d · 2^d:

    z-order   0─1  hilbert   0 3        adjacent positions on the Hilbert curve are adjacent in one column;
               ╱             │ │        z-order jumps, and its ranges cover more of each column
              2─3            1─2

The Hilbert machine follows C. Hamilton, "Compact Hilbert Indices", Dalhousie University CS-2006-07.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lakekeeper.core.model.boundaries import BITS
from lakekeeper.core.units import Ints

CURVES = ("zorder", "hilbert")


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """``S`` states over ``2^d`` child cells, flat: entry ``state * 2^d + cell`` (or position).

    place    position of a cell among its siblings
    cell     the inverse: the cell at a position
    state    the state within a cell
    """

    columns: int
    place: Ints
    cell: Ints
    state: Ints


@lru_cache
def machine(layout: str, columns: int) -> Machine:
    """The machine of a layout for this number of columns; its initial state is 0."""
    size = 1 << columns
    if layout == "zorder":
        same = np.arange(size, dtype=np.int64)
        return Machine(columns, same, same, np.zeros(size, np.int64))
    numbers: dict[tuple[int, int], int] = {(0, 0): 0}
    queue = [(0, 0)]
    place: list[list[int]] = []
    state: list[list[int]] = []
    for entry, axis in queue:  # grows during iteration: every reachable state
        turned = [_rotate(cell ^ entry, -(axis + 1), columns) for cell in range(size)]
        places = [_gray_rank(t) for t in turned]
        inner = [_inside(entry, axis, w, columns) for w in places]
        for found in inner:
            if found not in numbers:
                numbers[found] = len(numbers)
                queue.append(found)
        place.append(places)
        state.append([numbers[i] for i in inner])
    order = np.array(place, np.int64)
    return Machine(
        columns,
        order.ravel(),
        np.argsort(order, axis=1).astype(np.int64).ravel(),
        np.array(state, np.int64).ravel(),
    )


def _inside(entry: int, axis: int, w: int, columns: int) -> tuple[int, int]:
    """The state (corner where the curve enters, axis along which it leaves) within the cell at position ``w``."""
    corner = 0 if w == 0 else _gray(2 * ((w - 1) // 2))
    turn = 0 if w == 0 else _trailing_ones(w - 1 if w % 2 == 0 else w) % columns
    return entry ^ _rotate(corner, axis + 1, columns), (axis + turn + 1) % columns


def _gray(i: int) -> int:
    return i ^ (i >> 1)


def _gray_rank(code: int) -> int:
    rank = 0
    while code:
        rank, code = rank ^ code, code >> 1
    return rank


def _trailing_ones(i: int) -> int:
    return ((i + 1) & ~i).bit_length() - 1


def _rotate(value: int, left: int, width: int) -> int:
    left %= width
    return ((value << left) | (value >> (width - left))) & ((1 << width) - 1)


def index(layout: str, buckets: Sequence[Ints], bits: int = BITS) -> Ints:
    """Curve position of N cells, given as one array of bucket numbers (0 … 2^bits - 1) for each column."""
    rules = machine(layout, len(buckets))
    out = np.zeros(len(buckets[0]), np.int64)
    state = np.zeros(len(buckets[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        at = state
        for column in buckets:
            at = (at << 1) | ((column >> bit) & 1)
        out = (out << rules.columns) | rules.place[at]
        state = rules.state[at]
    return out


def box_range(layout: str, lo: Sequence[Ints], hi: Sequence[Ints], bits: int = BITS) -> tuple[Ints, Ints]:
    """The first and last curve position in N boxes [lo, hi] of buckets: the smallest range that covers each box."""
    if layout == "zorder":  # monotonic in every column: the corners are the ends
        return index(layout, lo, bits), index(layout, hi, bits)
    return _end(layout, lo, hi, bits, last=False), _end(layout, lo, hi, bits, last=True)


def _end(layout: str, lo: Sequence[Ints], hi: Sequence[Ints], bits: int, *, last: bool) -> Ints:
    """Descend, at each halving, into the first (or last) cell in curve order that the box overlaps."""
    rules = machine(layout, len(lo))
    best = _reached(layout, len(lo), last)
    low, high = [c.copy() for c in lo], [c.copy() for c in hi]
    out, state = np.zeros(len(lo[0]), np.int64), np.zeros(len(lo[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        halves = np.zeros(len(out), np.int64)
        for a, b in zip(low, high, strict=True):
            halves = halves * 3 + ((a >> bit) & 1) + ((b >> bit) & 1)
        cell = best[state * 3**rules.columns + halves]
        at = (state << rules.columns) | cell
        out = (out << rules.columns) | rules.place[at]
        state = rules.state[at]
        below = (1 << bit) - 1
        for k, (a, b) in enumerate(zip(low, high, strict=True)):
            upper = (cell >> (rules.columns - 1 - k)) & 1
            first, second = (a >> bit) & 1, (b >> bit) & 1
            # If the box overlaps both halves, it ends at the edge of the chosen half.
            a[:] = np.where(upper > first, 0, a & below)
            b[:] = np.where(upper < second, below, b & below)
    return out


@lru_cache
def _reached(layout: str, columns: int, last: bool) -> Ints:
    """The end cell, per state and per halves that a box overlaps in each column (0 lower, 1 both, 2 upper)."""
    rules = machine(layout, columns)
    states, cells = len(rules.place) >> columns, 1 << columns
    bits = (np.arange(cells)[:, None] >> np.arange(columns - 1, -1, -1)) & 1
    halves = (np.arange(3**columns)[:, None] // 3 ** np.arange(columns - 1, -1, -1)) % 3
    inside = ((halves[:, None, :] == 1) | (halves[:, None, :] == 2 * bits[None, :, :])).all(axis=2)
    place = rules.place.reshape(states, 1, cells)
    found = (
        np.where(inside, place, -1).argmax(axis=2) if last else np.where(inside, place, cells).argmin(axis=2)
    )
    return np.asarray(found, np.int64).ravel()
