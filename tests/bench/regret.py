"""Regret: the total cost of the default policy, relative to the best choice in hindsight.

    python -m tests.bench.regret [--held-out] [--streams wide,late,…] [--jobs 2]

The planner of real runs simulates every table of ``tests.bench.ingests`` commit by commit; maintenance runs after each
tenth. A course costs, by the project's cost model (``core.cost.scoring``),

    scans       Σ over time · queries per commit · Σ over the files that a point query opens (O + φ·bytes + its deletes)
    rewrites    Σ over merges · (ρ·bytes + O·files)

and is compared at 0.1, 1, 10 and 100 point queries per commit with the cheapest of five contenders: ``universal``,
``ranges`` and ``peaks`` (repeated until nothing is left), ``full``, and no maintenance; if rows are deleted, each with
and without ``deletes``. ``full`` and ``universal`` have no limit on a group's size, so that they sort everything. The
default runs with default options, except the rate:

    known        ``queries-per-hour`` is the true rate
    unknown      it is not set, so the default of 60 per hour applies
    ×10, ÷10     it is wrong by a factor of ten

The second table has the lower bound for a policy that does not know the rate (``tests.bench.bounds``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.text.formatting import table
from tests.bench.bounds import Files, files_of, unknown, wrong_by_ten
from tests.bench.courses import Course, commit_hours, play
from tests.bench.ingests import ALL, HELD_OUT, INGESTS

RATES = (0.1, 1.0, 10.0, 100.0)
"""Point queries between two commits."""
_WHOLE = {"max-file-group-size-bytes": 1 << 50, "max-file-group-input-files": 1 << 20}
CONTENDERS: Mapping[str, tuple[Policy, ...]] = {
    "none": (),
    "universal": (UNIVERSAL,),
    "ranges": (RANGES,),
    "peaks": (PEAKS,),
    "full": (FULL,),
}
DEFAULT = "default"


@dataclass(frozen=True)
class Job:
    """One course to simulate; ``rate`` is the number of queries per commit that the default assumes."""

    stream: str
    who: str
    rate: float = 0.0


def run(job: Job) -> Course:
    """Simulate one job."""
    ingest = ALL[job.stream]()
    if job.who == DEFAULT:
        options = resolve({"queries-per-hour": job.rate / commit_hours(ingest)} if job.rate else {})
        return play(ingest, [[ADAPTIVE], *([[DELETES]] if ingest.upserts else [])], options)
    name, _, more = job.who.partition("+")
    policies = [CONTENDERS[name], *([[DELETES]] if more else [])]
    whole = name in ("full", "universal")
    return play(ingest, policies, resolve(_WHOLE if whole else {}), final=name != "full")


def jobs_of(stream: str, rates: Sequence[float]) -> Iterator[Job]:
    """All courses of one table; the longest come first."""
    ingest = ALL[stream]()
    for name in CONTENDERS:
        yield Job(stream, name)
        if ingest.upserts:
            yield Job(stream, f"{name}+deletes")
    yield Job(stream, DEFAULT)
    for rate in rates:
        yield Job(stream, DEFAULT, rate)


def files_of_stream(stream: str) -> Files:
    """The input of the bound on all policies for one table."""
    return files_of(ALL[stream]())


@dataclass(frozen=True)
class Regret:
    """The default's cost at one rate, by its assumed rate, relative to the cheapest contender's."""

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
            found_regrets = [
                ours[believed].cost(rate) / least for believed in (rate, 0.0, _ten(rate), _ten(rate, -1))
            ]
            out.append(Regret(stream, rate, best, *found_regrets))
    return out


def _ten(rate: float, way: int = 1) -> float:
    """A rate wrong by a factor of ten."""
    return float(f"{rate * 10.0**way:.6g}")


def summary(values: Sequence[float]) -> str:
    """Geometric mean, and the worst."""
    return f"{float(np.exp(np.mean(np.log(values)))):.3f}, worst {max(values):.2f}"


def show(found: Mapping[Job, Course]) -> None:
    """Print the table, the figures behind it, and the summary."""
    rows = [
        ["stream", "queries", "known", "unknown", "×10", "÷10", "best", "WA @ files", "default's WA @ files"]
    ]
    found_regrets = regrets(found)
    for r in found_regrets:
        best, mine = found[Job(r.stream, r.best)], found[Job(r.stream, DEFAULT, r.rate)]
        rows.append(
            [r.stream, f"{r.rate:g}", *(f"{v:.2f}" for v in (r.known, r.unknown, r.over, r.under)), r.best]
            + [f"{c.amplification:.2f} @ {c.depth:.1f}" for c in (best, mine)]
        )
    print(table(rows, right=frozenset({1, 2, 3, 4, 5, 7, 8})))
    print()
    for name in ("known", "unknown", "over", "under"):
        print(f"{name:<8} geometric mean {summary([getattr(r, name) for r in found_regrets])}")


def show_bounds(found: Mapping[Job, Course], files: Mapping[str, Files]) -> None:
    """For each stream, the default's worst regret without the true rate, and the lower bound for any policy."""
    rows = [["stream", "unknown", "at least", "wrong by ten", "at least"]]
    found_regrets = regrets(found)
    for stream, each in files.items():
        mine = [r for r in found_regrets if r.stream == stream]
        least = {r.rate: found[Job(stream, r.best)].cost(r.rate) for r in mine}
        wrong = max(max(r.over, r.under) for r in mine)
        worst = max(r.unknown for r in mine), unknown(each, least), wrong, wrong_by_ten(each, least)
        rows.append([stream, *(f"{v:.2f}" for v in worst)])
    print(table(rows, right=frozenset(range(1, 5))))


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
        files = dict(zip(names, pool.map(files_of_stream, names), strict=True))
    show(found)
    print()
    show_bounds(found, files)
    cpu = sum(course.seconds for course in found.values())
    print(f"\n{len(jobs)} courses in {time.perf_counter() - started:.0f} s, {cpu:.0f} s of work")


if __name__ == "__main__":
    main()
