"""The policy ``deletes`` against plain words: which blocks are due, who goes with whom, and that it ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.blocks import UNKNOWN, Block, Snapshot
from lakekeeper.core.options import Options, resolve
from lakekeeper.core.plan import Plan
from lakekeeper.core.planner import make_plan
from lakekeeper.core.policies import Env
from lakekeeper.core.policies.deletes import DELETES
from lakekeeper.core.policies.sizes import SIZES
from lakekeeper.testing.draws import MIB, Shape, draw_snapshot, picture

ONE_COLUMN = Shape(most=30, columns=1, kinds=("int",), partitions=2, missing=0.0, nulls=0.0, blurred=0.0)
OPTIONS: tuple[dict[str, float], ...] = (
    {},
    {"delete-ratio-threshold": 0.05},
    {"delete-ratio-threshold": 0},
    {"delete-ratio-threshold": 1, "max-file-group-input-files": 3},
    {"max-file-group-size-bytes": 100 * MIB},
    {"single-task-bytes": 200 * MIB},
)


def with_deletes(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """The same blocks under deletes of every kind."""
    blocks = snapshot.blocks
    deleted = [rng.choice([0, 0, 0, r // 3, r // 2, r, UNKNOWN]) for r in blocks.rows.tolist()]
    heavy = [
        rng.choice([1, 1, 1, b]) if d else 0 for b, d in zip(blocks.bytes.tolist(), deleted, strict=True)
    ]
    return replace(
        snapshot,
        blocks=replace(
            blocks,
            deleted_rows=np.array(deleted, np.int64),
            delete_bytes=np.array(heavy, np.int64),
            delete_id=pa.array([f"d{i}" if d else "" for i, d in enumerate(deleted)], pa.string()),
        ),
    )


def due(block: Block, options: Options) -> bool:
    """In plain words."""
    if not block.delete_id or block.bytes > options.integer("max-file-group-size-bytes"):
        return False
    if block.deleted_rows == UNKNOWN or block.delete_bytes >= block.bytes:
        return True
    return block.deleted_rows >= options.number("delete-ratio-threshold") * block.rows


def plan_of(snapshot: Snapshot, options: Options) -> Plan:
    return make_plan(snapshot, [DELETES], options, Env())


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_exactly_the_blocks_that_are_due_are_written_anew(given: dict[str, float]) -> None:
    options, merged = resolve(given), 0
    for seed in range(80):
        rng = random.Random(seed)
        snapshot = with_deletes(rng, draw_snapshot(rng, ONE_COLUMN))
        plan = plan_of(snapshot, options)
        taken = {path for task in plan.tasks for path in task.inputs}
        assert taken == {block.path for block in snapshot.blocks if due(block, options)}, seed
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
    assert not [left for left in held.left if "key-change-ratio" in left.reason]


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_no_block_that_stays_lies_wholly_within_a_gap_of_a_group(given: dict[str, float]) -> None:
    options, together = resolve(given), 0
    for seed in range(80):
        rng = random.Random(seed)
        snapshot = with_deletes(rng, draw_snapshot(rng, ONE_COLUMN))
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
    """The open stretches between the members."""
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
        bytes=np.full(n, MIB),
        added_at=np.arange(n)[::-1],
        lo=(),
        hi=(),
        null_count=(),
        exact=(),
    )
    paths = blocks.path.to_pylist()
    plan = plan_of(picture(blocks, None), resolve())
    assert sorted(task.inputs for task in plan.tasks) == sorted(
        [tuple(reversed(paths[:3])), tuple(reversed(paths[4:]))]
    )
    assert [item.reason for item in plan.left] == ["no delete applies to it"]


def test_the_largest_share_comes_first_and_the_budget_takes_it() -> None:
    rng = random.Random(5)
    snapshot = with_deletes(rng, draw_snapshot(rng, Shape(most=40, columns=1, kinds=("int",))))
    scores = [task.score for task in plan_of(snapshot, resolve()).tasks]
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    (first,) = plan_of(snapshot, resolve({"budget-bytes": 1})).tasks
    assert first.score == scores[0]


def test_a_share_just_under_the_threshold_never_reads_like_it() -> None:
    rng = random.Random(0)
    drawn = draw_snapshot(rng, Shape(most=40, columns=1, kinds=("int",)))
    n = len(drawn.blocks)
    blocks = replace(
        drawn.blocks,
        rows=np.full(n, 1_000_000),
        deleted_rows=np.full(n, 299_999),
        delete_bytes=np.ones(n, np.int64),
        bytes=np.full(n, MIB),
    )
    (left,) = plan_of(replace(drawn, blocks=blocks), resolve()).left
    assert left.reason == "29.9 % of its rows deleted, under delete-ratio-threshold 30 %"
    few = replace(blocks, deleted_rows=np.where(np.arange(n) == 0, 3, 299_999))
    (left,) = plan_of(replace(drawn, blocks=few), resolve()).left
    assert left.reason.startswith("under 0.1 % to 29.9 % of its rows deleted")
