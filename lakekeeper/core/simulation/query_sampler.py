"""Queries on a simulated table: the number and size of the files that a lookup would open, over time.

Queries are spread evenly over all data ever written, so that dense parts of the key are queried more often and two
policies on the same stream get the same queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakekeeper.core.layout.split_points import positions
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.units import Floats, Ints

QUERIES = 300
RANGE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The measurements after some of the commits: one value for each, in order.

    commit               number of the commit, from 1
    depth, depth_p95     files per point query: mean, and 95th percentile
    range_files          files per query of 1% of the data
    point_bytes, range_bytes   size of those files
    untouched            mean depth if nothing were ever merged
    files                live files
    """

    commit: Ints
    depth: Floats
    depth_p95: Floats
    range_files: Floats
    point_bytes: Floats
    range_bytes: Floats
    untouched: Floats
    files: Ints


class Probe:
    """Queries at even shares of all data that was ever written, whatever became of its files."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._rows: list[tuple[float, ...]] = []

    def measure(self, lo: Floats, hi: Floats, size: Floats, commit: int, number: int) -> None:
        """Run all queries on blocks with these bounds and sizes, as they are after ``commit``."""
        shares = (np.arange(QUERIES) + 0.5) / QUERIES
        written = int(self._arrivals.edges[commit + 1])
        points = self._places(written, shares)
        first = self._places(written, shares * (1 - RANGE))
        last = self._places(written, shares * (1 - RANGE) + RANGE)
        depth, point_bytes = _opened(lo, hi, size, points, points)
        files, range_bytes = _opened(lo, hi, size, first, last)
        low, high = self._arrivals.lo[:written], self._arrivals.hi[:written]
        untouched, _ = _opened(low, high, np.zeros(written), points, points)
        self._rows.append(
            (
                float(number),
                float(depth.mean()),
                float(np.quantile(depth, 0.95)),
                float(files.mean()),
                float(point_bytes.mean()),
                float(range_bytes.mean()),
                float(untouched.mean()),
                float(len(lo)),
            )
        )

    def _places(self, written: int, shares: Floats) -> Floats:
        a = self._arrivals
        if a.keys is not None:
            keys = np.sort(a.keys[:written], axis=None)
            return np.asarray(keys[np.minimum((shares * len(keys)).astype(np.int64), len(keys) - 1)])
        return positions(a.lo[:written], a.hi[:written], a.bytes[:written].astype(np.float64), shares)

    def course(self) -> Course:
        """All that was measured."""
        columns = np.array(self._rows).T
        names = ("depth", "depth_p95", "range_files", "point_bytes", "range_bytes", "untouched")
        values = dict(zip(names, columns[1:7], strict=True))
        return Course(commit=columns[0].astype(np.int64), files=columns[7].astype(np.int64), **values)


def _opened(lo: Floats, hi: Floats, size: Floats, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Files that meet each [first, last], and their bytes: those that start by its end less those ending before it."""
    by_lo, by_hi = np.argsort(lo), np.argsort(hi)
    begun = np.searchsorted(lo[by_lo], last, side="right")
    over = np.searchsorted(hi[by_hi], first, side="left")
    grown = np.concatenate([[0.0], np.cumsum(size[by_lo])])
    gone = np.concatenate([[0.0], np.cumsum(size[by_hi])])
    return (begun - over).astype(np.float64), grown[begun] - gone[over]
