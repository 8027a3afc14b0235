"""Simulation of a policy on a table, commit by commit, without moving any data.

    arrivals ─► world ─► snapshot ─► make_plan ─► tasks ─► world      the planner and the policies are the real ones
                  └─► queries at even shares of all data: files and bytes that each would open

Depth at a point is the number of files that a lookup of one key opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env, Policy, converges
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.simulation.query_sampler import Course, Probe
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.simulation.simulation_text import render_simulation
from lakekeeper.core.text.result import Result
from lakekeeper.core.units import DAY_MS

_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class SimulationReport(Result):
    """The result of ``simulate``. Means are over time, and over queries drawn evenly from all data.

    ingest                    what was written: the table's history or a named stream
    policies, key             the policies, and the key that they used
    commits, every, final     the number of commits; maintenance after each ``every``-th; whether rounds are repeated
    ingested_*, rewritten_*   files and bytes that writers added, and that merges read
    write_amplification       bytes rewritten per byte ingested
    tasks, largest_task_bytes the number of merges, and the most bytes that one of them read
    depth, depth_p95          files per point query: mean over time of the mean, and of the 95th percentile
    depth_at_end, files_at_end
    untouched_depth           mean depth if nothing were ever merged
    range_files               files per query of 1% of the data
    point_bytes, range_bytes  size of the files that a query opens
    course                    all of it over time
    """

    ingest: str
    policies: tuple[str, ...]
    key: str
    commits: int
    every: int
    final: bool
    ingested_files: int
    ingested_bytes: int
    rewritten_files: int
    rewritten_bytes: int
    write_amplification: float
    tasks: int
    largest_task_bytes: int
    depth: float
    depth_p95: float
    depth_at_end: float
    files_at_end: int
    untouched_depth: float
    range_files: float
    point_bytes: float
    range_bytes: float
    course: Course = field(compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the course as lists."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["policies"] = list(self.policies)
        plain["course"] = {n: getattr(self.course, n).tolist() for n in self.course.__dataclass_fields__}
        return plain

    def __str__(self) -> str:
        return render_simulation(self)


@dataclass(slots=True)
class _Spent:
    files: int = 0
    bytes: int = 0
    tasks: int = 0
    largest: int = 0
    recent: list[tuple[int, int]] = field(default_factory=list)

    def within_a_day(self, now_ms: int) -> int:
        """Bytes of the 24 hours before ``now_ms``."""
        self.recent = [(at, read) for at, read in self.recent if at > now_ms - DAY_MS]
        return sum(read for _, read in self.recent)


def simulate(
    arrivals: Arrivals,
    policies: Sequence[Policy],
    options: Options,
    *,
    every: int = 10,
    final: bool = False,
    parallelism: int = 1,
    key: str = "",
) -> SimulationReport:
    """Play ``arrivals`` with maintenance after each ``every``-th commit; the same arguments give the same report.

    With ``final``, the policies are applied until they choose nothing or no longer improve the table, ``max-rounds``
    times at most; if one of them does not converge, as ``full``, which always chooses, they are applied once. Budgets
    apply as to real calls. Raises OptionError as the planner does. ``key`` is the name of the key in the report.
    """
    world, spent = World.empty(arrivals), _Spent()
    probe = Probe(arrivals)
    repeated = final and all(map(converges, policies))
    rounds = options.planning.max_rounds if repeated else 1
    for commit in range(arrivals.present):
        world.arrive(commit)
    commits = arrivals.commits - arrivals.present
    step = _step(commits, every)
    ingested = 0
    for number in range(1, commits + 1):
        commit = arrivals.present + number - 1
        ingested += world.arrive(commit)
        if number % every == 0:
            _maintain(world, policies, options, rounds, commit, parallelism, spent)
        if number % step == 0 or number == commits:
            probe.measure(world.lo, world.hi, world.bytes.astype(np.float64), commit, number)
    course = probe.course()
    amplification = spent.bytes / ingested
    depth = float(course.depth.mean())
    return SimulationReport(
        ingest=arrivals.name,
        policies=tuple(p.name for p in policies),
        key=key,
        commits=commits,
        every=every,
        final=repeated,
        ingested_files=int(arrivals.edges[-1] - arrivals.edges[arrivals.present]),
        ingested_bytes=ingested,
        rewritten_files=spent.files,
        rewritten_bytes=spent.bytes,
        write_amplification=amplification,
        tasks=spent.tasks,
        largest_task_bytes=spent.largest,
        depth=depth,
        depth_p95=float(course.depth_p95.mean()),
        depth_at_end=float(course.depth[-1]),
        files_at_end=len(world),
        untouched_depth=float(course.untouched.mean()),
        range_files=float(course.range_files.mean()),
        point_bytes=float(course.point_bytes.mean()),
        range_bytes=float(course.range_bytes.mean()),
        course=course,
    )


def _step(commits: int, every: int) -> int:
    """The number of commits between measurements: offsets to maintenance vary, so that none is overrepresented."""
    step = max(1, commits // _SAMPLES)
    while gcd(step, every) > 1:
        step += 1
    return step


def _maintain(
    world: World,
    policies: Sequence[Policy],
    options: Options,
    rounds: int,
    commit: int,
    parallelism: int,
    spent: _Spent,
) -> None:
    world.parts.clear()
    now, of_call, most = world.arrivals.after(commit), 0, options.budget.bytes or np.inf
    for _ in range(rounds):
        env = Env(now, parallelism=parallelism, parts=world.parts, spent_bytes=spent.within_a_day(now))
        limited = replace(options, budget=options.budget.after(of_call))
        plan = make_plan(world.snapshot(), policies, limited, env)
        if not plan.tasks or (of_call and of_call + plan.tasks[0].input_bytes > most):
            return
        read, nearer = world.merge(plan.tasks, commit)
        of_call += read
        spent.recent.append((now, read))
        spent.bytes += read
        spent.files += plan.input_files
        spent.tasks += len(plan.tasks)
        spent.largest = max(spent.largest, *(task.input_bytes for task in plan.tasks))
        if not nearer:
            return
