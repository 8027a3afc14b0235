"""Which partitions a query's filters admit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timezone
from typing import Any

import pytest

from lakekeeper.core.cost.partition_pruning import PartitionFields
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.workload.workload import Span
from tests.core.cost.boxes import ONE, as_snapshot, one_column, workload
from tests.linear import assert_linear


def _hours(characters: int) -> list[str]:
    return [json.dumps({"hour": str(i)}) for i in range(max(characters // 15, 1))]


def test_partitions_are_parsed_in_linear_time() -> None:
    def parse(lines: str) -> None:
        PartitionFields.of(lines.split("\n"))

    assert_linear(parse, lambda n: "\n".join(_hours(n * 10)))


def test_many_filters_parse_the_partitions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def loads(text: str) -> Any:
        parsed.append(text)
        return json.JSONDecoder().decode(text)

    snapshot = as_snapshot(
        [one_column(0, 9)] * 40, ONE, partition=[json.dumps({"hour": i}) for i in range(40)]
    )
    queries = workload(*({"hour": Span(i, i + 1)} for i in range(30)))
    monkeypatch.setattr(json, "loads", loads)
    assert reads_of(snapshot, queries, 1000).share.sum() * 30 == pytest.approx(60)
    assert len(parsed) == 40


def _admitted(values: Sequence[object], name: str, *spans: Span, column: str = "") -> list[float]:
    fields = PartitionFields.of([json.dumps({name: value}) for value in values])
    return fields.admitted({column or name: spans}).tolist()


def test_partitions_with_a_value_of_the_span_are_admitted() -> None:
    assert _admitted(["3", "20", None], "k", Span(3, 9)) == [1.0, 0.0, 0.0]
    assert _admitted(["3", "20", None], "k", Span("3", "9")) == [1.0, 0.0, 0.0]
    assert _admitted(["3", "20", ""], "k", Span(3, 20, after=True), Span(null=True)) == [0.0, 1.0, 1.0]
    assert _admitted(["a", "b", None], "k", Span(None, "b", before=True)) == [1.0, 0.0, 0.0]
    assert _admitted([True, False], "k", Span(True, True)) == [1.0, 0.0]
    assert _admitted(["a", None], "k", Span()) == [1.0, 1.0]


def test_values_of_another_kind_than_the_bounds_exclude_nothing() -> None:
    assert _admitted(["a", "7", "NaN", None], "k", Span(3, 5)) == [1.0, 0.0, 1.0, 0.0]


def test_a_transform_of_time_admits_its_period() -> None:
    noon = "2026-01-02 12:00:00"
    for name, values in (
        ("ts_day", ["2026-01-01", "2026-01-02"]),
        ("ts_hour", [24 * 20455 + 11, 24 * 20455 + 12]),
        ("ts_month", [12 * 56 - 1, 12 * 56]),
        ("ts_year", [55, 56]),
    ):
        assert _admitted(values, name, Span(noon, noon), column="ts") == [0.0, 1.0], name
    assert _admitted([55, 56], "d_year", Span("2025-12-31", "2025-12-31"), column="d") == [1.0, 0.0]


def test_a_column_of_delta_named_like_a_transform_of_iceberg_excludes_nothing() -> None:
    # Iceberg's numbers arrive as numbers, all values of Delta as text: its year 2026 is not 2026 years after 1970.
    day = Span("2026-01-02", "2026-01-02")
    for name, value in (
        ("pickup_year", "2026"),
        ("pickup_month", "1"),
        ("pickup_hour", "12"),
        ("pickup_day", "2"),
    ):
        assert _admitted([value, None], name, day, column="pickup") == [1.0, 0.0], name
    assert _admitted(["0", "1"], "id_bucket", Span(7, 7), column="id") == [1.0, 1.0]


@pytest.mark.parametrize(
    "name, column, values",
    [
        ("day", "day", ["2026-01-01", "2026-01-02"]),
        ("d_day", "d", ["2026-01-01", "2026-01-02"]),
        ("d_month", "d", [12 * 56 - 1, 12 * 56]),
        ("d_year", "d", [55, 56]),
    ],
)
@pytest.mark.parametrize("kind", [int, str])
def test_dates_as_iceberg_prints_them(name: str, column: str, values: list[object], kind: type) -> None:
    """Days since 1970 were compared with dates as text: no partition was read, and no merge paid back."""
    day = kind((date(2026, 1, 2) - date(1970, 1, 1)).days)
    assert _admitted([*values, None], name, Span(day, day), column=column) == [0.0, 1.0, 0.0]
    assert _admitted([*values, None], name, Span(day, None), column=column) == [0.0, 1.0, 0.0]
    assert _admitted([*values, None], name, Span(None, day, before=True), column=column)[0] == 1.0


@pytest.mark.parametrize("kind", [int, str])
def test_timestamps_as_iceberg_prints_them(kind: type) -> None:
    values = ["2026-01-01 00:00:00", "2026-01-02 00:00:00", None]
    noon = kind(int(datetime(2026, 1, 1, 12, tzinfo=timezone.utc).timestamp()) * 10**6)
    assert _admitted(values, "ts", Span(None, noon)) == [1.0, 0.0, 0.0]
    assert _admitted(["2026-01-01", "2026-01-02"], "ts_day", Span(noon, noon), column="ts") == [1.0, 0.0]


@pytest.mark.parametrize("bound", [7, "7", 7.5, "-3"])
def test_a_number_is_no_date(bound: object) -> None:
    """A column of Delta with dates may be named like the day of a number."""
    assert _admitted(["2026-01-01", None], "order_day", Span(bound, bound), column="order") == [1.0, 1.0]


def test_a_bucket_holds_each_value_with_equal_probability() -> None:
    assert _admitted([0, 1, 2, 3], "id_bucket", Span(7, 7), column="id") == [0.25] * 4
    assert _admitted([0, 1, 2, 3], "id_bucket", Span(7, None), column="id") == [1.0] * 4
