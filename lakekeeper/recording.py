"""Puts the history together for a session: its store by the session's confs, and the facts of its application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from lakekeeper.core.config.options import resolve
from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.core.scheduling.task import Task, done, skipped
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.plugins import find_format
from lakekeeper.engine.state.service_lease import new_owner
from lakekeeper.engine.table_session import Kept
from lakekeeper.errors import OptionError, reason
from lakekeeper.history.costs import Prices
from lakekeeper.history.recorder import Application, Destination, Recorder
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.redaction import HIDDEN, redacted, without_user
from lakekeeper.spark.application import core_seconds, secrets
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spi import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakekeeper")
_Amount = TypeVar("_Amount", int, float)
_IN_SESSION = " in session"
_APPLICATIONS: WeakKeyDictionary[SparkSession, dict[str, Application]] = WeakKeyDictionary()
"""Session → format → the application as an operation on a table of that format has seen it."""


def table_id(name: TableName) -> TableId:
    """The name under which the history keeps a table."""
    if name.path:
        return TableId("", "", name.path.removeprefix("file:").rstrip("/") or "/", name.provider)
    return TableId(name.catalog, ".".join(name.namespace), name.name, name.provider)


def recorder_of(spark: SparkSession, name: TableName, clock: Clock, origin: str) -> Recorder:
    """Records operations on this table where ``history.path`` says; looked up at each operation."""

    def destination() -> Destination | None:
        options = resolve(conf=lakekeeper_confs(spark)).history
        store = session_store(spark, options)
        if store is None:
            return None
        return Destination(store, options.retention_ms, _application(spark, name.provider))

    return Recorder(
        table_id(name), origin, destination, lambda groups: core_seconds(spark, groups), clock.now_ms
    )


def session_store(spark: SparkSession, options: HistoryOptions) -> HistoryStore | None:
    """The store to write to, without the secrets of the session's confs; None where none is configured."""
    if options.file is None:
        return None
    hidden = secrets(spark)

    def clean(text: str) -> str:
        for secret in hidden:
            text = text.replace(secret, HIDDEN)
        return redacted(text)

    return HistoryStore(options.file, clean)


def fleet_memory(spark: SparkSession) -> FleetMemory:
    """The memory of a service or of a single pass in this session. Raises OptionError for a bad conf."""
    return FleetMemory(session_store(spark, resolve(conf=lakekeeper_confs(spark)).history))


def configured_store(options: HistoryOptions) -> HistoryStore:
    """The store to read from. Raises OptionError where none is configured."""
    if options.file is None:
        raise OptionError(
            "history.path",
            None,
            "a file: set the Spark conf spark.lakekeeper.history.path (on the command line: --conf or "
            "--properties-file)",
        )
    return HistoryStore(options.file)


def prices_of(options: HistoryOptions) -> Prices:
    """The prices that the confs give."""
    return Prices(options.per_core_hour, options.per_gb_written)


def _application(spark: SparkSession, provider: str) -> Application:
    known = _APPLICATIONS.setdefault(spark, {})
    if provider not in known:
        versions = {"lakekeeper": version("lakekeeper-spark"), "Spark": str(spark.version)}
        with suppress(Exception):  # the session works; only a version is missing then
            for finding in find_format(provider, "").examine(spark):
                if finding.name.endswith(_IN_SESSION):
                    versions[finding.name.removesuffix(_IN_SESSION)] = finding.found
        context = spark.sparkContext
        known[provider] = Application(str(context.applicationId), str(context.sparkUser()), versions)
    return known[provider]


class FleetMemory:
    """What automatic runs remember from pass to pass: tasks that wait or failed, and bytes rewritten in 24 hours.

    In the history, if there is one, so that passes of different processes share it; else in this object. ``owner``
    names this service to others. ``snapshots`` are those of its tables, in this process alone.
    """

    def __init__(self, store: HistoryStore | None = None) -> None:
        self.owner = new_owner()
        self.snapshots: Mapping[str, Kept] = {}
        self._store = store
        self._tasks: dict[tuple[str, str], Task] = {}
        self._recorded: dict[tuple[str, str], Task] = {}
        self._unwritten: dict[tuple[str, str], Task | None] = {}
        self._rewritten: list[tuple[int, int]] = []
        self._used: list[tuple[int, str, float]] = []

    def tasks(self) -> dict[tuple[str, str], Task]:
        """The tasks of the passes before, by table and verb.

        Of a task that could not be written to the history, this process knows more until the history changes.
        """
        if self._store is None:
            return dict(self._tasks)
        try:
            self._recorded = {task.key: task for task in self._store.tasks()}
        except Exception as error:  # the pass goes on without what it knew
            _warn(error)
            return dict(self._tasks)
        return self._known()

    def _known(self) -> dict[tuple[str, str], Task]:
        """The tasks as this process and the history, when it was last read, know them."""
        outdated = {key for key, then in self._unwritten.items() if self._recorded.get(key) == then}
        return self._tasks | {key: task for key, task in self._recorded.items() if key not in outdated}

    def rewritten_bytes(self, now_ms: int) -> int:
        """Bytes that automatic runs have rewritten in the 24 hours before ``now_ms``, committed or not.

        As far as it is known.
        """
        day = LastDay(now_ms)
        mine = sum(size for at, size in self._rewritten if day.has(at))
        return self._at_least(mine, lambda store: store.rewritten_bytes(day, origin="auto"))

    def core_seconds(self, now_ms: int, name: str | None = None, table: TableId | None = None) -> float:
        """Core-seconds that automatic runs have used in the 24 hours before ``now_ms``, as far as it is known.

        For all tables, or for the one of this name.
        """
        day = LastDay(now_ms)
        mine = sum(used for at, whose, used in self._used if day.has(at) and name in (None, whose))
        return self._at_least(mine, lambda store: store.core_seconds("auto", day, table))

    def _at_least(self, mine: _Amount, recorded: Callable[[HistoryStore], _Amount]) -> _Amount:
        """What this process has used, or what the history has recorded of all processes, whichever is more."""
        if self._store is None:
            return mine
        try:
            return max(mine, recorded(self._store))
        except Exception as error:  # the history is down: what this process knows is left
            _warn(error)
            return mine

    def note(self, task: Task, now_ms: int) -> None:
        """Remember a task in the middle of a pass, beyond the end of this process if there is a history."""
        self._tasks[task.key] = task
        if self._store is not None:
            with suppress(Exception):  # the end of the pass writes it, or warns
                self._store.keep_tasks([task], now_ms)

    def keep(self, report: AutoReport, now_ms: int) -> None:
        """Remember what a pass leaves."""
        day = LastDay(now_ms)
        tasks = [task for table in report.tables for task in table.tasks]
        tasks += _settled(report.tables, self._known().values())
        self._tasks.update({task.key: task for task in tasks})
        spent = sum(max(t.attempted_bytes_count, t.rewritten_bytes_count) for t in report.tables)
        recent = [(at, size) for at, size in self._rewritten if day.has(at)]
        self._rewritten = [*recent, (now_ms, spent)]
        used = [(now_ms, table.table, table.core_seconds) for table in report.tables if table.core_seconds]
        self._used = [*(each for each in self._used if day.has(each[0])), *used]
        if self._store is not None:
            self._write(self._store, tasks, now_ms)

    def _write(self, store: HistoryStore, tasks: Sequence[Task], now_ms: int) -> None:
        """Write tasks to the history, or note what it had of them instead."""
        then = {task.key: self._recorded.get(task.key) for task in tasks}
        try:
            store.keep_tasks(tasks, now_ms, self._recorded)
            self._unwritten = {key: task for key, task in self._unwritten.items() if key not in then}
        except Exception as error:  # as for an operation: never the failure of the pass
            _warn(error)
            self._unwritten |= then


def _settled(tables: Iterable[TableResult], known: Iterable[Task]) -> Iterator[Task]:
    """The tasks of earlier passes that waited or had failed, and that are over though this pass has no such tasks."""
    left: dict[str, list[Task]] = {}
    for task in known:
        if task.state not in ("done", "skipped"):
            left.setdefault(without_user(task.table), []).append(task)
    for table in tables:
        for task in left.get(without_user(table.table), ()):
            over = _over(table, task)
            if over is not None:
                yield over


def _over(table: TableResult, task: Task) -> Task | None:
    """A task of an earlier pass, as the result of its table ends it; None if it does not.

    A conf that switches a table off is of this service alone: the verbs of other services may be due. A pause ends.
    """
    if table.status == "off" and Code.PAUSED not in table.reason.codes:
        everywhere = Code.DISABLED_ON_TABLE in table.reason.codes
        return skipped(task, table.reason) if everywhere or task.kind == "plan" else None
    planned = bool(table.tasks) and all(each.kind != "plan" for each in table.tasks)
    return done(task, Reason.of(Code.DONE)) if planned and task.kind == "plan" else None


def _warn(error: Exception) -> None:
    _LOG.warning("the history of automatic runs is not available: %s", reason(error))
