"""Filters as ranges of columns."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.workload.predicates import both, compare, either, spans
from lakekeeper.core.workload.workload import (
    EVERYTHING,
    Span,
    union,
)
from tests.sampling import fewer

_SPAN = st.builds(
    lambda lo, hi, after, before: Span(lo, hi, after and lo is not None, before and hi is not None),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.booleans(),
    st.booleans(),
)


def _in(value: int, found: tuple[Span, ...]) -> bool:
    return any(
        (s.lo is None or value > s.lo or (value == s.lo and not s.after))
        and (s.hi is None or value < s.hi or (value == s.hi and not s.before))
        for s in found
    )


@settings(max_examples=fewer(300), derandomize=True, deadline=None)
@given(st.lists(_SPAN, min_size=1, max_size=3), st.lists(_SPAN, min_size=1, max_size=3))
def test_and_is_the_intersection_and_or_the_union(one: list[Span], other: list[Span]) -> None:
    left, right = spans("a", *one), spans("a", *other)
    all_of, any_of = both([left, right]).filters["a"], either([left, right]).filters["a"]
    for value in range(-1, 11):
        assert _in(value, all_of) == (_in(value, tuple(one)) and _in(value, tuple(other)))
        assert _in(value, any_of) == (_in(value, tuple(one)) or _in(value, tuple(other)))


def test_a_long_list_becomes_the_range_that_it_spans() -> None:
    found = spans("a", *(Span(v, v) for v in range(1000)))
    assert found.filters["a"] == (Span(0, 999),)


def test_the_range_of_a_long_list_of_printed_numbers_holds_them_as_numbers_and_as_text() -> None:
    listed = [str(v) for v in range(900, 1157)]
    found = spans("a", *(Span(v, v) for v in listed)).filters["a"]
    assert found == (Span("900", "1156"), Span("1000", "999"))
    assert all(any(s.lo <= v <= s.hi for s in found) for v in listed)
    big = [str(2**60 + v) for v in range(300, 0, -1)]
    assert spans("a", *(Span(v, v) for v in big)).filters["a"] == (Span(big[-1], big[0]),)


def test_a_range_is_empty_only_if_it_is_as_numbers_and_as_text() -> None:
    def of(lo: Any, hi: Any) -> Any:
        return both([compare("a", ">=", lo), compare("a", "<=", hi)]).filters["a"]

    assert of("10", "9") == (Span("10", "9"),)
    assert of("9", "10") == (Span("9", "10"),)
    assert of("9", "3") == of(10, 9) == of("b", "a") == ()


def test_an_or_over_two_columns_narrows_neither() -> None:
    found = either([compare("a", "=", 1), compare("b", "=", 2)])
    assert (found.filters, found.understood, set(found.columns)) == ({}, False, {"a", "b"})


def test_a_span_without_ends_is_everything() -> None:
    assert union([Span(1, 2), Span()]) == EVERYTHING
