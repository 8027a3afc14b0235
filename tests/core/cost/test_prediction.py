"""The explanation of a plan: it lists every live block once, and its numbers add up."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained, files_predicted, scan_error
from lakekeeper.core.cost.query_ranges import key_line_of
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.layout.rank_boundaries import curve_index, placed
from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.boundaries import MOST
from lakekeeper.core.model.plan import MergeTask, Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect
from lakekeeper.errors import AdapterError
from lakekeeper.testing import draws
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.draws import Shape
from lakekeeper.testing.strategies import snapshots
from tests.core.layout.curve_files import even, files_of, key_of
from tests.sampling import fewer

CROWDED = Shape(most=40, columns=2, partitions=2)
POLICIES: list[tuple[Policy, ...]] = [(RANGES,), (PEAKS, SIZES), (SIZES, DELETES), (FULL,)]
OPTIONS = resolve({"depth-threshold": 1})


def explain(snapshot: Snapshot, chosen: tuple[Policy, ...], workload: Workload | None = None) -> Plan:
    return explained(make_plan(snapshot, chosen, OPTIONS, Env()), snapshot, OPTIONS, 0, workload)


def random_workload(snapshot: Snapshot, rng: random.Random) -> Workload | None:
    """Queries on the first key column whose bounds are those of blocks."""
    if snapshot.key is None or not len(snapshot.blocks) or rng.random() < 0.3:
        return None
    from lakekeeper.core.model.keys import to_json_value

    column = snapshot.key.columns[0]
    bounds = [b.as_py() for b in snapshot.blocks.lo[0] if b.is_valid] or [None]
    values = [to_json_value(rng.choice(bounds), column.kind) for _ in range(5)]
    return collect("t", [Scan(i, {column.name: (Span(v, v),)}) for i, v in enumerate(values)], source="drawn")


@settings(max_examples=fewer(150), derandomize=True, deadline=None)
@given(snapshots(CROWDED), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_every_live_block_is_listed_exactly_once_and_the_numbers_add_up(
    snapshot: Snapshot, chosen: tuple[Policy, ...], rng: random.Random
) -> None:
    plan = explain(snapshot, chosen, random_workload(snapshot, rng))
    table = plan.rows().to_pydict()
    assert sorted(table["path"]) == sorted(snapshot.blocks.path.to_pylist())
    assert all(table["reason"])
    assert all(table["reason_text"])
    assert set(table["action"]) <= {"merge", "leave", "freeze"}
    in_group = [g is not None for g in table["group"]]
    assert in_group == [a == "merge" for a in table["action"]]
    sizes = dict(zip(snapshot.blocks.path.to_pylist(), snapshot.blocks.bytes.tolist(), strict=True))
    assert table["bytes"] == [sizes[p] for p in table["path"]]
    assert all(0 <= share <= 1 + 1e-9 for share in table["files_per_query"])
    worths = [t.worth for t in plan.tasks if t.worth]
    assert len(worths) == len(plan.tasks)
    assert plan.prediction is not None
    now = plan.prediction.worth.before.files
    assert now == pytest.approx(sum(table["files_per_query"]))
    left = sum(item.files_per_query or 0 for item in plan.left)
    files_of = {
        task.id: sum(f for f, g in zip(table["files_per_query"], table["group"], strict=True) if g == task.id)
        for task in plan.tasks
    }
    assert now == pytest.approx(left + sum(files_of.values()))
    for task, worth in zip(plan.tasks, worths, strict=True):
        # Without a workload, what `sizes` packs is weighed by queries that read everything.
        packs = task.policy == "sizes" and worth.before.files == len(task.inputs)
        assert worth.before.files == pytest.approx(files_of[task.id]) or packs
    assert all(0 <= w.score <= 100 and w.work > 0 and w.after.files >= 0 for w in worths)
    assert str(plan)


@settings(max_examples=fewer(50), derandomize=True, deadline=None)
@given(snapshots(CROWDED))
def test_a_task_with_its_worth_goes_through_json(snapshot: Snapshot) -> None:
    for task in explain(snapshot, (RANGES, SIZES)).tasks:
        assert MergeTask.from_json(task.to_json()) == task


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_task_is_the_same_whichever_tasks_were_read_before(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = "\n".join(f"L0 f{i}{j} {100 * i + j}----{100 * i + 50} 10MB" for i in range(5) for j in range(3))
    snapshot = parse_blocks(drawn, parse_key("k:int"))
    expected = list(explain(snapshot, (RANGES,)).tasks)
    assert [len(task.inputs) for task in expected] == [3] * 5
    monkeypatch.setattr("lakekeeper.core.planning.planner.PAGE", page)
    tasks = explain(snapshot, (RANGES,)).tasks
    assert [tasks[i] for i in (4, 0, 3, 1, 2)] == [expected[i] for i in (4, 0, 3, 1, 2)]
    assert tasks[-2:] == tuple(expected[-2:])


def test_a_plan_that_was_not_explained_has_rows_too() -> None:
    snapshot = as_snapshot(6)
    table = make_plan(snapshot, (RANGES,), OPTIONS, Env()).rows().to_pydict()
    assert len(table["path"]) == 6
    assert set(table["files_per_query"]) == {None}


def as_snapshot(blocks: int) -> Snapshot:
    return parse_blocks("\n".join(f"L0 f{i} 1----90 10MB" for i in range(blocks)), parse_key("k:int"))


def test_the_error_counts_only_scans_that_report_how_many_files_they_opened() -> None:
    snapshot = as_snapshot(4)
    scans = [Scan(i, {}, files_read=n) for i, n in enumerate((4, 4, 5, None))]
    seen = collect("t", scans, source="test")
    assert files_predicted(reads_of(snapshot, seen, 0), scans[:2]) == [4.0, 4.0]
    assert error_of(snapshot, seen) == 0.0
    assert error_of(snapshot, collect("t", scans[2:3], source="test")) == pytest.approx(0.2)
    assert error_of(snapshot, collect("t", scans[3:], source="test")) is None


def error_of(snapshot: Snapshot, seen: Workload) -> float | None:
    return scan_error(reads_of(snapshot, seen, 0), seen)


def test_the_files_of_each_scan_are_those_of_a_workload_of_this_scan_alone() -> None:
    drawn = "\n".join(f"L0 f{i} {10 * i}----{10 * i + 30} 10MB" for i in range(20))
    snapshot = parse_blocks(drawn, parse_key("k:int"))
    spans = [
        (Span(5, 42),),
        (Span(None, 70, before=True), Span(150, None)),
        (Span(null=True),),
        (Span("x", "x"),),
        (Span(9, 3),),
    ]
    scans = [Scan(i, {"k": s}, ("k",), files_read=i + 1) for i, s in enumerate(spans)]
    scans += [Scan(9, {}, files_read=7), Scan(9, {"k": (Span(77, 78),)}, understood=False, files_read=7)]
    together = files_predicted(reads_of(snapshot, collect("t", scans, source="test"), 0), scans)
    alone = [float(reads_of(snapshot, collect("t", [s], source="test"), 0).share.sum()) for s in scans]
    assert together == pytest.approx(alone)


def test_the_error_of_many_scans_ranks_the_bounds_no_more_often_than_that_of_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranked: list[int] = []

    def counted(*given: Any) -> Any:
        ranked.append(1)
        return key_line_of(*given)

    monkeypatch.setattr("lakekeeper.core.cost.workload_reads.key_line_of", counted)
    for files_read, expected in ((None, None), (6, 0.0)):
        ranked.clear()
        scans = [Scan(i, {"k": (Span(i, i + 1),)}, ("k",), files_read=files_read) for i in range(2, 82)]
        plan = explain(as_snapshot(6), (RANGES,), collect("t", scans, source="test"))
        assert plan.prediction is not None
        assert (plan.prediction.error, len(ranked)) == (expected, 1)


@pytest.mark.parametrize("layout", CURVES)
def test_a_file_without_a_range_on_the_curve_changes_no_prediction_of_the_others(layout: str) -> None:
    """Loss L37: 256 files in curve order, and a file of one row that another writer added."""
    key, rng = key_of(layout, "int", "int"), np.random.default_rng(1)
    kept = replace(even(2), key_id=key.key_id)
    values = rng.integers(0, MOST, (2, 20_000))
    at = curve_index(kept, layout, [pa.array(column) for column in values])
    parts = np.array_split(np.argsort(at, kind="stable"), 256)
    files = [[(int(values[0, i]), int(values[1, i])) for i in part] for part in parts]
    ranges = [(int(at[part[0]]), int(at[part[-1]]), kept.id) for part in parts]

    def opened(files: list[list[tuple[int, int]]], ranges: list[tuple[int, int, str]]) -> float:
        lo, hi, ids = (list(column) for column in zip(*ranges, strict=True))
        blocks = files_of(key, files, curve_lo=lo, curve_hi=hi, curve_id=ids)
        snapshot = replace(draws.as_snapshot(blocks, key), boundaries=kept)
        with pytest.raises(AdapterError, match="not placed by the key"):
            explain(snapshot, (RANGES,))
        prediction = explain(placed(snapshot), (RANGES,)).prediction
        assert prediction is not None
        return prediction.worth.before.files

    alone = opened(files, ranges)
    assert opened([*files, [(5, 5)]], [*ranges, (-1, -1, "")]) == pytest.approx(alone, abs=0.1)
