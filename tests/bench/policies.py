"""Policies on simulated tables: bytes rewritten against files that queries open, ours and others', stream by stream.

    python -m tests.bench.policies [--quick] [--commits 500] [--seeds 3] [--every 10] [--policies adaptive,ranges …]

Every commit adds one file of the target size; every policy plans at the same commits, through the planner of real runs.
Cells are bytes rewritten per byte ingested @ files opened by a query of one key, averaged over time. The second table
has geometric means over the streams except ``time``, on which a policy that compares ranges rewrites nothing. The last
lines compare courses on the wide stream, planned after every commit, with the exact offline optimum: at the scan price
at which each is nearest to it, for all commits; and ours at their configured price, as the mean of the ratios at each
end from the 100th commit on. Only the optimum knows the end.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.coefficients import DEFAULTS
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.commit_streams import STREAMS, Arrivals, named_stream
from lakekeeper.core.simulation.simulate import SimulationReport, simulate
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.text.formatting import table
from lakekeeper.core.units import Floats
from tests.bench.courses import opened_by
from tests.bench.offline_optimum import courses, nearest_optimum
from tests.bench.rivals import Cubes, SortAll

_WHOLE = {"max-file-group-size-bytes": 1 << 50, "max-file-group-input-files": 1 << 20}
_FIRST_END = 100
_MOVING = tuple(name for name in STREAMS if name != "time")


@dataclass(frozen=True)
class Contender:
    """A policy with its options; ``final`` repeats it until nothing is left; it is given ``queries`` per commit."""

    policy: Callable[[], Policy]
    options: Options
    final: bool = False
    queries: float = 0.0


def contenders() -> dict[str, Contender]:
    """All contenders by their name in the table; the first is the baseline."""
    plain, whole = resolve(), resolve(_WHOLE)
    return {
        "full sort": Contender(lambda: FULL, whole),
        "cubes (liquid-like)": Contender(Cubes, whole),
        "rewrite-all, 100 files a group": Contender(SortAll, whole),
        "ranges": Contender(lambda: RANGES, plain),
        "ranges, final": Contender(lambda: RANGES, plain, final=True),
        "peaks, final": Contender(lambda: PEAKS, plain, final=True),
        "universal, final": Contender(lambda: UNIVERSAL, plain, final=True),
        **{
            f"adaptive, {per_commit} queries a commit": Contender(
                lambda: ADAPTIVE, resolve({"queries-per-hour": 60 * per_commit}), queries=per_commit
            )
            for per_commit in (1, 10, 30, 100)  # commits are a minute apart
        },
    }


def compare(
    chosen: Mapping[str, Contender], streams: tuple[str, ...], commits: int, seeds: int, every: int
) -> dict[tuple[str, str], list[SimulationReport]]:
    """Reports by contender and stream, one for each seed."""
    found: dict[tuple[str, str], list[SimulationReport]] = {}
    for stream in streams:
        for seed in range(seeds):
            arrivals = named_stream(stream, commits, seed=seed)
            for name, one in chosen.items():
                report = simulate(arrivals, [one.policy()], one.options, every=every, final=one.final)
                found.setdefault((name, stream), []).append(report)
    return found


def mean(reports: list[SimulationReport], what: str) -> float:
    """The mean over the seeds."""
    return float(np.mean([getattr(report, what) for report in reports]))


def geometric(
    found: Mapping[tuple[str, str], list[SimulationReport]], name: str, against: str, what: str
) -> float:
    """Geometric mean over the streams of ``name``'s figure relative to ``against``'s; zero counts as a thousandth."""
    ratios = [
        mean(found[name, stream], what) / mean(found[against, stream], what)
        for stream in _MOVING
        if (name, stream) in found
    ]
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-3)))))


def show(found: Mapping[tuple[str, str], list[SimulationReport]], chosen: Mapping[str, Contender]) -> None:
    """Print both tables."""
    streams = [name for name in STREAMS if any(stream == name for _, stream in found)]
    rows: list[list[str]] = [["policy", *streams, "p95 on jitter"]]
    for name in chosen:
        cells = [
            f"{mean(found[name, s], 'write_amplification'):.2f} @ {mean(found[name, s], 'depth'):.1f}"
            for s in streams
        ]
        p95 = f"{mean(found[name, 'jitter'], 'depth_p95'):.1f}" if "jitter" in streams else ""
        rows.append([name, *cells, p95])
    print(table(rows, right=frozenset(range(1, len(streams) + 2))))
    print()
    against = [name for name in ("full sort", "cubes (liquid-like)") if name in chosen]
    rows = [["policy", *(f"{what} / {a}" for a in against for what in ("bytes", "depth", "1% files"))]]
    for name in chosen:
        cells = [
            f"{geometric(found, name, a, what):.3f}"
            for a in against
            for what in ("write_amplification", "depth", "range_files")
        ]
        rows.append([name, *cells])
    print(table(rows, right=frozenset(range(1, 7))))


def against_optimum(chosen: Mapping[str, Contender], commits: int, seeds: int) -> None:
    """Cost ratios to the exact optimum, the worst of the seeds; maintenance after every commit."""
    print(
        f"\nwide, {commits} commits, planned after every commit: times the cost of the exact offline optimum"
    )
    for name, one in chosen.items():
        played = [course(one, named_stream("wide", commits, seed=s)) for s in range(seeds)]
        means = [(float(rewritten.sum()) / commits, float(depth.mean())) for rewritten, depth in played]
        nearest = [nearest_optimum(*mean, commits) for mean in means]
        ratio, at = max(nearest, key=lambda pair: pair[0])
        own = max(anytime(price_of(one.queries), *each) for each in played) if one.queries else None
        figures = f"{means[0][0]:.2f} @ {means[0][1]:.2f}, nearest at a price of {at.price:g}"
        own_price = f"{own:.3f} at its own price" if own else ""
        print(f"  {name:<32}{ratio:.3f}   {figures:<44}{own_price}", flush=True)


def course(one: Contender, arrivals: Arrivals) -> tuple[Floats, Floats]:
    """After each commit: commits' worth rewritten, and files that a point query opens."""
    world, policy = World.empty(arrivals), one.policy()
    if arrivals.keys is None:
        raise AssertionError("named streams have keys")
    points = np.sort(arrivals.keys[:, ::16], axis=None)
    rewritten, depth = np.zeros(arrivals.commits), np.zeros(arrivals.commits)
    for commit in range(arrivals.commits):
        world.arrive(commit)
        world.parts.clear()
        env = Env(now_ms=world.arrivals.after(commit), parts=world.parts)
        for _ in range(100 if one.final else 1):
            plan = make_plan(world.snapshot(), [policy], one.options, env)
            if not plan.tasks:
                break
            read, nearer = world.merge(plan.tasks, commit)
            rewritten[commit] += read / arrivals.bytes[0]
            if not nearer:
                break
        depth[commit] = opened_by(world, points).sum()
    return rewritten, depth


def price_of(queries: float) -> float:
    """The price that this many queries per commit set for one more file of the target size, in rewrites of it."""
    size, c = resolve().files.target_bytes, DEFAULTS
    return queries * (c.open_bytes + c.column_share * size) / (c.rewrite * size + c.open_bytes)


def anytime(price: float, rewritten: Floats, depth: Floats) -> float:
    """Cost relative to the optimum's, the mean over all ends from the 100th commit on."""
    best = courses(len(depth), [price])
    ours, least = np.cumsum(rewritten + price * depth), best[0][0] + price * best[1][0]
    return float((ours / least[1:])[_FIRST_END - 1 :].mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--policies", default="", help="parts of names, comma-separated")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--quick", action="store_true", help="150 commits, one seed")
    given = parser.parse_args()
    if given.quick:
        given.commits, given.seeds = 150, 1
    words = [word for word in given.policies.split(",") if word]
    known = contenders()
    chosen = {n: c for n, c in known.items() if not words or any(w in n for w in words) or n == "full sort"}
    print(
        f"{given.commits} commits, {given.seeds} seeds, maintenance after each {given.every}; {platform.machine()}"
    )
    print()
    show(compare(chosen, tuple(given.streams.split(",")), given.commits, given.seeds, given.every), chosen)
    if "wide" in given.streams:
        every = {n: c for n, c in chosen.items() if n not in ("full sort", "rewrite-all, 100 files a group")}
        against_optimum(every, given.commits, given.seeds)


if __name__ == "__main__":
    main()
