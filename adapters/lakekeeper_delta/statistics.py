"""The statistics of a written file as Delta records them, from the bounds in Parquet's own form.

numbers      as they are; NaN is the greatest, and written as text like the infinities
dates        ISO 8601, in the proleptic Gregorian calendar
timestamps   truncated to milliseconds, in UTC
text         truncated to 32 characters, by Delta's own functions: a maximum with a tie-breaker
others       only their NULLs are counted

A bound that cannot be written in this form is left out together with the other one: readers then skip no file by it.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from typing import Any

from lakekeeper.core.model.file_merge import ColumnStats, FileColumn, WrittenFile
from lakekeeper_delta.native import Log, State

_PREFIX = 32
_PRECISION = Context(prec=76)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - arithmetic of wall clock time
_BOUNDED = frozenset(
    ("int8", "int16", "int32", "int64", "float", "double", "date", "timestamp", "timestamp_ntz")
)


Names = Mapping[str, "Names"]
"""Columns by name, with the recorded fields of a struct."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """Physical names of the columns whose bounds and whose NULLs are recorded, and Delta's truncation of text."""

    bounded: Names
    counted: Names
    tight: bool
    shorten_min: Callable[[str], str | None]
    shorten_max: Callable[[str], str | None]

    @classmethod
    def of(cls, log: Log, state: State) -> Indexed:
        """As Delta's own writer would record them for this version."""
        schema = json.loads(state.snapshot.statsSchema().json())
        parts = {field["name"]: field["type"] for field in schema["fields"]}
        of_delta = log.singleton("stats.StatisticsCollection")
        return cls(
            _names(parts.get("minValues")),
            _names(parts.get("nullCount")),
            "tightBounds" in parts,
            lambda text: of_delta.truncateMinStringAgg(_PREFIX, text),
            lambda text: of_delta.truncateMaxStringAgg(_PREFIX, text),
        )


def _names(kind: Any) -> Names:
    nested = isinstance(kind, Mapping) and kind["type"] == "struct"
    return {field["name"]: _names(field["type"]) for field in kind["fields"]} if nested else {}


def stats_json(indexed: Indexed, columns: Sequence[FileColumn], file: WrittenFile) -> str:
    """The text of ``AddFile.stats``."""
    parts = [f'"numRecords":{file.rows}']
    for name, text in (("minValues", 0), ("maxValues", 1)):
        if indexed.bounded:
            ends = partial(_end, indexed, file.rows, text)
            parts.append(f'"{name}":{_object(indexed.bounded, columns, file.stats, ends)}')
    if indexed.counted:
        nulls = _object(indexed.counted, columns, file.stats, lambda _, stats: str(stats.nulls))
        parts.append(f'"nullCount":{nulls}')
    if indexed.tight:
        parts.append('"tightBounds":true')
    return f"{{{','.join(parts)}}}"


def _object(
    names: Names,
    columns: Sequence[FileColumn],
    stats: Sequence[ColumnStats],
    value: Callable[[FileColumn, ColumnStats], str | None],
) -> str:
    """A JSON object with the values of the named columns, and objects of structs."""
    members = []
    for column, found in zip(columns, stats, strict=True):
        if column.name not in names:
            continue
        within = names[column.name]
        text = _object(within, column.children, found.children, value) if within else value(column, found)
        members += [f"{json.dumps(column.name)}:{text}"] if text is not None else []
    return f"{{{','.join(members)}}}"


def _end(indexed: Indexed, rows: int, end: int, column: FileColumn, stats: ColumnStats) -> str | None:
    bounds = _bounds(indexed, column.kind, stats, rows)
    return bounds[end] if bounds else None


def _bounds(indexed: Indexed, kind: str, stats: ColumnStats, rows: int) -> tuple[str, str | None] | None:
    """Minimum and maximum as JSON; None if the column has none. A text may have no maximum of few characters."""
    if kind in ("float", "double"):
        return _of_floats(stats, rows)
    if stats.lo is None:
        return None
    if kind == "string":
        return _of_text(indexed, stats)
    if kind.startswith("decimal"):
        scale = int(kind[:-1].rpartition(",")[2])
        return _decimal(stats.lo, scale), _decimal(stats.hi, scale)
    if kind not in _BOUNDED:
        return None
    if not kind.startswith(("date", "timestamp")):
        return str(stats.lo), str(stats.hi)
    try:
        return _iso(kind, stats.lo), _iso(kind, stats.hi)
    except OverflowError:  # beyond the years from 1 to 9999
        return None


def _of_floats(stats: ColumnStats, rows: int) -> tuple[str, str] | None:
    if stats.nulls == rows:
        return None
    lo, hi = (math.nan if end is None else float(end) for end in (stats.lo, stats.hi))
    return _float(lo), _float(math.nan if stats.nans else hi)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'


def _of_text(indexed: Indexed, stats: ColumnStats) -> tuple[str, str | None] | None:
    try:
        lo, hi = (base64.b64decode(end).decode() for end in (stats.lo, stats.hi))
    except UnicodeDecodeError:
        return None
    low = indexed.shorten_min(lo) if len(lo) > _PREFIX // 2 else lo  # Java counts a character twice at most
    high = indexed.shorten_max(hi) if len(hi) > _PREFIX // 2 else hi
    return json.dumps(low), None if high is None else json.dumps(high)


def _decimal(number: int, scale: int) -> str:
    return f"{Decimal(number).scaleb(-scale, _PRECISION):f}"


def _iso(kind: str, value: int) -> str:
    if kind == "date":
        return json.dumps((_EPOCH + dt.timedelta(days=value)).date().isoformat())
    text = (_EPOCH + dt.timedelta(milliseconds=value // 1000)).isoformat(timespec="milliseconds")
    return json.dumps(text + ("Z" if kind == "timestamp" else ""))
