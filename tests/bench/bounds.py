"""A bound on what any policy costs that does not know the rate of queries, even one that knows all else in advance.

Until the first maintenance after its commit, every query over the range of a file opens it: E in all at one query a
commit, over all files. Later each file of the input is at some time rewritten, which costs its work w, or never, and
then queries go on opening it: S in all. Whatever else a course does, at ``r`` queries a commit it costs

    cost(r) ≥ r·E  +  Σ over files never rewritten · r·S  +  Σ over the others · w

Who does not know whether the rate is ``r`` or ``R`` plays one course for both. Weigh its regrets, cost by the cheapest
contender's L, by q and 1 − q: each file adds the less of its two terms, so that for each q

    max(cost(r)/L(r), cost(R)/L(R))  ≥  a·E + Σ over files · min(a·S, b·w)
    a = q·r/L(r) + (1−q)·R/L(R)
    b = q/L(r) + (1−q)/L(R)

By Yao's principle the same holds for the expected regret of a policy that draws lots.
"""

from __future__ import annotations

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
    """Scans that no policy spares; of each file those that a rewrite may spare, and the work of one."""

    early: float
    scans: Floats
    works: Floats

    def cost(self, scan: float, work: float) -> float:
        """The least that any course costs where a scan and a rewrite are weighed so."""
        return scan * self.early + float(np.minimum(scan * self.scans, work * self.works).sum())

    def bound(self, least: Mapping[float, float]) -> float:
        """Least regret at the worst of two rates that look alike; ``least`` has the contenders' cost at both."""
        (r, low), (other, high) = least.items()
        return max(
            self.cost(q * r / low + (1 - q) * other / high, q / low + (1 - q) / high)
            for q in _SHARES.tolist()
        )


def files_of(ingest: Ingest) -> Files:
    """All files of an input, played without maintenance."""
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
    """Least regret at the worst of all rates where nothing is known of it."""
    return max(files.bound({r: least[r] for r in pair}) for pair in combinations(least, 2))


def wrong_by_ten(files: Files, least: Mapping[float, float]) -> float:
    """Least regret where what is known may be ten times too high or too low."""
    pairs = [(r, other) for r, other in combinations(least, 2) if np.isclose(other / r, 100)]
    return max(files.bound({r: least[r] for r in pair}) for pair in pairs)
