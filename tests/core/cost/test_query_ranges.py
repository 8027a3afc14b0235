"""Ranges of queries, comparable with the bounds of blocks."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from lakekeeper.core.cost.query_ranges import value_of
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.predicates import spans
from lakekeeper.core.workload.workload import Span
from tests.core.cost.boxes import as_snapshot, workload

_TIMESTAMP = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc).timestamp()) * 1_000_000


VALUES: list[tuple[str, Any, Any]] = [
    ("int", "7", 7),
    ("float", "1.5", 1.5),
    ("date", "2026-01-02", (date(2026, 1, 2) - date(1970, 1, 1)).days),
    ("date", 20455, 20455),
    ("timestamp", "2026-01-02 03:04:05.25", _TIMESTAMP + 250_000),
    ("timestamp", "2026-01-02T03:04:05Z", _TIMESTAMP),
    ("timestamp_ntz", "2026-01-02 04:04:05+01:00", _TIMESTAMP),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    (
        "decimal(38,18)",
        "12345678901234567890.123456789012345678",
        Decimal("12345678901234567890.123456789012345678"),
    ),
    ("decimal(38,18)", "20000000000", Decimal(20000000000)),
    ("int", str(2**63 - 1), 2**63 - 1),
    ("date", -(2**31), -(2**31)),
    ("string", "x", "x"),
    ("boolean", "true", True),
    ("binary", "AAE=", b"\x00\x01"),
]


@pytest.mark.parametrize("kind, printed, expected", VALUES)
def test_values_are_converted_to_the_columns_kind(kind: str, printed: Any, expected: Any) -> None:
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
        ("int", str(2**63)),
        ("int", -(2**63) - 1),
        ("timestamp", 10**20),
        ("timestamp_ntz", 10**20),
        ("date", 3_000_000_000),
        ("decimal(5,2)", "100000"),
        ("decimal(9,2)", "NaN"),
        ("decimal(38,0)", "1e90"),
        pytest.param("float", 10**400, id="float-overflow"),
        ("string", "\ud800"),
    ],
)
def test_a_value_that_is_not_of_the_kind_is_refused(kind: str, printed: Any) -> None:
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
    snapshot = as_snapshot([((v[0], v[1]),), ((v[2], v[3]),)], key)
    queries = workload({"a": Span(str(v[1]), str(v[1]))}, {"a": Span(str(v[1]), None, after=True)})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [0.5, 0.5]


def test_queries_for_nan_meet_the_blocks_that_hold_it() -> None:
    nan = float("nan")
    snapshot = as_snapshot([((0.0, 1.0),), ((2.0, nan),)], ClusterKey((KeyColumn(("a",), "float", "1"),)))
    queries = workload(
        {"a": Span("NaN", "NaN")}, {"a": Span(nan, None)}, {"a": Span("0.5", "NaN", before=True)}
    )
    assert reads_of(snapshot, queries, 1000).share.tolist() == pytest.approx([1 / 3, 1.0])


@pytest.mark.parametrize(
    "kind, lo, hi, bound",
    [
        ("int", 0, 100, 2**63),
        (
            "timestamp",
            datetime(2026, 1, 1, tzinfo=timezone.utc),
            datetime(2026, 1, 2, tzinfo=timezone.utc),
            10**20,
        ),
        ("decimal(5,2)", Decimal(1), Decimal(5), "100000"),
        ("decimal(5,2)", Decimal(1), Decimal(5), "NaN"),
        ("string", "a", "b", "\ud800"),
    ],
)
def test_a_bound_outside_the_range_of_the_column_counts_as_no_filter(
    kind: str, lo: Any, hi: Any, bound: Any
) -> None:
    snapshot = as_snapshot([((lo, hi),)], ClusterKey((KeyColumn(("a",), kind, "1"),)))
    queries = workload({"a": Span(None, bound)})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [1.0]


@pytest.mark.parametrize("kind, ends", [("int", (900, 1156)), ("string", ("1000", "999"))])
def test_a_long_list_of_numbers_is_read_in_the_order_of_the_column(kind: str, ends: Any) -> None:
    beyond = (2000, 3000) if kind == "int" else ("9990", "9999")
    snapshot = as_snapshot([(ends,), (beyond,)], ClusterKey((KeyColumn(("a",), kind, "1"),)))
    listed = spans("a", *(Span(str(v), str(v)) for v in range(900, 1157)))
    queries = workload({"a": list(listed.filters["a"])})
    assert reads_of(snapshot, queries, 1000).share.tolist() == [1.0, 0.0]
