"""``universal`` against Paimon's picker, transcribed over plain numbers; whole plans against lists."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.config.layout_options import UniversalOptions
from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.layout.levels import frozen, full_size
from lakekeeper.core.layout.snapshot_index import place_of, table_line
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Merge, Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.sorted_runs import Unit, pick
from lakekeeper.testing.draws import Shape, as_snapshot, draw_snapshot
from lakekeeper.testing.lake import Settings
from tests.core.planning.paimon import Paimon
from tests.engine.scene import Scene, overlapping, rows

CROWDED = Shape(most=40, columns=1, partitions=2, kinds=("int",), missing=0.03)
WHOLE: dict[str, dict[str, Any]] = {
    "defaults": {},
    "trigger": {"universal.num-sorted-run.compaction-trigger": 2},
    "forced": {"universal.compaction.force-up-level-0": True, "universal.compaction.size-ratio": 0},
    "interval": {"universal.compaction.optimization-interval-ms": 500},
    "amplification": {"universal.compaction.max-size-amplification-percent": 100_000},
    "total size": {"universal.compaction.total-size-threshold-bytes": "1GB"},
    "incremental size": {"universal.compaction.incremental-size-threshold-bytes": "500MB"},
}


@pytest.mark.parametrize("options", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("part", range(2))
def test_plans_merge_the_blocks_of_the_runs_that_paimon_picks(part: int, options: dict[str, Any]) -> None:
    """A plan merges the blocks of the unit, except those on the output level, which form groups of their own."""
    due = 0
    for seed in range(part, 120, 2):
        rng = random.Random(seed)
        snapshot = draw_snapshot(rng, CROWDED)
        added = np.array([rng.choice([0, 100, 200, 900]) for _ in snapshot.blocks], np.int64)
        snapshot = as_snapshot(replace(snapshot.blocks, added_at=added), snapshot.key)
        resolved = resolve(options)
        every = np.arange(len(snapshot.blocks), dtype=np.intp)
        merges = [
            (choice.level, snapshot.blocks.path.take(pa.array(choice.blocks)).to_pylist())
            for choice in UNIVERSAL.choose(snapshot, every, resolved, Env(now_ms=1000))
            if isinstance(choice, Merge)
        ]
        merged = {path for _, paths in merges for path in paths}
        expected, level_of, out = _expected(snapshot, resolved, 1000)
        assert merged <= expected, seed
        assert all(level_of[path] == out[path] for path in expected - merged), seed
        assert all(level == out[path] for level, paths in merges for path in paths), seed
        due += bool(expected)
    assert due > 10


def _expected(
    snapshot: Snapshot, options: Options, now: int
) -> tuple[set[str], dict[str, int], dict[str, int]]:
    """The blocks of the unit by brute force, the level of each block, and the output level of those in the unit."""
    blocks = list(snapshot.blocks)
    line, place = table_line(snapshot, null_region=False), place_of(snapshot)
    still, full = frozen(snapshot.blocks, line, options), full_size(snapshot.blocks, options)
    level = snapshot.blocks.level_under(snapshot.key).tolist()
    found: set[str] = set()
    out: dict[str, int] = {}
    groups: dict[int, list[int]] = defaultdict(list)
    for i in range(len(blocks)):
        groups[int(place[i])].append(i)
    for mine in groups.values():
        ordered = sorted(mine, key=lambda i: (line.lo[i], line.hi[i], blocks[i].path))
        meets = {i: _meets(line, ordered, n) for n, i in enumerate(ordered)}
        wall = {i: still[i] or (not meets[i] and full[i]) for i in ordered}
        kept = []
        for n, i in enumerate(ordered):
            lone = (n == 0 or wall[ordered[n - 1]]) and (n + 1 == len(ordered) or wall[ordered[n + 1]])
            if not wall[i] and not (lone and not meets[i]):
                kept.append(i)
        runs: list[list[int]] = [
            [i] for i in sorted(kept, key=lambda i: (-blocks[i].added_at, blocks[i].path)) if level[i] == 0
        ]
        runs += [[i for i in kept if level[i] == n] for n in sorted({level[i] for i in kept} - {0})]
        if not runs:
            continue
        sized = [(level[run[0]], sum(blocks[i].bytes for i in run)) for run in runs]
        top = max(options.universal.trigger, sized[-1][0])
        last = max((blocks[i].added_at for i in kept if level[i] == top), default=None)
        unit = Paimon(options.universal, None if last is None else now - last).pick(sized)
        if unit:
            taken = [blocks[i].path for run in runs[: unit[0]] for i in run]
            found |= set(taken)
            out |= dict.fromkeys(taken, unit[1])
    return found, {b.path: n for b, n in zip(blocks, level, strict=True)}, out


def _meets(line: Any, ordered: list[int], n: int) -> bool:
    """Whether the block overlaps another by more than an end point: something starts before an earlier block ends."""
    i = ordered[n]
    before = any(line.hi[j] > line.lo[i] for j in ordered[:n])
    return before or any(
        line.lo[j] < max(line.hi[k] for k in ordered[: n + 1]) for j in ordered[n + 1 : n + 2]
    )


def test_a_single_run_needs_no_full_compaction_unless_level_0_is_forced() -> None:
    unit = pick(np.array([0]), np.array([10]), UniversalOptions(force_up_level_0=True), None)
    forced = Reason.of(Code.LEVEL_0_FORCED, level_0=1, runs=1)
    assert unit == Unit(1, 5, forced.plus(Reason.of(Code.FULL_COMPACTION, runs=1)))
    assert pick(np.array([5]), np.array([10]), UniversalOptions(force_up_level_0=True), None) is None


def plan_of(scene: Scene, **options: Any) -> Plan:
    return scene.plan("universal", options=options)


def test_full_size_data_in_the_order_of_the_key_is_never_rewritten() -> None:
    scene = overlapping(1, 10)
    for b in range(1, 30):
        scene.table.append(rows(*range(10 * b, 10 * b + 10)))
    size = int(scene.adapter.snapshot().blocks.bytes.min())
    options = {"target-file-size-bytes": max(size, 1024), "min-file-size-ratio": 0.01}
    scene.untouched(lambda: scene.run("universal", final=True, options=options))
    assert "no_overlap" in [left.reason.code for left in plan_of(scene, **options).left]


def test_it_ends_where_levels_are_not_stored() -> None:
    scene = overlapping(settings=Settings(stores_level=False))
    report = scene.run("universal", final=True, options={"max-rows-per-file": 3})
    assert report.rounds <= 3
    assert report.depth_after == 1.0


def test_a_unit_above_the_bounds_keeps_its_output_level_in_each_group() -> None:
    scene = overlapping(8, 20)
    size = int(scene.adapter.snapshot().blocks.bytes.max())
    plan = plan_of(scene, **{"max-file-group-size-bytes": 3 * max(size, 400)})
    assert len(plan.tasks) > 1
    assert {task.level for task in plan.tasks} == {5}
    groups = Reason.of(Code.GROUP_OF_RUNS, groups=len(plan.tasks))
    assert all(groups in task.reason.also for task in plan.tasks)


def test_percentages_of_large_tables_do_not_overflow() -> None:
    """40 PB, 40 PB and 80 PB at a ratio of 1,000% and an amplification of 1,000,000%."""
    huge = np.array([40 << 50, 40 << 50, 80 << 50], np.int64)
    unit = pick(
        np.array([0, 0, 2]),
        huge,
        UniversalOptions(trigger=3, size_ratio=1000, max_amplification=1_000_000),
        None,
    )
    assert unit is not None
    assert (unit.runs, unit.level) == (3, 3)
    assert (unit.why.code, unit.why["ratio"]) == ("size_ratio_of_all", 1000)
