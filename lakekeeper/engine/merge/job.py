"""A merge: rounds of plan, rewrite and commit, which ``recluster`` and ``compact`` run for any format."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.clustering_info import mean_depth
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.planning.planner import cold_first
from lakekeeper.core.planning.policy import converges
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.text.formatting import counted
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.merge.boundary_store import keep_boundaries
from lakekeeper.engine.merge.commit_parts import Parts
from lakekeeper.engine.merge.committer import Committer
from lakekeeper.engine.merge.daily_budget import note_spent
from lakekeeper.engine.merge.executor import Execution, Failed, Work
from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.engine.merge.quiet_window import Watch
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.merge.tally import Tally
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.state.leases import Registration, registered_run
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.engine.uncommitted import without_error
from lakekeeper.errors import Unknown, reason, traceback_of
from lakekeeper.spi import Adapter, Observer, Runner

_LOG = logging.getLogger("lakekeeper.events")
_BUDGETS = (Code.OVER_BUDGET, Code.OVER_DAILY_BUDGET)


def maintain(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    request: Request,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> MergeReport:
    """Run a request on one table; a session shares its snapshot with the calls before and after this one.

    Raises the errors of the adapter for an unsuitable table or option, before anything is written; Conflict, Rejected
    or Unknown for a commit that failed (see ``engine/commit_loop.py``). Groups that fail or lose a race alone are in
    the report, and the others land; so are those of a commit that failed. Once a commit of this call has landed, it
    raises no error: the report says what landed, and by which error the call ended.
    """
    run = uuid.uuid4().hex[:16]
    session = session_of(table)
    tally = Tally(run)

    def noted(phase: str, info: Mapping[str, Any]) -> None:
        tally.spending(phase, info)
        if observer is not None:
            observer(phase, info)

    events = Events(session.adapter.table, run, noted)
    try:
        return MergeJob(session, runner, request, events, clock or Clock(), tally).run()
    except Halted as halted:
        raise halted.cause from None


@dataclass(frozen=True, slots=True)
class _Round:
    """A plan that is carried out: its snapshot, and the lease under which its files are written."""

    snapshot: Snapshot
    plan: Plan
    registration: Registration
    began_ms: int


@dataclass(slots=True)
class MergeJob:
    """One call: its request, what it has done so far, and its clock. For one use.

    ``failures`` are those of commits, in their order; ``inputs`` has the paths of each group by its id; ``held_up``:
    a budget left groups for a later call.
    """

    session: TableSession
    runner: Runner[Any]
    request: Request
    events: Events
    clock: Clock
    tally: Tally
    first: tuple[Snapshot, Plan] | None = field(default=None, init=False)
    failures: list[Exception] = field(default_factory=list, init=False)
    inputs: dict[str, Sequence[str]] = field(default_factory=dict, init=False)
    held_up: bool = field(default=False, init=False)
    started_ms: int = field(init=False)
    adapter: Adapter[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.adapter = self.session.adapter
        self.started_ms = self.clock.now_ms()

    def run(self) -> MergeReport:
        """Rounds until nothing is left to do, or a bound is reached."""
        try:
            ended = self._rounds()
        except Exception as error:
            if not self.tally.run_ids:
                raise
            ended = Reason.of(Code.ENDED_BY_ERROR, error=reason(error))
            _LOG.warning(
                "%s: %s after %s", self.adapter.table, ended, counted(len(self.tally.run_ids), "commit")
            )
            _LOG.debug("the error of %s:\n%s", self.tally.run, traceback_of(error))
        finally:
            if self.request.backoff:
                self.request.backoff.note(self.tally.groups, self.clock.now_ms(), self._failing_alone())
        return self._report(ended, self.clock.now_ms())

    def _failing_alone(self) -> Mapping[str, Sequence[str]]:
        """The inputs of each group, if others were committed or held up by the budget; else empty.

        If all fail, the cause may be the cluster or the catalog, and the verb as a whole pauses.
        """
        committed = any(group.status == "committed" for group in self.tally.groups)
        return self.inputs if committed or self.held_up else {}

    def _rounds(self) -> Reason:
        """Run the rounds; returns why they ended."""
        request, tally = self.request, self.tally
        budget = request.options.budget.bytes
        most = request.options.planning.max_rounds if self._repeats() else 1
        while tally.rounds < most:
            snapshot, plan = self._plan()
            self.first = self.first or (snapshot, plan)
            self.events.emit(
                "planned", tasks=len(plan.tasks), bytes=plan.input_bytes, round=tally.rounds + 1, plan=plan
            )
            if not plan.tasks:
                return Reason.of(Code.NOTHING_LEFT if tally.rounds else Code.NOTHING_TO_DO)
            if request.dry_run:
                tally.planned(plan)
                return Reason.of(Code.DRY_RUN)
            if tally.rounds and budget is not None and tally.spent + plan.tasks[0].input_bytes > budget:
                return Reason.of(Code.BUDGET_SPENT)
            tally.rounds += 1
            self.inputs.update((task.id, task.inputs) for task in plan.tasks)
            self.held_up |= any(left.reason.code in _BUDGETS for left in plan.left)
            tally.predicted = plan.prediction.worth.after.files if plan.prediction else None
            nearer = self._round(snapshot, plan)
            if not nearer and (self._repeats() or not tally.run_ids):
                return Reason.of(Code.NO_PROGRESS)
        return Reason.of(Code.MAX_ROUNDS, rounds=most) if self._repeats() else Reason.of(Code.ONE_ROUND)

    def _repeats(self) -> bool:
        """Whether a round may follow another: a policy that does not converge would never end."""
        request = self.request
        return request.final and not request.dry_run and all(map(converges, request.policies))

    def _plan(self) -> tuple[Snapshot, Plan]:
        """The newest snapshot, and a plan that is ready to be carried out within what is left of the budget."""
        request, options = self.request, self.request.options
        limited = replace(request, options=replace(options, budget=options.budget.after(self.tally.spent)))
        snapshot, plan = plan_for(self.session, limited, self.clock, self.tally.parts)
        if plan.tasks and not request.dry_run:
            retried(lambda: self.adapter.require_writable(request.options), self.clock, SHORT_PAUSES)
            if not retried(lambda: keep_boundaries(self.adapter, snapshot), self.clock, SHORT_PAUSES):
                return plan_for(self.session, limited, self.clock, self.tally.parts)
        return snapshot, plan

    def _round(self, snapshot: Snapshot, plan: Plan) -> bool:
        """Carry out one plan under a lease. Returns whether a commit brought the table nearer to an end.

        Only a group that rose a level or became fewer files counts; both are bounded, so rounds end.
        """
        tally = self.tally
        before, littered, spent = len(tally.groups), tally.littered, tally.spending.bytes
        timeout_ms = self.request.options.vacuum.lease_timeout_ms
        with registered_run(
            self.adapter, tally.next_run_id(), snapshot, self.clock, timeout_ms
        ) as registration:
            try:
                self._rewrite(_Round(snapshot, plan, registration, self.clock.now_ms()))
            finally:  # it was rewritten, even if the commit then failed
                note_spent(snapshot, self.clock.now_ms(), tally.spending.bytes - spent)
            # A job that failed and a commit that lost may leave files whose names are not recorded anywhere.
            failed = any(map(_may_have_left_files, tally.groups[before:]))
            registration.clean &= not failed and tally.littered == littered
        tally.spent += plan.input_bytes
        rose = {task.id for task in plan.tasks if task.level > task.input_level}
        landed = [g for g in tally.groups[before:] if g.status == "committed"]
        return any(g.id in rose or g.files_out < g.files_in for g in landed)

    def _rewrite(self, now: _Round) -> None:
        """Rewrite the groups of the plan and commit them, in one commit or several."""
        options, plan = self.request.options, now.plan
        parts = Parts.of(plan, options, now.registration)
        tasks = plan.tasks if parts.bytes_each is None else cold_first(plan.tasks, now.snapshot)
        watch = Watch(self.adapter, now.snapshot, self.clock)
        work = Work(
            self.adapter,
            self.runner,
            self.events,
            self.tally.run,
            watch,
            now.registration,
            self.clock,
            columnar=options.groups.engine == "auto",
        )
        threads = options.groups.max_concurrent
        try:
            with Execution(work, tasks, threads) as execution:
                for result in execution.results():
                    if isinstance(result, Failed):
                        self.tally.failed(result)
                        continue
                    parts.ready.append(result)
                    if parts.due():
                        self._commit(parts.take(), now)
        except Halted:
            raise  # as after a crash: written files stay
        except BaseException as error:
            without_error(self.adapter.table, lambda: self.adapter.discard(parts.ready))
            self.tally.abandoned(tasks, error)
            failure = self._failure
            if isinstance(error, Exception) and isinstance(failure, Unknown) and not self.tally.run_ids:
                raise failure from error
            raise
        if parts.ready:
            self._commit(parts.take(), now)
        if self._failure is not None and not self.tally.run_ids:
            raise self._failure

    @property
    def _failure(self) -> Exception | None:
        """The first commit of unknown outcome, for which the user must look before anything else; else the first that
        failed.
        """
        return min(self.failures, key=lambda failure: not isinstance(failure, Unknown), default=None)

    def _commit(self, rewrites: Sequence[Rewrite], now: _Round) -> None:
        run_id = self.tally.next_run_id()
        self.tally.tried += 1
        committer = Committer(
            self.adapter,
            self.runner,
            now.snapshot,
            run_id,
            self.request.options,
            self.events,
            self.clock,
            now.registration,
            now.began_ms,
        )
        try:
            landed = committer.commit(rewrites)
        except Exception as failure:
            # The other groups have other inputs, and commits of their own run ids: whether this commit lands, and when,
            # is to them what any other run's commit is. Of an unknown outcome, the files stay.
            self.failures.append(failure)
            self.tally.lost(rewrites, failure)
            return
        self.tally.landed(run_id, landed)

    def _report(self, ended: Reason, ended_ms: int) -> MergeReport:
        if self.first is None:
            raise AssertionError("max-rounds is at least 1")
        (snapshot, plan), tally = self.first, self.tally
        done = [g for g in tally.groups if g.status == "committed"]
        keyed = snapshot.key is not None
        before = plan.depth if keyed else None
        opened = plan.prediction.worth.before.files if plan.prediction and keyed else None
        after, opens = before, opened
        if done and keyed:
            try:
                after, opens = self._measured()
            except Exception as error:
                # The commit is done: an error in the look afterwards must not hide it.
                after = opens = None
                ended = ended.plus(Reason.of(Code.DEPTH_UNKNOWN, error=reason(error)))
        return MergeReport(
            table=snapshot.table,
            verb=self.request.verb,
            dry_run=self.request.dry_run,
            version_before=snapshot.version,
            version_after=tally.version if done else snapshot.version,
            rewritten_data_files_count=sum(g.files_in for g in done),
            added_data_files_count=sum(g.files_out for g in done),
            rewritten_bytes_count=sum(g.bytes_in for g in done),
            added_bytes_count=sum(g.bytes_out for g in done),
            removed_delete_files_count=tally.removed_delete_files,
            failed_data_files_count=sum(g.files_in for g in tally.groups if g.status == "failed"),
            depth_before=before,
            depth_after=after,
            rounds=tally.rounds,
            commits=len(tally.run_ids),
            conflicts=tally.conflicts,
            replayed_rows_count=sum(g.replayed_rows for g in done),
            duration_ms=ended_ms - self.started_ms,
            run_ids=tuple(tally.run_ids),
            ended=ended,
            groups=tuple(tally.groups),
            files_per_query_before=opened,
            files_per_query_predicted=tally.predicted if done and keyed else None,
            files_per_query_after=opens,
            plan=plan,
        )

    def _measured(self) -> tuple[float, float]:
        """The depth, and the files that a query opens, as they are now.

        Weighed as of the start of the call, so that only the layout makes a difference.
        """
        request = self.request
        seen = retried(lambda: look(self.session, request), self.clock, SHORT_PAUSES)
        scale = scale_of(seen, request.options, self.started_ms, request.workload)
        return mean_depth(seen), scale.present().files


def _may_have_left_files(group: GroupResult) -> bool:
    """Whether a job of the group failed: a columnar merge that failed is repeated by rows.

    The group of a failed job counts as dropped if a concurrent commit removed its inputs.
    """
    said = set(group.detail.codes) if group.detail else set()
    return group.status == "failed" or bool({Code.FAILED, Code.MERGED_AGAIN_BY_ROWS} & said)
