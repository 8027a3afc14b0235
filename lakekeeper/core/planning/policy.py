"""The interface of a policy: a pure function from an immutable snapshot to choices.

A policy is an entry point of the group ``lakekeeper.policies``; a new one is one new file or package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.workload.workload import Workload


class Part(NamedTuple):
    """The merge that wrote a block, and, if a bound cut it short, when its inputs were added (ms); else 0."""

    merge: str
    added_ms: int = 0


@dataclass(frozen=True, slots=True)
class Env:
    """All outside facts that a decision may use, so that it can be repeated from saved input.

    now_ms        the time, ms since the epoch
    parallelism   tasks that the cluster runs side by side
    busy          paths of blocks where other writers have won races
    failing       paths of blocks whose last merge failed
    workload      what queries ask for; None: unknown; every part of the data counts alike
    parts         path of a block → the merge of the same call that wrote it
    spent_bytes   rewritten on this table in the last 24 hours
    """

    now_ms: int = 0
    parallelism: int = 1
    busy: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    workload: Workload | None = None
    parts: Mapping[str, Part] = field(default_factory=dict, hash=False)
    spent_bytes: int = 0


def no_queries(env: Env) -> Reason:
    """Why no merge pays if the scale has no queries."""
    return Reason.of(Code.EMPTY_WORKLOAD if env.workload is not None else Code.NO_QUERIES)


class Policy(Protocol):
    """Chooses, of the candidate blocks (positions in ``snapshot.blocks``), what to do with each, best first.

    Two traits may be set as attributes; see :func:`converges` and :func:`lays_out`.
    """

    @property
    def name(self) -> str: ...

    def choose(
        self, snapshot: Snapshot, candidates: Index, options: Options, env: Env
    ) -> Sequence[Choice]: ...


def converges(policy: Policy) -> bool:
    """Whether repeated runs reach a state in which nothing is due (the default). If not, a final run is one round."""
    return bool(getattr(policy, "converges", True))


def lays_out(policy: Policy) -> bool:
    """Whether merges sort by the cluster key (the default). A change of the key then proceeds by a share per round."""
    return bool(getattr(policy, "lays_out", True))
