"""Maintenance of many tables: a single pass, or repeated passes from a background thread.

run(spark, "ice.db.*")
with auto(spark, every="15m"): ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekeeper.api import Table, open_table
from lakekeeper.arguments import checked_flags
from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, PatternResult
from lakekeeper.engine.alert import Alerts
from lakekeeper.engine.auto_settings import AutoSettings, settings_from
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoffs
from lakekeeper.engine.service import Service
from lakekeeper.engine.state.service_lease import service_lease
from lakekeeper.engine.sweep import PassContext, sweep
from lakekeeper.engine.table_session import Kept, TableSession, nbytes_of
from lakekeeper.engine.table_turn import Heavy
from lakekeeper.engine.watch import Watch
from lakekeeper.history.table_id import TableId
from lakekeeper.recording import FleetMemory, fleet_memory
from lakekeeper.redaction import without_user
from lakekeeper.spark.application import core_seconds, has_ended
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.identifiers import Expanded, aliases, expand, is_pattern
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spi import Notes, Observer, TableName
from lakekeeper.workloads import EventLogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakekeeper.heavy.lane import Lane

_KEPT_BYTES = 256 << 20
"""Snapshots that are kept from the plans of a pass until the work on them, and by a service until its next pass."""


@checked_flags
def run(
    spark: SparkSession,
    tables: str | Sequence[str] | None = None,
    *,
    verbs: Sequence[str] | None = None,
    dry_run: bool = False,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> AutoReport:
    """Do the maintenance that is due in one pass over many tables.

    If a table, pattern or catalog fails, the pass continues with the others. ``verbs`` replace those of ``auto.verbs``,
    and other defaults come from ``spark.lakekeeper.auto.*`` too; see :func:`auto`. Once ``stopping()`` is true, the
    work in progress is finished and no further work is started. Raises OptionError for an invalid setting, and without
    tables.
    """
    settings = service_settings(spark, tables, verbs)
    with heavy_lane(spark, settings) as lane:
        return one_pass(
            spark,
            settings,
            dry_run=dry_run,
            observer=observer,
            stopping=stopping,
            over=lambda: has_ended(spark),
            lane=lane,
        )


def auto(
    spark: SparkSession, *, every: str | None = None, tables: str | Sequence[str] | None = None
) -> Service:
    """Maintain tables from a background thread of this session, until ``stop()`` or the end of the ``with`` block.

    The thread also ends with the session, and what fails then counts against no table.

    Settings come from confs ``spark.lakekeeper.*`` and table properties ``lakekeeper.*``; a table with
    ``lakekeeper.auto.enabled=false`` is never touched. ``tables`` are names, patterns or paths; by default those of
    ``spark.lakekeeper.auto.tables``. ``every`` is the pause between passes, such as ``30s``, ``15m`` or ``2h``.
    Partitions where maintenance lost a race to a user are skipped for one or more passes.
    """
    settings = service_settings(spark, tables, None, every)
    backoffs = Backoffs.between(settings.pause_seconds)
    memory = fleet_memory(spark)
    alerts = Alerts(settings.alert_command)
    ending = ExitStack()
    lane = ending.enter_context(heavy_lane(spark, settings))

    def over() -> bool:
        return has_ended(spark)

    def repeated() -> AutoReport:
        report = one_pass(spark, settings, backoffs=backoffs, memory=memory, over=over, lane=lane)
        if not over():  # else what failed, failed with Spark
            alerts.after(report)
        return report

    return Service(repeated, settings.pause_seconds, over=over, ended=ending.close).start()


def heavy_lane(spark: SparkSession, settings: AutoSettings) -> AbstractContextManager[Lane | None]:
    """Where the passes of a service run heavy tasks, until the end of the block; None: in this session."""
    if settings.heavy.own_master is None:
        return nullcontext()
    from lakekeeper.heavy.opening import open_lane

    return open_lane(spark, settings.heavy)


def service_settings(
    spark: SparkSession,
    tables: str | Sequence[str] | None,
    verbs: Sequence[str] | None,
    every: str | None = None,
) -> AutoSettings:
    """The settings of a pass or a service: what the call gives, then the session's confs."""
    call: dict[str, Any] = {}
    if tables is not None:
        call["auto.tables"] = tables
    if verbs is not None:
        call["auto.verbs"] = verbs
    if every is not None:
        call["auto.every"] = every
    require_classic(spark)
    return settings_from(resolve(call, lakekeeper_confs(spark)))


def one_pass(  # noqa: PLR0913 - what a pass is given differs by who runs it
    spark: SparkSession,
    settings: AutoSettings,
    *,
    dry_run: bool = False,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = lambda: False,
    backoffs: Backoffs | None = None,
    memory: FleetMemory | None = None,
    only: Callable[[str], bool] = lambda _: True,
    over: Callable[[], bool] = lambda: False,
    watch: Watch | None = None,
    lane: Lane | None = None,
) -> AutoReport:
    """One pass of a service; ``backoffs``, ``memory``, ``watch`` and ``lane`` carry over from earlier passes.

    ``only`` chooses among the tables. Once ``over()`` is true, the session has ended: what failed with it counts
    against no table, but the record still shows the tasks that were running, since one of them may have ended it.
    """
    clock = Clock()
    memory = memory or fleet_memory(spark)
    expanded = expand(spark, settings.tables)
    # The pass knows the tables without the credentials in their paths: it prints and logs these names.
    known = {without_user(name): name for found in expanded for name in found.names}
    names = tuple(shown for shown, name in known.items() if only(name))
    tables = _Tables(spark, {shown: known[shown] for shown in names}, backoffs, memory.snapshots)
    context = PassContext(
        dry_run=dry_run,
        observer=observer,
        stopping=lambda: stopping() or over(),
        before=memory.tasks(),
        spent_today_bytes=memory.rewritten_bytes(clock.now_ms()),
        spent_today_core_seconds=lambda name: memory.core_seconds(
            clock.now_ms(), name, tables.recorded_as(name) if name else None
        ),
        core_seconds=lambda runs: _core_seconds(spark, lane, runs),
        cores=lambda: max(spark.sparkContext.defaultParallelism, lane.cores if lane else 0),
        lease=lambda name: service_lease(tables.notes(name), memory.owner, clock),
        one_look=lambda name: _session(tables.open(name)).one_look(),
        planned=tables.used,
        ended=tables.used,
        note=lambda task: None if over() and task.state == "failed" else memory.note(task, clock.now_ms()),
        watch=watch or Watch(),
        heavy=_heavy_tasks(spark, lane, tables, backoffs),
    )
    report = sweep(names, tables.open, settings, clock, context)
    left = {name: kept for name, kept in memory.snapshots.items() if name in known}
    memory.snapshots = left | tables.snapshots()
    report = replace(
        report, patterns=tuple(_result(found) for found in expanded if is_pattern(found.pattern))
    )
    if not dry_run and not over():
        memory.keep(report, clock.now_ms())
    return report


def _heavy_tasks(
    spark: SparkSession, lane: Lane | None, tables: _Tables, backoffs: Backoffs | None
) -> Heavy | None:
    if lane is None:
        return None
    from lakekeeper.heavy.tasks import HeavyTasks

    return HeavyTasks(lane, tables.named, lambda: lakekeeper_confs(spark), backoffs)


def _core_seconds(spark: SparkSession, lane: Lane | None, runs: Collection[str]) -> float | None:
    """What runs have used in the lane, or else in this session."""
    used = lane.core_seconds(runs) if lane else None
    return core_seconds(spark, runs) if used is None else used


class _Tables:
    """The tables of one pass, each opened once; the snapshots of as many as fit are kept.

    ``names`` maps what the pass calls a table to the name that opens it: the same, with the credentials in a path.
    ``earlier`` are the snapshots of the pass before: a table that no commit has changed since is not read again.
    """

    def __init__(
        self,
        spark: SparkSession,
        names: Mapping[str, str],
        backoffs: Backoffs | None,
        earlier: Mapping[str, Kept],
    ) -> None:
        self._spark, self._names, self._backoffs, self._earlier = spark, names, backoffs, earlier
        self._opened: dict[str, Table | Exception] = {}
        self._kept_bytes = {name: nbytes_of(kept) for name, kept in earlier.items()}
        self._lock = threading.Lock()
        # One for each table: a catalog that is slow to open one holds up no other.
        self._opening = {name: threading.Lock() for name in names}
        self._logs = EventLogs(self._known_as)

    def open(self, name: str) -> Table:
        """Open a table, and remember the error of one that cannot be opened.

        Threads that need the same table at once get the same object: the snapshots of another one would be lost.
        """
        with self._opening[name]:
            if name not in self._opened:
                self._opened[name] = self._open(name)
        found = self._opened[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _open(self, name: str) -> Table | Exception:
        try:
            backoff = self._backoffs.of(name) if self._backoffs else None
            table = open_table(self._spark, self._names[name], backoff, self._logs)
            if name in self._earlier:
                _session(table).resume(self._earlier[name])
        except Exception as error:
            return error  # raised now and whenever the table is needed
        return table

    def used(self, name: str) -> None:
        """Keep the snapshots of a table that was planned or worked on, unless those of all tables take much memory."""
        found = self._opened.get(name)
        if not isinstance(found, Table):
            return
        session = _session(found)
        with self._lock:
            others = sum(self._kept_bytes.values()) - self._kept_bytes.get(name, 0)
            if others + session.nbytes > _KEPT_BYTES:
                session.forget()  # read again at its turn
            self._kept_bytes[name] = session.nbytes

    def snapshots(self) -> dict[str, Kept]:
        """The snapshots of all tables that were opened, for the next pass; it opens the tables again."""
        return {
            name: _session(found).kept for name, found in self._opened.items() if isinstance(found, Table)
        }

    def named(self, name: str) -> tuple[Table, TableName]:
        """A table, and its name as Spark resolved it."""
        table = self.open(name)
        return table, table._context.name  # noqa: SLF001 - the table is ours

    def recorded_as(self, name: str) -> TableId:
        """A table in the history."""
        return self.open(name)._context.recorder.table  # noqa: SLF001 - the table is ours

    def notes(self, name: str) -> Notes:
        """The notes beside a table."""
        return self.open(name)._context.adapter.notes  # noqa: SLF001 - the table is ours

    def _known_as(self) -> dict[str, tuple[str, ...]]:
        """What event logs may call each table of the pass that can be opened."""
        found = {}
        for name in self._names:
            with suppress(Exception):  # reported when its turn comes
                found[name] = aliases(self._spark, self.open(name)._context.name)  # noqa: SLF001 - the table is ours
        return found


def _session(table: Table) -> TableSession:
    return table._context.session  # noqa: SLF001 - the table is ours


def _result(found: Expanded) -> PatternResult:
    if found.error:
        return PatternResult(
            found.pattern, "failed", Reason.of(Code.FAILED, error=found.error), len(found.names)
        )
    if not found.names:
        return PatternResult(found.pattern, "unmatched", Reason.of(Code.NO_TABLE_MATCHES), 0)
    return PatternResult(found.pattern, "matched", None, len(found.names))
