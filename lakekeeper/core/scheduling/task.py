"""Work of automatic runs as data: one task is one verb on one table.

    queued ─► running ─┬─► done
       ▲               ├─► skipped(reason)       nothing was due, or it may not run
       │               └─► failed(reason) ─► parked for a while
       └── a later pass ◄──────────────────────┘

The task of a later pass keeps the time since which it has been waiting, and its number of failures (:func:`renewed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakekeeper.core.model.reason import Fact, Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import CLOCKS_DIFFER_MS, DAY_MS
from lakekeeper.redaction import without_user

Kind = Literal["plan", "lifecycle", "merge", "index", "statistics", "gc"]
State = Literal["queued", "running", "done", "failed", "skipped"]

EXPIRY, INDEX, STATISTICS, VACUUM = "expire_rows", "build_filters", "compute_statistics", "vacuum"
_KINDS: dict[str, Kind] = {EXPIRY: "lifecycle", INDEX: "index", STATISTICS: "statistics", VACUUM: "gc"}
_LONGEST_ERROR = 500
_MOST_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Task:
    """One verb on one table.

    kind                    ``plan`` (read the log, and determine what is due), ``lifecycle`` (delete expired rows),
                            ``merge`` (rewrite), ``index`` (rewrite for Bloom filters), ``statistics`` (compute
                            statistics), ``gc`` (vacuum)
    since_ms                the time since which it has been waiting
    score                   predicted gain against the work, 0 to 100: see :mod:`lakekeeper.core.cost.scoring`
    weight                  of the table, ``auto.weight``
    bytes                   size of what it would rewrite
    query_seconds_per_day   query-seconds that it would save each day
    failures                consecutive failures; because of them, it does not run before ``parked_until_ms``
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
        """The identity of the task in a fleet; what stores it under this name stores no credentials of a path."""
        return without_user(self.table), self.verb

    def is_parked(self, now_ms: int) -> bool:
        """Whether it must wait because it has failed; an end further ahead than any pause is a wrong clock's."""
        return now_ms < self.parked_until_ms <= now_ms + DAY_MS + CLOCKS_DIFFER_MS

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
    """The kind of the tasks of a verb."""
    return _KINDS.get(verb, "merge")


def in_order(verbs: Iterable[str]) -> tuple[str, ...]:
    """Verbs in the order of one table's tasks: expired rows are deleted before merges, and merged files get filters and
    statistics.
    """
    stages = ["lifecycle", "merge", "index", "statistics", "gc"]
    return tuple(sorted(verbs, key=lambda verb: stages.index(kind_of(verb))))


def renewed(task: Task, before: Task | None) -> Task:
    """A task as planned by a new pass, with the waiting time and the failures of the same task in an earlier pass."""
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
    """The task after it ran: it committed or deleted something, or found nothing to do."""
    return replace(task, state="done", failures=0, parked_until_ms=0, reason=reason)


def skipped(task: Task, reason: Reason) -> Task:
    """The task if it was not due or may not run; its failures are reset, as the failed work is no longer due."""
    return replace(task, state="skipped", failures=0, parked_until_ms=0, reason=reason)


def failed(task: Task, error: str, began_ms: int, pause_ms: int) -> Task:
    """The task after it failed in a pass that began at ``began_ms``; it is parked for a while.

    The pause doubles with each failure, up to a day.
    """
    failures = task.failures + 1
    wait_ms = min(pause_ms * 2 ** min(failures - 1, _MOST_DOUBLINGS), DAY_MS)
    reason = Reason.of(Code.FAILED, error=error[:_LONGEST_ERROR])
    return replace(task, state="failed", failures=failures, parked_until_ms=began_ms + wait_ms, reason=reason)


def parked(task: Task, now_ms: int) -> Task:
    """The task if this pass skips it because it has failed before."""
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
