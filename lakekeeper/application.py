"""Automatic runs inside an application, controlled by its confs alone.

    pause is over ───────────────────► pass over all tables ─────────┐
    a query or a stream has written ─► pass over the written tables ─┴─► the log decides what is due

Listeners only make passes start earlier: the next full pass finds any write that they missed.
"""

from __future__ import annotations

import logging
import os.path
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import set_by
from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.engine.alert import Alerts
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.engine.merge.backoff import Backoffs
from lakekeeper.engine.service import Service
from lakekeeper.errors import reason
from lakekeeper.fleet import heavy_lane, one_pass, service_settings
from lakekeeper.recording import fleet_memory
from lakekeeper.redaction import without_user
from lakekeeper.spark.application import await_listeners, has_ended
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.identifiers import aliases, resolve
from lakekeeper.spark.jvm import Jvm, require_classic
from lakekeeper.spark.merge import POOL
from lakekeeper.spark.stream_listener import StreamWrites
from lakekeeper.statements.plain_sql import add_statements, is_enabled, remove_statements
from lakekeeper.workloads import listener_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakekeeper")
_MOST_TEXTS = 1_000
"""Different texts of writes that are kept. Once there are as many, any table may have been written."""
_installed: Installed | None = None  # an application has one Spark context
_INSTALLING = threading.Lock()


@dataclass(frozen=True, slots=True)
class InstallStatus:
    """The state of the automatic runs of this application.

    state        ``off`` (not enabled by conf), ``running`` or ``stopped``
    passes       number of passes that have ended
    writes_seen  number of write commands and of stream batches that the listeners observed
    last         report of the last pass
    error        error of the last pass as a whole, or empty
    """

    state: str
    passes: int = 0
    writes_seen: int = 0
    last: AutoReport | None = None
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        last = self.last.to_dict() if self.last else None
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "last": last}


class Installed:
    """Automatic runs of one application; see :func:`install`. They are off without settings."""

    def __init__(self, spark: SparkSession, settings: AutoSettings | None) -> None:
        self._runs = _Runs(spark, settings) if settings else None
        self._with_statements: list[SparkSession] = []

    def removes_statements(self, spark: SparkSession) -> None:
        """Remove lakekeeper's statements from this session at :meth:`stop`."""
        if spark not in self._with_statements:
            self._with_statements.append(spark)

    @property
    def over(self) -> bool:
        """Whether the application has ended, or :meth:`stop` was called."""
        return self._runs is None or not self._runs.service.running or self._runs.over()

    def status(self) -> InstallStatus:
        """The current state."""
        if self._runs is None:
            return InstallStatus("off")
        service = self._runs.service
        return InstallStatus(
            "stopped" if self.over else "running",
            service.passes,
            self._runs.writes_seen,
            service.reports[-1] if service.reports else None,
            reason(service.error) if service.error else "",
        )

    def wait(self, passes: int = 1, timeout: float | None = None) -> bool:
        """Block until this many passes have ended; False after ``timeout`` seconds, or if automatic runs are off."""
        return self._runs is not None and self._runs.service.wait(passes, timeout)

    def stop(self) -> None:
        """Finish the current pass, start no other, and remove the listeners and statements."""
        if self._runs is not None:
            self._runs.stop()
        while self._with_statements:
            spark = self._with_statements.pop()
            if not has_ended(spark):
                remove_statements(spark)

    def finish(self) -> None:
        """Stop, then run a last pass over the tables that the application has written since the previous one.

        After :meth:`stop`, no pass is run.
        """
        if self._runs is not None:
            self._runs.finish()


def install(spark: SparkSession) -> Installed:
    """Maintain tables in a thread of this application, and add SQL to its session, as its confs enable it.

    With the conf ``spark.lakekeeper.sql.call.enabled=true``, plain ``spark.sql`` in this session has
    ``CALL lakekeeper.system.…``, and the table functions and views of lakekeeper (experimental).

    With ``spark.lakekeeper.auto.enabled=true``, the tables of ``spark.lakekeeper.auto.tables`` are maintained, with the
    settings of :func:`auto`. Without either conf, nothing happens. Listeners on the session start a pass early for
    tables that a query or a stream has written, and record queries as the workload of plans. Until ``stop()`` is called
    or the session ends, further calls return the same handle. Automatic runs also end with the session. Jobs run in the
    scheduler pool ``lakekeeper``; with ``spark.scheduler.mode=FAIR`` they share the executors with other jobs.

    Raises:
        OptionError: a conf has an invalid value, or the session has a catalog ``lakekeeper`` of its own.
        AdapterError: the session is a Spark Connect session, or its Spark has no ``CALL``.
    """
    require_classic(spark)
    with_statements = is_enabled(spark)
    if with_statements:
        add_statements(spark)
    handle = _automatic_runs(spark)
    if with_statements:
        handle.removes_statements(spark)
    return handle


def _automatic_runs(spark: SparkSession) -> Installed:
    global _installed  # noqa: PLW0603 - an application has one Spark context
    if not set_by(lakekeeper_confs(spark), "auto.enabled"):
        return Installed(spark, None)
    with _INSTALLING:
        if _installed is None or _installed.over:
            _installed = Installed(spark, service_settings(spark, None, None))
        return _installed


class _Runs:
    """The service of an application, its listeners, and the writes observed since the last pass."""

    def __init__(self, spark: SparkSession, settings: AutoSettings) -> None:
        self._spark, self._settings = spark, settings
        self._backoffs, self._memory = Backoffs.between(settings.pause_seconds), fleet_memory(spark)
        self._alerts = Alerts(settings.alert_command)
        self._observed: dict[str, None] = {}
        # Observed during the passes since the last whole one, of tables that the pass changed.
        self._doubtful: dict[str, None] = {}
        self._lock = threading.Lock()
        self._aliases: dict[str, tuple[str, ...]] = {}
        self.writes_seen = 0
        self._stopped = False
        self.service = Service(
            self._whole, settings.pause_seconds, early=self._early, over=self.over, ended=self._ended
        )
        # The application of the heavy lane ends even if the rest of the start fails.
        with ExitStack() as ending:
            self._lane = ending.enter_context(heavy_lane(spark, settings))
            self._listening = listener_of(spark)
            self._listening.report_writes(self._wrote)
            self._streams = StreamWrites(spark, self._wrote)
            self.service.start()
            self._ending = ending.pop_all()

    def stop(self) -> None:
        if not self._stopped:  # the listener is the session's, and later runs may use it
            with self._ending:
                self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self.service.stop()
        for stop in (partial(self._listening.report_writes, None), self._streams.stop):
            with suppress(Exception):  # they ended with the session
                stop()

    def finish(self) -> None:
        if self._stopped:
            return
        with suppress(Exception):  # a listener that does not keep up: another service will find the write
            await_listeners(self._spark)
        with self._ending:
            self._stop()
            for text in self._doubtful:
                _keep(text, self._observed)
            if self._observed and not self.over():
                self._early()

    def over(self) -> bool:
        """Whether Spark has ended, so that every further pass would fail."""
        return has_ended(self._spark)

    def _ended(self) -> None:
        if self.over() and self._lane is not None:  # after a stop, a last pass may need the lane
            self._lane.close()

    def _wrote(self, text: str) -> None:
        with self._lock:
            _keep(text, self._observed)
            self.writes_seen += 1
        self.service.sooner()

    def _take(self) -> Callable[[str], bool]:
        """Whether the writes observed since the last call may have been to a table, by its name."""
        with self._lock:
            observed, full = "\n".join(self._observed), _is_full(self._observed)
            self._observed.clear()
        return lambda name: full or self._concerns(observed, name)

    def _whole(self) -> AutoReport:
        self._take()
        self._doubtful.clear()
        report = self._pass(lambda _: True)
        if not self.over():
            self._alerts.after(report)
        return report

    def _early(self) -> AutoReport | None:
        """A pass over the tables that were written; None if none of them is maintained."""
        report = self._pass(self._take())
        return report if report.tables else None

    def _pass(self, only: Callable[[str], bool]) -> AutoReport:
        context = self._spark.sparkContext
        before = context.getLocalProperty("spark.scheduler.pool")  # the last pass runs in the caller's thread
        context.setLocalProperty("spark.scheduler.pool", POOL)
        try:
            report = one_pass(
                self._spark,
                self._settings,
                backoffs=self._backoffs,
                memory=self._memory,
                only=only,
                over=self.over,
                lane=self._lane,
            )
        finally:
            context.setLocalProperty("spark.scheduler.pool", before)  # type: ignore[arg-type]  # None clears it
        worked = [table.table for table in report.tables if table.status in ("done", "partial", "failed")]
        if worked and not self.over():
            self._set_aside(worked)
        return report

    def _set_aside(self, tables: Sequence[str]) -> None:
        """Do not start an early pass for writes to tables that the pass changed: they may be its own commits."""
        with suppress(Exception):  # then an early pass finds nothing due
            await_listeners(self._spark)
        with self._lock:
            if _is_full(self._observed):  # it may lack the write of a user
                return
            observed = list(self._observed)
            self._observed.clear()
            for text in observed:
                own = any(self._concerns(text, table) for table in tables)
                _keep(text, self._doubtful if own else self._observed)

    def _concerns(self, text: str, table: str) -> bool:
        return any(_is_named(alias, text) for alias in self._known_as(table))

    def _known_as(self, name: str) -> tuple[str, ...]:
        """The names of a table in plans and sinks; empty if the table cannot be resolved now."""
        if name not in self._aliases:
            try:
                table = resolve(self._spark, name)
                found = [*aliases(self._spark, table), *([_path_in(name)] if table.path else ())]
                known = [alias.removeprefix("file:") for alias in found]
                self._aliases[name] = tuple(dict.fromkeys((*known, *self._relative(known))))
            except Exception as error:  # the next whole pass reports it
                _LOG.debug("%s: %s", without_user(name), reason(error))
                return ()
        return self._aliases[name]

    def _relative(self, known: Sequence[str]) -> list[str]:
        """The paths among the names of a table, as a program may write them.

        They are relative to the directory in which the JVM started: Spark does not follow ``os.chdir``.
        """
        start = str(Jvm(self._spark).view.java.lang.System.getProperty("user.dir"))
        return [os.path.relpath(path, start) for path in known if path.startswith("/")]


def _keep(text: str, texts: dict[str, None]) -> None:
    """Keep a text once: a stream describes its sink at each batch alike, which must displace no other write."""
    if not _is_full(texts):
        texts[text] = None


def _is_full(texts: dict[str, None]) -> bool:
    return len(texts) >= _MOST_TEXTS


def _path_in(name: str) -> str:
    """The path in the name of a table, as its user wrote it: ``path`` or ``delta.`path```."""
    return name.removesuffix("`").rpartition("`")[2].rstrip("/")


def _is_named(alias: str, text: str) -> bool:
    """Whether a text names this table, and not only one whose name or path contains that of this one."""
    before = "" if alias.startswith("/") else r"(?<![\w.-])"  # a path may follow a scheme and a host
    return alias in text and re.search(rf"{before}{re.escape(alias)}(?![\w-]|\.\w)", text) is not None
