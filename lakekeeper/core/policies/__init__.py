"""Policies: pure functions from a pinned picture to choices, one file each.

A policy is an entry point of the group ``lakekeeper.policies``; a new one is one new file or package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakekeeper.core.blocks import Index, Snapshot
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice


@dataclass(frozen=True, slots=True)
class Env:
    """Every outside fact that a decision may use, so that it can be played again from the saved input.

    now_ms        the time, ms since the epoch
    parallelism   tasks that the cluster runs side by side
    busy          paths of blocks that other work holds
    """

    now_ms: int = 0
    parallelism: int = 1
    busy: frozenset[str] = frozenset()


class Policy(Protocol):
    """``choose`` says of every candidate block (positions in ``snapshot.blocks``) what is to be done, best first."""

    @property
    def name(self) -> str: ...

    def choose(
        self, snapshot: Snapshot, candidates: Index, options: Options, env: Env
    ) -> Sequence[Choice]: ...
