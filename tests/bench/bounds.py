"""A lower bound on the cost of any policy that does not know the query rate, even if it knows all else in advance.

Until the first maintenance after its commit, every query over the range of a file opens it: E in total at one query
per commit, over all files. Later each file of the input is either rewritten at some time, at a cost of w, or never, and
then queries keep opening it: S in total. Whatever else a course does, at ``r`` queries per commit it costs

    cost(r) ≥ r·E  +  Σ over files never rewritten · r·S  +  Σ over the others · w

A policy that does not know whether the rate is ``r`` or ``R`` takes one course for both. Weigh its regrets, its cost
divided by the cheapest contender's L, by q and 1 − q: each file adds the smaller of its two terms, so for each q

    max(cost(r)/L(r), cost(R)/L(R))  ≥  a·E + Σ over files · min(a·S, b·w)
    a = q·r/L(r) + (1−q)·R/L(R)
    b = q/L(r) + (1−q)/L(R)

By Yao's principle the same holds for the expected regret of a randomized policy.

On the worst table, the time at which queries end is not known either. ``worst_table`` is the least regret there, also
of a policy that merges in steps or at random. One merge of work 1, at lowest rate 1 and highest rate R: F(t) of it is
done by the time t, and queries end at T.

    at the lowest rate, T ≤ 1     F(T) + ∫₀ᵀ (1 − F) ≤ c·T        for all T:  F(t) ≤ (c − 1)·(eᵗ − 1)
    at the highest, no end        1 + R · ∫₀^∞ (1 − F) ≤ c        with that F:  1 + R·(c·ln(c/(c − 1)) − 1) ≤ c

The least c has equality. With R = 1, which is to know the rate, it is e/(e − 1), the bound of ski rental (Karlin,
Manasse, McGeoch, Owicki 1990).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lakekeeper.core.cost.scoring import costs
from lakekeeper.core.model.coefficients import DEFAULTS
from lakekeeper.core.units import Floats
from tests.bench.courses import EVERY, looks, opened_by
from tests.bench.ingests import Ingest
from tests.bench.upserts import world_of

_SHARES = np.linspace(0, 1, 201)


@dataclass(frozen=True, eq=False)
class Files:
    """Scans that no policy avoids; for each file, the scans that a rewrite may avoid and the cost of the rewrite."""

    early: float
    scans: Floats
    works: Floats

    def cost(self, scan: float, work: float) -> float:
        """The minimum cost of any course with these weights for scans and rewrites."""
        return scan * self.early + float(np.minimum(scan * self.scans, work * self.works).sum())

    def bound(self, least: Mapping[float, float]) -> float:
        """Least regret at the worse of two indistinguishable rates; ``least`` has the contenders' cost at both."""
        (r, low), (other, high) = least.items()
        return max(
            self.cost(q * r / low + (1 - q) * other / high, q / low + (1 - q) / high)
            for q in _SHARES.tolist()
        )


def files_of(ingest: Ingest) -> Files:
    """All files of an input, simulated without maintenance."""
    a, world = ingest.arrivals, world_of(ingest.arrivals, upserts=ingest.upserts)
    weight, early, scans = looks(ingest), 0.0, np.zeros(int(a.edges[-1]))
    for commit in range(a.commits):
        world.arrive(commit)
        if commit in weight:
            each = opened_by(world, ingest.ask(commit)) * costs(world.snapshot().blocks, DEFAULTS)
            maintained = int(a.edges[commit + 1 - (commit + 1 - a.present) % EVERY])
            scans[:maintained] += weight[commit] * each[:maintained]
            early += weight[commit] * float(each[maintained:].sum())
    return Files(early, scans, np.asarray(DEFAULTS.rewrite * a.bytes + DEFAULTS.open_bytes, np.float64))


def unknown(files: Files, least: Mapping[float, float]) -> float:
    """Least regret at the worst of all rates if the rate is unknown."""
    return max(files.bound({r: least[r] for r in pair}) for pair in combinations(least, 2))


def wrong_by_ten(files: Files, least: Mapping[float, float]) -> float:
    """Least regret if the assumed rate may be ten times too high or too low."""
    pairs = [(r, other) for r, other in combinations(least, 2) if np.isclose(other / r, 100)]
    return max(files.bound({r: least[r] for r in pair}) for pair in pairs)


def worst_table(spread: float) -> float:
    """Least regret of any policy on the worst table, if the highest possible rate is ``spread`` times the lowest."""
    low, high = 1.0, 2.0 + spread
    while high - low > 1e-9:
        c = (low + high) / 2
        met = 1 + spread * (c * math.log(c / (c - 1)) - 1) <= c
        low, high = (low, c) if met else (c, high)
    return high
