"""One pass over many tables: plan what is due, then carry it out in the order of its worth.

    tables ─► plan: dry run of each verb ─► tasks of all tables ─► next ─► budget, lease ─► the verb ─► next …
                                                └─ not due, parked, quiet hours, no budget: left, with the reason

A table that fails is reported and the others go on. A pass that finds nothing due commits nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.core.scheduling.budget import FleetBudget
from lakekeeper.core.scheduling.queue import Queue
from lakekeeper.core.scheduling.quiet_hours import quiet_now
from lakekeeper.core.scheduling.task import Task, failed, parked, renewed
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.table_turn import Heavy, OneLook, OpenTable, TableTurn
from lakekeeper.engine.watch import Watch
from lakekeeper.redaction import without_user
from lakekeeper.spi import Observer

_ENDED_WITH_IT = "the service ended while it ran, twice in a row"
_EARLY = 0.05  # share of the pause by which a retry may come early
Before = Mapping[tuple[str, str], Task]


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass knows besides its settings.

    stopping           once true, running work is finished and nothing else is started
    before             tasks of the earlier passes, by table and verb
    spent_today_bytes  rewritten by automatic runs in the last 24 hours
    spent_today_core_seconds   used by them: for all tables (None), or for one
    core_seconds       used by runs, by their ids; None where it was not measured
    cores              of the executors
    lease              reserves a table for this service: yields the other holder, or an empty text
    one_look           for the plans of a table: the log is read once in the block
    planned, ended     called after a table was planned, and when no work is left for it in this pass
    note               records a task: as running, since it may end the process, and as it ended
    watch              shows the pass to others, and has the tables that are paused
    heavy              runs heavy tasks in another Spark application; None: they run in this one
    """

    dry_run: bool = False
    observer: Observer | None = None
    stopping: Callable[[], bool] = lambda: False
    before: Before = field(default_factory=dict)
    spent_today_bytes: int = 0
    spent_today_core_seconds: Callable[[str | None], float] = lambda _: 0.0
    core_seconds: Callable[[Collection[str]], float | None] = lambda _: None
    cores: Callable[[], int] = lambda: 1
    lease: Callable[[str], AbstractContextManager[str]] = lambda _: nullcontext("")
    one_look: OneLook = lambda _: nullcontext()
    planned: Callable[[str], None] = lambda _: None
    ended: Callable[[str], None] = lambda _: None
    note: Callable[[Task], None] = lambda _: None
    watch: Watch = field(default_factory=Watch)
    heavy: Heavy | None = None


def sweep(
    names: Sequence[str], open_table: OpenTable, settings: AutoSettings, clock: Clock, context: PassContext
) -> AutoReport:
    """One pass over ``names``. Results are in their order, whatever the order of the work."""
    run = _Pass([TableTurn(name) for name in names], open_table, settings, clock, context)
    context.watch.begin(names)
    try:
        run.plan()
        if context.dry_run:
            for turn in run.turns:
                turn.dry_run(context.observer)
        else:
            run.carry_out()
    finally:
        context.watch.end()
    results = tuple(turn.result() for turn in run.turns)
    return AutoReport(results, clock.now_ms() - run.began_ms, context.dry_run)


class _Pass:
    """The tables of one pass and the state that its threads share."""

    def __init__(
        self,
        turns: Sequence[TableTurn],
        open_table: OpenTable,
        settings: AutoSettings,
        clock: Clock,
        context: PassContext,
    ) -> None:
        self.turns = turns
        self._of = {turn.name: turn for turn in turns}
        self._open, self._settings, self._clock, self._context = open_table, settings, clock, context
        self._budget = FleetBudget(
            settings.budget_bytes,
            settings.budget_bytes_per_day,
            spent_today_bytes=context.spent_today_bytes,
            per_pass_core_seconds=settings.budget_core_seconds,
            per_day_core_seconds=settings.budget_core_seconds_per_day,
            spent_today_core_seconds=context.spent_today_core_seconds(None)
            if settings.budget_core_seconds_per_day is not None
            else 0.0,
        )
        self.began_ms = clock.now_ms()
        self._today: dict[str, float] = {}
        self._lock = threading.Lock()

    def plan(self) -> None:
        """Plan each table."""
        turns = zip(self.turns)
        self._side_by_side("lakekeeper-plan", self._plan, lambda: next(turns, None))

    def _plan(self, turn: TableTurn) -> None:
        if self._context.watch.is_paused(turn.name):
            turn.refused = TableResult(turn.name, "off", Reason.of(Code.PAUSED))
            return
        self._plan_tasks(turn)
        self._context.watch.changed(*turn.tasks.values())

    def _plan_tasks(self, turn: TableTurn) -> None:
        pause = self._pause()
        if pause is not None:
            self._leave(turn, pause)
            return
        turn.plan(self._open, self._context.one_look, self._settings, self._clock.now_ms())
        self._context.planned(turn.name)
        now_ms = self._clock.now_ms()
        # Passes that cron starts at exactly this distance are some seconds apart from it.
        early_ms = int(self._settings.pause_seconds * 1000 * _EARLY)
        for verb, planned in turn.tasks.items():
            before = self._context.before.get(planned.key)
            task = renewed(planned, before)
            if planned.state == "failed":  # to plan: this is no attempt, and ends no pause
                turn.tasks[verb] = replace(task, failures=max(task.failures, planned.failures))
            if planned.state != "queued":
                continue
            waits = task.is_parked(now_ms + early_ms)
            turn.tasks[verb] = left = parked(task, now_ms) if waits else replace(task, parked_until_ms=0)
            if waits:
                turn.held[verb] = left.reason or Reason.of(Code.NOT_REACHED)

    def _leave(self, turn: TableTurn, why: Reason) -> None:
        """Leave a table unplanned: without tasks in the report, what earlier passes know of it stays known."""
        turn.held = dict.fromkeys(self._settings.verbs, why)
        known = (self._context.before.get((without_user(turn.name), verb)) for verb in self._settings.verbs)
        self._context.watch.changed(*(task for task in known if task is not None and task.state != "running"))

    def carry_out(self) -> None:
        """Run the tasks that are due, at most one for each table at a time."""
        self._queue = Queue(self._clock.now_ms())
        for turn in self.turns:
            self._queue_up(turn)
        self._side_by_side("lakekeeper-table", self._run, self._next)

    def _side_by_side(
        self, name: str, work: Callable[..., None], following: Callable[[], tuple[Any, ...] | None]
    ) -> None:
        """Do the work that follows, until none does; if one at a time, in this thread, which Ctrl-C reaches.

        None waits in the pool: a program that ends would first do all that waits there.
        """
        if self._settings.at_once == 1:
            while (given := following()) is not None:
                work(*given)
            return
        with ThreadPoolExecutor(self._settings.at_once, thread_name_prefix=name) as pool:
            running: set[Future[None]] = set()
            while True:
                while len(running) < self._settings.at_once and (given := following()) is not None:
                    running.add(pool.submit(work, *given))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()

    def _next(self) -> tuple[Task, int | None] | None:
        """The next task and the bytes that it may rewrite; None if no task can be started now."""
        with self._lock:
            pause = self._pause()
            # What rewrites waits for what running tasks leave of the budget.
            while (task := self._queue.take(rewrites=not self._budget.all_reserved)) is not None:
                turn = self._of[task.table]
                refused, granted = pause or self._out_of_time(turn), None
                if refused is None and self._context.watch.is_paused(task.table):
                    refused = Reason.of(Code.PAUSED)
                if refused is None and task.bytes:
                    refused, granted = self._grant(turn, task)
                if refused is not None:
                    turn.held[task.verb] = refused
                    turn.tasks[task.verb] = replace(task, reason=refused)
                    self._context.watch.changed(turn.tasks[task.verb])
                    self._queue_up(turn)
                    continue
                turn.tasks[task.verb] = replace(task, state="running")
                self._context.watch.changed(turn.tasks[task.verb])
                return task, granted
            return None

    def _out_of_time(self, turn: TableTurn) -> Reason | None:
        """Why no task of the table may start, by the core-seconds that were used."""
        limit = turn.core_seconds_per_day
        if limit is not None:
            if turn.name not in self._today:
                self._today[turn.name] = self._context.spent_today_core_seconds(turn.name)
            if self._today[turn.name] + turn.core_seconds >= limit:
                return Reason.of(Code.TABLE_BUDGET_SPENT, limit="budget-core-seconds-per-day")
        used_up = self._budget.used_up
        return Reason.of(Code.FLEET_BUDGET_SPENT, limit=used_up) if used_up else None

    def _grant(self, turn: TableTurn, task: Task) -> tuple[Reason | None, int | None]:
        if turn.left_bytes == 0:
            return Reason.of(Code.BUDGET_SPENT), None
        wanted = task.bytes if turn.left_bytes is None else min(task.bytes, turn.left_bytes)
        budget, granted = self._budget.grant(wanted)
        if granted == 0:
            day = self._settings.budget_bytes_per_day
            of_day = day is not None and budget.spent_today_bytes + budget.spent_bytes >= day
            limit = "auto.budget-bytes-per-day" if of_day else "auto.budget-bytes"
            return Reason.of(Code.FLEET_BUDGET_SPENT, limit=limit), None
        self._budget = budget
        return None, granted

    def _run(self, task: Task, granted: int | None) -> None:
        """Run one task under the lease of its table."""
        turn = self._of[task.table]
        left, began_ms = replace(task, reason=None), self._clock.now_ms()
        try:
            with self._lease(task) as other:
                if other:
                    turn.held[task.verb] = Reason.of(Code.LEASED, owner=other)
                    left = replace(task, reason=turn.held[task.verb])
                else:
                    pause_ms = int(self._settings.pause_seconds * 1000)
                    left = self._carried_out(turn, task, granted, pause_ms)
                    self._context.note(left)
        finally:
            used = (
                0.0 if left.reason and left.reason.code == Code.LEASED else self._used(turn, task, began_ms)
            )
            with self._lock:
                turn.core_seconds += used
                self._budget = self._budget.settle(granted, turn.spent_bytes.get(task.verb, 0), used)
                turn.tasks[task.verb] = left
                self._context.watch.changed(left)
                self._queue_up(turn)
                over = all(each.state != "queued" or verb in turn.held for verb, each in turn.tasks.items())
            if over:
                self._context.ended(task.table)

    def _carried_out(self, turn: TableTurn, task: Task, granted: int | None, pause_ms: int) -> Task:
        """The task as it ended; not started if it ended the process twice, as far as the records show.

        A record that says ``running``, while its lease is free, is of a process that ended with the task. Once may be
        chance.
        """
        before = self._context.before.get(task.key)
        if before is not None and before.state == "running" and before.failures > 1:
            turn.errors.append(_ENDED_WITH_IT)
            return failed(task, _ENDED_WITH_IT, self.began_ms, pause_ms)
        self._context.note(replace(task, state="running", failures=task.failures + 1))
        observer = self._context.watch.observing(task, self._context.observer)
        return turn.carry_out(task, granted, observer, self.began_ms, pause_ms, self._context.heavy)

    def _used(self, turn: TableTurn, task: Task, began_ms: int) -> float:
        """Core-seconds of a task that has ended: as measured, else its duration on all cores that it may have used.

        A task without a run did nothing: that Spark has no job to measure for it does not make its time unknown. A
        vacuum works in the driver.
        """
        measured = self._context.core_seconds(turn.runs) if turn.runs else 0.0
        if measured is not None:
            return measured
        cores = 1 if task.kind == "gc" else self._context.cores()
        return cores * max(self._clock.now_ms() - began_ms, 0) / 1000

    def _lease(self, task: Task) -> AbstractContextManager[str]:
        """The advisory lease for a task that will write; a lease that cannot be taken stops nothing."""
        if task.kind == "merge" and not task.bytes:
            return nullcontext("")
        try:
            return self._context.lease(task.table)
        except Exception:  # the work itself reports a storage that does not respond
            return nullcontext("")

    def _queue_up(self, turn: TableTurn) -> None:
        self._queue.add(task for verb, task in turn.tasks.items() if verb not in turn.held)

    def _pause(self) -> Reason | None:
        """Why nothing may be started now."""
        if self._context.stopping():
            return Reason.of(Code.NOT_REACHED)
        now_s = self._clock.now_ms() / 1000
        window = quiet_now(
            self._settings.quiet_hours, lambda zone: datetime.fromtimestamp(now_s, ZoneInfo(zone))
        )
        return None if window is None else Reason.of(Code.QUIET_HOURS, window=window.text)
