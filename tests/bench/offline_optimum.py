"""The exact optimum on streams where every commit is one block over the whole key: a lower bound for every policy.

The table is a stack of components: a fresh commit is one, and so is the sorted run that a merge of the newest
components leaves. Each lower component adds its price to each commit, whatever happens above it. So with ``n`` commits
to come, of which the lowest component holds the first ``m`` when it is last merged,

    G(n) = min over m of  G(m - 1) + m·[m > 1] + price·(n - m + 1) + G(n - m)

is the minimum of (commits' worth rewritten + price × depth summed over time), knowing the future. Own derivation;
``tests/bench/test_offline_optimum.py`` tries all possible merges on small cases. If maintenance runs only after every
n-th commit, m > 1 must end on such a commit, and G depends on the offset in the interval at which it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.units import Floats, Ints

PRICES = tuple(
    round(ten * step, 4)
    for ten in (0.01, 0.1, 1.0, 10.0)
    for step in (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8)
)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The cheapest course at ``price``: rewritten bytes per byte ingested, and mean depth."""

    price: float
    rewritten: float
    depth: float

    def ratio(self, rewritten: float, depth: float) -> float:
        """The cost of another course relative to the optimum's, at this price."""
        return (rewritten + self.price * depth) / (self.rewritten + self.price * self.depth)


def optimum(commits: int, prices: Sequence[float] = PRICES, *, every: int = 1) -> tuple[Optimum, ...]:
    """The cheapest course for each price, over ``commits`` with maintenance after each ``every``-th.

    Depth counts after each commit and the maintenance that follows it. Time grows with the square of ``commits``.
    """
    return tuple(
        Optimum(float(p), float(rewritten[-1]) / commits, float(depth[-1]) / commits)
        for p, rewritten, depth in zip(prices, *courses(commits, prices, every=every), strict=True)
    )


def courses(commits: int, prices: Sequence[float], *, every: int = 1) -> tuple[Floats, Floats]:
    """For each price and number of commits from 0: commits' worth rewritten and summed depth of the cheapest course."""
    price = np.asarray(prices, dtype=np.float64)[:, None, None]
    # By price, offset in the interval, and commits to come.
    rewritten, depth = (np.zeros((len(prices), every, commits + 1)) for _ in range(2))
    start, of_price = np.arange(every)[:, None], np.arange(len(prices))[:, None]
    for n in range(1, commits + 1):
        m, worth = _ways(n, every)
        after = (start + m) % every
        merged = rewritten[:, start, m - 1] + worth + rewritten[:, after, n - m]
        looked = depth[:, start, m - 1] + (n - m + 1) + depth[:, after, n - m]
        best = np.argmin(merged + price * looked, axis=2)
        rewritten[:, :, n] = merged[of_price, start.T, best]
        depth[:, :, n] = looked[of_price, start.T, best]
    return rewritten[:, 0], depth[:, 0]


def _ways(n: int, every: int) -> tuple[Ints, Floats]:
    """For each offset in the interval: the possible m with ``n`` commits to come, and the cost of merging that many.

    An offset with fewer possible m than another repeats m = 1, the commit that is not merged.
    """
    start = np.arange(every)[:, None]
    m = np.arange(0, n // every + 2)[None, :] * every - start
    m = np.where((m < 1) | (m > n), 1, m)
    m[:, 0] = 1
    return m, np.where(m > 1, m, 0).astype(np.float64)


def nearest_optimum(rewritten: float, depth: float, commits: int, *, every: int = 1) -> tuple[float, Optimum]:
    """(ratio, optimum) at the price at which this course is nearest to it."""
    candidates = [(found.ratio(rewritten, depth), found) for found in optimum(commits, every=every)]
    return min(candidates, key=lambda pair: pair[0])
