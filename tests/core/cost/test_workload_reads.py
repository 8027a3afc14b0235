"""Which queries read which blocks: against a check of each query on each block, and against merges carried out."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.units import DAY_MS
from lakekeeper.core.workload.workload import Scan, Span, collect
from tests.core.cost.boxes import KEY, ONE, as_snapshot, one_column, workload
from tests.sampling import fewer


def _span(rng: random.Random) -> Span:
    if rng.random() < 0.05:
        return Span(null=True)
    lo, hi = (v if rng.random() < 0.8 else None for v in sorted(rng.choices(range(20), k=2)))
    after, before = (v is not None and rng.random() < 0.3 for v in (lo, hi))
    return Span(lo, hi, after, before)


def _holds(span: Span, box: Any) -> bool:
    """May a block with these bounds hold a value of the span? Brute force."""
    if span.whole:
        return True
    if box is None:
        return False
    lo, hi = (-1, 21) if box == "?" else box
    lo_bound = -2 if span.lo is None else span.lo * 2 + span.after
    hi_bound = 60 if span.hi is None else span.hi * 2 - span.before
    return lo_bound <= hi_bound and lo * 2 <= hi_bound and hi * 2 >= lo_bound


@settings(max_examples=fewer(200), derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_share_of_queries_that_read_a_block_is_that_of_a_plain_count(rng: random.Random) -> None:
    boxes = []
    for _ in range(rng.randint(1, 12)):
        box: list[Any] = [tuple(sorted(rng.choices(range(20), k=2))) for _ in range(2)]
        if rng.random() < 0.2:
            box[rng.randrange(2)] = rng.choice([None, "?"])
        boxes.append(tuple(box))
    filters = []
    for _ in range(rng.randint(1, 15)):
        columns = rng.sample(["a", "b", "elsewhere"], rng.randint(0, 2))
        filters.append({c: [_span(rng) for _ in range(rng.choice([1, 1, 1, 3]))] for c in columns})
    snapshot = as_snapshot(boxes)
    nulls = snapshot.blocks.null_count
    shares = reads_of(snapshot, workload(*filters), 1000).share
    for j, bounds in enumerate(boxes):
        met = sum(
            all(
                any(_holds(s, bounds[c]) if not s.null else nulls[c][j] != 0 for s in f[name])
                for c, name in enumerate("ab")
                if name in f
            )
            for f in filters
        )
        assert shares[j] == pytest.approx(met / len(filters))


@settings(max_examples=fewer(100), derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_merge_into_one_file_is_read_by_every_query_that_meets_its_union(rng: random.Random) -> None:
    boxes = [tuple(tuple(sorted(rng.choices(range(20), k=2))) for _ in range(2)) for _ in range(6)]
    filters = [{c: [_span(rng)] for c in rng.sample(["a", "b"], rng.randint(0, 2))} for _ in range(10)]
    filters = [
        {c: [s for s in spans if not s.null] or [Span(3, 5)] for c, spans in f.items()} for f in filters
    ]
    members, edges = np.arange(6), np.array([0, 2, 6])
    queried = workload(*filters)
    merged = [
        tuple((min(b[c][0] for b in part), max(b[c][1] for b in part)) for c in range(2))
        for part in (boxes[:2], boxes[2:])
    ]
    expected = reads_of(as_snapshot(merged), queried, 1000).share
    found = reads_of(as_snapshot(boxes), queried, 1000).outputs(Groups(members, edges, np.ones(2)))
    assert found.files == pytest.approx(expected)
    assert found.met == pytest.approx(expected)


def test_predicted_reads_of_a_sorted_merge_are_those_of_its_outputs() -> None:
    # Eight blocks that each cover 0…799, merged into eight sorted ones of 100 values each.
    snapshot = as_snapshot([one_column(0, 799)] * 8, ONE)
    rng = random.Random(4)
    queried = []
    for _ in range(400):
        lo = rng.randrange(800)
        queried.append({"a": Span(lo, min(lo + rng.choice([0, 20, 150]), 799))})
    queries = workload(*queried)
    sorted_run = as_snapshot([one_column(100 * i, 100 * i + 99) for i in range(8)], ONE)
    real = float(reads_of(sorted_run, queries, 1000).share.sum())
    group = Groups(np.arange(8), np.array([0, 8]), np.array([8.0]))
    predicted = float(reads_of(snapshot, queries, 1000).outputs(group).files[0])
    assert float(reads_of(snapshot, queries, 1000).share.sum()) == pytest.approx(8.0)
    assert predicted == pytest.approx(real, rel=0.05)


def test_a_query_for_several_values_reads_a_block_once() -> None:
    snapshot = as_snapshot([one_column(0, 9), one_column(10, 19)], ONE)
    queries = workload({"a": [Span(1, 1), Span(3, 3), Span(5, 5)]})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [1.0, 0.0]


def test_queries_on_other_columns_read_everything() -> None:
    snapshot = as_snapshot([one_column(0, 9), one_column(10, 19)], ONE)
    queries = workload({"other": Span(1, 1)}, {"a": Span(12, 12)})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [0.5, 1.0]
    grouped = reads_of(snapshot, queries, 1000).outputs(
        Groups(np.arange(2), np.array([0, 2]), np.array([2.0]))
    )
    # One of twenty values may be in both.
    assert grouped.files[0] == pytest.approx(0.5 * 2 + 0.5 * 1, abs=0.03)


def test_a_value_of_another_kind_counts_as_no_filter_and_is_counted() -> None:
    from lakekeeper.core.cost.workload_reads import WorkloadReads

    snapshot = as_snapshot([one_column(0, 9)], ONE)
    reads = reads_of(snapshot, workload({"a": Span("x", "x")}, {"a": Span(30, 30)}), 1000)
    assert isinstance(reads, WorkloadReads)
    assert (reads.unusable, reads.share.tolist()) == (1, [0.5])


def test_old_queries_count_half_after_seven_days() -> None:
    snapshot = as_snapshot([one_column(0, 9), one_column(10, 19)], ONE)
    now = 70 * DAY_MS
    scans = [Scan(now - 7 * DAY_MS, {"a": (Span(5, 5),)}), Scan(now, {"a": (Span(15, 15),)})]
    shares = reads_of(snapshot, collect("t", scans, source="test"), now).share
    assert shares.tolist() == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize("layout", ["linear", "zorder", "hilbert"])
@pytest.mark.parametrize("gone", ["all rows are deleted", "no rows"])
def test_a_group_without_live_rows_has_a_finite_benefit(layout: str, gone: str) -> None:
    """It has no output, and the side of a curve of zero files divided by zero: scores were NaN, and JSON invalid."""
    snapshot = as_snapshot([((0, 9), (0, 9))] * 4, replace(KEY, layout=layout))
    empty = np.array([True, True, False, False])
    blocks = snapshot.blocks
    rows = np.where(empty & (gone == "no rows"), 0, blocks.rows)
    blocks = replace(blocks, rows=rows, deleted_rows=np.where(empty, rows, 0))
    reads = reads_of(replace(snapshot, blocks=blocks), workload({"b": [Span(3, 4)]}), 1000)
    groups = Groups(np.arange(4), np.array([0, 2, 4]), np.array([0.0, 1.0]))
    with np.errstate(all="raise"):
        opened = reads.outputs(groups)
    assert np.isfinite(opened.met).all()
    assert np.isfinite(opened.files).all()
    assert opened.files[0] == 0
