"""Filters as plans print them: what is parsed, and that text that cannot be parsed never narrows a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.workload.filter_parser import iceberg_filters, printed_expressions, pushed_filters
from lakekeeper.core.workload.predicates import Meaning
from lakekeeper.core.workload.workload import Span
from tests.linear import assert_linear
from tests.sampling import fewer


def drawn(meaning: Meaning) -> dict[str, list[str]]:
    """``{"k": ["[3, 9)"]}``; a filtered column without a span is left out."""
    return {column: [_drawn(s) for s in found] for column, found in meaning.filters.items()}


def _drawn(span: Span) -> str:
    if span.null:
        return "NULL"
    lo, hi = ("…" if v is None else str(v) for v in (span.lo, span.hi))
    return f"{'(' if span.after else '['}{lo}, {hi}{')' if span.before else ']'}"


PUSHED: list[tuple[str, dict[str, list[str]]]] = [
    ("[]", {}),
    ("[IsNotNull(k), EqualTo(k,7)]", {"k": ["[7, 7]"]}),
    ("[IsNotNull(k), GreaterThanOrEqual(k,3), LessThan(k,9)]", {"k": ["[3, 9)"]}),
    ("[GreaterThan(k,3), LessThanOrEqual(k,9), GreaterThan(k,5)]", {"k": ["(5, 9]"]}),
    ("[EqualTo(d,2026-01-01)]", {"d": ["[2026-01-01, 2026-01-01]"]}),
    ("[GreaterThanOrEqual(t,2026-01-01 00:00:00.0)]", {"t": ["[2026-01-01 00:00:00.0, …]"]}),
    ("[EqualTo(c,a, b), IsNotNull(c)]", {"c": ["[a, b, a, b]"]}),
    ("[EqualTo(c,f(x)), IsNotNull(c)]", {"c": ["[f(x), f(x)]"]}),
    ("[EqualTo(c,)]", {"c": ["[, ]"]}),
    ("[In(k, [1,2,3])]", {"k": ["[1, 1]", "[2, 2]", "[3, 3]"]}),
    ("[In(c, [x,a, b])]", {"c": ["[x, x]", "[a, b, a, b]"]}),
    ("[Or(EqualTo(k,1),EqualTo(k,2))]", {"k": ["[1, 1]", "[2, 2]"]}),
    ("[Or(And(GreaterThan(k,1),LessThan(k,5)),EqualTo(k,9))]", {"k": ["(1, 5)", "[9, 9]"]}),
    ("[Not(LessThan(k,3))]", {"k": ["[3, …]"]}),
    ("[Not(Or(LessThan(k,3),GreaterThan(k,9)))]", {"k": ["[3, 9]"]}),
    ("[Not(EqualTo(k,3)), Not(In(k, [1,2]))]", {}),
    ("[IsNull(k)]", {"k": ["NULL"]}),
    ("[EqualNullSafe(k,null)]", {"k": ["NULL"]}),
    ("[StringStartsWith(c,ab)]", {"c": ["[ab, ac)"]}),
    ("[StringContains(c,x), EqualTo(k,1)]", {"k": ["[1, 1]"]}),
    ("[EqualTo(a.b,1), EqualTo(`x.y`,2)]", {"a.b": ["[1, 1]"], "`x.y`": ["[2, 2]"]}),
    ("[EqualTo(k,3), EqualTo(k,4)]", {"k": []}),
]


@pytest.mark.parametrize("text, expected", PUSHED)
def test_filters_pushed_to_a_file_scan(text: str, expected: dict[str, list[str]]) -> None:
    meaning = pushed_filters(text)
    assert drawn(meaning) == expected
    assert meaning.understood


PRINTED: list[tuple[str, dict[str, list[str]]]] = [
    ("[isnotnull(k#1L), (k#1L >= 3), (k#1L < 9)]", {"k": ["[3, 9)"]}),
    ("[isnotnull(day#5), (day#5 = 2026-01-01)]", {"day": ["[2026-01-01, 2026-01-01]"]}),
    ("[k#0L IN (1,2)]", {"k": ["[1, 1]", "[2, 2]"]}),
    ("[k#0L INSET 1, 2]", {"k": ["[1, 1]", "[2, 2]"]}),
    (
        "[((k#0 = 1) OR (k#0 = 2)), (c#1 = a (b), c)]",
        {"k": ["[1, 1]", "[2, 2]"], "c": ["[a (b), c, a (b), c]"]},
    ),
    ("[NOT (k#0 = 3)]", {}),
    ("[NOT (k#0 > 3)]", {"k": ["[…, 3]"]}),
    ("[StartsWith(c#0, ab)]", {"c": ["[ab, ac)"]}),
    ("[isnull(k#0)]", {"k": ["NULL"]}),
]


@pytest.mark.parametrize("text, expected", PRINTED)
def test_expressions_of_catalyst(text: str, expected: dict[str, list[str]]) -> None:
    meaning = printed_expressions(text)
    assert drawn(meaning) == expected
    assert meaning.understood


ICEBERG: list[tuple[str, dict[str, list[str]]]] = [
    ("", {}),
    ("k IS NOT NULL, k >= 3, k < 9", {"k": ["[3, 9)"]}),
    ("c IS NOT NULL, c = 'a, b'", {"c": ["[a, b, a, b]"]}),
    ("c = 'O'Brien', k = 1", {"c": ["[O'Brien, O'Brien]"], "k": ["[1, 1]"]}),
    ("c IN ('a, b', 'c)')", {"c": ["[a, b, a, b]", "[c), c)]"]}),
    ("k IN (1, 2)", {"k": ["[1, 1]", "[2, 2]"]}),
    ("(k = 1 OR k = 2)", {"k": ["[1, 1]", "[2, 2]"]}),
    ("((k > 1 AND k < 5) OR k = 9)", {"k": ["(1, 5)", "[9, 9]"]}),
    ("NOT (k = 1), k NOT IN (1, 2)", {}),
    ("c LIKE 'ab%'", {"c": ["[ab, ac)"]}),
    ("k IS NULL", {"k": ["NULL"]}),
    ("a.b = 1", {"a.b": ["[1, 1]"]}),
    ("true", {}),
]


@pytest.mark.parametrize("text, expected", ICEBERG)
def test_filters_of_an_iceberg_scan(text: str, expected: dict[str, list[str]]) -> None:
    meaning = iceberg_filters(text)
    assert drawn(meaning) == expected
    assert meaning.understood


WIDER: list[tuple[Any, str, dict[str, list[str]], set[str]]] = [
    (pushed_filters, "[Or(EqualTo(a,1),EqualTo(b,2))]", {}, {"a", "b"}),
    (pushed_filters, "[EqualTo(k,1", {}, {"k"}),
    (pushed_filters, "[Somethingelse(k,1)]", {}, {"k"}),
    (printed_expressions, "[(cast(k#0 as string) = 5), (c#1 = x)]", {"c": ["[x, x]"]}, {"k", "c"}),
    (printed_expressions, "[(a#0 = b#1)]", {}, {"a", "b"}),
    (printed_expressions, "[(year(d#3) = 2026)]", {}, {"d"}),
    (iceberg_filters, "bucket[4](k) = 3", {}, set()),
]


@pytest.mark.parametrize("read, text, expected, columns", WIDER)
def test_text_that_cannot_be_parsed_is_no_filter_and_is_reported(
    read: Any, text: str, expected: dict[str, list[str]], columns: set[str]
) -> None:
    meaning = read(text)
    assert (drawn(meaning), set(meaning.columns)) == (expected, columns)
    assert not meaning.understood


@settings(max_examples=fewer(300), derandomize=True, deadline=None)
@given(st.text(alphabet="[]()kc#1L=<> ,'ANDORINEqualTo", max_size=40))
def test_no_text_makes_a_parser_fail(text: str) -> None:
    for read in (pushed_filters, printed_expressions, iceberg_filters):
        assert isinstance(read(text), Meaning)


_VALUE = st.text(alphabet="ab, ()'", min_size=1, max_size=8).filter(lambda v: v != "null")


@settings(max_examples=fewer(200), derandomize=True, deadline=None)
@given(_VALUE, _VALUE)
def test_text_with_commas_and_brackets_is_parsed_unchanged(one: str, two: str) -> None:
    meaning = pushed_filters(f"[IsNotNull(a), EqualTo(a,{one}), GreaterThan(b,{two})]")
    assert meaning.filters["a"] == (Span(one, one),)
    assert meaning.filters["b"] == (Span(two, None, after=True),)


@pytest.mark.parametrize("read", [pushed_filters, printed_expressions, iceberg_filters])
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a.",
        "`",
        "(",
        "k#1 = ",
        "(k#1 = 1)x, ",
        "x ~ 1, ",
        "EqualTo(k,",
        "Or(",
        "'a', ",
        "k LIKE '",
        "NOT ",
    ],
)
@pytest.mark.parametrize("start", ["", "(k#1 = ", "k = '", "EqualTo(k,"])
def test_a_long_filter_is_read_in_proportion_to_its_length(
    read: Callable[[str], object], start: str, piece: str
) -> None:
    assert_linear(read, lambda n: start + piece * (n // len(piece)))
