"""Pair the equal rows of files that mostly have the same order: copies without some rows, or with some of them changed.

    before    a b c d e f g            pairs   a-a b-b d-d e-e g-g
    after     a b d e F g              left    c f | F

Runs of equal rows are compared column by column; after a difference, the next run is looked for a few rows on, and then
everywhere. Rows that no run has are left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.values import Longs

_BLOCK, _MOST = 256, 1 << 16  # rows compared at once: after a difference, and in a long run
_NEAR = 8  # rows that are skipped before the next run is looked for everywhere
_SEARCHES = 64  # of the whole of ``before``, for each file

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Values:
    """One column of all rows in canonical form: plain integers and which of them are there, or an Arrow array."""

    plain: Longs | None
    valid: Flags | None
    arrow: pa.Array

    @classmethod
    def of(cls, part: pa.Array) -> Values:
        if not pa.types.is_integer(part.type):
            return cls(None, None, part)
        valid = part.is_valid().to_numpy(zero_copy_only=False) if part.null_count else None
        return cls(part.fill_null(0).to_numpy(zero_copy_only=False), valid, part)

    def same(self, first: int, second: int, count: int) -> Flags:
        """Which of ``count`` rows from ``first`` on are equal to those from ``second`` on, where NULL equals NULL."""
        one, two = slice(first, first + count), slice(second, second + count)
        if self.plain is not None:
            equal: Flags = self.plain[one] == self.plain[two]
            return equal if self.valid is None else equal & (self.valid[one] == self.valid[two])
        return _same(self.arrow.slice(first, count), self.arrow.slice(second, count))

    def places(self, row: int, before: int) -> Flags:
        """Which of the rows before ``before`` are equal to ``row``."""
        if self.plain is not None:
            equal: Flags = self.plain[:before] == self.plain[row]
            return equal if self.valid is None else equal & (self.valid[:before] == self.valid[row])
        value, some = self.arrow[row], self.arrow.slice(0, before)
        same = pc.equal(some, value).fill_null(False) if value.is_valid else some.is_null()
        return np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)


def _same(one: pa.Array, two: pa.Array) -> Flags:
    equal = np.asarray(pc.equal(one, two).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    if one.null_count and two.null_count:
        equal |= pc.and_(one.is_null(), two.is_null()).to_numpy(zero_copy_only=False)
    return equal


def unpaired(columns: Sequence[pa.Array], free: Flags, files: Sequence[range]) -> Flags:
    """Which rows are in no pair of equal rows.

    ``columns`` are the canonical values of all rows: first of those to pair, as far as they are in ``free``, and then
    of the ``files`` to pair them with.
    """
    values = [Values.of(part) for part in columns]
    left = np.zeros(files[-1].stop if files else len(free), np.bool_)
    left[: len(free)] = free
    for rows in files:
        left[rows.start : rows.stop] = True
        _File(values, len(free), rows.start, rows.stop, left).pair()
    return left


@dataclass(slots=True)
class _File:
    """The search for the rows ``at`` to ``end`` of one file; ``left`` are the rows that are in no pair yet."""

    values: Sequence[Values]
    before: int
    at: int
    end: int
    left: Flags
    searches: int = 0

    def pair(self) -> None:
        place = self._search()
        while place is not None and self.at < self.end:
            place = self._run(place)
            if self.at == self.end:
                return
            near = [place + step for step in range(1, _NEAR) if place + step < self.before]
            skipped = next((other for other in near if self._equal(other, self.at)), None)
            if skipped is None and self._changed(place):
                self.at, skipped = self.at + 1, place + 1
            place = self._search() if skipped is None else skipped

    def _changed(self, place: int) -> bool:
        """Whether the next rows are equal, so that this row was changed."""
        within = self.at + 1 < self.end and place + 1 < self.before
        return within and self._equal(place + 1, self.at + 1)

    def _run(self, place: int) -> int:
        """Pair rows from here on as long as they are equal; the place after them."""
        block = _BLOCK
        while count := min(block, self.end - self.at, self.before - place):
            same = self._same(place, self.at, count) & self.left[place : place + count]
            run = count if same.all() else int(np.argmin(same))
            self.left[place : place + run] = self.left[self.at : self.at + run] = False
            place, self.at, block = place + run, self.at + run, min(2 * block, _MOST)
            if run < count:
                break
        return place

    def _same(self, first: int, second: int, count: int) -> Flags:
        same = np.ones(count, np.bool_)
        for each in self.values:
            same &= each.same(first, second, count)
        return same

    def _equal(self, first: int, second: int) -> bool:
        return bool(self.left[first]) and all(each.same(first, second, 1)[0] for each in self.values)

    def _search(self) -> int | None:
        """A place of this row, or of the next one that has a place; None if too few have."""
        while self.at < self.end and self.searches < _SEARCHES:
            self.searches += 1
            found = self.left[: self.before].copy()
            for each in self.values:
                found &= each.places(self.at, self.before)
                if not found.any():
                    break
            else:
                return int(np.argmax(found))
            self.at += 1
        return None
