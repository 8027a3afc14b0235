"""Values as Spark orders them, in plain Python: what the memory adapter and the oracles agree on.

Nothing here shares code with ``lakekeeper.core.layout.ranks``, so that the two can check each other.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.keys import arrow_type

Row = dict[str, Any]
"""One row: column name → value, a struct is a dict."""

Token = tuple[int, Any]
"""A sort token, in the order of Spark: NULL first, NaN last, −0.0 equal to 0.0, text and binary by bytes."""

NULL: Token = (0, 0)
_NAN: Token = (2, 0)
_LAST_MICROSECOND = dt.timedelta(microseconds=999)  # offset of the last microsecond of a millisecond


def token(value: Any) -> Token:
    """The sort token of a value; tokens of one column compare with one another."""
    if value is None:
        return NULL
    if isinstance(value, float):
        return _NAN if math.isnan(value) else (1, value + 0.0)
    return (1, value.encode() if isinstance(value, str) else value)


def at_path(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a column path; None below a struct that is NULL."""
    value: Any = row
    for step in path:
        value = None if value is None else value.get(step)
    return value


def text(value: Any) -> str:
    """A value as text: a measure of its size, spelled so that 0.0 and −0.0, or 1 and '1', differ."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.timezone.utc)
    return repr(bytes(value)) if isinstance(value, bytes | bytearray) else repr(value)


def fingerprint(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The rows as a sorted multiset of texts: equal if and only if the rows are equal, in any order."""
    return tuple(sorted(text(row) for row in rows))


def from_json_value(value: Any, kind: str) -> Any:
    """Inverse of ``lakekeeper.core.model.keys.to_json_value``."""
    if value is None:
        return None
    if kind == "binary":
        return base64.b64decode(value)
    if kind == "float":
        return float(value)
    if kind.startswith("decimal"):
        return Decimal(value)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        width = pa.int32() if kind == "date" else pa.int64()
        return pa.scalar(value, width).cast(arrow_type(kind)).as_py()
    return value


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one column in one file: bounds (or None), NULLs, and whether the bounds are exact."""

    lo: Any
    hi: Any
    nulls: int
    exact: bool = True


def statistics(
    values: Sequence[Any], truncate: int | None = None, *, milliseconds: bool = False
) -> Statistics:
    """Bounds over a column as a writer keeps them, never narrower than the values.

    ``truncate`` is the number of characters (or bytes) that a bound keeps; ``milliseconds`` rounds timestamps to
    milliseconds, with the upper bound raised to the last microsecond of its millisecond.
    """
    held = [v for v in values if v is not None]
    nulls = len(values) - len(held)
    if not held:
        return Statistics(None, None, nulls)
    lo, hi = min(held, key=token), max(held, key=token)
    if isinstance(lo, str | bytes) and truncate is not None:
        low, high = lo[:truncate], _cut_above(hi, truncate)
        whole = len(lo) < truncate and len(hi) < truncate  # a format does not record whether more followed
        return Statistics(low if high is not None else None, high, nulls, whole)
    if isinstance(lo, dt.datetime) and milliseconds:
        return Statistics(_floor(lo), _floor(hi) + _LAST_MICROSECOND, nulls, exact=False)
    return Statistics(lo, hi, nulls)


def _floor(instant: dt.datetime) -> dt.datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _cut_above(value: Any, truncate: int) -> Any:
    """The shortest prefix-made bound that is not below ``value``; None if no character can be raised."""
    if len(value) <= truncate:
        return value
    kept = value[:truncate]
    for end in range(len(kept) - 1, -1, -1):
        if isinstance(kept, bytes):
            if kept[end] < 0xFF:
                return kept[:end] + bytes([kept[end] + 1])
        elif ord(kept[end]) < 0x10FFFF:
            raised = ord(kept[end]) + 1
            return kept[:end] + chr(0xE000 if 0xD800 <= raised < 0xE000 else raised)
    return None
