"""Properties of every plan, whatever the table: hypothesis draws the snapshots, derandomized."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.layout.depth import overlaps
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.core.model.plan import MergeTask, Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.units import HOUR_MS
from lakekeeper.testing.drawing import parse_blocks, print_blocks
from lakekeeper.testing.draws import DRAWN_MS, MIB, Shape, as_snapshot, draw_snapshot
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.strategies import snapshots
from lakekeeper.testing.values import token
from tests.sampling import fewer

CROWDED = Shape(most=40, columns=2, partitions=2)
POLICIES: list[tuple[Policy, ...]] = [
    (ADAPTIVE,),
    (ADAPTIVE, SIZES),
    (RANGES,),
    (PEAKS,),
    (SIZES,),
    (DELETES,),
    (FULL,),
    (UNIVERSAL,),
    (UNIVERSAL, SIZES),
    (RANGES, SIZES),
    (PEAKS, SIZES, DELETES),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"depth-threshold": 1},
    {"max-file-group-size-bytes": 250 * MIB, "depth-threshold": 1},
    {"max-file-group-input-files": 3},
    {"max-level": 2},
    {"single-task-bytes": 1 * MIB},
    {"universal.num-sorted-run.compaction-trigger": 2},
    {"universal.compaction.force-up-level-0": True, "depth-threshold-ratio": 0.1},
]

many = settings(max_examples=fewer(150), derandomize=True, deadline=None)
policies = st.sampled_from(POLICIES)
choices = st.sampled_from(OPTIONS).map(resolve)


def plan_of(snapshot: Snapshot, chosen: Sequence[Policy], options: Options) -> Plan:
    return make_plan(snapshot, chosen, options, Env(now_ms=DRAWN_MS + 2000 * HOUR_MS))


@many
@given(snapshots(CROWDED), policies, choices)
def test_every_block_is_in_one_task_or_left_for_a_reason(
    snapshot: Snapshot, chosen: tuple[Policy, ...], options: Options
) -> None:
    plan = plan_of(snapshot, chosen, options)
    used = [path for task in plan.tasks for path in task.inputs]
    left = [path for item in plan.left for path in item.paths.to_pylist()]
    assert sorted(used + left) == sorted(snapshot.blocks.path.to_pylist())
    assert all(item.blocks == len(item.paths) for item in plan.left)
    assert all(
        str(reason)
        for reason in [*(task.reason for task in plan.tasks), *(item.reason for item in plan.left)]
    )


@many
@given(snapshots(CROWDED), policies, choices)
def test_a_task_stays_within_partition_spec_level_and_bounds(
    snapshot: Snapshot, chosen: tuple[Policy, ...], options: Options
) -> None:
    blocks = {b.path: b for b in snapshot.blocks}
    level = dict(
        zip(snapshot.blocks.path.to_pylist(), snapshot.blocks.level_under(snapshot.key), strict=True)
    )
    for task in plan_of(snapshot, chosen, options).tasks:
        inputs = [blocks[path] for path in task.inputs]
        assert {(b.partition, b.spec) for b in inputs} == {(task.partition, task.spec)}
        assert task.input_bytes == sum(b.bytes for b in inputs)
        assert task.delete_ids == tuple(b.delete_id for b in inputs)
        assert task.input_level == max(level[path] for path in task.inputs)
        assert task.key == snapshot.key
        fits = task.input_bytes <= options.groups.max_bytes
        if task.policy == "full":
            assert fits or len(inputs) == 1
            continue
        if task.policy == "universal":  # a unit takes many levels, and raises at least one of its blocks
            assert fits or len(inputs) == 1
            assert min(level[path] for path in task.inputs) < task.level >= task.input_level
            continue
        assert len(inputs) <= options.groups.max_files
        if task.policy == "adaptive":  # it ignores levels; its outputs have one for the other policies
            assert fits or len(inputs) == 1, "a file that is larger than any group is cut alone"
            assert task.level == min(task.input_level + 1, options.planning.max_level)
            continue
        assert fits
        assert len(inputs) >= (1 if task.policy == "deletes" else 2)
        assert len({level[path] for path in task.inputs}) == 1
        assert task.level == task.input_level + (task.policy not in ("sizes", "deletes"))


@many
@given(snapshots(CROWDED), policies, st.sampled_from(OPTIONS).map(resolve), st.randoms(use_true_random=False))
def test_shuffling_blocks_changes_nothing(
    snapshot: Snapshot, chosen: tuple[Policy, ...], options: Options, rng: random.Random
) -> None:
    order = list(range(len(snapshot.blocks)))
    rng.shuffle(order)
    shuffled = as_snapshot(snapshot.blocks.take(np.array(order, np.intp)), snapshot.key)
    assert _content(plan_of(shuffled, chosen, options)) == _content(plan_of(snapshot, chosen, options))


def _content(plan: Plan) -> tuple[Any, Any]:
    tasks = [(t.id, frozenset(t.inputs), t.level, t.cut_column, t.cuts, t.score) for t in plan.tasks]
    return tasks, {(frozenset(item.paths.to_pylist()), item.reason) for item in plan.left}


@many
@given(snapshots(CROWDED), policies, st.integers(0, 800 * MIB))
def test_only_the_first_task_may_exceed_a_budget(
    snapshot: Snapshot, chosen: tuple[Policy, ...], budget: int
) -> None:
    plan = plan_of(snapshot, chosen, resolve({"budget-bytes": max(budget, 1)}))
    assert plan.input_bytes <= max(budget, max((t.input_bytes for t in plan.tasks), default=0))


@many
@given(snapshots(Shape(missing=0.0, blurred=0.0)), st.randoms(use_true_random=False))
def test_widening_bounds_never_removes_an_overlap(snapshot: Snapshot, rng: random.Random) -> None:
    if len(snapshot.blocks) < 2:
        return
    wide = _widened(snapshot.blocks, rng)
    assert (overlaps(rank_blocks(wide)) >= overlaps(rank_blocks(snapshot.blocks))).all()


def _widened(blocks: BlockSet, rng: random.Random) -> BlockSet:
    """Some blocks take the wider bound of another block in their first column."""
    lo, hi = blocks.lo[0].to_pylist(), blocks.hi[0].to_pylist()
    for _ in range(3):
        i, j = rng.randrange(len(lo)), rng.randrange(len(lo))
        if lo[i] is None or lo[j] is None:
            continue
        lo[i] = min(lo[i], lo[j], key=token)
        hi[i] = max(hi[i], hi[j], key=token)
    first = blocks.lo[0].type
    return replace(blocks, lo=(pa.array(lo, first), *blocks.lo[1:]), hi=(pa.array(hi, first), *blocks.hi[1:]))


@many
@given(snapshots(CROWDED), policies, choices)
def test_tasks_go_through_json(snapshot: Snapshot, chosen: tuple[Policy, ...], options: Options) -> None:
    plan = plan_of(snapshot, chosen, options)
    assert tuple(MergeTask.from_json(task.to_json()) for task in plan.tasks) == plan.tasks
    assert len({task.id for task in plan.tasks}) == len(plan.tasks)
    assert str(plan)
    assert plan.to_dict()["blocks"] == len(snapshot.blocks)


@many
@given(snapshots(Shape(columns=1, kinds=("int",))))
def test_drawn_blocks_parse_as_they_print(snapshot: Snapshot) -> None:
    assert snapshot.key is not None
    blocks = snapshot.blocks
    if any(end is not None and end < 0 for b in blocks for end in (b.lo[0], b.hi[0])):
        return  # a drawing has no minus sign
    text = print_blocks(snapshot)
    assert print_blocks(parse_blocks(text, snapshot.key)) == text
    again = list(parse_blocks(text, snapshot.key).blocks)
    assert [(b.path, b.lo, b.hi, b.level, b.bytes, b.partition) for b in again] == [
        (b.path, b.lo, b.hi, b.level, b.bytes, b.partition) for b in blocks
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", [RANGES, PEAKS, ADAPTIVE], ids=lambda p: p.name)
@pytest.mark.parametrize("seed", range(60))
def test_a_recluster_raises_the_depth_only_at_a_cut_shared_by_equal_keys(seed: int, policy: Policy) -> None:
    rng = random.Random(seed)
    table = MemoryTable("db.t", {"k": "int"})
    table.set_key(["k"])
    for _ in range(rng.randint(2, 8)):
        start, width = rng.randrange(60), rng.choice([0, 3, 20, 60])
        table.append([{"k": rng.randint(start, start + width)} for _ in range(rng.choice([2, 8, 20]))])
    adapter, runner = MemoryAdapter(table), MemoryRunner()
    options = resolve(
        {"max-rows-per-file": rng.choice([3, 7]), "depth-threshold": 1, "single-task-bytes": 1024}
    )
    for _ in range(3):
        snapshot = adapter.snapshot()
        plan = make_plan(snapshot, [policy], options, Env(now_ms=table.now_ms + 1000 * HOUR_MS))
        if not plan.tasks:
            break
        before = _depths(snapshot)
        made = [adapter.write(runner.merge(adapter.read(task), task), task, "run-1") for task in plan.tasks]
        adapter.commit(made, snapshot, "run")
        after = adapter.snapshot()
        added = {output.path for rewrite in made for output in rewrite.outputs}
        edges = [end for b in after.blocks if b.path in added for end in (b.lo[0], b.hi[0])]
        shared = {end for end in edges if edges.count(end) > 1}
        raised = {k for k, depth in enumerate(_depths(after)) if depth > before[k]}
        assert raised <= shared


def _depths(snapshot: Snapshot) -> list[int]:
    blocks = list(snapshot.blocks)
    return [sum(b.lo[0] <= k <= b.hi[0] for b in blocks) for k in range(130)]


@pytest.mark.sampled
def test_the_drawn_snapshots_make_plans() -> None:
    """The properties above prove something only if the plans have tasks."""
    for chosen in POLICIES:
        plans = [plan_of(draw_snapshot(random.Random(i), CROWDED), chosen, resolve()) for i in range(100)]
        assert sum(bool(plan.tasks) for plan in plans) > 40, chosen
