"""Rounds of plan, rewrite and commit: what ``recluster`` and ``compact`` do, for any format."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.clustering_info import mean_depth
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask, Plan
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.planning.planner import cold_first, make_plan
from lakekeeper.core.planning.policy import Env, Part, Policy, converges
from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.merge.boundary_store import keep_boundaries, on_its_curve
from lakekeeper.engine.merge.commit_parts import Parts
from lakekeeper.engine.merge.committer import Committer
from lakekeeper.engine.merge.daily_budget import note_spent, spent_bytes
from lakekeeper.engine.merge.executor import Failed, Work, rewrites_of
from lakekeeper.engine.merge.partition_backoff import Backoff, held_blocks
from lakekeeper.engine.merge.quiet_window import Watch
from lakekeeper.engine.retries import BEFORE_WORK, patiently
from lakekeeper.engine.state.leases import at_work
from lakekeeper.errors import Conflict, OptionError, Rejected, reason
from lakekeeper.spi import Adapter, Observer, Runner

_LOG = logging.getLogger("lakekeeper")


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for: the verb, its policies and options, and where.

    ``columns`` override the table's key, ``fallback_columns`` stand in where it has none, each with a layout.
    ``final`` repeats rounds until no policy chooses anything. ``parallelism`` is the cluster's. ``backoff``
    remembers where earlier calls were raced. ``workload`` is what queries ask of the table, if known.
    """

    verb: str
    policies: tuple[Policy, ...]
    options: Options
    columns: tuple[str, ...] | None = None
    where: str | None = None
    fallback_columns: tuple[str, ...] | None = None
    layout: str = "linear"
    fallback_layout: str = "linear"
    needs_key: bool = False
    final: bool = False
    dry_run: bool = False
    parallelism: int = 1
    backoff: Backoff | None = None
    workload: Workload | None = None


@dataclass(slots=True)
class _Tally:
    """What the rounds of one call have done so far.

    tried      commits begun, whatever their outcome
    parts      outputs by path, and the merge that wrote each: the next round goes on where a bound cut one short
    """

    run: str
    tried: int = 0
    groups: list[GroupResult] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    version: int | None = None
    conflicts: int = 0
    removed_delete_files: int = 0
    spent: int = 0
    predicted: float | None = None
    parts: dict[str, Part] = field(default_factory=dict)

    def note_race(self, request: Request, task: MergeTask, clock: Clock) -> None:
        """A concurrent commit won inputs of ``task``: back off from its partition for a while."""
        if request.backoff:
            request.backoff.raced(task.partition, clock.now_ms())

    def next_run_id(self) -> str:
        """The id of the next commit: each has its own, by which the log says whether it landed."""
        return f"{self.run}-{self.tried + 1}"


def look(adapter: Adapter[Any], request: Request) -> Snapshot:
    """The newest snapshot under the key that the request means, placed on the curve of that key.

    Raises OptionError if the request needs a key and the table has none.
    """
    snapshot = _laid_out(adapter.snapshot(request.columns, request.where), request.columns, request.layout)
    if snapshot.key is None and request.fallback_columns:
        snapshot = adapter.snapshot(request.fallback_columns, request.where)
        snapshot = _laid_out(snapshot, request.fallback_columns, request.fallback_layout)
    if snapshot.key_problem:
        _warn(
            f"{adapter.table}: {snapshot.key_problem}; cluster_by(...) sets another key, cluster_by(None) takes it away"
        )
    if snapshot.key is None and request.needs_key:
        wanted = "a cluster key: set one with cluster_by(...), or name columns in the call"
        raise OptionError("columns", None, f"{wanted}; {snapshot.key_problem or f'{adapter.table} has none'}")
    return on_its_curve(adapter, snapshot)


@lru_cache(maxsize=1024)
def _warn(text: str) -> None:
    """Once in a process: automatic runs look at a table again and again."""
    _LOG.warning("%s", text)


def _laid_out(snapshot: Snapshot, columns: tuple[str, ...] | None, layout: str) -> Snapshot:
    """The snapshot with the layout that was asked for along with ``columns``; the table's own key keeps its own."""
    if snapshot.key is None or columns is None or layout == snapshot.key.layout:
        return snapshot
    return replace(snapshot, key=ClusterKey(snapshot.key.columns, layout))


def plan_for(
    adapter: Adapter[Any], request: Request, clock: Clock, parts: Mapping[str, Part] | None = None
) -> tuple[Snapshot, Plan]:
    """The newest snapshot and the plan on it; reads no data file. ``parts`` as in :class:`Env`."""
    snapshot = patiently(lambda: look(adapter, request), clock, BEFORE_WORK)
    now = clock.now_ms()
    resting = request.backoff.resting(now) if request.backoff else ()
    env = Env(
        now_ms=now,
        parallelism=request.parallelism,
        busy=held_blocks(snapshot, resting),
        workload=request.workload,
        parts=parts or {},
        spent_bytes=spent_bytes(snapshot, now),
    )
    plan = make_plan(snapshot, request.policies, request.options, env)
    return snapshot, explained(plan, snapshot, request.options, now, request.workload)


def maintain(
    adapter: Adapter[Any],
    runner: Runner[Any],
    request: Request,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> MergeReport:
    """Run a request on one table.

    Raises the errors of the adapter for a table or option that will not do, before anything is written;
    Conflict, Rejected or Unknown for a commit that failed (see engine/commit.py). Groups that fail or
    lose a race alone are in the report, and the others land.
    """
    clock = clock or Clock()
    tally = _Tally(run=uuid.uuid4().hex[:16])
    events = Events(adapter.table, tally.run, observer)
    work = Work(adapter, runner, events, tally.run, clock=clock)
    try:
        return _rounds(work, request, tally, clock)
    except Halted as halted:
        raise halted.cause from None


def _rounds(work: Work, request: Request, tally: _Tally, clock: Clock) -> MergeReport:
    started = clock.now_ms()
    first: tuple[Snapshot, Plan] | None = None
    most = request.options.integer("max-rounds") if _repeats(request) else 1
    rounds, ended = 0, f"max-rounds {most} reached" if request.final else "one round done"
    while rounds < most:
        left = request.options.integer("budget-bytes") - tally.spent
        limited = replace(request, options=request.options.with_(**{"budget-bytes": max(left, 1)}))
        snapshot, plan = plan_for(work.adapter, limited, clock, tally.parts)
        if plan.tasks and not request.dry_run:
            patiently(lambda: work.adapter.require_writable(request.options), clock, BEFORE_WORK)
            if not _boundaries_kept(work, snapshot):
                snapshot, plan = plan_for(work.adapter, limited, clock, tally.parts)
        first = first or (snapshot, plan)
        work.events.tell(
            "planned", tasks=len(plan.tasks), bytes=plan.input_bytes, round=rounds + 1, plan=plan
        )
        if not plan.tasks:
            ended = "nothing left to do" if rounds else "nothing to do"
            break
        if request.dry_run:
            tally.groups += [_group(task, "planned") for task in plan.tasks]
            ended = "dry run"
            break
        if rounds and tally.spent + plan.tasks[0].input_bytes > request.options.integer("budget-bytes"):
            ended = "the budget of this call is spent"
            break
        rounds += 1
        tally.predicted = plan.prediction.worth.after.files if plan.prediction else None
        if not _round(work, snapshot, plan, request, tally, clock):
            ended = "the last round brought the table no further"
            break
    if first is None:
        raise AssertionError("max-rounds is at least 1")
    return _report(work, request, tally, first, ended, rounds, (started, clock.now_ms()))


def _boundaries_kept(work: Work, snapshot: Snapshot) -> bool:
    return patiently(lambda: keep_boundaries(work.adapter, snapshot), work.clock, BEFORE_WORK)


def _repeats(request: Request) -> bool:
    """``full`` re-sorts whatever it is shown each time: a final run of it would never end."""
    return request.final and not request.dry_run and all(map(converges, request.policies))


def _round(work: Work, snapshot: Snapshot, plan: Plan, request: Request, tally: _Tally, clock: Clock) -> bool:
    """Carry out one registered plan. Did anything land that brings the table nearer to an end?

    A group counts that rose a level or shrank in files; both are bounded, so rounds end.
    """
    before, lost = len(tally.groups), tally.conflicts
    timeout_ms = request.options.ms("vacuum.intent-timeout-hours")
    with at_work(work.adapter, tally.next_run_id(), snapshot, clock, timeout_ms) as registration:
        _rewrite(replace(work, registration=registration), snapshot, plan, request, tally, clock)
        # A job that failed and a commit that lost may leave files whose names nothing tells.
        failed = any(group.status == "failed" for group in tally.groups[before:])
        registration.clean = not failed and tally.conflicts == lost
    tally.spent += plan.input_bytes
    note_spent(snapshot, clock.now_ms(), plan.input_bytes)
    rose = {task.id for task in plan.tasks if task.level > task.input_level}
    landed = [g for g in tally.groups[before:] if g.status == "committed"]
    return any(g.id in rose or g.files_out < g.files_in for g in landed)


def _rewrite(
    work: Work, snapshot: Snapshot, plan: Plan, request: Request, tally: _Tally, clock: Clock
) -> None:
    """Rewrite the groups of one plan and commit them, in one commit or several."""
    options = request.options
    parts = Parts.of(plan, options, work.registration)
    threads = options.integer("max-concurrent-file-group-rewrites")
    watch = Watch(work.adapter, snapshot, clock, options.integer("early-abort-interval-ms"))
    tasks = plan.tasks if parts.bytes_each is None else cold_first(plan.tasks, snapshot)
    results = rewrites_of(replace(work, watch=watch), tasks, threads)
    try:
        for result in results:
            if isinstance(result, Failed):
                if result.raced:
                    tally.note_race(request, result.task, clock)
                status = "dropped" if result.raced else "failed"
                tally.groups.append(_group(result.task, status, detail=result.detail))
                continue
            parts.ready.append(result)
            if parts.due():
                _commit(work, parts.take(), snapshot, request, tally, clock)
    except Halted as halted:
        # The workers halt too: closed by the garbage collector later, they would clean up after a crash.
        with suppress(Halted):
            results.throw(halted)  # type: ignore[attr-defined]  # a generator
        raise
    except BaseException:
        results.close()  # type: ignore[attr-defined]  # a generator: cancels what still runs, discards its outputs
        work.adapter.discard(parts.ready)
        raise
    if parts.ready:
        _commit(work, parts.take(), snapshot, request, tally, clock)


def _commit(
    work: Work, rewrites: Sequence[Rewrite], snapshot: Snapshot, request: Request, tally: _Tally, clock: Clock
) -> None:
    run_id = tally.next_run_id()
    tally.tried += 1
    committer = Committer(
        work.adapter, work.runner, snapshot, run_id, request.options, work.events, clock, work.registration
    )
    try:
        landed = committer.commit(rewrites)
    except (Conflict, Rejected) as failure:
        if not tally.run_ids:
            raise
        # Earlier commits of this call are in the table: the report of them must not be lost with this one.
        tally.conflicts += 1
        status = "dropped" if isinstance(failure, Conflict) else "failed"
        tally.groups += [_group(rewrite.task, status, detail=str(failure)) for rewrite in rewrites]
        return
    tally.conflicts += landed.retries + landed.replays + len(landed.dropped)
    for lost in landed.dropped:
        tally.note_race(request, lost.rewrite.task, clock)
        tally.groups.append(_group(lost.rewrite.task, "dropped", detail=lost.reason))
    if landed.commit is None:
        return
    tally.run_ids.append(run_id)
    tally.version = landed.commit.version
    tally.removed_delete_files += landed.commit.removed_delete_files
    for kept in landed.kept:
        made_by = Part(kept.task.id, kept.task.born_ms)
        tally.parts.update(dict.fromkeys((output.path for output in kept.outputs), made_by))
        if kept.replayed:
            tally.note_race(request, kept.task, clock)
        elif request.backoff:
            request.backoff.landed(kept.task.partition)
        tally.groups.append(_group(kept.task, "committed", rewrite=kept, detail=_replay_told(kept)))


def _replay_told(rewrite: Rewrite) -> str:
    if rewrite.unmasked is None:
        return ""
    return f"{rewrite.replayed:,} rows that were deleted meanwhile are deleted in the outputs too"


def _group(task: MergeTask, status: str, *, rewrite: Rewrite | None = None, detail: str = "") -> GroupResult:
    return GroupResult(
        id=task.id,
        status=status,
        files_in=len(task.inputs),
        bytes_in=task.input_bytes,
        files_out=len(rewrite.outputs) if rewrite else 0,
        bytes_out=rewrite.bytes_out if rewrite else 0,
        level=task.level,
        partition=task.partition,
        reason=task.reason,
        detail=detail,
        replayed_rows=rewrite.replayed if rewrite else 0,
    )


def _report(
    work: Work,
    request: Request,
    tally: _Tally,
    first: tuple[Snapshot, Plan],
    ended: str,
    rounds: int,
    during_ms: tuple[int, int],
) -> MergeReport:
    snapshot, plan = first
    weighed_at, ended_at = during_ms
    done = [g for g in tally.groups if g.status == "committed"]
    keyed = snapshot.key is not None
    before = plan.depth if keyed else None
    after = before
    opened = plan.prediction.worth.before.files if plan.prediction and keyed else None
    opens = opened
    if done and keyed:
        try:
            seen = patiently(lambda: look(work.adapter, request), work.clock, BEFORE_WORK)
            after = mean_depth(seen)
            # Weighed as of the plan, so that the difference is the layout's alone.
            opens = scale_of(seen, request.options, weighed_at, request.workload).present().files
        except Exception as error:
            # What is committed is committed: a failed look afterwards must not hide it.
            opens = None
            after, ended = (
                None,
                f"{ended}; the depth afterwards is not known ({reason(error)})",
            )
    return MergeReport(
        table=snapshot.table,
        verb=request.verb,
        dry_run=request.dry_run,
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
        rounds=rounds,
        commits=len(tally.run_ids),
        conflicts=tally.conflicts,
        replayed_rows_count=sum(g.replayed_rows for g in done),
        duration_ms=ended_at - weighed_at,
        run_ids=tuple(tally.run_ids),
        ended=ended,
        groups=tuple(tally.groups),
        files_per_query_before=opened,
        files_per_query_predicted=tally.predicted if done and keyed else None,
        files_per_query_after=opens,
        plan=plan,
    )
