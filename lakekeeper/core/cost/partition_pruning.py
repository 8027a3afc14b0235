"""Which partitions a query's filters admit, from the text of the partition values.

    filter     day = '2026-01-02' and k = 7
    partition  {"day":"2026-01-01"}   no        {"day":"2026-01-02"}   yes: only its blocks can be read

A partition field is identified by its name: that of a column (identity), or the default name of a transform in Iceberg
(``ts_day``, ``ts_hour``, ``ts_month``, ``ts_year``, ``id_bucket``). The name of a bucket does not show which values it
holds, so each bucket is read with the probability that it holds one of the requested values. Any other field
admits every value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from lakekeeper.core.cost.query_ranges import value_of
from lakekeeper.core.units import Floats
from lakekeeper.core.workload.workload import Filters, Span

_UNITS = ("year", "month", "day", "hour")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US = timedelta(microseconds=1)


def fields_of(partitions: Sequence[str]) -> Mapping[str, list[Any]]:
    """Field name (lower case) → its value in each partition, None for NULL; empty where there are no partitions."""
    found: dict[str, list[Any]] = {}
    for i, text in enumerate(partitions):
        try:
            values = json.loads(text) if text.startswith("{") else {}
        except ValueError:
            values = {}
        for name, value in values.items():
            found.setdefault(name.lower(), [None] * len(partitions))[i] = None if value == "" else value
    return found


def partition_columns(partitions: Sequence[str]) -> frozenset[str]:
    """Columns (lower case) whose filters may exclude partitions."""
    return frozenset(column for name in fields_of(partitions) for column, _ in _readings(name))


def admitted(partitions: Sequence[str], filters: Filters) -> Floats:
    """For each partition, the probability that it holds results of the query: 1 or 0, except for buckets."""
    share = np.ones(len(partitions))
    asked = {column.lower(): spans for column, spans in filters.items()}
    for name, values in fields_of(partitions).items():
        for column, unit in _readings(name):
            if column in asked:
                share *= _field(values, unit, asked[column])
                break
    return share


def _readings(name: str) -> list[tuple[str, str]]:
    """The columns and transforms that a field may come from: the column of its name, or a column and a transform."""
    column, _, transform = name.rpartition("_")
    return [(name, ""), *([(column, transform)] if column and transform in (*_UNITS, "bucket") else [])]


def _field(values: Sequence[Any], unit: str, spans: Sequence[Span]) -> Floats:
    if unit == "bucket":
        single = sum(s.lo is not None and s.lo == s.hi for s in spans)
        buckets = max(len(set(values)), 1)
        known = single == len(spans)
        return np.full(len(values), 1 - (1 - 1 / buckets) ** single if known else 1.0)
    return np.array([float(any(_meets(span, value, unit) for span in spans)) for value in values])


def _meets(span: Span, value: Any, unit: str) -> bool:
    if value is None or span.null:
        return value is None and (span.null or span.whole)
    try:
        first, last = _ends(value, unit, span)
        low = None if span.lo is None else _like(span.lo, first)
        high = None if span.hi is None else _like(span.hi, first)
        if low is not None and (last < low or (last == low and span.after)):
            return False
        return high is None or not (first > high or (first == high and span.before))
    except (ValueError, TypeError, OverflowError):
        return True  # the value is of another kind than the bound: no partition is excluded


def _ends(value: Any, unit: str, span: Span) -> tuple[Any, Any]:
    """The least and the greatest value of the column in the partition, comparable with the span's bounds."""
    if unit:
        return _period(value, unit, dates=not _moments(span))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    bound = next(b for b in (span.lo, span.hi, "") if b is not None)
    if isinstance(bound, int | float) and not isinstance(bound, bool):
        try:
            number = float(text)
        except ValueError:
            number = float(value_of(text, "timestamp"))
        return number, number
    try:
        float(str(bound))
        return float(text), float(text)
    except ValueError:
        return text, text


def _moments(span: Span) -> bool:
    """Whether the bounds are timestamps (µs, or text with a time of day); otherwise they are dates."""
    bound = next((b for b in (span.lo, span.hi) if b is not None), "")
    return isinstance(bound, int) or len(str(bound)) > 10


def _like(bound: Any, value: Any) -> Any:
    """A bound converted to the kind of ``value``: a number, or text."""
    if isinstance(value, float):
        return float(bound) if not isinstance(bound, str) or _number(bound) else float(_us(bound))
    return str(bound).lower() if isinstance(bound, bool) else str(bound)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _us(text: str) -> int:
    return int(value_of(text if len(text) > 10 else f"{text} 00:00:00", "timestamp"))


def _period(value: Any, unit: str, *, dates: bool) -> tuple[float, float]:
    """The first and the last µs of a year, month, day or hour, which Iceberg counts from 1970."""
    if unit == "day" and isinstance(value, str):
        first = float(_us(value))
        return first, first + 86_400e6 - 1
    number = int(value)
    if unit in ("day", "hour"):
        length = 86_400e6 if unit == "day" else 3600e6
        return number * length, (number + 1) * length - 1
    months = number * (12 if unit == "year" else 1)
    after = months + (12 if unit == "year" else 1)
    first, end = (float((_month(m) - _EPOCH) // _US) for m in (months, after))
    return first, end - 1 if not dates else end - 86_400e6


def _month(since_1970: int) -> datetime:
    return datetime(1970 + since_1970 // 12, since_1970 % 12 + 1, 1, tzinfo=timezone.utc)
