"""Filters as spans of columns: the algebra that the parser of plans builds on.

    a >= 3 and a < 9 and b in (1, 2)     {a: [3, 9), b: [1, 1] or [2, 2]}          a box
    a = 1 or b = 2                       no span holds for every row               wider than the filter: not understood
    not (a < 3)                          {a: [3, …)}                               pushed down to the leaves

Values are kept as they were printed, and the column's kind is not known here: what is decided holds whether printed
numbers are compared as numbers or as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from operator import itemgetter
from typing import Any

from lakekeeper.core.workload.workload import EVERYTHING, Filters, Span, union

_MOST_SPANS = 256  # per column of one filter; more are replaced by one span from the first to the last


@dataclass(frozen=True, slots=True)
class Meaning:
    """Spans that contain all matching rows, the columns in the filter, and whether the spans express all of it."""

    filters: Filters
    columns: tuple[str, ...] = ()
    understood: bool = True


ALL = Meaning({})
"""A filter that keeps every row, or that cannot exclude any file (``a <> 5``)."""


def unknown(columns: Iterable[str] = ()) -> Meaning:
    """A filter that could not be parsed: it counts as no filter."""
    return Meaning({}, tuple(dict.fromkeys(columns)), understood=False)


def spans(column: str, *found: Span) -> Meaning:
    """One of the spans holds for the column."""
    return Meaning({column: union(_bounded(found))}, (column,))


def compare(column: str, sign: str, value: Any) -> Meaning:
    """``column sign value`` for SQL's comparison signs; ``<>`` and ``!=`` exclude no file."""
    span = {
        "=": Span(value, value),
        "<=>": Span(value, value),
        "<": Span(None, value, before=True),
        "<=": Span(None, value),
        ">": Span(value, None, after=True),
        ">=": Span(value, None),
    }.get(sign)
    return spans(column, span) if span else Meaning({}, (column,))


def starts_with(column: str, prefix: str) -> Meaning:
    """Text that starts with ``prefix``: from it to the next text of the same length, exclusive."""
    last = prefix[-1:]
    if not last or ord(last) >= 0xD7FF:
        return Meaning({}, (column,), understood=not last)
    return spans(column, Span(prefix, prefix[:-1] + chr(ord(last) + 1), before=True))


def both(parts: Iterable[Meaning]) -> Meaning:
    """The conjunction: all parts hold."""
    filters: dict[str, tuple[Span, ...]] = {}
    columns: list[str] = []
    understood = True
    for part in parts:
        columns += part.columns
        understood &= part.understood
        for column, found in part.filters.items():
            held = filters.get(column, EVERYTHING)
            filters[column] = _bounded([s for a, b in product(held, found) for s in _meet(a, b)])
    return Meaning(filters, tuple(dict.fromkeys(columns)), understood)


def either(parts: Iterable[Meaning]) -> Meaning:
    """The disjunction: one part holds; keeps the columns that all parts restrict."""
    listed = list(parts)
    columns = tuple(dict.fromkeys(c for part in listed for c in part.columns))
    understood = all(part.understood for part in listed)
    shared = [c for c in columns if all(c in part.filters for part in listed)]
    filters: dict[str, tuple[Span, ...]] = {
        c: _bounded(union([s for part in listed for s in part.filters[c]])) for c in shared
    }
    narrower = any(len(part.filters) > len(shared) for part in listed) or len(shared) > 1
    return Meaning(filters, columns, understood and not narrower)


def _bounded(found: Iterable[Span]) -> tuple[Span, ...]:
    """The same spans; if they are too many, their hull as text, and where all are numbers, as numbers.

    Of the two hulls of printed numbers, the one in the order of the column contains the other.
    """
    listed = tuple(found)
    if len(listed) <= _MOST_SPANS:
        return listed
    if any(s.null or s.lo is None or s.hi is None for s in listed):
        return EVERYTHING
    bounds = [bound for span in listed for bound in (span.lo, span.hi)]
    hulls = [Span(min(bounds, key=str), max(bounds, key=str))]
    numbers = [(number, bound) for bound in bounds if (number := _number(bound)) is not None]
    if len(numbers) == len(bounds):
        numbers.sort(key=itemgetter(0))
        by_number = Span(numbers[0][1], numbers[-1][1])
        hulls = [by_number, *(hulls if isinstance(bounds[0], str) else ())]
    return union(hulls)


def _number(bound: Any) -> tuple[bool, Decimal] | None:
    """What sorts a bound among numbers, NaN last; None if it is not a number."""
    try:
        number = Decimal(str(bound))
    except InvalidOperation:
        return None
    return (True, Decimal()) if number.is_nan() else (False, number)


def _meet(one: Span, other: Span) -> tuple[Span, ...]:
    """The intersection of two spans: none or one span."""
    if one.null or other.null:
        if one.null and other.null:
            return (one,)
        return (one if other.whole else other,) if one.whole or other.whole else ()
    lo, after = _tighter((one.lo, one.after), (other.lo, other.after), greater=True)
    hi, before = _tighter((one.hi, one.before), (other.hi, other.before), greater=False)
    if lo is not None and hi is not None and lo != hi and not _least(lo, hi):
        printed = isinstance(lo, str) and isinstance(hi, str)
        if not (printed and lo <= hi):  # as text, '10' is below '9'
            return ()
    return (Span(lo, hi, after, before),)


def _tighter(one: tuple[Any, bool], other: tuple[Any, bool], *, greater: bool) -> tuple[Any, bool]:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    return one if _least(one[0], other[0]) != greater else other


def _least(one: Any, other: Any) -> bool:
    """Whether ``one`` is at or below ``other``."""
    try:
        return float(one) <= float(other)
    except (TypeError, ValueError, OverflowError):
        return str(one) <= str(other)
