"""Spark's order of values on Arrow arrays: NULL first, NaN last, −0.0 equal to 0.0, text and binary by unsigned bytes.

    boolean, integer, date, timestamp, float, decimal of up to 18 digits    int64, in the order of the values
    longer decimals                                                         as they are
    text, binary                                                            binary

A **token** is one such value as a Python int or bytes; bounds of row groups and cuts are compared as tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.values import SHORT_DECIMAL, Longs, canonical

Token = int | bytes
_RUNS = 64  # ascending runs up to which merging them is cheaper than sorting all values
_NAN = int(np.array([0x7FF8_0000_0000_0000], np.int64)[0])  # above the bits of every number and of infinity


def ordered(values: pa.Array) -> pa.Array:
    """The values as int64, binary or decimals that Arrow orders as Spark orders the values. Raises Declined."""
    kind = values.type
    if pa.types.is_floating(kind):
        plain = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        return pa.array(_order_of_floats(plain), mask=values.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_decimal128(kind) and kind.precision > SHORT_DECIMAL:
        return values
    return canonical(values)


def _order_of_floats(plain: npt.NDArray[np.float64]) -> Longs:
    bits = (plain + 0.0).view(np.int64)  # the sum turns −0.0 into 0.0
    turned = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return np.where(np.isnan(plain), np.int64(_NAN), turned)


def tokens(values: pa.Array) -> list[Token | None]:
    """The values of an array from :func:`ordered`, each as a token; None for NULL."""
    found: list[Any] = values.to_pylist()
    if pa.types.is_decimal(values.type):
        return [None if value is None else unscaled(value, values.type.scale) for value in found]
    return found


def token_of_bound(bound: float | bytes) -> Token:
    """A bound of a row group (:class:`lakekeeper.columnar.parquet.Bounds`) as a token."""
    if not isinstance(bound, float):
        return bound
    return int(_order_of_floats(np.array([bound]))[0].item())


def unscaled(value: Decimal, scale: int) -> int:
    """A decimal as an integer of its last place."""
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -number if sign else number


@dataclass(frozen=True, slots=True)
class Range:
    """The values from ``lo`` (inclusive; None: from NULL on) to ``hi`` (exclusive; None: to NaN) as tokens."""

    lo: Token | None = None
    hi: Token | None = None

    @property
    def whole(self) -> bool:
        return self.lo is None and self.hi is None

    def holds(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of the values, from :func:`ordered`, are in the range."""
        inside = np.ones(len(values), np.bool_)
        for end, compare in ((self.lo, pc.greater_equal), (self.hi, pc.less)):
            if end is not None:
                found = compare(values, _scalar(end, values.type))
                inside &= found.fill_null(compare is pc.less).to_numpy(zero_copy_only=False)
        return inside

    def may_hold(self, lo: Token | None, hi: Token | None, *, nulls: bool, nans: bool) -> bool:
        """Whether values between two bounds (None: unknown) may be in the range, or a NULL or a NaN beside them."""
        if (nulls and self.lo is None) or (nans and self.hi is None) or lo is None or hi is None:
            return True
        return (self.lo is None or hi >= self.lo) and (self.hi is None or lo < self.hi)  # type: ignore[operator]  # both are int, or both bytes


def _scalar(token: Token, kind: pa.DataType) -> pa.Scalar:
    if isinstance(token, int) and pa.types.is_decimal(kind):
        return pa.scalar(Decimal(token).scaleb(-kind.scale, Context(prec=76)), kind)
    return pa.scalar(token, kind)


def ranges(cuts: Sequence[Token], within: Range | None = None) -> list[Range]:
    """The ranges between ascending cuts, from one end to the other of another range; a cut belongs to the upper one."""
    ends = [within.lo if within else None, *cuts, within.hi if within else None]
    return [Range(lo, hi) for lo, hi in pairwise(ends)]


def buckets(values: pa.Array, cuts: Sequence[Token]) -> Longs:
    """The number of the range between the cuts that each value is in."""
    if pa.types.is_int64(values.type):
        plain = values.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        number = np.searchsorted(np.array(cuts, np.int64), plain, side="right")
        return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, number)
    found = np.zeros(len(values), np.int64)
    for cut in cuts:
        above = pc.greater_equal(values, _scalar(cut, values.type))
        found += above.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def permutation(keys: Sequence[pa.Array]) -> Longs | None:
    """The positions of the rows in key order; None if they are in order. ``keys`` come from :func:`ordered`."""
    first = keys[0]
    if len(keys) == 1 and pa.types.is_int64(first.type):
        return _of_longs(first)
    named = {}
    for number, key in enumerate(keys):
        if key.null_count:
            named[f"{number} is there"] = key.is_valid()  # False is less than True
        named[str(number)] = key
    order = pc.sort_indices(pa.table(named), sort_keys=[(name, "ascending") for name in named])
    found: Longs = order.to_numpy().astype(np.int64)
    return None if (found[1:] > found[:-1]).all() else found


def _of_longs(key: pa.Array) -> Longs | None:
    if key.null_count:
        null = key.is_null().to_numpy(zero_copy_only=False)
        rest = np.flatnonzero(~null)
        inner = _of_longs(key.drop_null())
        return np.concatenate([np.flatnonzero(null), rest if inner is None else rest[inner]])
    values: Longs = key.to_numpy()
    descents = np.count_nonzero(values[1:] < values[:-1])
    if descents == 0:
        return None
    if descents >= _RUNS and (found := _packed(values)) is not None:
        return found
    return np.argsort(values, kind="stable")  # it finds ascending runs, and merges them


def _packed(values: Longs) -> Longs | None:
    """The order by a sort of numbers that hold a value and its position, a quarter of the work of an argsort.

    ├─ value − least ─┼─ position ─┤      None if both do not fit into 64 bits
    """
    least, bits = int(values.min()), (len(values) - 1).bit_length()
    if (int(values.max()) - least).bit_length() + bits > 64:
        return None
    packed = (values - np.int64(least)).view(np.uint64)
    packed <<= np.uint64(bits)
    packed |= np.arange(len(values), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << bits) - 1)
    order: Longs = packed.view(np.int64)
    return order
