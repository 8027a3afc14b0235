"""Writes an operation to the history when it ends.

call ─► act(observer) ─┬─ report ─► ended ─┐
                       └─ error ───────────┴─► store        a store that fails costs a warning, nothing else
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.core.scheduling.spending import Spending
from lakekeeper.errors import reason
from lakekeeper.history.operation import Ended, Metrics, Operation, Report, ended
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.spi import Observer

_LOG = logging.getLogger("lakekeeper")

_ATTEMPTED = "attempted_bytes_count"

R = TypeVar("R", bound=Report)


@dataclass(frozen=True, slots=True)
class Application:
    """The Spark application that an operation ran in: its id, its user, and versions by library."""

    id: str = ""
    user: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where operations are recorded: the store, how long it keeps them, and the application that writes."""

    store: HistoryStore
    keep_ms: int
    application: Application


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the operations on one table.

    destination    called for each operation; returns None if no history is configured
    core_seconds   returns the executor time of the jobs of some job groups, None if unknown
    """

    table: TableId
    origin: str
    destination: Callable[[], Destination | None]
    core_seconds: Callable[[Collection[str]], float | None]
    now_ms: Callable[[], int]

    def run(
        self,
        verb: str,
        act: Callable[[Observer | None], R],
        observer: Observer | None = None,
        *,
        dry_run: bool = False,
    ) -> R:
        """Call ``act``, and record the operation unless it is a dry run; returns or raises what ``act`` does."""
        to = None if dry_run else self._destination()
        if to is None:
            return act(observer)
        seen = _Seen(observer)
        started = self.now_ms()
        try:
            report = act(seen)
        except BaseException as error:
            status = "failed" if isinstance(error, Exception) else "interrupted"
            failed = Ended(status, Reason.of(Code.FAILED, error=reason(error)), seen.metrics({}))
            self._add(to, verb, seen, started, lambda: failed)
            raise
        self._add(to, verb, seen, started, lambda: seen.added_to(ended(report)))
        return report

    def rewritten_bytes(self, day: LastDay) -> int:
        """Bytes that recorded operations have rewritten on the table that day; 0 if the history cannot be read."""
        to = self._destination()
        try:
            return to.store.rewritten_bytes(day, table=self.table) if to else 0
        except Exception as error:
            _LOG.warning(
                "%s: the bytes that were rewritten are not known from the history: %s",
                self.table,
                reason(error),
            )
            return 0

    def _destination(self) -> Destination | None:
        try:
            return self.destination()
        except Exception as error:  # a bad conf is reported by the call itself
            _warn(self.table, error)
            return None

    def _add(self, to: Destination, verb: str, seen: _Seen, started: int, made: Callable[[], Ended]) -> None:
        try:
            result = made()
            operation = Operation(
                operation_id=seen.runs[0] if seen.runs else uuid.uuid4().hex[:16],
                operation_type=verb,
                operation_status=result.status,
                table=self.table,
                start_ms=started,
                end_ms=self.now_ms(),
                reason=result.reason,
                operation_metrics=result.metrics,
                core_seconds=self.core_seconds(seen.runs),
                origin=self.origin,
                policies=result.policies,
                cluster_key=result.cluster_key,
                version_before=result.version_before,
                version_after=result.version_after,
                run_ids=result.run_ids,
                groups=result.groups,
                decisions=result.decisions,
                application_id=to.application.id,
                user=to.application.user,
                versions=to.application.versions,
            )
            to.store.add(operation, to.keep_ms)
        except Exception as error:
            _warn(self.table, error)


class _Seen:
    """An observer that records the run ids of an operation and what it reads, and passes everything on."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._spending = Spending()
        self.runs: list[str] = []

    def added_to(self, result: Ended) -> Ended:
        """What a report says, with what it does not count: groups that were read and discarded after an error."""
        return replace(result, metrics=self.metrics(result.metrics))

    def metrics(self, reported: Metrics) -> Metrics:
        """The numbers of a report, or none, with the bytes that were read if they are more than it says."""
        spent = self._spending.bytes
        return {**reported, _ATTEMPTED: spent} if spent > reported.get(_ATTEMPTED, 0) else reported

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        self._spending(phase, info)
        run = str(info["run_id"])
        if run not in self.runs:  # worker threads report after the first phase, which records the id
            self.runs.append(run)
        if self._observer is not None:
            self._observer(phase, info)


def _warn(table: TableId, error: Exception) -> None:
    _LOG.warning("%s: the operation was not recorded in the history: %s", table, reason(error))
