"""The exact optimum on streams where every commit is one block over the whole key: a lower bound for every policy.

Components are blocks that overlap: a fresh commit is one, and so is the sorted run that a merge of the newest
components leaves. With ``d`` components below, ``n`` commits to come, and the lowest of them last merged when it holds
the first ``m`` commits,

    G(n, d) = min over m of  G(m - 1, d) + m·[m > 1] + price·(d + 1) + G(n - m, d + 1)

is the least of (commits' worth rewritten + price × depth summed over time), knowing the future. Own derivation;
``tests/core/simulation/test_offline_optimum.py`` tries all ways to merge on small cases. Where maintenance only comes
every so often, m > 1 must end on such a commit, and G depends on where in the interval it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.units import Floats, Ints

PRICES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Optimum:
    """At ``price``: rewritten bytes per byte ingested, and mean depth, of the cheapest course."""

    price: float
    rewritten: float
    depth: float

    def ratio(self, rewritten: float, depth: float) -> float:
        """How many times the optimum's cost another course has, at this price."""
        return (rewritten + self.price * depth) / (self.rewritten + self.price * self.depth)


def optimum(commits: int, prices: Sequence[float] = PRICES, *, every: int = 1) -> tuple[Optimum, ...]:
    """The cheapest course for each price, over ``commits`` with maintenance after each ``every``-th.

    Depth counts after each commit and the maintenance that follows it, and goes no further than 40, or twice
    ``every``. Takes about a second for 500 commits, and grows with their square.
    """
    price = np.asarray(prices, dtype=np.float64)
    top = min(commits, max(_DEEPEST, 2 * every))
    # Per price, components below, place in the interval, and commits to come: G, and its two parts.
    shape = (len(price), top + 2, every, commits + 1)
    cost, rewritten, depth = (np.zeros(shape) for _ in range(3))
    cost[:, top + 1, :, 1:] = np.inf
    level = price[:, None, None, None] * np.arange(1, top + 2)[None, :, None, None]
    start = np.arange(every)[:, None]
    axes = np.ix_(np.arange(len(price)), np.arange(top + 1), np.arange(every))
    for n in range(1, commits + 1):
        m, worth = _ways(n, every)
        after = (start + m) % every
        total = cost[:, :-1, start, m - 1] + cost[:, 1:, after, n - m] + worth + level
        best = np.argmin(total, axis=3)
        here = axes[2]
        chosen, then = m[here, best], after[here, best]
        cost[:, :-1, :, n] = np.take_along_axis(total, best[..., None], axis=3)[..., 0]
        for part, paid in ((rewritten, worth[here, best]), (depth, axes[1] + 1)):
            inner = part[axes[0], axes[1], here, chosen - 1]
            part[:, :-1, :, n] = inner + paid + part[axes[0], axes[1] + 1, then, n - chosen]
    return tuple(
        Optimum(
            float(p), float(rewritten[i, 0, 0, commits]) / commits, float(depth[i, 0, 0, commits]) / commits
        )
        for i, p in enumerate(price)
    )


def _ways(n: int, every: int) -> tuple[Ints, Floats]:
    """Per place in the interval, what m may be with ``n`` commits to come, and what a merge of that many costs.

    A place that has fewer ways than another repeats m = 1, the commit that is left alone.
    """
    start = np.arange(every)[:, None]
    m = np.arange(0, n // every + 2)[None, :] * every - start
    m = np.where((m < 1) | (m > n), 1, m)
    m[:, 0] = 1
    return m, np.where(m > 1, m, 0).astype(np.float64)


def nearest_optimum(rewritten: float, depth: float, commits: int, *, every: int = 1) -> tuple[float, Optimum]:
    """(ratio, optimum) at the price at which this course comes nearest to it."""
    candidates = [(found.ratio(rewritten, depth), found) for found in optimum(commits, every=every)]
    return min(candidates, key=lambda pair: pair[0])
