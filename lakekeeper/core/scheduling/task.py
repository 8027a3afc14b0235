"""Work of automatic runs as data: one task is one verb on one table.

    queued ─► running ─┬─► done
       ▲               ├─► skipped(reason)       nothing was due, or it may not run
       │               └─► failed(reason) ─► parked for a while
       └── a later pass ◄──────────────────────┘

A task of a later pass takes over how long it has been waiting and how often it has failed (:func:`renewed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakekeeper.core.model.reason import Fact, Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import DAY_MS

Kind = Literal["plan", "lifecycle", "merge", "index", "statistics", "gc"]
State = Literal["queued", "running", "done", "failed", "skipped"]

EXPIRY, INDEX, STATISTICS, VACUUM = "expire_rows", "build_filters", "compute_statistics", "vacuum"
_KINDS: dict[str, Kind] = {EXPIRY: "lifecycle", INDEX: "index", STATISTICS: "statistics", VACUUM: "gc"}
_LONGEST_ERROR = 500
_MOST_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Task:
    """One verb on one table.

    kind                    ``plan`` (read the log, and see what is due), ``lifecycle`` (delete expired rows), ``merge``
                            (rewrite), ``index`` (rewrite for Bloom filters), ``statistics`` (read and describe), ``gc``
                            (vacuum)
    since_ms                since when it has been waiting
    score                   predicted gain per core-second, 0 to 100: see :mod:`lakekeeper.core.cost.scoring`
    weight                  of the table, ``auto.weight``
    bytes                   size of what it would rewrite
    query_seconds_per_day   what queries would save
    failures                in a row; ``parked_until_ms``: not before this time, because of them
    """

    kind: Kind
    table: str
    verb: str
    state: State = "queued"
    since_ms: int = 0
    score: float = 0.0
    weight: float = 1.0
    bytes: int = 0
    query_seconds_per_day: float = 0.0
    failures: int = 0
    parked_until_ms: int = 0
    reason: Reason | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it among the tasks of a fleet."""
        return self.table, self.verb

    def is_parked(self, now_ms: int) -> bool:
        """Whether it must wait because it has failed."""
        return now_ms < self.parked_until_ms

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**plain, "reason": self.reason.to_dict() if self.reason else None}

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` restores an equal task."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Inverse of :meth:`to_json`; raises ValueError, TypeError or KeyError for invalid input."""
        plain = json.loads(text)
        reason = plain.get("reason")
        return cls(**{**plain, "reason": Reason.from_dict(reason) if reason else None})


def kind_of(verb: str) -> Kind:
    """The kind of task that a verb is."""
    return _KINDS.get(verb, "merge")


def in_order(verbs: Iterable[str]) -> tuple[str, ...]:
    """Verbs in the order of one table's tasks: no expired row is merged; filters and statistics are of merged files."""
    stages = ["lifecycle", "merge", "index", "statistics", "gc"]
    return tuple(sorted(verbs, key=lambda verb: stages.index(kind_of(verb))))


def renewed(task: Task, before: Task | None) -> Task:
    """A task as a new pass has planned it, with what an earlier pass left of the same one."""
    if before is None:
        return task
    waiting = before.state in ("queued", "running") or before.failures > 0
    return replace(
        task,
        since_ms=min(before.since_ms, task.since_ms) if waiting else task.since_ms,
        failures=before.failures,
        parked_until_ms=before.parked_until_ms,
        reason=task.reason or (before.reason if before.failures else None),
    )


def done(task: Task, reason: Reason) -> Task:
    """It ran and something was committed or deleted, or it found nothing to do."""
    return replace(task, state="done", failures=0, parked_until_ms=0, reason=reason)


def skipped(task: Task, reason: Reason) -> Task:
    """It was not due, or it may not run; earlier failures are forgotten with the work that failed."""
    return replace(task, state="skipped", failures=0, parked_until_ms=0, reason=reason)


def failed(task: Task, error: str, began_ms: int, pause_ms: int) -> Task:
    """It failed in a pass that began at ``began_ms``: the next attempt is after a pause that doubles with each failure.

    The pause is a day at most.
    """
    failures = task.failures + 1
    wait_ms = min(pause_ms * 2 ** min(failures - 1, _MOST_DOUBLINGS), DAY_MS)
    reason = Reason.of(Code.FAILED, error=error[:_LONGEST_ERROR])
    return replace(task, state="failed", failures=failures, parked_until_ms=began_ms + wait_ms, reason=reason)


def parked(task: Task, now_ms: int) -> Task:
    """It is left out of this pass because it has failed."""
    wait_ms = max(task.parked_until_ms - now_ms, 0)
    known = task.reason.facts if task.reason else {}
    error = str(known.get("error", "unknown error"))
    facts: dict[str, Fact] = {
        "verb": task.verb,
        "failures": task.failures,
        "wait_ms": wait_ms,
        "error": error,
    }
    return replace(task, state="queued", reason=Reason.of(Code.PARKED, **facts))
