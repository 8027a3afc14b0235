"""Which partitions a query's filters admit, from the text of the partition values.

    filter     day = '2026-01-02' and k = 7
    partition  {"day":"2026-01-01"}   no        {"day":"2026-01-02"}   yes: only its blocks can be read

A partition field is identified by its name: that of a column (identity), or the default name of a transform in Iceberg
(``ts_day``, ``ts_hour``, ``ts_month``, ``ts_year``, ``id_bucket``) if its values are numbers, or dates for a day. The
name of a bucket does not show which values it holds, so each bucket is read with the probability that it holds one of
the requested values. Any other field admits every value.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from lakekeeper.core.cost.query_ranges import value_of
from lakekeeper.core.model.blocks import Bools, Index
from lakekeeper.core.units import Floats
from lakekeeper.core.workload.workload import Filters, Span

_UNITS = ("year", "month", "day", "hour")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US = timedelta(microseconds=1)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]")
_DIGITS = re.compile(r"-?\d{1,19}")
_LEAST_DAYS, _MOST_DAYS = 3_000, 700_000  # from 1970: to 1978, and about 1,900 years


@dataclass(frozen=True, slots=True, eq=False)
class PartitionFields:
    """The partition fields of a table, parsed once for any number of filters.

    values   field name (lower case) → its value in each partition, None for NULL; no fields where no value is known
    """

    count: int
    values: Mapping[str, Sequence[Any]]
    _parsed: dict[tuple[str, str, str], _Ends] = field(default_factory=dict)
    _dated: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, partitions: Sequence[str]) -> PartitionFields:
        """The fields that occur in the texts of these partitions."""
        found: dict[str, list[Any]] = {}
        for i, text in enumerate(partitions):
            try:
                values = json.loads(text) if text.startswith("{") else {}
            except ValueError:
                values = {}
            for name, value in values.items():
                column = found.get(name.lower())
                if column is None:
                    column = found[name.lower()] = [None] * len(partitions)
                column[i] = None if value == "" else value
        return cls(len(partitions), found)

    @property
    def columns(self) -> frozenset[str]:
        """Columns (lower case) whose filters may exclude partitions."""
        return frozenset(column for name in self.values for column, _ in _readings(name))

    def admitted(self, filters: Filters) -> Floats:
        """For each partition, the probability that it holds results of the query: 1 or 0, except for buckets."""
        share = np.ones(self.count)
        by_column = {column.lower(): spans for column, spans in filters.items()}
        for name in self.values:
            for column, unit in _readings(name):
                if column in by_column:
                    share *= self._field(name, unit, by_column[column])
                    break
        return share

    def _field(self, name: str, unit: str, spans: Sequence[Span]) -> Floats:
        values = self.values[name]
        if unit == "bucket":
            return _in_buckets(values, spans)
        if unit and any(_is_no_time(bound) for span in spans for bound in (span.lo, span.hi)):
            return np.ones(len(values))
        if unit or self._dates(name):
            spans = [replace(span, lo=_date(span.lo), hi=_date(span.hi)) for span in spans]
        met = np.zeros(len(values), dtype=np.bool_)
        for span in spans:
            met |= self._ends(name, unit, _form(span, unit)).meeting(span)
        return met.astype(np.float64)

    def _dates(self, name: str) -> bool:
        """Whether the values of a field are dates."""
        if name not in self._dated:
            known = [value for value in self.values[name] if value is not None]
            self._dated[name] = all(isinstance(value, str) and _DATE.fullmatch(value) for value in known)
        return self._dated[name]

    def _ends(self, name: str, unit: str, form: str) -> _Ends:
        made = self._parsed.get((name, unit, form))
        if made is None:
            made = self._parsed[name, unit, form] = _Ends.of(self.values[name], unit, form)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """The least and the greatest value of a column in each partition, comparable with bounds of one form.

    null     the partitions whose value is NULL
    sides    partitions with numbers, and those with text: their positions, least and greatest values; a partition
             whose value is of another kind than the bounds is in neither, and not excluded
    """

    null: Bools
    sides: tuple[tuple[Index, npt.NDArray[Any], npt.NDArray[Any]], ...]

    @classmethod
    def of(cls, values: Sequence[Any], unit: str, form: str) -> _Ends:
        """The ends of a field whose value in each partition is one of ``values``."""
        found: dict[type, list[tuple[Any, ...]]] = {}
        for i, value in enumerate(values):
            if value is not None:
                with contextlib.suppress(ValueError, TypeError, OverflowError):
                    ends = _period(value, unit, form) if unit else [_identity(value, form)] * 2
                    found.setdefault(type(ends[0]), []).append((i, *ends))
        sides = []
        for kind, rows in found.items():
            at, first, last = zip(*rows, strict=True)
            dtype = np.float64 if kind is float else np.object_
            sides.append((np.array(at), np.array(first, dtype), np.array(last, dtype)))
        return cls(np.array([value is None for value in values], dtype=np.bool_), tuple(sides))

    def meeting(self, span: Span) -> Bools:
        """The partitions that may hold a value of the span."""
        if span.null or span.whole:
            return self.null if span.null else np.ones(len(self.null), dtype=np.bool_)
        met = ~self.null
        for at, first, last in self.sides:
            try:
                low, high = (None if b is None else _like(b, first[0]) for b in (span.lo, span.hi))
            except (ValueError, TypeError, OverflowError):
                continue
            if low is not None:
                met[at] &= ~(last <= low if span.after else last < low)  # NaN is never excluded
            if high is not None:
                met[at] &= ~(first >= high if span.before else first > high)
        return met


def _in_buckets(values: Sequence[Any], spans: Sequence[Span]) -> Floats:
    """The probability that each bucket holds one of the requested values."""
    single = sum(s.lo is not None and s.lo == s.hi for s in spans)
    buckets = max(len(set(values)), 1)
    known = single == len(spans) and all(value is None or isinstance(value, int) for value in values)
    return np.full(len(values), 1 - (1 - 1 / buckets) ** single if known else 1.0)


def _readings(name: str) -> list[tuple[str, str]]:
    """The columns and transforms that a field may come from: the column of its name, or a column and a transform."""
    column, _, transform = name.rpartition("_")
    return [(name, ""), *([(column, transform)] if column and transform in (*_UNITS, "bucket") else [])]


def _date(bound: Any) -> Any:
    """A bound on dates as text: Iceberg prints them as days since 1970. µs, and text, are returned as they are."""
    days = _whole(bound)
    if days is None or abs(days) >= _MOST_DAYS:
        return bound
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def _is_no_time(bound: Any) -> bool:
    """Whether a bound is a number before 1978, in days or µs: the field is a column of Delta named like a transform."""
    whole = _whole(bound)
    return isinstance(bound, float) if whole is None else abs(whole) < _LEAST_DAYS


def _whole(bound: Any) -> int | None:
    """A whole number, or text that is one; None for anything else."""
    if isinstance(bound, str) and _DIGITS.fullmatch(bound):
        return int(bound)
    return bound if isinstance(bound, int) and not isinstance(bound, bool) else None


def _form(span: Span, unit: str) -> str:
    """How values are compared with the bounds of a span: as timestamps, dates, numbers or text."""
    bound = next((b for b in (span.lo, span.hi) if b is not None), "")
    if unit:  # µs, or text with a time of day; otherwise the bounds are dates
        return "timestamp" if isinstance(bound, int) or len(str(bound)) > 10 else "date"
    if isinstance(bound, int | float) and not isinstance(bound, bool):
        return "number"
    return "numeric text" if _number(str(bound)) else "text"


def _identity(value: Any, form: str) -> float | str:
    """A partition value that is the column's own."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if form != "text" and _number(text):
        return float(text)
    if form == "number" or (form == "numeric text" and _TIME.match(text)):  # Iceberg prints timestamps as µs
        return float(value_of(text, "timestamp"))
    return text


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


def _period(value: Any, unit: str, form: str) -> tuple[float, float]:
    """The first and the last µs of a year, month, day or hour, which Iceberg counts from 1970."""
    if unit == "day" and isinstance(value, str):
        first = float(_us(value))
        return first, first + 86_400e6 - 1
    if not isinstance(value, int):
        raise TypeError(f"{value!r}: Iceberg counts {unit}s")  # text: a column of Delta with such a name
    if unit in ("day", "hour"):
        length = 86_400e6 if unit == "day" else 3600e6
        return value * length, (value + 1) * length - 1
    months = value * (12 if unit == "year" else 1)
    after = months + (12 if unit == "year" else 1)
    first, end = (float((_month(m) - _EPOCH) // _US) for m in (months, after))
    return first, end - (86_400e6 if form == "date" else 1)


def _month(since_1970: int) -> datetime:
    return datetime(1970 + since_1970 // 12, since_1970 % 12 + 1, 1, tzinfo=timezone.utc)
