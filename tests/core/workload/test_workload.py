"""A workload as data: its rates and columns, and that it survives JSON."""

from __future__ import annotations

import json
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.units import DAY_MS
from lakekeeper.core.workload.workload import (
    Scan,
    Span,
    Workload,
    collect,
)
from lakekeeper.errors import OptionError

NOW = 100 * DAY_MS


def test_a_steady_stream_of_queries_has_its_rate_however_long_it_was_recorded() -> None:
    for days in (1, 7, 60):
        start = NOW - days * DAY_MS
        scans = [Scan(start + i * 3_600_000, {}) for i in range(days * 24)]
        seen = collect("t", scans, source="test", start_ms=start, end_ms=NOW)
        assert seen.rate(NOW) == pytest.approx(1 / 3600, rel=0.05)


def test_a_rate_does_not_fade_while_nothing_is_recorded() -> None:
    scans = [Scan(i * 60_000, {}) for i in range(600)]
    seen = collect("t", scans, source="test")
    assert seen.rate(NOW) == pytest.approx(seen.rate(600 * 60_000), rel=1e-6)


@given(
    ages=st.lists(st.integers(0, 90 * DAY_MS), min_size=1, max_size=300),
    own=st.floats(1e-6, 1e6),
    order=st.randoms(use_true_random=False),
)
def test_weights_have_one_sum_in_any_order(ages: list[int], own: float, order: Random) -> None:
    """15 scans that each open 6 files open 6.0 on average, not 5.999999999999999."""
    seen = collect("t", [Scan(NOW - age, {}, weight=own) for age in ages], source="test")
    weights = seen.weights(NOW).tolist()
    shuffled = order.sample(weights, len(weights))
    assert sum(shuffled) == sum(weights) == seen.weights(NOW).sum()
    exact = [own * 2.0 ** (-age / seen.half_life_ms) for age in sorted(ages, reverse=True)]
    assert weights == pytest.approx(exact, rel=1e-6, abs=max(exact) * 2**-36)


def test_newer_queries_count_more_than_older_ones() -> None:
    start = NOW - 14 * DAY_MS
    early = [Scan(start + i * 3_600_000, {}) for i in range(24 * 7)]
    late = [Scan(NOW - 7 * DAY_MS + i * 3_600_000, {}) for i in range(24 * 7)]
    busy_early = collect("t", [*early, *early, *late], source="test", start_ms=start, end_ms=NOW)
    busy_late = collect("t", [*early, *late, *late], source="test", start_ms=start, end_ms=NOW)
    assert busy_late.rate(NOW) > 1.5 / 3600 > busy_early.rate(NOW)


def test_one_scan_is_not_a_flood() -> None:
    assert collect("t", [Scan(NOW, {})], source="test").rate(NOW) <= 1 / 60


def test_without_scans_the_rate_is_zero() -> None:
    empty = collect("t", [], source="test")
    assert (len(empty), empty.rate(NOW), empty.filtered(NOW), empty.column_share) == (0, 0.0, {}, None)


def test_columns_are_counted_by_the_weight_of_their_scans() -> None:
    one = (Span(1, 1),)
    scans = [
        Scan(NOW, {"a": one, "b": one}),
        Scan(NOW, {"b": one}, ("b", "c"), understood=False),
        Scan(NOW, {}, weight=2),
    ]
    seen = collect("t", scans, source="test")
    assert seen.filtered(NOW) == pytest.approx({"b": 0.5, "a": 0.25, "c": 0.25})
    assert seen.unread == 1


def test_a_bounded_memory_keeps_the_newest_scans_and_the_rate() -> None:
    scans = [Scan(i * 1000, {}) for i in range(1000)]
    seen = collect("t", scans, source="test")
    kept = seen.newest(100)
    assert [s.at_ms for s in kept.scans] == [s.at_ms for s in scans[-100:]]
    assert kept.rate(1_000_000) == pytest.approx(seen.rate(1_000_000), rel=1e-3)


def test_a_workload_survives_json() -> None:
    scans = [
        Scan(5, {"a.b": (Span(1, None, after=True), Span(null=True))}, ("a.b",), False, 2.0, 3, 400, 0.5)
    ]
    seen = collect("t", scans, source="test", start_ms=0, end_ms=9)
    assert Workload.from_json(seen.to_json()) == seen


def saved(**given: object) -> str:
    """A workload with one scan as JSON, with other values."""
    seen = collect("t", [Scan(5, {})], source="test")
    plain = json.loads(seen.to_json())
    for name, value in given.items():
        (plain if name in plain else plain["scans"][0])[name] = value
    return json.dumps(plain)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"format": "other"}',
        '{"format": "lakekeeper workload 1", "scans": [1]}',
        "[" * 100_000,
        saved(start_ms="x"),
        saved(end_ms=math.nan),
        saved(half_life_ms=0),
        saved(at_ms="x"),
        saved(weight=math.inf),
        saved(weight=None),
        saved(bytes_read="many"),
    ],
    ids=lambda text: text[:40],
)
def test_an_invalid_workload_is_refused_by_name(text: str) -> None:
    with pytest.raises(OptionError, match="workload"):
        Workload.from_json(text)
