"""One table's part of a pass: what is due for each verb, the execution of a verb, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import PLANNED, MergeReport
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.auto_report import TableResult
from lakekeeper.core.scheduling.debt import NO_DEBT, Debt, debt_of, gain_of
from lakekeeper.core.scheduling.outcome import kept_up, leaves_failing, merged, outcome, vacuumed
from lakekeeper.core.scheduling.spending import Spending
from lakekeeper.core.scheduling.task import (
    EXPIRY,
    INDEX,
    STATISTICS,
    VACUUM,
    Task,
    done,
    failed,
    in_order,
    kind_of,
    skipped,
)
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.errors import AdapterError, NotFound, OptionError, reason
from lakekeeper.redaction import without_user
from lakekeeper.spi import Observer

_ALL_OF_IT: Mapping[str, Any] = {"budget-bytes": "none", "budget-bytes-per-day": "none"}
_ALL_IN_A_CALL: Mapping[str, Any] = {"budget-bytes": "none"}
_OTHERS = (EXPIRY, STATISTICS)
_PLAN = "plan"


class Maintained(Protocol):
    """What a pass requires of a table; ``lakekeeper.Table`` is one."""

    @property
    def automatic(self) -> bool: ...

    def options(self, call: Any = None) -> Options: ...

    def recluster(
        self,
        *,
        final: bool,
        dry_run: bool,
        budget_bytes: int | None,
        observer: Observer | None,
        options: Mapping[str, Any] | None,
    ) -> MergeReport: ...

    def compact(
        self,
        *,
        final: bool,
        dry_run: bool,
        budget_bytes: int | None,
        observer: Observer | None,
        options: Mapping[str, Any] | None,
    ) -> MergeReport: ...

    def merge_deletes(
        self,
        *,
        dry_run: bool,
        budget_bytes: int | None,
        observer: Observer | None,
        options: Mapping[str, Any] | None,
    ) -> MergeReport: ...

    def build_filters(
        self,
        *,
        dry_run: bool,
        budget_bytes: int | None,
        observer: Observer | None,
        options: Mapping[str, Any] | None,
    ) -> MergeReport: ...

    def expire_rows(self, *, dry_run: bool, observer: Observer | None) -> LifecycleReport: ...

    def compute_statistics(self, *, dry_run: bool, observer: Observer | None) -> StatisticsReport: ...

    def vacuum(self, *, dry_run: bool, observer: Observer | None) -> VacuumReport: ...

    def empty_trash(self) -> Any: ...


class Heavy(Protocol):
    """Carries out heavy tasks in another Spark application; raises what the verb raises, or HeavyError."""

    def merge(self, task: Task, budget_bytes: int | None, observer: Observer) -> MergeReport: ...

    def other(self, task: Task, observer: Observer) -> StatisticsReport | LifecycleReport: ...


OpenTable = Callable[[str], Maintained]
OneLook = Callable[[str], AbstractContextManager[None]]
"""A block in which the log of a table is read once."""


@dataclass(slots=True)
class TableTurn:
    """A table in a pass. Only one thread works on it at a time.

    refused    the result if the table was not planned: it is off, or cannot be opened
    tasks      by verb, in the order of the verbs; of a table that cannot be opened, its plan, which failed
    due        the dry run of each merging verb, without a budget; like ``reports`` without blocks, as tables are many
    debt       what was due when the table was planned
    reports    of the merging verbs that ran; ``freed`` of the vacuum
    others     status of each other verb that ran, and why
    unplanned  error of planning → the verbs that cannot be planned because of it
    errors     of verbs that raised, in order
    held       verbs that are due and do not run in this pass → why
    left_bytes of the table's own budget for a pass; None: no limit
    core_seconds_per_day   of the table's own budget; None: no limit
    core_seconds           used so far in this pass
    spent_bytes            by verb: what this pass rewrote, even if it was not committed
    runs       ids of the runs of the task that is running, or ran last; a merge without groups starts none
    """

    name: str
    refused: TableResult | None = None
    table: Maintained | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    due: dict[str, MergeReport] = field(default_factory=dict)
    debt: Debt = NO_DEBT
    reports: dict[str, MergeReport] = field(default_factory=dict)
    others: dict[str, tuple[str, Reason]] = field(default_factory=dict)
    freed: VacuumReport | None = None
    unplanned: dict[str, list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    held: dict[str, Reason] = field(default_factory=dict)
    left_bytes: int | None = None
    core_seconds_per_day: int | None = None
    core_seconds: float = 0.0
    spent_bytes: dict[str, int] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)

    def plan(self, open_table: OpenTable, one_look: OneLook, settings: AutoSettings, now_ms: int) -> None:
        """Open the table and see what is due for each of its verbs. Errors are kept, none is raised."""
        try:
            table = open_table(self.name)
            with one_look(self.name):
                self.refused = self._switched_off(table, settings)
                if self.refused is None:
                    self._plan_verbs(table, table.options({"auto.verbs": ",".join(settings.verbs)}), now_ms)
        except Exception as error:
            # A pass continues whatever one table throws: a bad option, a lost executor, a catalog that is down.
            self.tasks, self.due, self.held = {}, {}, {}  # of a table that is refused, nothing runs
            named = self.name in map(without_user, settings.tables)
            if isinstance(error, AdapterError) and error.missing and not named:
                no_adapter = Reason.of(Code.NO_ADAPTER, format=error.missing)
                self.refused = TableResult(self.name, "off", no_adapter)
                return
            self.refused = outcome(self.name, (), error=reason(error))
            # A pattern lists no table that was dropped: no later pass could say that its failure is over.
            if named or not isinstance(error, NotFound):
                plan = Task("plan", self.name, _PLAN, since_ms=now_ms)
                self.tasks[_PLAN] = failed(plan, reason(error), now_ms, 0)

    def _switched_off(self, table: Maintained, settings: AutoSettings) -> TableResult | None:
        if not table.automatic:  # checked first: an excluded table is not touched, whatever else is wrong
            return TableResult(self.name, "off", Reason.of(Code.DISABLED_ON_TABLE))
        options = table.options({"auto.verbs": ",".join(settings.verbs)})
        if not options.auto.enabled:
            return TableResult(self.name, "off", Reason.of(Code.DISABLED_BY_CONF))
        return None if options.auto.verbs else TableResult(self.name, "off", Reason.of(Code.NO_VERB))

    def _switched_off_since(self, table: Maintained, verb: str) -> Reason | None:
        """Why a verb must not run although it was planned, maybe hours ago: its table was switched off since."""
        if not table.automatic:
            return Reason.of(Code.DISABLED_ON_TABLE)
        listed = table.options({"auto.verbs": ",".join(self.tasks)}).auto.verbs
        return None if verb in listed else Reason.of(Code.NO_VERB)

    def _plan_verbs(self, table: Maintained, options: Options, now_ms: int) -> None:
        self.table, self.left_bytes = table, options.budget.bytes
        self.core_seconds_per_day = options.budget.core_seconds_per_day
        for verb in in_order(options.auto.verbs):
            task = Task(kind_of(verb), self.name, verb, since_ms=now_ms, weight=options.auto.weight)
            if verb == EXPIRY and None in (options.lifecycle.column, options.lifecycle.retain_ms):
                self.tasks[verb] = skipped(task, Reason.of(Code.NO_RULE))
            else:
                self.tasks[verb] = self._planned_alone(table, task, now_ms)
        self.debt = debt_of([report.plan for report in self.due.values() if report.plan])
        self.due = {verb: report.without_blocks() for verb, report in self.due.items()}

    def _planned_alone(self, table: Maintained, task: Task, now_ms: int) -> Task:
        """As planned; an error, such as a key that is not a column, fails that verb alone, unless the table is gone."""
        try:
            return self._planned(table, task)
        except Exception as error:
            if isinstance(error, NotFound) or (isinstance(error, AdapterError) and error.missing):
                raise
            self.unplanned.setdefault(reason(error), []).append(task.verb)
            return failed(task, reason(error), now_ms, 0)

    def _planned(self, table: Maintained, task: Task) -> Task:
        if task.verb == VACUUM:
            return task
        if task.verb in _OTHERS:
            report = _other(table, task.verb, dry_run=True)
            return task if report.status == PLANNED else skipped(task, kept_up(task.verb, report)[1])
        return self._planned_merge(table, task)

    def _planned_merge(self, table: Maintained, task: Task) -> Task:
        try:
            report = _act(table, task.verb, dry_run=True, options=_ALL_OF_IT)
        except OptionError as error:
            if task.verb == "recluster" and error.key == "columns" and error.value is None:
                return skipped(task, Reason.of(Code.NO_KEY))  # other verbs may be due
            raise
        self.due[task.verb] = report
        plan = report.plan
        # merge_deletes has work without groups too: it removes delete files without effect.
        if not report.groups and leaves_failing(report):
            self.held[task.verb] = Reason.of(Code.FAILED_BEFORE)
            return replace(task, reason=self.held[task.verb])
        if not report.groups and task.verb != "merge_deletes":
            return skipped(task, merged([report])[1])
        if plan is None:
            return task
        score = plan.prediction.worth.score if plan.prediction else 0.0
        due = replace(task, score=score, bytes=plan.input_bytes, query_seconds_per_day=gain_of(plan))
        return self._within_its_day(table, due, plan)

    def _within_its_day(self, table: Maintained, task: Task, plan: Plan) -> Task:
        """A task whose table has used up its daily budget waits; it is not started only to find that out."""
        if not plan.tasks or table.options().budget.bytes_per_day is None:
            return task
        allowed = _act(table, task.verb, dry_run=True, options=_ALL_IN_A_CALL).plan
        left = [] if allowed is None or allowed.tasks else allowed.left
        over = next((each.reason for each in left if Code.OVER_DAILY_BUDGET in each.reason.codes), None)
        if over is None:
            return task
        self.held[task.verb] = over
        return replace(task, reason=over)

    def dry_run(self, observer: Observer | None) -> None:
        """For a dry run: the reports of the verbs, each within what the ones before leave of the budget."""
        if self.table is None:
            return
        try:
            for verb, task in self.tasks.items():
                if task.state == "failed":
                    continue
                if verb == VACUUM:
                    self.freed = self.table.vacuum(dry_run=True, observer=observer)
                elif task.reason is not None and task.reason.code in (Code.NO_KEY, Code.NO_RULE):
                    continue
                elif verb in _OTHERS:
                    due = _other(self.table, verb, dry_run=True, observer=observer)
                    self.others[verb] = kept_up(verb, due)
                else:
                    report = _act(self.table, verb, dry_run=True, budget=self.left_bytes, observer=observer)
                    self.reports[verb] = report.without_blocks()
        except Exception as error:
            self.errors.append(reason(error))

    def carry_out(
        self,
        task: Task,
        granted: int | None,
        observer: Observer | None,
        began_ms: int,
        pause_ms: int,
        heavy: Heavy | None = None,
    ) -> Task:
        """Run a task within what the fleet has granted; the task as it ended. Errors are kept, none is raised.

        ``began_ms`` is the start of the pass. With ``heavy``, what rewrites, deletes rows or describes runs there.
        """
        if self.table is None:
            raise AssertionError("a table that was not planned has no tasks")
        self.runs.clear()
        spending = Spending()
        observer = self._noting_runs(observer, spending)
        try:
            off = self._switched_off_since(self.table, task.verb)
            if off is not None:
                return skipped(task, off)
            if task.verb == VACUUM:
                self.freed = self.table.vacuum(dry_run=False, observer=observer)
                self.table.empty_trash()
                status, why = vacuumed(self.freed)
            elif task.verb in _OTHERS:
                ended = (
                    heavy.other(task, observer) if heavy else _other(self.table, task.verb, observer=observer)
                )
                self.others[task.verb] = status, why = kept_up(task.verb, ended)
            else:
                limits = [limit for limit in (self.left_bytes, granted) if limit is not None]
                budget = min(limits) if limits else None
                report = self._merged(self.table, task, budget, observer, heavy)
                self.reports[task.verb] = report.without_blocks()
                status, why = merged([report])
        except Exception as error:
            self.errors.append(reason(error))
            return failed(task, self.errors[-1], began_ms, pause_ms)
        finally:
            self._spend(task.verb, spending)
        if status == "failed":
            merges = [report for verb, report in self.reports.items() if verb == task.verb]
            broken = any(group.status == "failed" for report in merges for group in report.groups)
            # What only lost a race to users is due again in the next pass, but what loses again and again rests.
            return failed(task, str(why), began_ms, pause_ms if broken or task.failures else 0)
        if Code.ENDED_BY_ERROR in why.codes:  # what it committed before counts, but it would end so again
            return failed(task, str(why), began_ms, pause_ms)
        return skipped(task, why) if status == "idle" else done(task, why)

    def _merged(
        self, table: Maintained, task: Task, budget: int | None, observer: Observer, heavy: Heavy | None
    ) -> MergeReport:
        if heavy is None or not task.bytes:  # delete files without effect are only removed from the metadata
            return _act(table, task.verb, budget=budget, observer=observer)
        # A plan is as large as the table, and is not sent: the one of this pass predicts the same.
        return replace(heavy.merge(task, budget, observer), plan=self.due[task.verb].plan)

    def _spend(self, verb: str, spending: Spending) -> None:
        """Charge the table with what a verb rewrote; a call that raised has no report, but its phases were observed."""
        report = self.reports.get(verb)
        spent = max(spending.bytes, report.attempted_bytes_count if report else 0)
        self.spent_bytes[verb] = spent
        if self.left_bytes is not None:
            self.left_bytes = max(self.left_bytes - spent, 0)

    def _noting_runs(self, observer: Observer | None, spending: Spending) -> Observer:
        def note(phase: str, info: Mapping[str, Any]) -> None:
            spending(phase, info)
            if phase != "planned" or info.get("tasks") != 0:
                self.runs.add(str(info["run_id"]))
            if observer is not None:
                observer(phase, info)

        return note

    def result(self) -> TableResult:
        """The outcome of the table in this pass."""
        if self.refused is not None:
            return replace(self.refused, tasks=tuple(self.tasks.values()))
        known = {verb: self.reports.get(verb) or self._not_due(verb) for verb in self.tasks}
        reports = [report for report in known.values() if report is not None]
        unplanned = [f"{', '.join(verbs)}: {error}" for error, verbs in self.unplanned.items()]
        error = _joined([*unplanned, *self.errors])
        made = outcome(self.name, reports, self.freed, tuple(self.others.values()), error=error)
        tasks = tuple(self.tasks.values())
        ran = bool(reports or self.freed or self.others)
        made = self._with_held(made, ran)
        spent = sum(self.spent_bytes.values())
        used = round(self.core_seconds, 3)
        return replace(made, tasks=tasks, debt=self.debt, core_seconds=used, attempted_bytes_count=spent)

    def _not_due(self, verb: str) -> MergeReport | None:
        """The dry run of a verb for which nothing was due: its plan says why."""
        report = self.due.get(verb)
        return report if report and not report.groups and verb not in self.held else None

    def _with_held(self, made: TableResult, ran: bool) -> TableResult:
        """The result with the verbs that are due and did not run."""
        if not self.held:
            return made
        reasons = list(dict.fromkeys(self.held.values()))
        why = made.reason.plus(*reasons) if ran or made.status == "failed" else reasons[0].plus(*reasons[1:])
        codes = {each.code for each in reasons}
        if codes & {Code.PARKED, Code.FAILED_BEFORE} and made.status != "failed":
            return replace(made, status="parked", reason=why)
        if made.status != "idle":
            return replace(made, reason=why)
        return replace(made, status="stopped" if codes == {Code.NOT_REACHED} else "waiting", reason=why)


def _other(
    table: Maintained, verb: str, *, dry_run: bool = False, observer: Observer | None = None
) -> StatisticsReport | LifecycleReport:
    """One verb that merges nothing and frees nothing."""
    act = table.expire_rows if verb == EXPIRY else table.compute_statistics
    return act(dry_run=dry_run, observer=observer)


def _act(
    table: Maintained,
    verb: str,
    *,
    dry_run: bool = False,
    budget: int | None = None,
    observer: Observer | None = None,
    options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """One merging verb, within a budget in bytes."""
    if verb in ("merge_deletes", INDEX):
        act = table.merge_deletes if verb == "merge_deletes" else table.build_filters
        return act(dry_run=dry_run, budget_bytes=budget, observer=observer, options=options)
    merge = table.recluster if verb == "recluster" else table.compact
    return merge(final=False, dry_run=dry_run, budget_bytes=budget, observer=observer, options=options)


def _joined(errors: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(errors))
