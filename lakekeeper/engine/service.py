"""Automatic runs: a pass over many tables, and a thread that repeats it.

A table says no with ``lakekeeper.auto.enabled=false`` and is then never touched. A table that fails is
reported and the next one is looked at. What is due is what each verb's own plan says; a pass that finds
nothing due commits nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.report import MergeReport, count_status
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import AdapterError, OptionError, reason
from lakekeeper.spi import Observer

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

STATUSES = ("done", "idle", "off", "partial", "failed", "stopped")


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


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table's part of a pass.

    status   ``done`` (something landed), ``idle`` (nothing due), ``off`` (switched off, or matched by a pattern only
             and of a format without adapter), ``partial`` (some groups failed or lost a race), ``failed``, ``stopped``
    reason   why, in words
    score    what its reclustering was predicted to be worth, 0 to 100; None where nothing was predicted
    """

    table: str
    status: str
    reason: str
    rewritten_bytes_count: int = 0
    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    run_ids: tuple[str, ...] = ()
    score: float | None = None
    deleted_files_count: int = 0
    deleted_bytes_count: int = 0


@dataclass(frozen=True, slots=True)
class PatternResult:
    """The tables that one pattern of a pass expands to.

    status   ``matched`` (``tables`` of them), ``unmatched`` (the catalog answered, and has no such table), ``failed``
             (not all could be listed; what was found is in the pass)
    reason   why, in words; empty where it matched
    """

    pattern: str
    status: str
    reason: str
    tables: int


@dataclass(frozen=True, slots=True)
class AutoReport(Result):
    """One pass. ``exit_code`` is 1 where a table failed, or a pattern did not match or could not be listed; else 0."""

    tables: tuple[TableResult, ...]
    duration_ms: int
    dry_run: bool = False
    patterns: tuple[PatternResult, ...] = ()

    @property
    def exit_code(self) -> int:
        failed = any(t.status == "failed" for t in self.tables)
        return 1 if failed or any(p.status != "matched" for p in self.patterns) else 0

    @property
    def cut_short(self) -> bool:
        """Was it stopped before the turn of each table?"""
        return any(t.status == "stopped" for t in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: counts by status, then each pattern and each table."""
        counts = {status: sum(t.status == status for t in self.tables) for status in STATUSES}
        totals = {"duration_ms": self.duration_ms, "dry_run": self.dry_run, "exit_code": self.exit_code}
        patterns = [asdict(p) for p in self.patterns]
        return {**counts, **totals, "patterns": patterns, "tables": [asdict(t) for t in self.tables]}

    def __str__(self) -> str:
        from lakekeeper.core.text.formatting import size, table

        rows = [("table", "status", "rewritten", "why")]
        rows += [(t.table, t.status, size(t.rewritten_bytes_count), t.reason) for t in self.tables]
        rows += [(p.pattern, p.status, "", p.reason) for p in self.patterns if p.status != "matched"]
        return table(rows, right=frozenset({2})) if len(rows) > 1 else "no table matches"


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
        return TableResult(name, "stopped", "the service was stopped before its turn")
    reports: list[MergeReport] = []
    freed: VacuumReport | None = None
    try:
        table = open_table(name)
        if (
            not table.automatic
        ):  # checked first: an excluded table is not touched, whatever else is wrong with it
            return TableResult(name, "off", "lakekeeper.auto.enabled=false on the table")
        options = table.options({"auto.verbs": ",".join(call.settings.verbs)})
        if not options.auto.enabled:
            return TableResult(name, "off", "lakekeeper.auto.enabled=false by conf")
        verbs = options.auto.verbs  # the pass's own, without those that the table's property leaves out
        if not verbs:
            return TableResult(
                name, "off", "lakekeeper.auto.verbs on the table has none of this pass's verbs"
            )
        for report in _verbs(table, verbs, options, call):
            reports.append(report)  # noqa: PERF402 - one by one: an error must not take earlier reports with it
        if "vacuum" in verbs and not call.stopping():
            # Last, whatever the order: what the others leave behind is not due yet anyhow.
            freed = table.vacuum(dry_run=call.dry_run, observer=call.observer)
            if not call.dry_run:
                table.empty_trash()
    except Exception as error:
        if isinstance(error, AdapterError) and error.missing and name not in call.settings.tables:
            return TableResult(
                name, "off", f"matched by a pattern only, and no adapter for '{error.missing}'"
            )
        # A fleet goes on whatever one table throws: a bad option, a lost executor, a catalog that is down.
        return _with_freed(_summary(name, reports, call.dry_run, error=reason(error)), freed)
    return _with_freed(_summary(name, reports, call.dry_run), freed)


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


def _summary(name: str, reports: Sequence[MergeReport], dry_run: bool, *, error: str = "") -> TableResult:
    groups = tuple(group for report in reports for group in report.groups)
    counts = count_status(groups)
    lost = counts.get("failed", 0) + counts.get("dropped", 0)
    landed = any(r.changed for r in reports)
    said = "; ".join(_what_was_done(r) for r in reports if r.changed)
    if error:
        status, reason = "failed", f"{error} (after {said})" if said else error
    elif not reports:
        status, reason = "idle", "no cluster key, and no other verb was requested"
    elif dry_run and groups:
        status, reason = "idle", f"dry run: {len(groups)} groups are due"
    elif not groups and not landed:
        status, reason = "idle", "; ".join(f"{r.verb}: {_why_idle(r)}" for r in reports)
    elif lost and not landed:
        status, reason = "failed", next(str(g.detail) for g in groups if g.status in ("failed", "dropped"))
    else:
        status, reason = ("partial" if lost else "done"), said
    return TableResult(
        table=name,
        status=status,
        reason=reason,
        rewritten_bytes_count=sum(r.rewritten_bytes_count for r in reports),
        rewritten_data_files_count=sum(r.rewritten_data_files_count for r in reports),
        added_data_files_count=sum(r.added_data_files_count for r in reports),
        run_ids=tuple(run for r in reports for run in r.run_ids),
        score=next(
            (round(r.plan.prediction.worth.score, 1) for r in reports if r.plan and r.plan.prediction), None
        ),
    )


def _with_freed(result: TableResult, freed: VacuumReport | None) -> TableResult:
    """The same with what a vacuum did; the only report of a table that is only vacuumed."""
    if freed is None:
        return result
    told = f"vacuum: {freed.deleted_files_count:,} files, {freed.deleted_bytes_count:,} bytes"
    alone = result.status == "idle"
    if not freed.changed:
        told = f"vacuum: {freed.ended}"
    return replace(
        result,
        status="done" if alone and freed.changed else result.status,
        reason=f"{told}; {result.reason}" if alone and freed.changed else f"{result.reason}; {told}",
        deleted_files_count=freed.deleted_files_count if freed.changed else 0,
        deleted_bytes_count=freed.deleted_bytes_count if freed.changed else 0,
    )


def _why_idle(report: MergeReport) -> str:
    left = report.plan.left if report.plan else ()
    return str(left[0].reason) if left else "no blocks"


def _what_was_done(report: MergeReport) -> str:
    depth = ""
    if report.verb == "recluster" and report.depth_before is not None and report.depth_after is not None:
        depth = f", depth {report.depth_before:g} -> {report.depth_after:g}"
    deletes = ""
    if report.verb == "merge_deletes" and report.removed_delete_files_count:
        deletes = f", {report.removed_delete_files_count} -> {report.added_delete_files_count} delete files"
    files = f"{report.rewritten_data_files_count} -> {report.added_data_files_count} files"
    return f"{report.verb}: {files}{depth}{deletes}"


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
