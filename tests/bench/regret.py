"""Regret: what the default policy costs in all, against the best that one could have chosen in hindsight.

    python -m tests.bench.regret [--held-out] [--streams wide,late,…] [--jobs 2]

The planner that real runs use plays every table of ``tests.bench.ingests`` commit by commit on paper; maintenance runs
after each tenth. A course costs, by the project's one cost model (``core.costs``),

    scans       Σ over time · queries a commit · Σ over the files that a point query opens (O + φ·bytes + its deletes)
    rewrites    Σ over merges · (ρ·bytes + O·files)

and is compared at 0.1, 1, 10 and 100 point queries a commit with the cheapest of five contenders: ``universal``,
``ranges`` and ``peaks`` (asked until nothing is left), ``full``, and nothing at all; where rows are deleted, each with
and without ``deletes``. What holds a group's size back is lifted for ``full`` and ``universal``: a sort is a sort.
The default runs with default options, but for the rate:

    known        ``queries-per-hour`` is the true rate
    unknown      it is not set, and so 60 an hour whatever the truth
    ×10, ÷10     it is wrong by ten either way
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.cost.scoring import costs
from lakekeeper.core.model.coefficients import DEFAULTS
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.text.formatting import table
from tests.bench.ingests import ALL, HELD_OUT, INGESTS, Ingest
from tests.bench.upserts import world_of

EVERY = 10
RATES = (0.1, 1.0, 10.0, 100.0)
"""Point queries between two commits."""
_WHOLE = {"max-file-group-size-bytes": 1 << 50, "max-file-group-input-files": 1 << 20}
_STEPS = 70
"""How often a course is measured, at most."""
CONTENDERS: Mapping[str, tuple[Policy, ...]] = {
    "none": (),
    "universal": (UNIVERSAL,),
    "ranges": (RANGES,),
    "peaks": (PEAKS,),
    "full": (FULL,),
}
DEFAULT = "default"


@dataclass(frozen=True)
class Course:
    """What one contender did to one table, in bytes where nothing else is said.

    scans      cost of point queries, one for the mean time between two commits, over all the time
    rewrites   cost of all merges
    """

    scans: float
    rewrites: float
    amplification: float
    depth: float
    seconds: float

    def cost(self, rate: float) -> float:
        """In all, at ``rate`` queries a commit."""
        return rate * self.scans + self.rewrites


@dataclass(frozen=True)
class Job:
    """One course to play: ``rate`` is what the default takes the queries a commit to be."""

    stream: str
    who: str
    rate: float = 0.0


def commit_hours(ingest: Ingest) -> float:
    """Mean time between two ticks of the stream."""
    a = ingest.arrivals
    first, last = a.moment(a.present), a.moment(a.commits - 1)
    return (last - first) / 3_600_000 / (a.commits - 1 - a.present)


def play(
    ingest: Ingest, policies: Sequence[Sequence[Policy]], options: Options, *, final: bool = False
) -> Course:
    """One course; ``policies`` are asked one list after another, as the verbs of an automatic run are."""
    started = time.perf_counter()
    a, world = ingest.arrivals, world_of(ingest.arrivals, upserts=ingest.upserts)
    for commit in range(a.present):
        world.arrive(commit)
    step, gap_ms = _step(a.commits - a.present), commit_hours(ingest) * 3_600_000
    scans = rewrites = 0.0
    ingested = rewritten = 0
    depths: list[float] = []
    for number in range(1, a.commits - a.present + 1):
        commit = a.present + number - 1
        ingested += world.arrive(commit)
        if number % EVERY == 0:
            for some in policies:
                size, files = _maintain(world, some, options, commit, rounds=100 if final else 1)
                rewritten += size
                rewrites += DEFAULTS.rewrite * size + DEFAULTS.open_bytes * files
        if number % step == 0:
            opened, cost = _opened(world, ingest.ask(commit))
            scans += cost * (a.after(commit) - a.after(max(commit - step, a.present))) / gap_ms
            depths.append(opened)
    return Course(
        scans, rewrites, rewritten / ingested, float(np.mean(depths)), time.perf_counter() - started
    )


def _step(commits: int) -> int:
    """At no fixed place between two maintenance runs."""
    step = max(1, commits // _STEPS)
    while np.gcd(step, EVERY) > 1:
        step += 1
    return step


def _maintain(
    world: World, policies: Sequence[Policy], options: Options, commit: int, *, rounds: int
) -> tuple[int, int]:
    """Bytes and files that were read for merges."""
    world.parts.clear()
    env = Env(now_ms=world.arrivals.after(commit), parts=world.parts)
    size = files = 0
    for _ in range(rounds):
        plan = make_plan(world.snapshot(), policies, options, env)
        if not plan.tasks:
            break
        read, nearer = world.merge(plan.tasks, commit)
        size += read
        files += plan.input_files
        if not nearer:
            break
    return size, files


def _opened(world: World, points: np.ndarray) -> tuple[float, float]:
    """Files that a query opens, and what they cost it; means over the queries."""
    if not len(points):
        return 0.0, 0.0
    blocks = world.snapshot().blocks
    cost = costs(blocks, DEFAULTS)
    if world.arrivals.digits:
        return _opened_boxes(world, points, cost)
    by_lo, by_hi = np.argsort(world.lo), np.argsort(world.hi)
    begun = np.searchsorted(world.lo[by_lo], points, side="right")
    over = np.searchsorted(world.hi[by_hi], points, side="left")
    grown = np.concatenate([[0.0], np.cumsum(cost[by_lo])])
    gone = np.concatenate([[0.0], np.cumsum(cost[by_hi])])
    return float((begun - over).mean()), float((grown[begun] - gone[over]).mean())


def _opened_boxes(world: World, points: np.ndarray, cost: np.ndarray) -> tuple[float, float]:
    """Of a compound key: the files whose bounds of every column admit the tuple."""
    from lakekeeper.core.simulation.simulated_table import tuples

    asked = tuples(points, world.arrivals.digits)
    met = np.ones((len(asked), len(world)), dtype=np.bool_)
    for c in range(asked.shape[1]):
        met &= (world.low[None, :, c] <= asked[:, None, c]) & (asked[:, None, c] <= world.high[None, :, c])
    return float(met.sum(axis=1).mean()), float((met @ cost).mean())


def run(job: Job) -> Course:
    """Play one job."""
    ingest = ALL[job.stream]()
    if job.who == DEFAULT:
        options = resolve({"queries-per-hour": job.rate / commit_hours(ingest)} if job.rate else {})
        return play(ingest, [[ADAPTIVE], *([[DELETES]] if ingest.upserts else [])], options)
    name, _, more = job.who.partition("+")
    policies = [CONTENDERS[name], *([[DELETES]] if more else [])]
    whole = name in ("full", "universal")
    return play(ingest, policies, resolve(_WHOLE if whole else {}), final=name != "full")


def jobs_of(stream: str, rates: Sequence[float]) -> Iterator[Job]:
    """All courses of one table; those that take longest come first."""
    ingest = ALL[stream]()
    for name in CONTENDERS:
        yield Job(stream, name)
        if ingest.upserts:
            yield Job(stream, f"{name}+deletes")
    yield Job(stream, DEFAULT)
    for rate in rates:
        yield Job(stream, DEFAULT, rate)


@dataclass(frozen=True)
class Regret:
    """The default's cost at one rate, by what it took the rate to be, over the cheapest contender's."""

    stream: str
    rate: float
    best: str
    known: float
    unknown: float
    over: float
    under: float


def regrets(found: Mapping[Job, Course]) -> list[Regret]:
    """One for each table and rate."""
    out = []
    for stream in dict.fromkeys(job.stream for job in found):
        others = {job.who: c for job, c in found.items() if job.stream == stream and job.who != DEFAULT}
        ours = {job.rate: c for job, c in found.items() if job.stream == stream and job.who == DEFAULT}
        for rate in RATES:
            best = min(others, key=lambda who: others[who].cost(rate))
            least = others[best].cost(rate)
            told = [ours[believed].cost(rate) / least for believed in (rate, 0.0, _ten(rate), _ten(rate, -1))]
            out.append(Regret(stream, rate, best, *told))
    return out


def _ten(rate: float, way: int = 1) -> float:
    """A rate wrong by ten."""
    return float(f"{rate * 10.0**way:.6g}")


def summary(values: Sequence[float]) -> str:
    """Geometric mean, and the worst."""
    return f"{float(np.exp(np.mean(np.log(values)))):.3f}, worst {max(values):.2f}"


def show(found: Mapping[Job, Course]) -> None:
    """The table, the figures behind it, and the summary."""
    rows = [
        ["stream", "queries", "known", "unknown", "×10", "÷10", "best", "WA @ files", "default's WA @ files"]
    ]
    told = regrets(found)
    for r in told:
        best, mine = found[Job(r.stream, r.best)], found[Job(r.stream, DEFAULT, r.rate)]
        rows.append(
            [r.stream, f"{r.rate:g}", *(f"{v:.2f}" for v in (r.known, r.unknown, r.over, r.under)), r.best]
            + [f"{c.amplification:.2f} @ {c.depth:.1f}" for c in (best, mine)]
        )
    print(table(rows, right=frozenset({1, 2, 3, 4, 5, 7, 8})))
    print()
    for name in ("known", "unknown", "over", "under"):
        print(f"{name:<8} geometric mean {summary([getattr(r, name) for r in told])}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--held-out", action="store_true", help="the second set of streams and seeds")
    parser.add_argument("--streams", default="", help="by name, comma-separated")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    names = [n for n in given.streams.split(",") if n] or list(HELD_OUT if given.held_out else INGESTS)
    believed = sorted({_ten(r, w) for r in RATES for w in (-1, 1)} | set(RATES))
    jobs = [job for name in names for job in jobs_of(name, believed)]
    started = time.perf_counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        found = dict(zip(jobs, pool.map(run, jobs), strict=True))
    show(found)
    cpu = sum(course.seconds for course in found.values())
    print(f"\n{len(jobs)} courses in {time.perf_counter() - started:.0f} s, {cpu:.0f} s of work")


if __name__ == "__main__":
    main()
