"""The policy ``deletes`` against its rules in plain code: which blocks are due, how they are grouped, where it ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.model.blocks import UNKNOWN, Block, Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env
from lakekeeper.testing.draws import MIB, Shape, as_snapshot, draw_snapshot
from tests.core.drawn_deletes import with_deletes

MINUTE_MS, DAY_MS = 60_000, 86_400_000
ONE_COLUMN = Shape(most=30, columns=1, kinds=("int",), partitions=2, missing=0.0, nulls=0.0, blurred=0.0)
OPTIONS: tuple[dict[str, float], ...] = (
    {},
    {"delete-ratio-threshold": 0.05},
    {"delete-ratio-threshold": 0},
    {"delete-ratio-threshold": 1, "max-file-group-input-files": 3},
    {"max-file-group-size-bytes": 100 * MIB},
    {"single-task-bytes": 200 * MIB},
)


def due(snapshot: Snapshot, i: int, options: Options) -> bool:
    """The rule in plain code: is block ``i`` due, where no time has passed since its deletes came?"""
    block, blocks = snapshot.blocks.block(i), snapshot.blocks
    if not block.delete_id or block.bytes > options.groups.max_bytes:
        return False
    dead = float(block.deleted_rows)
    # The rows that its deletes name, spread over all rows to which they may apply.
    if block.deleted_rows == UNKNOWN:
        named = int(blocks.delete_rows[i])
        named = block.delete_bytes // 8 if named == UNKNOWN else named
        others = [b for b in blocks if b.deleted_rows == UNKNOWN]
        rows = sum(b.rows for b in others if (b.partition, b.spec) == (block.partition, block.spec))
        dead = min(named / rows, 1.0) * block.rows
    return dead >= options.planning.delete_ratio * block.rows


@cache
def drawn(seed: int) -> Snapshot:
    rng = random.Random(seed)
    return with_deletes(rng, draw_snapshot(rng, ONE_COLUMN))


def plan_of(snapshot: Snapshot, options: Options) -> Plan:
    return make_plan(snapshot, [DELETES], options, Env())


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_exactly_the_blocks_that_are_due_are_rewritten(given: dict[str, float]) -> None:
    options, merged = resolve(given), 0
    for seed in range(80):
        snapshot = drawn(seed)
        plan = plan_of(snapshot, options)
        taken = {path for task in plan.tasks for path in task.inputs}
        everything = enumerate(snapshot.blocks.path.to_pylist())
        assert taken == {path for i, path in everything if due(snapshot, i, options)}, seed
        merged += len(taken)
    assert merged > 100


@pytest.mark.parametrize("policy", ["deletes", "sizes"])
def test_a_change_of_the_key_holds_back_neither_purge_nor_packing(policy: str) -> None:
    rng = random.Random(13)
    snapshot = with_deletes(rng, draw_snapshot(rng, replace(ONE_COLUMN, most=200)))
    other = replace(
        snapshot.blocks,
        bytes=np.full(len(snapshot.blocks), 90 * MIB),
        key_id=np.zeros(len(snapshot.blocks), np.int32),
        key_ids=("another",),
    )
    snapshot, chosen = replace(snapshot, blocks=other), DELETES if policy == "deletes" else SIZES
    held, free = (
        make_plan(snapshot, [chosen], resolve({"key-change-ratio": ratio, "single-task-bytes": MIB}), Env())
        for ratio in (0.01, 1.0)
    )
    assert len(free.tasks) > 2
    assert [task.inputs for task in held.tasks] == [task.inputs for task in free.tasks]
    assert not [left for left in held.left if "key_change" in left.reason.codes]


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_no_remaining_block_is_wholly_within_a_gap_of_a_group(given: dict[str, float]) -> None:
    options, together = resolve(given), 0
    for seed in range(80):
        snapshot = drawn(seed)
        plan = plan_of(snapshot, options)
        level = dict(
            zip(
                snapshot.blocks.path.to_pylist(),
                snapshot.blocks.level_under(snapshot.key).tolist(),
                strict=True,
            )
        )
        taken = {path for task in plan.tasks for path in task.inputs}
        for task in plan.tasks:
            members = [b for b in snapshot.blocks if b.path in task.inputs]
            place = (task.partition, task.spec, task.level)
            staying = [
                b
                for b in snapshot.blocks
                if b.path not in taken and (b.partition, b.spec, level[b.path]) == place
            ]
            assert not [gap for gap in _gaps(members) if any(_within(b, gap) for b in staying)], seed
            together += len(members) > 1
    assert together > 10


def _gaps(members: Sequence[Block]) -> list[tuple[int, int]]:
    """The open ranges between the members."""
    ends = sorted((b.lo[0], b.hi[0]) for b in members)
    gaps, reach = [], ends[0][1]
    for lo, hi in ends[1:]:
        if lo > reach:
            gaps.append((reach, lo))
        reach = max(reach, hi)
    return gaps


def _within(block: Block, gap: tuple[int, int]) -> bool:
    return bool(gap[0] < block.lo[0] and block.hi[0] < gap[1])


def test_without_a_key_neighbours_are_those_that_were_added_one_after_the_other() -> None:
    rng = random.Random(1)
    drawn = draw_snapshot(rng, Shape(most=30, partitions=1, specs=1, levels=False))
    n = len(drawn.blocks)
    assert n > 6
    deleted = np.where(np.arange(n) == 3, 0, drawn.blocks.rows)
    blocks = replace(
        drawn.blocks,
        deleted_rows=deleted,
        delete_files=(deleted > 0).astype(np.int64),
        bytes=np.full(n, MIB),
        added_at=np.arange(n)[::-1],
        lo=(),
        hi=(),
        null_count=(),
        exact=(),
    )
    paths = blocks.path.to_pylist()
    plan = plan_of(as_snapshot(blocks, None), resolve())
    assert sorted(task.inputs for task in plan.tasks) == sorted(
        [tuple(reversed(paths[:3])), tuple(reversed(paths[4:]))]
    )
    assert [item.reason.codes for item in plan.left] == [("no_deletes",)]


def test_the_most_valuable_task_comes_first_and_within_the_budget() -> None:
    rng = random.Random(5)
    snapshot = with_deletes(rng, draw_snapshot(rng, Shape(most=40, columns=1, kinds=("int",))))
    plan = explained(plan_of(snapshot, resolve()), snapshot, resolve(), 0)
    worths = [task.worth.gain_per_second / task.worth.work for task in plan.tasks if task.worth]
    assert len(worths) > 2
    assert worths == sorted(worths, reverse=True)
    assert all(0 <= task.score <= 1 for task in plan.tasks)
    (first,) = plan_of(snapshot, resolve({"budget-bytes": 1})).tasks
    assert first.inputs == plan.tasks[0].inputs


# ------------------------------------------------------------------------------------------------ equality deletes

UPSERTED = 40  # files of the table
ROWS = 130_000  # rows of each file
NOW = 1_700_000_000_000


def upserted(minutes: int, *, per_minute: int = 8000, since: int = NOW) -> Snapshot:
    """A table of 40 full files under a stream of upserts: one delete file a minute, which may apply to every file."""
    n = UPSERTED
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    columns = {
        "path": [f"f{i:02d}" for i in range(n)],
        "rows": [ROWS] * n,
        "bytes": [128 * MIB] * n,
        "lo": [[1000 * i for i in range(n)]],
        "hi": [[1000 * i + 999 for i in range(n)]],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        "added_at": [since] * n,
        "delete_id": ["eq" if minutes else ""] * n,
        "deleted_rows": [UNKNOWN if minutes else 0] * n,
        "delete_files": [minutes] * n,
        "delete_rows": [minutes * per_minute] * n,
        "delete_bytes": [minutes * per_minute * 16] * n,
        "deleted_at": [since + MINUTE_MS if minutes else 0] * n,
    }
    return Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key))


def test_a10_one_small_equality_delete_rewrites_nothing() -> None:
    snapshot = upserted(1, per_minute=30)
    plan = make_plan(snapshot, [DELETES], resolve(), Env(now_ms=NOW + 2 * MINUTE_MS))
    assert plan.tasks == ()
    assert [left.reason.codes for left in plan.left] == [("few_deleted_about", "due_at_less")]


@pytest.mark.parametrize("rate,most", [(0, 8), (60, 24), (600, 64)])
def test_a10_a_table_under_upserts_is_rewritten_a_few_times_a_day_and_not_in_each_pass(
    rate: int, most: int
) -> None:
    """A delete file a minute and a pass every fifteen: each of the 96 passes a day used to rewrite the whole table."""
    rewritten, since = 0, 0
    for minute in range(15, 24 * 60, 15):
        snapshot = upserted(minute - since, since=NOW + since * MINUTE_MS)
        options = resolve({"queries-per-hour": rate})
        plan = make_plan(snapshot, [DELETES], options, Env(now_ms=NOW + minute * MINUTE_MS))
        if plan.tasks:
            assert plan.input_files == UPSERTED
            rewritten, since = rewritten + 1, minute
    assert 2 <= rewritten <= most


def test_deletes_of_a_block_that_queries_open_often_are_applied_first() -> None:
    """By hand: 100 delete files cost each query of a block 400 MiB, and a rewrite costs 0.8 + 0.2 of its bytes.

    Of 60 queries an hour, one in 40 opens a block, and 1% of the others: 2.1 queries an hour. The average age of the
    deletes is half that of the first, 50 minutes. So 400 · 2.1 · 5/6 = 700 MiB after 100 minutes, and a rewrite costs
    644.
    """
    snapshot = upserted(100, per_minute=10)
    plan = make_plan(snapshot, [DELETES], resolve(), Env(now_ms=NOW + 101 * MINUTE_MS))
    assert plan.input_files == UPSERTED
    assert "deletes_paid" in plan.tasks[0].reason.codes
    soon = upserted(40, per_minute=10)
    assert make_plan(soon, [DELETES], resolve(), Env(now_ms=NOW + 41 * MINUTE_MS)).tasks == ()


def test_eventually_all_marked_rows_are_removed() -> None:
    """One row of a million and no query: after seven days 5% are enough, after two months any row."""
    n = 3
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    columns = {
        "path": ["a", "b", "c"],
        "rows": [1_000_000] * n,
        "bytes": [128 * MIB] * n,
        "lo": [[0, 10, 20]],
        "hi": [[9, 19, 29]],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        "added_at": [NOW] * n,
        "delete_id": ["x", "y", "z"],
        "deleted_rows": [60_000, 40_000, 1],
    }
    snapshot = Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key))
    options = resolve({"queries-per-hour": 0})
    due_after = {
        days: sorted(
            p
            for t in make_plan(snapshot, [DELETES], options, Env(now_ms=NOW + days * DAY_MS)).tasks
            for p in t.inputs
        )
        for days in (1, 7, 8, 40, 60)
    }
    assert due_after == {1: [], 7: ["a"], 8: ["a", "b"], 40: ["a", "b"], 60: ["a", "b", "c"]}


def test_a_share_just_under_the_threshold_never_prints_as_the_threshold() -> None:
    rng = random.Random(0)
    drawn = draw_snapshot(rng, Shape(most=40, columns=1, kinds=("int",)))
    n = len(drawn.blocks)
    blocks = replace(
        drawn.blocks,
        rows=np.full(n, 1_000_000),
        deleted_rows=np.full(n, 299_999),
        delete_files=np.ones(n, np.int64),
        delete_bytes=np.ones(n, np.int64),
        bytes=np.full(n, MIB),
    )
    (left,) = plan_of(replace(drawn, blocks=blocks), resolve({"queries-per-hour": 0})).left
    assert str(left.reason) == "29.9% of rows deleted; due at 30%, and at less as it ages"
    few = replace(blocks, deleted_rows=np.where(np.arange(n) == 0, 3, 299_999))
    (left,) = plan_of(replace(drawn, blocks=few), resolve({"queries-per-hour": 0})).left
    assert str(left.reason).startswith("under 0.1% to 29.9% of rows deleted")
