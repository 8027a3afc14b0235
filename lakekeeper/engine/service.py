"""Automatic runs: a pass over many tables, and a thread that repeats it.

A table says no with ``lakekeeper.auto.enabled=false`` and is then never touched. A table that fails is
reported and the next one is looked at. What is due is what each verb's own plan says; a pass that finds
nothing due commits nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.core.scheduling.outcome import outcome
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import AdapterError, OptionError, reason
from lakekeeper.spi import Observer

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on


class Maintained(Protocol):
    """What a pass asks of a table; ``lakekeeper.Table`` is one."""

    @property
    def automatic(self) -> bool: ...

    def options(self, call: Any = None) -> Options: ...

    def recluster(
        self, *, final: bool, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport: ...

    def compact(
        self, *, final: bool, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport: ...

    def merge_deletes(
        self, *, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport: ...

    def vacuum(self, *, dry_run: bool, observer: Observer | None) -> VacuumReport: ...

    def empty_trash(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """From confs: which tables (names or patterns), which verbs in order, seconds between passes, tables at once."""

    tables: tuple[str, ...]
    verbs: tuple[str, ...]
    pause_seconds: float
    at_once: int = 1


def settings_from(options: Options) -> AutoSettings:
    """Check and unpack the ``auto.*`` options; raises OptionError naming what is missing or wrong."""
    tables = options.auto.tables
    if not tables:
        raise OptionError(
            "auto.tables", "", "table names or patterns, e.g. ice.db.*; set spark.lakekeeper.auto.tables"
        )
    at_once = options.auto.max_concurrent_tables
    return AutoSettings(tables, options.auto.verbs, options.auto.every_ms / 1000, at_once)


def sweep(
    names: Sequence[str],
    open_table: Callable[[str], Maintained],
    settings: AutoSettings,
    clock: Clock,
    *,
    dry_run: bool = False,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = lambda: False,
    worth: Callable[[str], float] | None = None,
) -> AutoReport:
    """One pass over ``names``, in order, or those first that are ``worth`` most (query-seconds saved per second).

    Once ``stopping()``, what is under way is finished and nothing else begun.
    """
    started = clock.now_ms()
    call = _Call(settings, dry_run, observer, stopping)
    first = ranked(names, worth)
    with ThreadPoolExecutor(max(1, settings.at_once), thread_name_prefix="lakekeeper-table") as pool:
        # With one at a time it is this thread's own work, which Ctrl-C reaches.
        each = map if settings.at_once == 1 else pool.map
        results = tuple(each(lambda name: _one(name, open_table, call), first))
    return AutoReport(results, clock.now_ms() - started, dry_run)


def ranked(names: Sequence[str], worth: Callable[[str], float] | None) -> Sequence[str]:
    """Names, those first that are worth most, else in the order given; those without an estimate come last."""
    if worth is None or len(names) < 2:
        return names

    def weight(name: str) -> float:
        try:
            return worth(name)
        except Exception:  # errors of a table are reported when its turn comes
            return -1.0

    return sorted(names, key=weight, reverse=True)


@dataclass(frozen=True, slots=True)
class _Call:
    """What one pass asks of each of its tables."""

    settings: AutoSettings
    dry_run: bool
    observer: Observer | None
    stopping: Callable[[], bool]


def _one(name: str, open_table: Callable[[str], Maintained], call: _Call) -> TableResult:
    if call.stopping():
        return TableResult(name, "stopped", Reason.of(Code.NOT_REACHED))
    reports: list[MergeReport] = []
    freed: VacuumReport | None = None
    try:
        table = open_table(name)
        if (
            not table.automatic
        ):  # checked first: an excluded table is not touched, whatever else is wrong with it
            return TableResult(name, "off", Reason.of(Code.DISABLED_ON_TABLE))
        options = table.options({"auto.verbs": ",".join(call.settings.verbs)})
        if not options.auto.enabled:
            return TableResult(name, "off", Reason.of(Code.DISABLED_BY_CONF))
        verbs = options.auto.verbs  # the pass's own, without those that the table's property leaves out
        if not verbs:
            return TableResult(name, "off", Reason.of(Code.NO_VERB))
        for report in _verbs(table, verbs, options, call):
            reports.append(report)  # noqa: PERF402 - one by one: an error must not take earlier reports with it
        if "vacuum" in verbs and not call.stopping():
            # Last, whatever the order: what the others leave behind is not due yet anyhow.
            freed = table.vacuum(dry_run=call.dry_run, observer=call.observer)
            if not call.dry_run:
                table.empty_trash()
    except Exception as error:
        if isinstance(error, AdapterError) and error.missing and name not in call.settings.tables:
            return TableResult(name, "off", Reason.of(Code.NO_ADAPTER, format=error.missing))
        # A fleet goes on whatever one table throws: a bad option, a lost executor, a catalog that is down.
        return outcome(name, reports, freed, error=reason(error))
    return outcome(name, reports, freed)


def _verbs(table: Maintained, verbs: Sequence[str], options: Options, call: _Call) -> Iterator[MergeReport]:
    """Each verb's report as it comes, so that what landed is reported even if the next verb fails."""
    left = options.budget.bytes
    for number, verb in enumerate(verb for verb in verbs if verb != "vacuum"):
        if (left is not None and left <= 0) or (number and call.stopping()):
            return
        try:
            report = _act(table, verb, left, call)
        except OptionError as error:
            if verb == "recluster" and error.key == "columns" and error.value is None:
                continue  # a table without a cluster key has nothing to recluster by; other verbs may be due
            raise
        left = None if left is None else left - report.rewritten_bytes_count
        yield report


def _act(table: Maintained, verb: str, left: int | None, call: _Call) -> MergeReport:
    """One verb, within what is left of the budget (bytes)."""
    if verb == "merge_deletes":
        return table.merge_deletes(dry_run=call.dry_run, budget_bytes=left, observer=call.observer)
    act = table.recluster if verb == "recluster" else table.compact
    return act(final=False, dry_run=call.dry_run, budget_bytes=left, observer=call.observer)


class Service:
    """Repeats a pass on a daemon thread. A pass that raises is kept in ``error`` and the next one still runs."""

    def __init__(self, one_pass: Callable[[], AutoReport], pause_seconds: float) -> None:
        self._pass = one_pass
        self._pause = pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lakekeeper-auto", daemon=True)
        self._passes = threading.Condition()
        self.reports: list[AutoReport] = []
        self.error: Exception | None = None
        self.passes = 0

    def start(self) -> Service:
        """Begin with a pass at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let the present pass finish and start no other; returns when the thread has ended."""
        self._stop.set()
        if self._thread.ident is not None:  # else it never started
            self._thread.join()

    def wait(self, passes: int = 1, timeout: float | None = None) -> bool:
        """Block until that many passes are over; False after ``timeout`` seconds."""
        with self._passes:
            return self._passes.wait_for(lambda: self.passes >= passes, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                report = self._pass()
                self.reports = [*self.reports[-99:], report]
                self.error = None
            except Exception as error:  # a catalog that is down now may be up at the next pass
                self.error = error
            with self._passes:
                self.passes += 1
                self._passes.notify_all()
            self._stop.wait(self._pause)
