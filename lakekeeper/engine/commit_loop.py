"""The loop of every commit: bounded attempts, one event for each lost one, one way to settle an unknown outcome.

    attempt ─┬─ committed ────────────────────────────────────────────► result
       ▲     ├─ Conflict ─► did it land after all? ─┬─ yes ───────────► result
       │     │                                      └─ no: count, wait, bring the work up to date ─┐
       │     └─ Unknown ──► look for the run id ────┬─ found ─────────► result                      │
       │                                            └─ not found ─────► Unknown; every file is kept │
       └────────────────────────────────────────────────────────────────────────────────────────────┘

A catalog may land a commit and report that it lost, so a conflict is believed only after the log was read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.errors import Conflict, Unknown
from lakekeeper.spi import Adapter

T = TypeVar("T")

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 2.0
"""The first and the longest wait before a retry. Iceberg's first wait is the same; it waits up to a minute, with fewer
retries."""
_LOOKS = (1.0, 2.0, 4.0, 8.0, 0.0)
"""Seconds to wait after each look at the log that did not find the run id."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How to go on after an attempt that is known to have lost.

    counts   the attempt counts towards ``commit.retry.num-retries``
    wait     back off before the next attempt
    resume   brings the work up to date; called after the wait
    """

    counts: bool = True
    wait: bool = True
    resume: Callable[[], None] = lambda: None


@dataclass(slots=True)
class CommitLoop:
    """The attempts of one commit, under one run id.

    what      the subject of messages: ``the delete``
    undone    what holds if the loop gives up: ``no row was deleted``
    lost      attempts that lost; ``counted`` of them are bounded by number
    """

    events: Events
    options: Options
    clock: Clock
    what: str
    undone: str
    lost: int = 0
    counted: int = 0
    _deadline_ms: int | None = field(default=None)

    def run(
        self,
        attempt: Callable[[], T],
        after: Callable[[Conflict], T | Retry],
        settle: Callable[[Unknown], T] | None = None,
    ) -> T:
        """The result of the first attempt that lands.

        ``after`` reads the log after a conflict: the result if the attempt did land, else how to go on. ``settle``
        turns an unknown outcome into the result, or raises. Raises Conflict naming the winner when the attempts or
        the time are used up, and whatever ``attempt`` raises.
        """
        while True:
            try:
                return attempt()
            except Conflict as conflict:  # noqa: PERF203  # the block costs nothing beside a commit
                result = after(conflict)
                if not isinstance(result, Retry):
                    return result
                self.lose(conflict, result)
            except Unknown as doubt:
                if settle is None:
                    raise
                return settle(doubt)

    def start(self) -> None:
        """Begin the time for retries. Otherwise it begins when the first attempt is lost, which may take hours."""
        latest = self.clock.now_ms() + self.options.commit.timeout_ms
        # The clock may be set back meanwhile.
        self._deadline_ms = latest if self._deadline_ms is None else min(self._deadline_ms, latest)

    @property
    def out_of_time(self) -> bool:
        """Whether no further attempt may begin."""
        return self._deadline_ms is not None and self.clock.now_ms() >= self._deadline_ms

    def lose(self, conflict: Conflict, retry: Retry | None = None) -> None:
        """Report a lost attempt and prepare the next one. Raises Conflict if no attempt is left."""
        retry = retry or Retry()
        why = Reason.of(Code.CONFLICT, error=str(conflict), winner=conflict.winner)
        self.events.emit("conflict", attempt=self.lost, dropped=0, replayed=0, reason=why)
        self.start()
        self.lost += 1
        self.counted += retry.counts
        if self.out_of_time or self.counted > self.options.commit.num_retries:
            raise Conflict(
                f"{self.events.table}: {self.what} gave up after {self.lost} attempts, the last one lost to "
                f"{conflict.winner or conflict}; {self.undone}. Raise commit.retry.num-retries or "
                "commit.retry.total-timeout-ms, or run when there are fewer concurrent writes",
                conflict.winner,
            ) from conflict
        if retry.wait:
            self.clock.wait(pause_seconds(max(self.counted, 1) - 1))
        retry.resume()


def pause_seconds(attempt: int) -> float:
    """Seconds to wait after the lost attempt with this number, from 0: doubling, between the two bounds."""
    return min(MIN_WAIT_SECONDS * 2.0**attempt, MAX_WAIT_SECONDS)


def settled_version(adapter: Adapter[Any], snapshot: Snapshot, run_id: str, clock: Clock) -> int | None:
    """The version that carries ``run_id``, searched for a bounded time; None if the log does not show it (yet)."""
    return settled(lambda: adapter.changes_since(snapshot).landed(run_id), clock)


def settled(landed: Callable[[], int | None], clock: Clock) -> int | None:
    """The version that ``landed`` finds, called for a bounded time; None if it does not find it (yet).

    A catalog that has just lost the response to a commit often fails the next call too. A failed read says nothing,
    and the outcome stays unknown.
    """
    for pause in _LOOKS:
        with suppress(Exception):
            version = landed()
            if version is not None:
                return version
        if pause:
            clock.wait(pause)
    return None


def unknown_outcome(table: str, run_id: str, what: str, why: object, advice: str = "") -> Unknown:
    """The error for an outcome that the log does not settle."""
    return Unknown(
        f"{table}: the outcome of {what} of run {run_id} is not known ({why}); none of its files was removed. "
        f"Look for the run id in the table's history{advice}"
    )
