"""The heavy tasks of one pass, made into calls for the lane, and its answers into reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakekeeper.api import Table
from lakekeeper.core.model.keys import quote
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.heavy_call import FAILED_FILES, HeavyCall
from lakekeeper.core.scheduling.task import EXPIRY, Task
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoff, Backoffs
from lakekeeper.heavy.lane import Lane, NotStarted
from lakekeeper.spi import Observer, TableName

_NO_BACKOFF = Backoff(0)


class HeavyTasks:
    """Runs the tasks of one pass in the lane. An application that did not start is not started again in the pass.

    ``open_table`` returns a table of the pass, and its name as Spark resolved it; ``confs`` returns the
    ``spark.lakekeeper.*`` confs of its session.
    """

    def __init__(
        self,
        lane: Lane,
        open_table: Callable[[str], tuple[Table, TableName]],
        confs: Callable[[], Mapping[str, str]],
        backoffs: Backoffs | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._lane, self._open, self._confs, self._backoffs = lane, open_table, confs, backoffs
        self._clock = clock or Clock()
        self._not_started: NotStarted | None = None

    def merge(self, task: Task, budget_bytes: int | None, observer: Observer) -> MergeReport:
        """Run a verb that rewrites files."""
        backoff = self._backoffs.of(task.table) if self._backoffs else _NO_BACKOFF
        plain = self._run(task, observer, budget_bytes, backoff)
        failed = plain.pop(FAILED_FILES, ())
        report = MergeReport.from_dict(plain)
        if self._backoffs:
            backoff.note(report.groups, self._clock.now_ms())
            backoff.failed(failed, self._clock.now_ms())
        return report

    def other(self, task: Task, observer: Observer) -> StatisticsReport | LifecycleReport:
        """Compute statistics, or delete expired rows."""
        plain = self._run(task, observer)
        return LifecycleReport.from_dict(plain) if task.verb == EXPIRY else StatisticsReport.from_dict(plain)

    def _run(
        self,
        task: Task,
        observer: Observer,
        budget_bytes: int | None = None,
        backoff: Backoff = _NO_BACKOFF,
    ) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        table, name = self._open(task.table)
        # The plan of this service was made with it, and the other process has heard no query.
        workload = table.workload() if task.kind in ("merge", "index") else None
        call = HeavyCall(
            full_name(name),
            task.verb,
            budget_bytes,
            tuple(sorted(backoff.resting(now_ms))),
            tuple(sorted(backoff.failing(now_ms))),
            None if workload is None else workload.to_json(),  # one without queries is an answer too
            self._confs(),
        )
        if self._not_started is not None:
            raise self._not_started.for_table(call.table)
        try:
            return self._lane.run(call, observer)
        except NotStarted as error:
            self._not_started = error
            raise


def full_name(name: TableName) -> str:
    """The name by which a session of another process finds the table, whatever its current catalog is."""
    if name.path:
        return name.path
    return ".".join(quote(step) for step in (name.catalog, *name.namespace, name.name))
