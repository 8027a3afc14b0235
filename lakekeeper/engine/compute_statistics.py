"""Bring the statistics of a table up to date.

    find ─► compute, up to the size of one commit ─► commit ─┬─ committed ─► the next part, while the budget lasts
                                                ▲            ├─ Conflict ──► again: what still describes live files
                                                └────────────┘
                                                             └─ Unknown ───► look for the run id

A commit of statistics changes no row and no data file. It leaves out files that a user has changed meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled, unknown_outcome
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.retries import LONG_PAUSES, NOT_COMMITTED, SHORT_PAUSES, retried, sent
from lakekeeper.engine.state.leases import Registration, registered_run
from lakekeeper.engine.uncommitted import removed
from lakekeeper.errors import Conflict, Unknown, reason
from lakekeeper.spi import Adapter, Computed, Observer, Outdated, Runner


def compute_statistics(
    adapter: Adapter[Any],
    runner: Runner[Any],
    columns: Sequence[str] | None,
    options: Options,
    *,
    dry_run: bool = False,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> StatisticsReport:
    """Compute the statistics that are missing or outdated, within ``budget-bytes`` of data read.

    Raises OptionError, NotFound or Unsupported before anything is read, and CommitError. Once a commit has landed, an
    error ends the call, and the report names it.
    """
    clock = clock or Clock()
    started_ms = clock.now_ms()
    min_ratio = options.statistics.min_changed_ratio
    found = retried(lambda: adapter.statistics.find(columns, min_ratio), clock, SHORT_PAUSES)
    work = _Work(adapter, runner, options, clock, observer, found)
    if not dry_run and found.files:
        adapter.require_writable(options)
        try:
            work.run()
        except Halted as halted:
            raise halted.cause from None
    return StatisticsReport(
        table=adapter.table,
        dry_run=dry_run,
        version_before=found.version,
        version_after=work.version,
        ended=work.ended(dry_run=dry_run),
        described_data_files_count=found.files if dry_run else work.files,
        read_bytes_count=found.bytes if dry_run else work.bytes,
        statistics_files=tuple(work.paths),
        conflicts=work.lost,
        run_ids=tuple(work.run_ids),
        duration_ms=clock.now_ms() - started_ms,
    )


@dataclass(slots=True)
class _Work:
    """What one call has committed so far: one commit for each part of what was found.

    ``in_doubt``: an attempt of this part was sent, and its outcome is not known; an interrupt may come after it landed.
    ``failure``: that of the part after the last one that landed.
    """

    adapter: Adapter[Any]
    runner: Runner[Any]
    options: Options
    clock: Clock
    observer: Observer | None
    found: Outdated
    operation: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    files: int = 0
    bytes: int = 0
    read_bytes: int = 0
    lost: int = 0
    version: int | None = None
    in_doubt: bool = False
    failure: Exception | None = None
    paths: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)

    def run(self) -> None:
        limit, rest, number = self.options.budget.bytes, self.found, 0
        while rest.files and (limit is None or self.read_bytes < limit):
            number += 1
            left = self.options.commit.bytes_per_commit
            try:
                rest = self._part(rest, min(left, limit - self.read_bytes) if limit else left, number)
            except Exception as failure:
                if not self.run_ids:
                    raise
                self.failure = failure
                return

    def _part(self, outdated: Outdated, most_bytes: int, number: int) -> Outdated:
        run_id, statistics = f"{self.operation}-{number}", self.adapter.statistics
        events = Events(self.adapter.table, run_id, self.observer)
        events.emit("planned", files=outdated.files, bytes=outdated.bytes)
        seen = retried(self.adapter.version, self.clock, LONG_PAUSES if self.run_ids else SHORT_PAUSES)
        read = seen.at_version(outdated.version)
        timeout_ms = self.options.vacuum.lease_timeout_ms
        with registered_run(self.adapter, run_id, read, self.clock, timeout_ms) as registration:
            with self.runner.working(run_id, f"{self.adapter.table}: statistics of {outdated.files:,} files"):
                computed = statistics.compute(outdated, most_bytes, run_id)
            self.read_bytes += computed.bytes
            events.emit("written", files=computed.files)
            try:
                version = self._commit(computed, events, registration)
            except (Halted, Unknown):
                raise
            except BaseException:
                if not self.in_doubt:
                    self._discard(computed)
                raise
            if version is None:
                registration.clean &= self._discard(computed)
        if version is not None:
            self._note(computed, run_id, version)
            events.emit("committed", version=version, files=computed.files)
        return computed.rest

    def _commit(self, computed: Computed, events: Events, registration: Registration) -> int | None:
        statistics, run_id = self.adapter.statistics, events.run_id
        loop = CommitLoop(
            events, self.options, self.clock, "the commit of statistics", "the table is unchanged"
        )
        landed = partial(statistics.landed, computed, run_id)
        self.in_doubt = False

        def send() -> int | None:
            self.in_doubt = True
            try:
                return statistics.commit(computed, run_id)
            except NOT_COMMITTED:
                self.in_doubt = False
                raise

        def attempt() -> int | None:
            events.emit("before_commit", attempt=loop.lost, files=computed.files)
            return sent(send, self.adapter.table, self.clock, registration.require)

        def after(lost: Conflict) -> int | Retry:
            try:
                version = retried(landed, self.clock)
            except Exception as error:
                raise self._unknown(run_id, lost) from error
            self.in_doubt = version is not None
            return Retry() if version is None else version

        def settle(doubt: Unknown) -> int:
            version = settled(landed, self.clock)
            if version is None:
                raise self._unknown(run_id, doubt) from doubt
            return version

        try:
            return loop.run(attempt, after, settle)
        finally:
            self.lost += loop.lost

    def _unknown(self, run_id: str, why: Exception) -> Unknown:
        advice = ", or compute the statistics again: a second time does no harm"
        return unknown_outcome(self.adapter.table, run_id, "the commit of statistics", why, advice)

    def _discard(self, computed: Computed) -> bool:
        return removed(self.adapter, computed.paths, lambda: self.adapter.statistics.discard(computed))

    def _note(self, computed: Computed, run_id: str, version: int) -> None:
        self.files += computed.files
        self.bytes += computed.bytes
        self.version = version
        self.paths += computed.paths
        self.run_ids.append(run_id)

    def ended(self, *, dry_run: bool) -> Reason:
        """What was done, or why nothing was."""
        if not self.found.files:
            return self.found.reason
        if dry_run:
            return Reason.of(Code.STATISTICS_DUE, files=self.found.files).plus(self.found.reason)
        if not self.run_ids:
            return Reason.of(Code.FILES_CHANGED)
        why = Reason.of(Code.STATISTICS_COMPUTED, files=self.files).plus(self.found.reason)
        if self.failure is None:
            return why
        return why.plus(Reason.of(Code.ENDED_BY_ERROR, error=reason(self.failure)))
