"""Who reads what: against a count of each query on each block, and against merges that are carried out."""

from __future__ import annotations

import random
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.cost.query_ranges import value_of
from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.units import DAY_MS
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect

KEY = ClusterKey((KeyColumn(("a",), "int", "1"), KeyColumn(("b",), "int", "2")))


def picture(
    boxes: list[tuple[Any, ...]],
    key: ClusterKey = KEY,
    *,
    sizes: list[int] | None = None,
    partition: Any = None,
) -> Snapshot:
    """Blocks from (lo, hi) per column; None for a block of NULLs, "?" without statistics."""
    width, n = len(key.columns), len(boxes)
    rows = [10] * n

    def side(c: int, which: int) -> list[Any]:
        return [None if b[c] in (None, "?") else b[c][which] for b in boxes]

    columns = {
        "path": [f"f{i:04d}" for i in range(n)],
        "rows": rows,
        "bytes": sizes or [100] * n,
        "lo": [side(c, 0) for c in range(width)],
        "hi": [side(c, 1) for c in range(width)],
        "null_count": [[10 if b[c] is None else 0 for b in boxes] for c in range(width)],
        "exact": [[True] * n for _ in range(width)],
    }
    if partition is not None:
        columns["partition"] = partition
    return Snapshot("t", "memory", 1, "uuid", "schema", key, make_blocks(columns, key))


def workload(*filters: dict[str, Any], weight: float = 1.0) -> Workload:
    scans = [
        Scan(1000, {c: tuple(s) if isinstance(s, list) else (s,) for c, s in f.items()}, weight=weight)
        for f in filters
    ]
    return collect("t", scans, source="test")


def _span(rng: random.Random) -> Span:
    if rng.random() < 0.05:
        return Span(null=True)
    lo, hi = (v if rng.random() < 0.8 else None for v in sorted(rng.choices(range(20), k=2)))
    after, before = (v is not None and rng.random() < 0.3 for v in (lo, hi))
    return Span(lo, hi, after, before)


def _holds(span: Span, box: Any) -> bool:
    """May a block with these bounds hold a value of the span? Written out over twentieths."""
    if span.whole:
        return True
    if box is None:
        return False
    lo, hi = (-1, 21) if box == "?" else box
    lo_bound = -2 if span.lo is None else span.lo * 2 + span.after
    hi_bound = 60 if span.hi is None else span.hi * 2 - span.before
    return lo_bound <= hi_bound and lo * 2 <= hi_bound and hi * 2 >= lo_bound


@settings(max_examples=200, derandomize=True, deadline=None)
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
    snapshot = picture(boxes)
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


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_merge_into_one_file_is_read_by_whoever_meets_its_union(rng: random.Random) -> None:
    boxes = [tuple(tuple(sorted(rng.choices(range(20), k=2))) for _ in range(2)) for _ in range(6)]
    filters = [{c: [_span(rng)] for c in rng.sample(["a", "b"], rng.randint(0, 2))} for _ in range(10)]
    filters = [
        {c: [s for s in spans if not s.null] or [Span(3, 5)] for c, spans in f.items()} for f in filters
    ]
    members, edges = np.arange(6), np.array([0, 2, 6])
    asked = workload(*filters)
    merged = [
        tuple((min(b[c][0] for b in part), max(b[c][1] for b in part)) for c in range(2))
        for part in (boxes[:2], boxes[2:])
    ]
    expected = reads_of(picture(merged), asked, 1000).share
    found = reads_of(picture(boxes), asked, 1000).outputs(Groups(members, edges, np.ones(2)))
    assert found.files == pytest.approx(expected)
    assert found.met == pytest.approx(expected)


def _one(lo: int, hi: int) -> tuple[tuple[int, int]]:
    return ((lo, hi),)


ONE = ClusterKey((KeyColumn(("a",), "int", "1"),))


def test_outputs_of_a_sorted_merge_are_what_a_carried_out_merge_would_be_read() -> None:
    # Eight blocks over all of 0…799, merged into eight that are sorted: 100 values each.
    snapshot = picture([_one(0, 799)] * 8, ONE)
    rng = random.Random(4)
    asked = []
    for _ in range(400):
        lo = rng.randrange(800)
        asked.append({"a": Span(lo, min(lo + rng.choice([0, 20, 150]), 799))})
    queries = workload(*asked)
    sorted_run = picture([_one(100 * i, 100 * i + 99) for i in range(8)], ONE)
    real = float(reads_of(sorted_run, queries, 1000).share.sum())
    group = Groups(np.arange(8), np.array([0, 8]), np.array([8.0]))
    predicted = float(reads_of(snapshot, queries, 1000).outputs(group).files[0])
    assert float(reads_of(snapshot, queries, 1000).share.sum()) == pytest.approx(8.0)
    assert predicted == pytest.approx(real, rel=0.05)


def test_a_query_for_several_values_reads_a_block_once() -> None:
    snapshot = picture([_one(0, 9), _one(10, 19)], ONE)
    queries = workload({"a": [Span(1, 1), Span(3, 3), Span(5, 5)]})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [1.0, 0.0]


def test_queries_on_other_columns_read_everything() -> None:
    snapshot = picture([_one(0, 9), _one(10, 19)], ONE)
    queries = workload({"other": Span(1, 1)}, {"a": Span(12, 12)})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [0.5, 1.0]
    grouped = reads_of(snapshot, queries, 1000).outputs(
        Groups(np.arange(2), np.array([0, 2]), np.array([2.0]))
    )
    assert grouped.files[0] == pytest.approx(
        0.5 * 2 + 0.5 * 1, abs=0.03
    )  # one of twenty values may straddle both


def test_a_value_of_another_kind_counts_as_no_filter_and_is_counted() -> None:
    from lakekeeper.core.cost.workload_reads import Asking

    snapshot = picture([_one(0, 9)], ONE)
    reads = reads_of(snapshot, workload({"a": Span("x", "x")}, {"a": Span(30, 30)}), 1000)
    assert isinstance(reads, Asking)
    assert (reads.unusable, reads.share.tolist()) == (1, [0.5])


def test_old_queries_count_half_after_seven_days() -> None:
    snapshot = picture([_one(0, 9), _one(10, 19)], ONE)
    now = 70 * DAY_MS
    scans = [Scan(now - 7 * DAY_MS, {"a": (Span(5, 5),)}), Scan(now, {"a": (Span(15, 15),)})]
    shares = reads_of(snapshot, collect("t", scans, source="test"), now).share
    assert shares.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_without_a_workload_a_block_is_read_by_its_share_of_the_data_and_a_range() -> None:
    snapshot = picture([_one(0, 99), _one(0, 99), _one(100, 199)], ONE, sizes=[100, 100, 200])
    shares = reads_of(snapshot, None, 0).share
    assert shares == pytest.approx([0.51, 0.51, 0.51], abs=0.01)
    merged = reads_of(snapshot, None, 0).outputs(Groups(np.arange(2), np.array([0, 2]), np.array([1.0])))
    assert merged.files[0] == pytest.approx(0.51, abs=0.01)


def test_without_a_workload_a_query_asks_one_partition() -> None:
    snapshot = picture([_one(0, 99)] * 4, ONE, partition=["p", "p", "q", "q"])
    shares = reads_of(snapshot, None, 0).share
    assert shares == pytest.approx([0.5] * 4)


def test_without_a_key_everybody_reads_everything() -> None:
    blocks = make_blocks({"path": ["a", "b"], "rows": [1, 1], "bytes": [1, 1]}, None)
    snapshot = Snapshot("t", "memory", 1, "uuid", "schema", None, blocks)
    assert reads_of(snapshot, workload({"a": Span(1, 1)}), 0).share.tolist() == [1.0, 1.0]


_MOMENT = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc).timestamp()) * 1_000_000
VALUES: list[tuple[str, Any, Any]] = [
    ("int", "7", 7),
    ("float", "1.5", 1.5),
    ("date", "2026-01-02", (date(2026, 1, 2) - date(1970, 1, 1)).days),
    ("date", 20455, 20455),
    ("timestamp", "2026-01-02 03:04:05.25", _MOMENT + 250_000),
    ("timestamp", "2026-01-02T03:04:05Z", _MOMENT),
    ("timestamp_ntz", "2026-01-02 04:04:05+01:00", _MOMENT),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("string", "x", "x"),
    ("boolean", "true", True),
    ("binary", "AAE=", b"\x00\x01"),
]


@pytest.mark.parametrize("kind, printed, expected", VALUES)
def test_values_come_in_the_columns_kind(kind: str, printed: Any, expected: Any) -> None:
    assert value_of(printed, kind) == expected


@pytest.mark.parametrize(
    "kind, printed",
    [
        ("int", "x"),
        ("int", 1.5),
        ("date", "today"),
        ("boolean", "yes"),
        ("string", 7),
        ("decimal(3,1)", "x"),
        ("binary", "*"),
    ],
)
def test_what_is_no_value_of_the_kind_is_refused(kind: str, printed: Any) -> None:
    with pytest.raises(ValueError):
        value_of(printed, kind)


@pytest.mark.parametrize("kind", ["string", "date", "float", "decimal(10,2)"])
def test_other_kinds_are_compared_as_spark_does(kind: str) -> None:
    values: dict[str, list[Any]] = {
        "string": ["a", "b", "c", "d"],
        "date": [date(2026, 1, d) for d in (1, 2, 3, 4)],
        "float": [-1.5, 0.0, 2.5, float("inf")],
        "decimal(10,2)": [Decimal(d) for d in ("-1.50", "0.00", "2.50", "9.99")],
    }
    v = values[kind]
    key = ClusterKey((KeyColumn(("a",), kind, "1"),))
    snapshot = picture([((v[0], v[1]),), ((v[2], v[3]),)], key)
    asked = workload({"a": Span(str(v[1]), str(v[1]))}, {"a": Span(str(v[1]), None, after=True)})
    assert reads_of(snapshot, asked, 1000).share.tolist() == [0.5, 0.5]


def test_queries_for_nan_meet_the_blocks_that_hold_it() -> None:
    nan = float("nan")
    snapshot = picture([((0.0, 1.0),), ((2.0, nan),)], ClusterKey((KeyColumn(("a",), "float", "1"),)))
    asked = workload(
        {"a": Span("NaN", "NaN")}, {"a": Span(nan, None)}, {"a": Span("0.5", "NaN", before=True)}
    )
    assert reads_of(snapshot, asked, 1000).share.tolist() == pytest.approx([1 / 3, 1.0])
