"""The planner: policies in order, their choices checked, ranked and cut to the budget, as one plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.config.layout_options import MAX_BLOCK_BYTES
from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import groups_of, scale_of
from lakekeeper.core.layout.clustering_info import deepest_stretch, mean_depth
from lakekeeper.core.layout.snapshot_index import level_counts, place_of
from lakekeeper.core.layout.split_points import curve_cuts, range_cuts
from lakekeeper.core.model.blocks import BlockSet, Index, Snapshot
from lakekeeper.core.model.file_merge import files_for
from lakekeeper.core.model.plan import (
    FROZEN,
    ON_CURVE,
    Choice,
    Freeze,
    Left,
    Merge,
    MergeTask,
    Plan,
    Tasks,
    task_id,
)
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.key_migration import Share, bounded, share_of
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.units import Ints
from lakekeeper.errors import OptionError


def make_plan(snapshot: Snapshot, policies: Sequence[Policy], options: Options, env: Env) -> Plan:
    """What the policies choose on ``snapshot``. Pure: the same arguments give the same plan.

    Under a key that follows a curve the blocks are to be placed on it, see ``boundaries.placed``.
    Every block is in exactly one task or one entry of ``left``. A block that a policy merges or freezes
    is not shown to the next one. Raises OptionError naming a policy whose choices break the rules.
    """
    blocks = snapshot.blocks
    ledger = _Ledger(len(blocks))
    for paths, why in ((env.busy, Code.BACKING_OFF), (env.failing, Code.FAILED_BEFORE)):
        if paths:
            held = np.array([path in paths for path in blocks.path.to_pylist()], dtype=np.bool_)
            ledger.leave(np.flatnonzero(held), Reason.of(why), final=True)
    share = share_of(snapshot, policies, options)
    merges: list[tuple[Policy, Merge]] = []
    for policy in policies:
        candidates = ledger.open
        choices = policy.choose(snapshot, candidates, bounded(options, share, policy), env)
        mine = [choice for choice in choices if isinstance(choice, Merge)]
        ledger.take(_checked(policy.name, snapshot, candidates, choices, mine))
        merges += [(policy, merge) for merge in mine]
        for choice in choices:
            if not isinstance(choice, Merge):
                frozen = isinstance(choice, Freeze)
                ledger.leave(choice.blocks, choice.reason, final=frozen, frozen=frozen)
    tasks = _within_budget(snapshot, _by_worth(snapshot, merges, options, env), options, env, share, ledger)
    return _plan(snapshot, policies, tasks, ledger)


def cold_first(tasks: Sequence[MergeTask], snapshot: Snapshot) -> tuple[MergeTask, ...]:
    """Tasks in the order of their youngest input, oldest first: cold data is merged before hot data."""
    blocks = snapshot.blocks
    edges = np.cumsum([0, *(len(task.inputs) for task in tasks)])
    inputs = pa.array([path for task in tasks for path in task.inputs], pa.string())
    added = blocks.added_at[pc.index_in(inputs, value_set=blocks.path).to_numpy(zero_copy_only=False)]
    youngest = [int(added[a:b].max()) for a, b in pairwise(edges.tolist())]
    order = sorted(range(len(tasks)), key=youngest.__getitem__)
    return tuple(tasks[i] for i in order)


class _Ledger:
    """The blocks that are taken, and why the others are left: one code per block into a table of reasons."""

    def __init__(self, n: int) -> None:
        self._reasons: list[tuple[Reason, bool]] = [(Reason.of(Code.NOT_CONSIDERED), False)]  # and frozen
        self._code = np.zeros(n, np.int32)
        self._closed = np.zeros(n, dtype=np.bool_)
        self.taken = np.zeros(n, dtype=np.bool_)

    @property
    def open(self) -> Index:
        return np.flatnonzero(~self._closed)

    def take(self, at: Index) -> None:
        self.taken[at] = True
        self._closed[at] = True

    def give_back(self, at: Index, reason: Reason) -> None:
        self.taken[at] = False
        self._code[at] = 0
        self.leave(at, reason, final=True)

    def leave(self, at: Index, reason: Reason, *, final: bool, frozen: bool = False) -> None:
        """If an earlier policy left the block too, both reasons are kept."""
        before = self._code[at]
        for code in np.flatnonzero(np.bincount(before)).tolist():
            old, _ = self._reasons[code]
            both = reason if code == 0 else old.plus(reason)
            self._code[at if (before == code).all() else at[before == code]] = self._intern(both, frozen)
        self._closed[at] |= final

    def _intern(self, reason: Reason, frozen: bool) -> int:
        entry = (reason, frozen)
        if entry not in self._reasons:
            self._reasons.append(entry)
        return self._reasons.index(entry)

    def left(self, blocks: BlockSet) -> tuple[Left, ...]:
        code = np.where(self.taken, -1, self._code)
        found = []
        for number, (reason, frozen) in enumerate(self._reasons):
            at = np.flatnonzero(code == number)
            if not len(at):
                continue
            found.append(
                Left(
                    reason=reason,
                    blocks=len(at),
                    bytes=int(blocks.bytes[at].sum()),
                    at=at,
                    named=blocks.path,
                    level=FROZEN if frozen else None,
                )
            )
        return tuple(sorted(found, key=lambda item: -item.blocks))


def _checked(
    name: str, snapshot: Snapshot, candidates: Index, choices: Sequence[Choice], merges: Sequence[Merge]
) -> Index:
    """The blocks of the merges among the choices. A policy may be third-party code: its choices are not trusted."""
    blocks, place = snapshot.blocks, place_of(snapshot)
    named = [choice.blocks for choice in choices]
    every = np.concatenate([*named, np.zeros(0, np.intp)])
    if len(every) and not 0 <= int(every.min()) <= int(every.max()) < len(blocks):
        raise OptionError(
            "policy", name, "a policy that names blocks by their positions; its plan is refused"
        )
    times = np.bincount(every, minlength=len(blocks))
    shown = np.zeros(len(blocks), dtype=np.bool_)
    shown[candidates] = True
    wrong = (times > 1) | ((times > 0) & ~shown)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        group = next(choice for choice in choices if (choice.blocks == at).any())
        why = "more than once" if times[at] > 1 else "though it was not shown to it"
        raise OptionError(
            "policy",
            name,
            "a policy that names each candidate block once; its plan is refused: "
            f"{blocks.path[at].as_py()} is named {why}, first in the group of {_group(blocks, group)}",
        )
    if not all(isinstance(choice.reason, Reason) for choice in choices):
        raise OptionError("policy", name, "reasons made by Reason.of; its plan is refused")
    length = np.array([len(merge.blocks) for merge in merges], np.int64)
    if not length.all():
        raise OptionError("policy", name, "merges of at least one block; its plan is refused")
    members = np.concatenate([*(merge.blocks for merge in merges), np.zeros(0, np.intp)])
    if not merges or not place.any():
        return members
    of = place[members]
    start = np.cumsum(length) - length
    mixed = np.flatnonzero(np.minimum.reduceat(of, start) != np.maximum.reduceat(of, start))
    if len(mixed):
        group = merges[int(mixed[0])]
        raise OptionError(
            "policy",
            name,
            "merges within one partition and spec; its plan is refused: "
            f"they differ in the group of {_group(blocks, group)}",
        )
    return members


def _group(blocks: BlockSet, choice: Choice) -> str:
    """A choice by its first blocks and its reason."""
    paths: list[str] = blocks.path.take(pa.array(choice.blocks[:3])).to_pylist()
    more = f" and {len(choice.blocks) - 3:,} more" if len(choice.blocks) > 3 else ""
    return f"{', '.join(paths)}{more} ({choice.reason})"


def _by_worth(
    snapshot: Snapshot, merges: list[tuple[Policy, Merge]], options: Options, env: Env
) -> list[tuple[Policy, Merge]]:
    """Merges of all policies, most benefit per work first; ties in input order."""
    if len(merges) < 2:
        return merges
    scale = scale_of(snapshot, options, env.now_ms, env.workload)
    members, edges = _members(merges)
    groups, size = groups_of(snapshot.blocks, members, edges, options)
    packs = np.array([merge.packs for _, merge in merges], dtype=np.bool_)
    order = np.argsort(-np.round(scale.worth(groups, size, packs).ratio, 12), kind="stable")
    return [merges[i] for i in order.tolist()]


def _within_budget(
    snapshot: Snapshot,
    merges: list[tuple[Policy, Merge]],
    options: Options,
    env: Env,
    share: Share,
    ledger: _Ledger,
) -> Sequence[MergeTask]:
    """Tasks for the merges in order, within the budgets and the share of other keys; the first always fits.

    Once the daily budget is spent, not even the first one is made: else each call would rewrite one.
    """
    if not merges:
        return _tasks(snapshot, [], [], options, *_members([]))
    limit, per_day = options.budget.bytes, options.budget.bytes_per_day
    day = None if per_day is None else per_day - env.spent_bytes
    over_day = Reason.of(Code.OVER_DAILY_BUDGET, spent_bytes=env.spent_bytes)
    if day is not None and day <= 0:
        ledger.give_back(np.concatenate([merge.blocks for _, merge in merges]), over_day)
        return _tasks(snapshot, [], [], options, *_members([]))
    spent, budget = 0, min((b for b in (limit, day) if b is not None), default=None)
    over = over_day
    if budget is not None and budget != day:
        over = Reason.of(Code.OVER_BUDGET, budget_bytes=budget)
    every, edges = _members(merges)
    starts = edges[:-1]
    sizes = np.add.reduceat(snapshot.blocks.bytes[every], starts).tolist()
    foreign = share.needed(every, starts)
    if (budget is None or sum(sizes) <= budget) and not any(foreign):
        return _tasks(snapshot, merges, sizes, options, every, edges)
    kept: list[tuple[Policy, Merge]] = []
    spent_on: list[int] = []
    for (policy, merge), size, needed in zip(merges, sizes, foreign, strict=True):
        if kept and budget is not None and spent + size > budget:
            ledger.give_back(merge.blocks, over)
            continue
        if not share.takes(policy, needed):
            ledger.give_back(merge.blocks, share.reason)
            continue
        spent += size
        kept.append((policy, merge))
        spent_on.append(size)
    return _tasks(snapshot, kept, spent_on, options, *_members(kept))


def _members(merges: Sequence[tuple[Policy, Merge]]) -> tuple[Index, Ints]:
    """The blocks of all merges, one after the other, and where each merge starts and the last one ends."""
    members = np.concatenate([*(merge.blocks for _, merge in merges), np.zeros(0, np.intp)])
    return members, np.cumsum([0, *(len(merge.blocks) for _, merge in merges)])


def _tasks(
    snapshot: Snapshot,
    kept: Sequence[tuple[Policy, Merge]],
    sizes: Sequence[int],
    options: Options,
    members: Index,
    edges: Ints,
) -> Tasks:
    packs = np.array([merge.packs for _, merge in kept], dtype=np.bool_)
    return Tasks(_Builder(snapshot, kept, members, edges, options).task, sizes, members, edges, packs)


PAGE = 1000
"""Tasks whose blocks are gathered at once: a take for each of 10⁵ groups would cost seconds, and a printed plan looks
at a few of them only."""


class _Builder:
    """Makes tasks out of stretches of the chosen blocks."""

    def __init__(
        self,
        snapshot: Snapshot,
        kept: Sequence[tuple[Policy, Merge]],
        members: Index,
        edges: Ints,
        options: Options,
    ) -> None:
        self._snapshot = snapshot
        self._kept = kept
        self._members = members
        self._edges = edges
        self._options = options
        self._page: tuple[int, BlockSet, Ints] | None = None

    def _gathered(self, number: int) -> tuple[int, BlockSet, Ints]:
        """A page: its number, the blocks of its tasks, and their levels."""
        page = self._page
        if page is None or page[0] != number:
            ends = self._edges[[number * PAGE, min((number + 1) * PAGE, len(self._kept))]]
            blocks = self._snapshot.blocks.take(self._members[slice(*ends.tolist())])
            page = self._page = number, blocks, blocks.level_under(self._snapshot.key)
        return page

    def task(self, i: int) -> MergeTask:
        """The task of merge ``i``."""
        snapshot, options = self._snapshot, self._options
        policy, merge = self._kept[i]
        page, blocks, levels = self._gathered(i // PAGE)
        start, end = (self._edges[[i, i + 1]] - self._edges[page * PAGE]).tolist()
        at = slice(start, end)
        inputs = tuple(blocks.path[at].to_pylist())
        size, rows = int(blocks.bytes[at].sum()), int(blocks.rows[at].sum())
        live = blocks.live_rows[at]
        column = 0
        cuts: tuple[Any, ...] = ()
        target = options.files.target_bytes
        # Whole files of the target size, or the outputs are small files, which `sizes` packs again.
        most = max(options.groups.single_task_bytes // target, 1) * target
        parts = files_for(size / most)
        if snapshot.key is not None and parts > 1:
            if snapshot.key.curved:
                column, cuts = ON_CURVE, curve_cuts(blocks, at, parts)
            else:
                column, cuts = range_cuts(blocks, at, snapshot.key, parts)
        version = snapshot.version if snapshot.version is not None else -1
        return MergeTask(
            id=task_id(snapshot.table_uuid, version, inputs),
            policy=policy.name,
            table=snapshot.table,
            table_uuid=snapshot.table_uuid,
            read_version=version,
            inputs=inputs,
            delete_ids=tuple(blocks.delete_id[at].to_pylist()),
            partition=blocks.partitions[int(blocks.partition[start])],
            spec=int(blocks.spec[start]),
            key=snapshot.key,
            input_level=int(levels[at].max()),
            level=merge.level,
            target_bytes=target,
            target_rows=options.files.max_rows,
            max_bytes=MAX_BLOCK_BYTES,
            input_bytes=size,
            input_rows=rows,
            live_rows=int(live.sum()) if (live >= 0).all() else None,
            score=merge.score,
            reason=merge.reason,
            cut_column=column,
            cuts=cuts,
            boundaries=snapshot.boundaries if snapshot.key is not None and snapshot.key.curved else None,
            added_ms=merge.added_ms,
            least_rows=int(blocks.least_live_rows[at].sum()),
        )


def _plan(
    snapshot: Snapshot, policies: Sequence[Policy], tasks: Sequence[MergeTask], ledger: _Ledger
) -> Plan:
    blocks = snapshot.blocks
    return Plan(
        table=snapshot.table,
        version=snapshot.version,
        key=str(snapshot.key) if snapshot.key else "",
        policies=tuple(p.name for p in policies),
        tasks=tasks,
        left=ledger.left(blocks),
        blocks=len(blocks),
        bytes=int(blocks.bytes.sum()),
        depth=mean_depth(snapshot),
        levels=level_counts(snapshot),
        drawing=deepest_stretch(snapshot),
    )
