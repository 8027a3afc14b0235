"""A workload on one key column: its ranges as numbers that compare with the bounds of blocks, and their sums.

Bounds of blocks and of queries become dense ranks on one line. The ranks are doubled, so that an open end has a number
between those of two values:

    values      3         5         9            k > 3 and k <= 9  is  [1, 4]
    numbers     0    1    2    3    4            does not meet a block that ends at 3 (0)
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.key_distribution import Line, data_mass, numbers
from lakekeeper.core.layout.ranks import Intervals, dense, ordered
from lakekeeper.core.model.blocks import BlockSet, Bools, Index
from lakekeeper.core.model.keys import arrow_type
from lakekeeper.core.units import Floats, Ints
from lakekeeper.core.workload.workload import Span

_DIGITS = Context(prec=76)  # room for any decimal of 38 digits; the default context has 28
_BITS = {"int": 63, "date": 31, "timestamp": 63, "timestamp_ntz": 63}
_COUNTED = ("int", "date", "boolean")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, eq=False)
class KeyLine:
    """The blocks of one key column on a line, with the bounds that queries name.

    lo, hi      N numbers; −2 where a block holds only NULL, the whole line where statistics are missing
    nulls       N flags: the block holds, or may hold, NULL
    ranks       value → rank, of each bound that a query named
    held        how the blocks' bytes are distributed over the ranks
    values      the values at the ranks, for kinds whose values can be counted; otherwise empty
    wide        share of the bytes in blocks with more than one value; the place of all other bytes is known exactly
    """

    lo: Ints
    hi: Ints
    nulls: Bools
    ranks: dict[Any, int]
    held: Line
    values: Floats
    wide: float

    @property
    def top(self) -> int:
        """A number above all others."""
        return 2 * len(self.held.upto)

    def stretch(self, span: Span, kind: str) -> tuple[int, int] | None:
        """A span as a closed stretch of numbers; None if it contains no value."""
        lo, hi = 0, self.top
        if span.lo is not None:
            lo = 2 * self.ranks[value_of(span.lo, kind)] + span.after
        if span.hi is not None:
            hi = 2 * self.ranks[value_of(span.hi, kind)] - span.before
        return (lo, hi) if lo <= hi else None

    def below(self, number: Ints) -> Floats:
        """Share of the bytes under each number."""
        return self._sum(number, self.held.before, self.held.upto, number // 2)

    def upto(self, number: Ints) -> Floats:
        """Share of the bytes at or under each number."""
        return self._sum(number, self.held.upto, self.held.before, (number + 1) // 2)

    def unit(self, lo: Ints, hi: Ints) -> Floats:
        """The share of a single value in each [lo, hi] of equally frequent values; 0 if they cannot be counted."""
        if not len(self.values):
            return np.zeros(len(lo))
        first, last = (self.values[np.clip(n // 2, 0, len(self.values) - 1)] for n in (lo, hi))
        return np.asarray(self.wide / (np.maximum(last - first, 0.0) + 1))

    def _sum(self, number: Ints, even: Floats, odd: Floats, rank: Ints) -> Floats:
        if not len(even):
            return np.zeros(len(number))
        inside = np.clip(rank, 0, len(even) - 1)
        found = np.where(number % 2 == 0, even[inside], odd[inside])
        found = np.where(rank >= len(even), self.held.total, np.where(rank < 0, 0.0, found))
        return np.asarray(found / max(self.held.total, 1e-300))


def key_line_of(blocks: BlockSet, column: int, kind: str, spans: Sequence[Span]) -> KeyLine:
    """The line of one key column with the bounds of these spans, each of which ``value_of`` can parse."""
    wanted = list(dict.fromkeys(value_of(v, kind) for s in spans for v in (s.lo, s.hi) if v is not None))
    named = _array(wanted, kind)
    lo, hi, n = blocks.lo[column], blocks.hi[column], len(blocks)
    codes, valid = ordered(pa.concat_arrays([lo, hi, named]))
    known = valid[:n] & valid[n : 2 * n]
    low, high, distinct = dense(
        np.concatenate([codes[:n][known], codes[2 * n :]]),
        np.concatenate([codes[n : 2 * n][known], codes[2 * n :]]),
    )
    count, points = int(known.sum()), len(distinct)
    empty = ~known & (blocks.null_count[column] >= blocks.rows)
    number_lo, number_hi = np.zeros(n, np.int64), np.full(n, 2 * points, np.int64)
    number_lo[known], number_hi[known] = 2 * low[:count], 2 * high[:count]
    number_lo[empty] = number_hi[empty] = -2
    held, values = _held(lo, hi, named, known, (low, high), blocks.bytes[known])
    return KeyLine(
        lo=number_lo,
        hi=number_hi,
        nulls=blocks.null_count[column] != 0,
        ranks=dict(zip(wanted, low[count:].tolist(), strict=True)),
        held=held,
        values=values if kind in _COUNTED else values[:0],
        wide=_wide(blocks.bytes[known], low[:count] < high[:count]),
    )


def _held(
    lo: pa.Array, hi: pa.Array, named: pa.Array, known: Bools, ranks: tuple[Ints, Ints], size: Ints
) -> tuple[Line, Floats]:
    """The distribution of bytes over the ranks, and the values at the ranks.

    Each block's bytes are spread evenly over its values; values that only queries name have no weight.
    """
    low, high = ranks
    points = int(high.max(initial=-1)) + 1
    values = np.zeros(points)
    which = pa.array(np.flatnonzero(known))
    first, last = numbers(
        pa.concat_arrays([lo.take(which), named]), pa.concat_arrays([hi.take(which), named])
    )
    values[low], values[high] = first, last
    if not np.isfinite(values).all():  # one of the values is infinite: use the ranks
        values = np.arange(points, dtype=np.float64)
    place = values
    if points:
        start = values[0] / 4  # a difference of quarters cannot overflow
        place = (values / 4 - start) / ((values[-1] / 4 - start) or 1.0)
    none, count = np.full(len(size), -1, np.int64), len(size)
    line = Intervals(
        low[:count], high[:count], np.zeros(points, np.int64), none, none, np.zeros(count, dtype=np.bool_)
    )
    return data_mass(line, place, size), values


def _wide(size: Ints, wide: Bools) -> float:
    return float(size[wide].sum()) / max(float(size.sum()), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Many weighted stretches of a line, summed so that each lookup costs two binary searches."""

    starts: Ints
    ends: Ints
    begun: Floats
    over: Floats
    begun_mass: Floats
    over_mass: Floats

    @classmethod
    def of(cls, line: KeyLine, lo: Ints, hi: Ints, weight: Floats) -> Stretches:
        """Closed stretches ``lo`` to ``hi`` (numbers of the line) with their weights."""
        first, last = np.argsort(lo, kind="stable"), np.argsort(hi, kind="stable")
        return cls(
            lo[first],
            hi[last],
            _sums(weight[first]),
            _sums(weight[last]),
            _sums((weight * line.below(lo))[first]),
            _sums((weight * line.upto(hi))[last]),
        )

    def meeting(self, lo: Ints, hi: Ints) -> Floats:
        """Weight of the stretches that share a number with each [lo, hi]: all, less those before and behind."""
        before = self.over[np.searchsorted(self.ends, lo, side="left")]
        behind = self.begun[-1] - self.begun[np.searchsorted(self.starts, hi, side="right")]
        return np.asarray(np.maximum(self.begun[-1] - before - behind, 0.0))

    def covered(self, line: KeyLine, lo: Ints, hi: Ints) -> Floats:
        """Share of all bytes in both [lo, hi] and a stretch, summed over the stretches by weight."""
        top = self._under(
            line.upto(hi), np.searchsorted(self.starts, hi, "right"), np.searchsorted(self.ends, hi)
        )
        bottom = self._under(line.below(lo), np.searchsorted(self.starts, lo), np.searchsorted(self.ends, lo))
        return np.asarray(np.maximum(top - bottom, 0.0))

    def _under(self, mass: Floats, begun: Index, over: Index) -> Floats:
        """Weighted bytes below a rank: the part below it of stretches that began there, and all of those that ended."""
        return (self.begun[begun] - self.over[over]) * mass - self.begun_mass[begun] + self.over_mass[over]


def _sums(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def value_of(value: Any, kind: str) -> Any:
    """A bound (JSON form, or as a plan printed it) as a whole number of the kind, text, or another Python value.

    Dates become days and timestamps µs (text without a zone counts as UTC). Raises ValueError if it cannot be parsed,
    or if no column of the kind can hold it.
    """
    found = _parsed(value, kind)
    bits = _BITS.get(kind)
    return found if bits is None or -(2**bits) <= found < 2**bits else _refuse(value, kind)


def _parsed(value: Any, kind: str) -> Any:
    if kind in ("timestamp", "timestamp_ntz"):
        return value if isinstance(value, int) else _micros(str(value))
    if kind == "date":
        return value if isinstance(value, int) else _days(str(value))
    if kind == "int":
        return int(value) if not isinstance(value, float) or value.is_integer() else _refuse(value, kind)
    if kind == "boolean":
        return (
            {"true": True, "false": False}[str(value).lower()]
            if str(value).lower() in ("true", "false")
            else _refuse(value, kind)
        )
    if kind == "float":
        try:
            number = float(value)
        except OverflowError:
            _refuse(value, kind)
        return math.nan if math.isnan(number) else number  # one object: two NaN are not equal keys of a dict
    if kind.startswith("decimal"):
        return _decimal(value, kind)
    if kind == "binary":
        return base64.b64decode(value, validate=True)
    if not isinstance(value, str):
        _refuse(value, kind)
    value.encode()  # UnicodeEncodeError is a ValueError
    return value


def _array(values: list[Any], kind: str) -> pa.Array:
    wanted = arrow_type(kind)
    if kind == "date":
        return pa.array(values, pa.int32()).cast(wanted)
    if kind in ("timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def _decimal(value: Any, kind: str) -> Decimal:
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _DIGITS)
    except ArithmeticError as error:
        raise ValueError(f"{value!r} is not a {kind}") from error
    held = number.is_finite() and abs(number) < Decimal(1).scaleb(precision - scale)
    return number if held else _refuse(value, kind)


def _days(text: str) -> int:
    number = text.lstrip("-")
    return int(text) if number.isdigit() else (date.fromisoformat(text[:10]) - _EPOCH.date()).days


def _micros(text: str) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    iso = text.strip().replace(" ", "T", 1)
    body, zone = (iso[:-1], "+00:00") if iso.endswith("Z") else (iso, "")
    if not zone and len(body) > 19 and body[-6:-5] in ("+", "-"):
        body, zone = body[:-6], body[-6:]
    whole, _, fraction = body.partition(".")
    parsed = datetime.fromisoformat(whole + (zone or "+00:00"))
    since = parsed - _EPOCH
    return (since // timedelta(seconds=1)) * 1_000_000 + int((fraction + "000000")[:6])


def _refuse(value: Any, kind: str) -> NoReturn:
    raise ValueError(f"{value!r} is not a {kind}")
