"""``final=True`` ends below the depth threshold or with a reason, and a second call finds nothing to do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import depth_curve
from lakekeeper.core.layout.levels import frozen, partition_group, run_depth
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.testing.draws import draw_table
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter, Parts
from tests.engine.scene import IN_PARTS, Scene, overlapping, rows

PARTS = 10
TABLES = 500
LARGE = {"max-rows-per-file": "none", "target-file-size-bytes": 128 << 20}
OFF_BY_DEFAULT: list[dict[str, Any]] = [
    {},
    {"universal.compaction.total-size-threshold-bytes": 2000},
    {"universal.compaction.incremental-size-threshold-bytes": 500},
    {"universal.compaction.force-up-level-0": True},
]
"""Rules of ``universal`` that options switch on."""


@dataclass(frozen=True)
class Drawn:
    seed: int
    scene: Scene
    policy: str
    options: dict[str, Any]


def drawn(part: int) -> Iterator[Drawn]:
    for seed in range(part, TABLES, PARTS):
        rng = random.Random(seed)
        scene = Scene(draw_table(rng))
        options: dict[str, Any] = {
            "max-rows-per-file": rng.choice([1, 3, 10]),
            "depth-threshold": rng.choice([1, 2, 3]),
        }
        if rng.random() < 0.3:
            options["max-file-group-input-files"] = rng.choice([2, 3])
        if rng.random() < 0.3:
            options["single-task-bytes"] = 1024
        if rng.random() < 0.2:
            options["max-level"] = rng.choice([1, 2])
        if rng.random() < 0.2:
            options |= IN_PARTS
        if rng.random() < 0.2:
            options["depth-threshold-ratio"] = rng.choice([0.1, 0.5])
        yield Drawn(seed, scene, ["ranges", "peaks"][seed // PARTS % 2], options)


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(PARTS))
def test_a_final_run_of_500_random_tables_ends(part: int) -> None:
    for case in drawn(part):
        scene = case.scene
        before = {v.number: scene.table.fingerprint(v.number) for v in scene.table.versions}
        report = scene.run(case.policy, final=True, options=case.options)
        assert {number: scene.table.fingerprint(number) for number in before} == before, case
        assert scene.table.fingerprint() == before[max(before)], case
        assert scene.table.leftovers() == set(), case
        assert all(group.status == "committed" for group in report.groups), case
        assert report.ended.code in ("nothing_to_do", "nothing_left"), (case, report.ended)
        # None of these tables needs more: merges that improve nothing would continue up to the highest level.
        assert report.rounds <= 8, (case, report.rounds)
        _settled(case)
        scene.untouched(lambda s=scene, c=case: s.run(c.policy, final=True, options=c.options))  # type: ignore[misc]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["adaptive", "universal"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_final_run_of_adaptive_or_universal_ends_and_a_second_call_finds_nothing(
    part: int, policy: str
) -> None:
    for case in drawn(part):
        if case.seed % 3:
            continue
        scene = case.scene
        before = scene.table.fingerprint()
        if policy == "universal" and case.seed % 2:
            case.options["universal.num-sorted-run.compaction-trigger"] = 2
        if policy == "universal":
            case.options.update(OFF_BY_DEFAULT[case.seed // 2 % len(OFF_BY_DEFAULT)])
        report = scene.run(policy, final=True, options=case.options)
        assert scene.table.fingerprint() == before, case
        assert all(group.status == "committed" for group in report.groups), case
        assert report.ended.code in ("nothing_to_do", "nothing_left"), (case, report.ended)
        assert report.rounds <= 4, (case, report.rounds)
        plan = scene.plan(policy, options=case.options)
        assert plan.blocks == sum(left.blocks for left in plan.left), case
        scene.untouched(lambda s=scene, c=case: s.run(policy, final=True, options=c.options))  # type: ignore[misc]


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(PARTS))
def test_calls_after_a_day_a_week_and_months_come_to_an_end(part: int) -> None:
    """Age makes more merges due, so one call is not the last one; but nothing is merged again and again."""
    for case in drawn(part):
        if case.seed % 3:
            continue
        scene = case.scene
        before = scene.table.fingerprint()
        for days in (0, 1, 7, *[30] * 5):
            scene.later(days)
            _pass(case)
        assert scene.table.fingerprint() == before, case
        for days in (1, 7, 30):
            scene.later(days)
            scene.untouched(lambda c=case: _pass(c))  # type: ignore[misc]  # bound at once


def _pass(case: Drawn) -> None:
    for verb in ("adaptive", "sizes", "deletes"):
        case.scene.run(verb, options=case.options)


def _settled(case: Drawn) -> None:
    """Every block is accounted for; in a level deeper than its threshold, each block has the reason why it is left."""
    request = case.scene.request(case.policy, options=case.options)
    plan = case.scene.plan(case.policy, options=case.options)
    snapshot = case.scene.adapter.snapshot()
    assert plan.tasks == ()
    reason = {path: left.reason.code for left in plan.left for path in left.paths.to_pylist()}
    assert set(reason) == set(snapshot.blocks.path.to_pylist())
    assert snapshot.key is not None
    level = snapshot.blocks.level_under(snapshot.key)
    for blocks, own in _levels(snapshot.blocks, level, request.options):
        above_run = run_depth(len(snapshot.key.columns)) if own else 0
        ratio = request.options.planning.depth_threshold_ratio
        threshold = request.options.planning.depth_threshold if ratio is None else max(1, ratio * len(blocks))
        if _average(blocks) <= max(threshold, above_run):
            continue
        given = {reason[path] for path in blocks.path.to_pylist()}
        assert given <= {"max_level", "no_room", "no_partner"}, case


def _levels(blocks: BlockSet, level: Any, options: Options) -> Iterator[tuple[BlockSet, int]]:
    """The mergeable blocks of each (partition, spec, level)."""
    if not len(blocks):
        return
    still = frozen(blocks, rank_blocks(blocks, null_region=False), options)
    code = partition_group(blocks) * 1000 + level
    for value in np.unique(code[~still]):
        yield blocks.take((code == value) & ~still), int(value % 1000)


def _average(blocks: BlockSet) -> float:
    folded = depth_curve(rank_blocks(blocks, null_region=False)).folded
    over = folded[folded > 1]
    return float(over.mean()) if len(over) else 1.0


def test_the_second_call_commits_nothing_and_reads_no_data_file() -> None:
    scene = overlapping()
    first = scene.run()
    assert (first.commits, first.depth_before, first.depth_after) == (1, 6.0, 1.0)
    scene.untouched(scene.run)
    assert scene.run().ended.code == "nothing_to_do"


@pytest.mark.parametrize("policy", ["adaptive", "ranges", "peaks", "universal"])
def test_a_sorted_compound_key_is_not_sorted_again(policy: str) -> None:
    """Few values in the first column: boxes of one sorted run overlap, and no merge can improve that."""
    table = MemoryTable("db.t", {"c": "string", "k": "int"})
    for b in range(6):
        table.append([{"c": "abcde"[i % 5], "k": (7 * i + b) % 100} for i in range(60)])
    table.set_key(["c", "k"])
    scene = Scene(table)
    assert scene.run(policy, final=True).rounds == 1
    assert scene.run(policy).ended.code == "nothing_to_do"


def test_a_nullable_last_column_is_not_sorted_again() -> None:
    table = MemoryTable("db.t", {"c": "string", "k": "int"})
    for b in range(6):
        table.append([{"c": "ab"[i % 2], "k": None if i % 3 else (7 * i + b) % 50} for i in range(60)])
    table.set_key(["c", "k"])
    assert Scene(table).run(final=True).rounds == 1


def test_a_nullable_first_column_is_not_sorted_again() -> None:
    """A file with the last NULLs and the first rows of a value is no file of that value only."""
    rng = random.Random(1)
    settings = Settings(byte_scale=1 << 18)
    table = MemoryTable("db.t", {"c": "string", "day": "int", "v": "string"}, settings=settings)
    for _ in range(6):
        table.append(
            [
                {
                    "c": rng.choice([None, "de", "de"]),
                    "day": rng.randrange(5),
                    "v": "x" * rng.randrange(8, 12),
                }
                for _ in range(40)
            ]
        )
    table.set_key(["c", "day"])
    scene = Scene(table)
    assert _rewritten(scene, "adaptive", options=LARGE) > 0
    assert [_rewritten(scene, "adaptive", options=LARGE) for _ in range(4)] == [0, 0, 0, 0]


def _rewritten(scene: Scene, *policies: str, options: dict[str, Any]) -> int:
    """Files that a pass rewrites a day later."""
    scene.later(days=1)
    return scene.run(*policies, options=options).rewritten_data_files_count


def test_packed_files_are_not_packed_again_if_a_task_takes_less_than_a_file() -> None:
    table = MemoryTable("db.t", {"k": "int", "v": "string"}, settings=Settings(byte_scale=1 << 18))
    for b in range(40):
        table.append([{"k": 100 * b + i, "v": "x" * 8} for i in range(2)])
    table.set_key(["k"])
    scene = Scene(table)
    options = {**LARGE, "single-task-bytes": 64 << 20}
    assert _rewritten(scene, "sizes", options=options) == 40
    assert [_rewritten(scene, "sizes", options=options) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("value", [7, None])
def test_a_constant_key_is_packed_once_and_frozen(value: int | None) -> None:
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for _ in range(7):
        table.append(rows(*[value] * 4))
    table.set_key(["k"])
    scene = Scene(table)
    report = scene.run(final=True)
    assert report.rounds == 1
    blocks = scene.adapter.snapshot().blocks
    assert sorted(blocks.rows.tolist()) == [8, 10, 10]
    assert {left.level for left in scene.plan().left} == {-1}


def test_giant_rows_are_files_of_their_own() -> None:
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for b in range(4):
        table.append([{"k": k, "v": "x" * 5000} for k in range(b, 8, 4)])
    table.set_key(["k"])
    scene = Scene(table)
    assert scene.run(final=True).rounds == 1
    assert scene.adapter.snapshot().blocks.rows.tolist() == [1] * 8


def test_giant_rows_that_the_writer_keeps_in_one_file_are_not_written_again() -> None:
    """Iceberg's writer looks at the size once in 1,000 rows: no merge cuts the files that it wrote before."""

    class Rolling(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
            return super().write(rows, replace(task, target_bytes=1 << 40), run_id)

    table = MemoryTable("db.t", {"k": "int", "v": "string"}, settings=Settings(byte_scale=1 << 12))
    for b in range(4):
        table.append([{"k": k, "v": "x" * 5000} for k in range(b, 20, 4)])
    table.set_key(["k"])
    scene = Scene(table)
    scene.adapter = Rolling(table)
    options = {**LARGE, "target-file-size-bytes": 16 << 20}
    assert _rewritten(scene, "adaptive", options=options) == 4
    assert [b.rows for b in scene.adapter.snapshot().blocks] == [20]
    assert [_rewritten(scene, "adaptive", options=options) for _ in range(3)] == [0, 0, 0]


def test_truncated_constants_are_frozen() -> None:
    """All values are equal in the part that the statistics keep: no merge makes the bounds narrower."""
    table = MemoryTable("db.t", {"k": "string", "v": "string"}, settings=Settings(truncate=4))
    for b in range(5):
        table.append([{"k": f"same-{b}-{i}", "v": ""} for i in range(10)])
    table.set_key(["k"])
    scene = Scene(table)
    assert scene.run(final=True).rounds <= 1
    scene.untouched(lambda: scene.run(final=True))


def test_a_budget_ends_a_final_run_early_and_is_reported() -> None:
    scene = overlapping(8, 20)
    size = int(scene.adapter.snapshot().blocks.bytes.sum())
    report = scene.run("full", "sizes", final=True, options={"budget-bytes": size // 2})
    assert report.rewritten_bytes_count <= size
    assert report.rounds == 1


def test_the_rounds_of_a_final_run_are_bounded() -> None:
    options = {"max-file-group-input-files": 2, "depth-threshold": 1}
    whole = overlapping(8).run("peaks", final=True, options=options)
    bounded = overlapping(8).run("peaks", final=True, options={**options, "max-rounds": 1})
    assert whole.rounds > 1
    assert (bounded.rounds, bounded.ended.code) == (1, "max_rounds")


def test_lost_levels_do_not_make_a_final_run_endless() -> None:
    """A format that cannot store levels: every block stays at level 0."""
    scene = overlapping(settings=Settings(stores_level=False))
    report = scene.run(final=True, options={"max-rows-per-file": 3})
    assert report.rounds <= 2
    assert report.depth_after == 1.0
