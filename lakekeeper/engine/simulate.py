"""Simulation of a table or of a stream: where the commits come from, and which policies plan for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.simulation.commit_streams import MAX_COMMITS, Arrivals, check_count, named_stream
from lakekeeper.core.simulation.simulate import SimulationReport, simulate
from lakekeeper.core.simulation.table_history import continued, replayed
from lakekeeper.engine.merge.planning import look
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.table_session import TableSession
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter

STREAM_COMMITS = 300


@dataclass(frozen=True, slots=True)
class Course:
    """What to simulate; raises OptionError for values out of range.

    stream    a named stream; None for the table's own history
    commits   number of commits; None for those of the table, or 300 of a stream
    every     commits between two times of maintenance
    seed      which commits are drawn
    final     maintain until nothing is left to do
    """

    stream: str | None = None
    commits: int | None = None
    every: int = 10
    seed: int = 0
    final: bool = False

    def __post_init__(self) -> None:
        check_count("every", self.every, MAX_COMMITS)
        if self.commits is not None:
            check_count("commits", self.commits, MAX_COMMITS)


def simulate_table(table: Adapter[Any] | TableSession, request: Request, course: Course) -> SimulationReport:
    """Play a table's history, or a named stream with its options; reads no data file."""
    if course.stream is not None:
        if request.columns is not None:
            raise OptionError(
                "columns", request.columns, "no columns with a named stream, which has its own key"
            )
        return simulate_stream(request.policies, request.options, course, request.parallelism)
    snapshot = look(table, request)
    many = course.commits
    arrivals = replayed(snapshot) if many is None else continued(snapshot, many, seed=course.seed)
    key = str(snapshot.key)
    return _play(arrivals, request.policies, request.options, course, request.parallelism, key)


def simulate_stream(
    policies: Sequence[Policy], options: Options, course: Course, parallelism: int = 1
) -> SimulationReport:
    """Play a named stream of files of the target size; needs no table."""
    arrivals = named_stream(
        course.stream or "",
        course.commits or STREAM_COMMITS,
        seed=course.seed,
        file_bytes=options.files.target_bytes,
    )
    return _play(arrivals, policies, options, course, parallelism, "")


def _play(
    arrivals: Arrivals,
    policies: Sequence[Policy],
    options: Options,
    course: Course,
    parallelism: int,
    key: str,
) -> SimulationReport:
    return simulate(
        arrivals,
        policies,
        options,
        every=course.every,
        final=course.final,
        parallelism=parallelism,
        key=key,
    )
