"""Simulated courses: one table of ``tests.bench.ingests`` under one kind of maintenance, and its total cost.

The planner of real runs is applied commit by commit; maintenance runs after each tenth.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import costs
from lakekeeper.core.model.coefficients import DEFAULTS
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.simulated_table import World, tuples
from lakekeeper.core.units import Floats
from tests.bench.ingests import Ingest
from tests.bench.upserts import world_of

EVERY = 10
_STEPS = 70
"""The maximum number of measurements of a course."""


@dataclass(frozen=True)
class Course:
    """The cost of one contender on one table, in bytes unless stated otherwise.

    scans      cost of point queries, one per mean commit interval, over the whole time
    rewrites   cost of all merges
    """

    scans: float
    rewrites: float
    amplification: float
    depth: float
    seconds: float

    def cost(self, rate: float) -> float:
        """The total at ``rate`` queries per commit."""
        return rate * self.scans + self.rewrites


def commit_hours(ingest: Ingest) -> float:
    """Mean time between two ticks of the stream."""
    a = ingest.arrivals
    first, last = a.time_of(a.present), a.time_of(a.commits - 1)
    return (last - first) / 3_600_000 / (a.commits - 1 - a.present)


def looks(ingest: Ingest) -> dict[int, float]:
    """The commits after which queries are sampled, and how many mean commit intervals each sample represents."""
    a, gap_ms = ingest.arrivals, commit_hours(ingest) * 3_600_000
    step = max(1, (a.commits - a.present) // _STEPS)
    while np.gcd(step, EVERY) > 1:  # at no fixed offset between two maintenance runs
        step += 1
    found = range(a.present + step - 1, a.commits, step)
    return {t: (a.after(t) - a.after(max(t - step, a.present))) / gap_ms for t in found}


def play(
    ingest: Ingest, policies: Sequence[Sequence[Policy]], options: Options, *, final: bool = False
) -> Course:
    """One course; the lists of ``policies`` run one after another, as the verbs of an automatic run do."""
    started = time.perf_counter()
    a, world = ingest.arrivals, world_of(ingest.arrivals, upserts=ingest.upserts)
    for commit in range(a.present):
        world.arrive(commit)
    weight = looks(ingest)
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
        if commit in weight:
            opened = opened_by(world, ingest.ask(commit))
            scans += weight[commit] * float(opened @ costs(world.snapshot().blocks, DEFAULTS))
            depths.append(float(opened.sum()))
    return Course(
        scans, rewrites, rewritten / ingested, float(np.mean(depths)), time.perf_counter() - started
    )


def _maintain(
    world: World, policies: Sequence[Policy], options: Options, commit: int, *, rounds: int
) -> tuple[int, int]:
    """Bytes and number of files read for merges."""
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


def opened_by(world: World, points: Floats) -> Floats:
    """For each file, the share of the queries that open it; for a compound key, by the bounds of every column."""
    if not len(points):
        return np.zeros(len(world))
    if not world.arrivals.digits:
        upto = np.searchsorted(points, world.hi, side="right")
        return (upto - np.searchsorted(points, world.lo, side="left")) / len(points)
    points_queried = tuples(points, world.arrivals.digits)
    met = np.ones((len(points_queried), len(world)), dtype=np.bool_)
    for c in range(points_queried.shape[1]):
        met &= (world.low[None, :, c] <= points_queried[:, None, c]) & (
            points_queried[:, None, c] <= world.high[None, :, c]
        )
    return np.asarray(met.mean(axis=0))
