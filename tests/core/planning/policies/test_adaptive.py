"""``adaptive``: what it merges, what it leaves, and that it ends. Cases A-01 to A-17 come from its first review."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect
from tests.bench.ingests import arrivals_of
from tests.core.paper import BEGAN, DAY_MS, HOUR_MS, TARGET, at, inputs, plan_of, reasons, snapshot_of

GIB = 1 << 30


def workload_of(*filters: dict[str, Span], per_hour: float = 60, until: float = 100.0) -> Workload:
    """These queries in turn, at an even rate until so many hours after BEGAN."""
    n = max(int(per_hour * 24), len(filters))
    scans = [
        Scan(
            int(BEGAN + (until - i / per_hour) * HOUR_MS),
            {c: (s,) for c, s in filters[i % len(filters)].items()},
            tuple(filters[i % len(filters)]),
        )
        for i in range(n)
    ]
    end = int(BEGAN + until * HOUR_MS)
    return collect("t", scans, source="test", start_ms=end - int(n / per_hour * HOUR_MS), end_ms=end)


# ------------------------------------------------------------------------------------------------ what is due


def test_two_files_are_due_once_overlap_has_cost_queries_as_much_as_a_merge() -> None:
    """By hand. One query a minute opens both files; sorted, it would open one, and for 1% of the rows 0.02 more.

    Reading a file costs 4 + 0.2 · 128 = 29.6 MiB, so each query pays 2 · 29.6 - 1.02 · 29.6 = 29.0 MiB too much. A
    merge costs 5 · 256 + 2 · 4 = 1,288 MiB, and is due at 0.7 of that, 901.6 MiB: after 31.1 queries.
    """
    two = snapshot_of([(0, 1000, TARGET, 0), (0, 1000, TARGET, 0)])
    assert plan_of(two, at(31 / 60)).tasks == ()
    plan = plan_of(two, at(32 / 60))
    assert inputs(plan) == ["ab"]
    why = plan.tasks[0].reason
    assert (why.code, why["files"], why["merge_bytes"]) == ("overlap_paid", 2, 1288 << 20)
    assert why["overlap_bytes"] == pytest.approx(32 * 29.01 * (1 << 20), rel=1e-3)


def test_files_that_are_not_due_say_how_long_it_takes() -> None:
    two = snapshot_of([(0, 1000, TARGET, 0), (0, 1000, TARGET, 1)])
    for hours in (1.2, 1.0):
        (soon,) = plan_of(two, at(hours)).left
        assert soon.reason == Reason.of(Code.NOT_DUE, within_ms=HOUR_MS, queries_per_hour=60.0)
    (rare,) = plan_of(two, at(1.1), queries_per_hour=3).left
    assert rare.reason == Reason.of(Code.NOT_DUE, within_ms=DAY_MS, queries_per_hour=3.0)
    never = plan_of(two, at(1.1), queries_per_hour=0.001)
    assert reasons(never) == {"not_due_soon": 2}


def test_wide_files_are_merged_and_narrow_ones_wait() -> None:
    apart = [(1000 * i, 1000 * i + 999, TARGET, 0) for i in range(20)]
    narrow = [*apart, (100, 900, TARGET, 1), (200, 800, TARGET, 2)]
    assert plan_of(snapshot_of(narrow), at(4)).tasks == ()
    assert inputs(plan_of(snapshot_of(narrow), at(20))) == ["auv"]


def test_a_large_run_is_left_out_of_a_merge_that_small_ones_pay_for() -> None:
    """All of them have paid, and so have the ten new files alone: without the run, far less is rewritten."""
    run = [(100 * i, 100 * i + 99, TARGET, 1) for i in range(100)]
    fresh = [(0, 9999, TARGET, 2 + t / 60) for t in range(10)]
    assert [len(t.inputs) for t in plan_of(snapshot_of([*fresh, *run]), at(4)).tasks] == [10]
    small = [*fresh, *((1000 * i, 1000 * i + 999, TARGET, 1) for i in range(10))]
    assert [len(t.inputs) for t in plan_of(snapshot_of(small), at(8)).tasks] == [20]


def test_data_that_arrives_in_key_order_is_never_rewritten() -> None:
    rows = [(100 * i, 100 * i + 100, TARGET, i) for i in range(300)]
    plan = plan_of(snapshot_of(rows), at(10_000), queries_per_hour=1e6)
    assert plan.tasks == ()
    assert reasons(plan) == {"no_gain": 300}


def test_one_plan_weighs_each_partition_by_itself() -> None:
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    n = 40
    columns: dict[str, Any] = {
        "path": [f"f{i:02d}" for i in range(n)],
        "partition": [f"p={i % 10}" for i in range(n)],
        "rows": [1000] * n,
        "bytes": [1_000_000] * n,
        "lo": [[0] * n],
        "hi": [[9] * n],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        "added_at": [BEGAN] * n,
    }
    plan = plan_of(Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key)), at(10))
    assert sorted(task.partition for task in plan.tasks) == [f"p={i}" for i in range(10)]
    assert all(len(task.inputs) == 4 for task in plan.tasks)


def test_full_files_of_one_key_are_frozen_and_small_ones_merged_only_into_fewer() -> None:
    same = [(5, 5, size * TARGET // 100, t) for t, size in enumerate([90, 90, 30, 30, 30])]
    plan = plan_of(snapshot_of(same), at(100))
    assert inputs(plan) == ["cde"]
    assert any(left.level == -1 and left.blocks == 2 for left in plan.left)


def test_merged_files_without_statistics_are_not_merged_again() -> None:
    rows = [(None, None, 1_000_000, t) for t in range(4)]
    assert plan_of(snapshot_of(rows, level=1), at(99)).tasks == ()
    assert len(plan_of(snapshot_of(rows), at(99)).tasks) == 1


# ------------------------------------------------------------------------------------------------ cases of the review


def played(keys: np.ndarray, *, days: float, rounds: int, **options: Any) -> list[tuple[float, float]]:
    """One load of files with these keys, ``days`` old: per round, the share of bytes rewritten and the depth after."""
    arrivals = arrivals_of(keys, edges=np.array([0, len(keys)]))
    world = World.empty(arrivals)
    world.arrive(0)
    total, course = int(world.bytes.sum()), []
    for _ in range(rounds):
        now = arrivals.time_of(0) + int(days * DAY_MS)
        env = replace(at(0), now_ms=now, parts=world.parts)
        plan = make_plan(world.snapshot(), [ADAPTIVE], resolve(options), env)
        if not plan.tasks:
            break
        world.merge(plan.tasks, 0)
        # Outputs are as old as the merge, not as the load.
        fresh = ~np.isin(world.number, [int(p) for p in world.parts])
        world.added[fresh & (world.level > 0)] = now
        points = np.sort(keys, axis=None)[:: max(1, keys.size // 500)]
        depth = float(((world.lo[:, None] <= points) & (points <= world.hi[:, None])).sum(axis=0).mean())
        course.append((plan.input_bytes / total, depth))
    return course


@pytest.mark.parametrize("files", [500, 3000])
def test_a01_the_next_round_takes_what_a_bound_cut_off(files: int) -> None:
    keys = np.random.default_rng(files).random((files, 256))
    course = played(keys, days=30, rounds=10)
    assert sum(size for size, _ in course) < 2.2
    assert course[-1][1] < 2.5
    assert len(course) < 10


def test_a01_the_plan_says_that_a_bound_cut_it() -> None:
    rows = [(0, 1000, TARGET, 0)] * 300
    plan = plan_of(snapshot_of(rows), at(2))
    assert all("part_of_merge" in task.reason.codes and task.added_ms == BEGAN for task in plan.tasks)
    assert all(task.input_bytes <= 16 * GIB for task in plan.tasks)


def partitioned(days: int, files: int, hours: float = 0) -> Snapshot:
    """Files that each cover the whole key, ``files`` of them in each of ``days`` daily partitions."""
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    n = days * files
    columns = {
        "path": [f"f{i:05d}" for i in range(n)],
        "partition": [json.dumps({"day": f"d{i // files:04d}"}) for i in range(n)],
        "rows": [1000] * n,
        "bytes": [TARGET] * n,
        "added_at": [int(BEGAN + hours * HOUR_MS)] * n,
        "lo": [[0] * n],
        "hi": [[999] * n],
        "null_count": [[0] * n],
        "exact": [[True] * n],
    }
    return Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key))


def test_a02_only_the_partition_that_queries_read_is_merged() -> None:
    snapshot = partitioned(300, 24)
    queries = workload_of(*({"day": Span("d0299", "d0299"), "k": Span(k, k)} for k in range(0, 1000, 7)))
    env = at(100, workload=queries)
    plan = explained(plan_of(snapshot, env), snapshot, resolve(), env.now_ms, queries)
    assert [task.partition for task in plan.tasks] == ['{"day": "d0299"}']
    assert plan.prediction is not None
    assert plan.prediction.worth.before.files == pytest.approx(24)
    assert plan.prediction.worth.after.files < 1.2


def test_a03_without_queries_by_the_key_nothing_is_rewritten_and_the_plan_names_a_better_key() -> None:
    rows = [(0, 1000, TARGET, t / 60) for t in range(100)]
    snapshot = snapshot_of(rows)
    scans = workload_of({}, per_hour=1000)
    assert plan_of(snapshot, at(100, workload=scans)).tasks == ()
    other = plan_of(snapshot, at(100, workload=workload_of({"c": Span(3, 3)}, per_hour=1000)))
    assert other.tasks == ()
    assert {left.reason: left.blocks for left in other.left} == {
        Reason.of(Code.OTHER_KEY_FILTERED, key="k", column="c", share=1.0): 100
    }


def test_a03_without_queries_nothing_is_rewritten() -> None:
    snapshot = snapshot_of([(0, 1000, TARGET, t / 60) for t in range(100)])
    silent = collect("t", [], source="test", start_ms=BEGAN, end_ms=BEGAN + DAY_MS)
    plan = plan_of(snapshot, at(100, workload=silent))
    assert reasons(plan) == {"empty_workload": 100}
    plan = plan_of(snapshot, at(100), queries_per_hour=0)
    assert reasons(plan) == {"no_queries": 100}


def test_a04_overlap_keeps_costing_after_the_last_write() -> None:
    rng = random.Random(4)
    rows = [(lo, lo + 5000, TARGET, 0) for lo in (rng.randrange(100_000) for _ in range(60))]
    assert plan_of(snapshot_of(rows), at(1)).tasks == ()
    later = plan_of(snapshot_of(rows), at(240))
    assert sum(len(task.inputs) for task in later.tasks) > 40


def test_a09_files_of_a_run_whose_boxes_only_touch_are_left() -> None:
    """A perfect run of 300 files under a key of three columns, and five new files: only the new ones are merged."""
    rng, digits, files = np.random.default_rng(0), (12, 20, 1000), 300
    total = int(np.prod(digits))
    run = np.sort(rng.integers(0, total, files * 64)).reshape(files, 64).astype(np.float64)
    keys = np.concatenate([run, rng.integers(0, total, (5, 64)).astype(np.float64)])
    edges = np.concatenate([[0], files + np.arange(6)])
    arrivals = arrivals_of(keys, digits=digits, edges=edges)
    level = np.concatenate([np.ones(files, np.int64), np.zeros(5, np.int64)])
    world = World.empty(replace(arrivals, level=level))
    for commit in range(6):
        world.arrive(commit)
    for hours in (1, 20, 40):
        now = arrivals.time_of(5) + hours * HOUR_MS
        plan = make_plan(world.snapshot(), [ADAPTIVE], resolve(), replace(at(0), now_ms=now))
        assert [len(task.inputs) for task in plan.tasks] == [5]
    alone = replace(
        arrivals_of(run, digits=digits, edges=np.array([0, files])), level=np.ones(files, np.int64)
    )
    world = World.empty(alone)
    world.arrive(0)
    now = alone.time_of(0) + 30 * DAY_MS
    plan = make_plan(world.snapshot(), [ADAPTIVE], resolve(), replace(at(0), now_ms=now))
    assert plan.input_bytes < 0.1 * world.bytes.sum()


def test_a11_files_of_mostly_null_are_merged_for_queries_for_null() -> None:
    rows = [(10 * i, 10 * i + 9, TARGET, 0) for i in range(100)]
    nulls: dict[str, Any] = {"null_count": [[990] * 100]}
    snapshot = snapshot_of(rows, **nulls)
    by_value = workload_of(*({"k": Span(k, k)} for k in range(0, 1000, 7)))
    assert plan_of(snapshot, at(100, workload=by_value)).tasks == ()
    by_null = workload_of({"k": Span(null=True)}, per_hour=600)
    env = at(100, workload=by_null)
    plan = explained(plan_of(snapshot, env), snapshot, resolve(), env.now_ms, by_null)
    assert plan.prediction is not None
    assert plan.prediction.worth.before.files == 100


def test_a12_partitions_that_no_query_filters_are_judged_by_the_workload() -> None:
    snapshot = partitioned(500, 2)
    everywhere = workload_of(*({"k": Span(k, k)} for k in range(0, 1000, 7)))
    env = at(100, workload=everywhere)
    plan = explained(plan_of(snapshot, env), snapshot, resolve(), env.now_ms, everywhere)
    assert plan.prediction is not None
    assert plan.prediction.worth.before.files == pytest.approx(1000)
    assert len(plan.tasks) == 500
    alone = plan_of(snapshot, at(1))
    assert alone.tasks == ()


@pytest.mark.parametrize(
    "sizes", [[10 * GIB] * 2, [17 * GIB] * 5, [100 * GIB] * 3, [5 * GIB] * 20, [20 * GIB] + [TARGET] * 50]
)
def test_a13_giant_files_are_cut_or_merged(sizes: list[int]) -> None:
    rows = [(0, 10**9, size, 0) for size in sizes]
    plan = plan_of(snapshot_of(rows), at(100))
    assert sum(len(task.inputs) for task in plan.tasks) == len(sizes)
    for task in plan.tasks:
        assert task.input_bytes <= 16 * GIB or len(task.inputs) == 1
        if task.input_bytes > 16 * GIB:
            assert task.reason.codes == ("large_file_paid", "above_group_limit")


def test_a15_a_budget_takes_most_of_the_gain() -> None:
    had = []
    for seed in range(40):
        rng = random.Random(seed)
        rows = []
        for c in range(12):
            width, hours = rng.choice([50, 400, 900]), rng.uniform(0, 90)
            rows += [
                (1000 * c, 1000 * c + width, rng.choice([8, 64, 128]) << 20, hours)
                for _ in range(rng.randint(2, 9))
            ]
        snapshot, env = snapshot_of(rows), at(100)
        whole = explained(plan_of(snapshot, env), snapshot, resolve(), env.now_ms)
        if len(whole.tasks) < 4:
            continue
        budget = whole.input_bytes // 4
        some = explained(plan_of(snapshot, env, budget_bytes=budget), snapshot, resolve(), env.now_ms)
        pairs = sorted(
            ((t.worth.gain_per_second / t.input_bytes, t) for t in whole.tasks if t.worth),
            key=lambda p: -p[0],
        )
        best, spent = 0.0, 0
        for each, task in pairs:
            if not spent or spent + task.input_bytes <= budget:
                spent, best = spent + task.input_bytes, best + each * task.input_bytes
        had.append(sum(t.worth.gain_per_second for t in some.tasks if t.worth) / best)
    assert len(had) > 20
    assert np.mean(had) > 0.98
    assert min(had) > 0.9


def test_a17_the_score_and_the_policy_use_the_same_rate() -> None:
    """At twice the query rate, a merge is due in half the time, and pays back in half the time."""
    two = snapshot_of([(0, 1000, TARGET, 0), (0, 1000, TARGET, 0)])
    due = {}
    for rate in (60, 120):
        plans = (plan_of(two, at(m / 60), queries_per_hour=rate) for m in range(200))
        due[rate] = next(m for m, plan in enumerate(plans) if plan.tasks)
        env = at(10)
        plan = explained(
            plan_of(two, env, queries_per_hour=rate), two, resolve({"queries-per-hour": rate}), env.now_ms
        )
        (task,) = plan.tasks
        assert task.worth is not None
        assert task.worth.pays_back_seconds == pytest.approx(60 / rate * 1288 / 29.0 * 60, rel=0.05)
    assert due[120] == pytest.approx(due[60] / 2, abs=1)


# ------------------------------------------------------------------------------------------------ the workload


def test_files_that_queries_read_are_merged_first() -> None:
    """Two pairs of overlapping files, far apart, in a table of a hundred blocks: queries read only one of them."""
    run = [(1000 * i, 1000 * i + 999, TARGET, 1) for i in range(100)]
    heaps = [(50_100, 50_900, TARGET, 2), (90_100, 90_900, TARGET, 2)]
    snapshot = snapshot_of([*run, *heaps])
    assert plan_of(snapshot, at(10)).tasks == ()
    (task,) = plan_of(snapshot, at(10, workload=workload_of({"k": Span(90_350, 90_350)}, until=10))).tasks
    assert sorted(task.inputs) == ["m3", "x3"]
    assert plan_of(snapshot, at(10, workload=workload_of({"k": Span(10_350, 10_350)}, until=10))).tasks == ()


@pytest.mark.parametrize("rows", [50, 45, 40, 35, 30])
def test_a_sorted_run_of_more_files_than_estimated_is_final(rows: int) -> None:
    """A writer that aims below ``max-rows-per-file`` makes as many files again: the run was rewritten day after day."""
    key = ClusterKey((KeyColumn(("c",), "int", "1"), KeyColumn(("k",), "int", "2")))
    drawn = random.Random(25)
    run = sorted((drawn.choices((0, 1), (2, 1))[0], drawn.randrange(10)) for _ in range(1_800))
    files = [run[start : start + rows] for start in range(0, len(run), rows)]
    made = make_blocks(
        {
            "path": [f"f{number:03d}" for number in range(len(files))],
            "rows": [10_000 * len(file) for file in files],
            "bytes": [len(file) << 19 for file in files],
            "level": [1] * len(files),
            "key_id": [key.key_id] * len(files),
            "lo": [[min(row[column] for row in file) for file in files] for column in (0, 1)],
            "hi": [[max(row[column] for row in file) for file in files] for column in (0, 1)],
            "null_count": [[0] * len(files)] * 2,
            "exact": [[True] * len(files)] * 2,
            "added_at": [BEGAN] * len(files),
        },
        key,
    )
    snapshot = Snapshot("t", "iceberg", 1, "u", "0", key, made)
    env = Env(now_ms=BEGAN + 30 * DAY_MS)
    assert not make_plan(snapshot, [ADAPTIVE], resolve({"max-rows-per-file": 500_000}), env).tasks
