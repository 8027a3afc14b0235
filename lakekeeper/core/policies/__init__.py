"""Policies: pure functions from a pinned picture to choices, one file each.

A policy is an entry point of the group ``lakekeeper.policies``; a new one is one new file or package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakekeeper.core.blocks import Index, Snapshot
from lakekeeper.core.mass import Line
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice
from lakekeeper.core.ranks import Intervals


class Queries(Protocol):
    """What is asked of a table, as far as a policy has to know."""

    def shares(self, snapshot: Snapshot, intervals: Intervals) -> Line | None:
        """The queries along the points of ``intervals``; None where they say nothing about the key.

        At each point the weight of the queries that begin at or before it, and of those that ended strictly before
        it: of [a, b] the difference is what has to read it.
        """


@dataclass(frozen=True, slots=True)
class Env:
    """Every outside fact that a decision may use, so that it can be played again from the saved input.

    now_ms        the time, ms since the epoch
    parallelism   tasks that the cluster runs side by side
    busy          paths of blocks that other work holds
    workload      what queries ask for; without one they are taken to ask for the data as it lies
    price         what one scan of a file costs in rewrites of a file, for each commit; None where nobody knows
    spent_bytes   rewritten on this table in the last 24 hours
    """

    now_ms: int = 0
    parallelism: int = 1
    busy: frozenset[str] = frozenset()
    workload: Queries | None = None
    price: float | None = None
    spent_bytes: int = 0


class Policy(Protocol):
    """``choose`` says of every candidate block (positions in ``snapshot.blocks``) what is to be done, best first."""

    @property
    def name(self) -> str: ...

    def choose(
        self, snapshot: Snapshot, candidates: Index, options: Options, env: Env
    ) -> Sequence[Choice]: ...
