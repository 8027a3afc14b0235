"""What all calls on one table share: adapter, snapshot, clock and history, and how their arguments become requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakekeeper import arguments
from lakekeeper.core.config.options import Options, overridden
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.table_session import TableSession
from lakekeeper.engine.vacuum.job import VacuumRequest
from lakekeeper.history.recorder import Recorder
from lakekeeper.opening import open_adapter
from lakekeeper.spark.confs import table_options
from lakekeeper.spark.where import checked_where
from lakekeeper.spi import Adapter, TableName
from lakekeeper.workloads import EventLogs, Queries, workload_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True, slots=True)
class TableContext:
    """Resolves the options of a call, and turns its arguments into a request.

    ``session`` keeps the newest snapshot from call to call. The tables of a pass share ``backoff`` and ``logs``.
    """

    spark: SparkSession
    name: TableName
    adapter: Adapter[Any]
    clock: Clock
    recorder: Recorder
    backoff: Backoff | None = None
    logs: EventLogs | None = None
    session: TableSession = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "session", TableSession(self.adapter))

    def options(self, call: Mapping[str, Any] | None = None, *, lenient: bool = False) -> Options:
        """The options in force. Raises OptionError; with ``lenient`` not for table properties."""
        properties = retried(self.session.properties, self.clock, SHORT_PAUSES)
        return table_options(self.spark, self.name.text, properties, call, lenient=lenient)

    def request(
        self,
        verb: str,
        columns: Sequence[str] | str | None = None,
        where: str | Column | None = None,
        policy: str | Sequence[str] | None = None,
        budget_bytes: int | str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        final: bool = False,
        dry_run: bool = False,
    ) -> Request:
        """The request of a verb. All arguments of the call are checked before the table's snapshot is read."""
        resolved = self.options(arguments.given_options(options, policy, budget_bytes))
        made = arguments.merge_request(
            verb,
            resolved,
            columns=columns,
            where=None if where is None else checked_where(self.spark, self.name, where),
            final=final,
            dry_run=dry_run,
            parallelism=self.spark.sparkContext.defaultParallelism,
            backoff=self.backoff,
        )
        if resolved.budget.bytes_per_day is None:
            return made
        return replace(made, recorded_bytes=self.recorder.rewritten_bytes(LastDay(self.clock.now_ms())))

    def with_workload(self, request: Request, source: Queries | None = None) -> Request:
        """The request with the workload that its plan is based on."""
        return replace(
            request, workload=workload_of(self.spark, self.name, source, request.options, self.logs)
        )

    def vacuum_request(
        self,
        *,
        retention_hours: float | str | None,
        older_than: datetime | None,
        retain_last: int | None,
        keep_versions: Sequence[int],
        shared_with: Sequence[str],
        options: Mapping[str, Any] | None,
        **flags: bool,
    ) -> VacuumRequest:
        """The request of a vacuum; opens the tables that share files. Raises OptionError or RetentionError.

        ``flags`` are those of :class:`VacuumRequest`.
        """
        age_ms, older_than_ms = arguments.retention(retention_hours, older_than)
        last = {} if retain_last is None else {"retain-last": retain_last}
        resolved = self.options(overridden(options, last))
        return VacuumRequest(
            options=resolved,
            age_ms=age_ms,
            older_than_ms=older_than_ms,
            named=arguments.version_numbers(keep_versions),
            streams=arguments.streams_to_keep(self.spark, self.name.text, resolved),
            users=[open_adapter(self.spark, name).adapter for name in arguments.table_names(shared_with)],
            **flags,
        )
