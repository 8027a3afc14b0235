"""Canonical values, where equal means interchangeable: 64-bit integers or bytes, and NULL.

    boolean, integer, date, timestamp, decimal of up to 18 digits    int64
    float, double                                                    their bits as int64; all NaNs are equal
    string, binary, fixed, uuid, longer decimals                     bytes

So −0.0 is not 0.0, and a value is compared as it is stored in the file. A type that is not listed is declined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

SHORT_DECIMAL = 18
"""Most digits of a decimal that fits into 64 bits."""

# Calendars differ before these: a reader may return another time than the file holds, depending on the writer of the
# file and on the session's settings.
_FIRST_SURE_DAY = -25_567  # 1900-01-01
_FIRST_SURE_MICROS = (_FIRST_SURE_DAY + 1) * 86_400_000_000  # by then it is that day in any zone


class Declined(Exception):
    """Rows of these files cannot be compared exactly, or not cheaply enough; the message states the reason."""


class Damaged(Exception):
    """A page of a file does not have its checksum; the message names the file."""


class Incomparable(Declined):
    """Values of a column cannot be compared exactly; other columns of the same rows may still be comparable."""


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type are text or bytes of any length."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def canonical(values: pa.Array) -> pa.Array:
    """The values as int64 or binary. Raises Incomparable for a type that is not listed above."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind):
        return values.cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return values.cast(pa.int64())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _bits(values)
    if pa.types.is_decimal128(kind):
        return _decimals(values, kind.precision)
    if _is_bytes(kind):
        return values.cast(pa.binary())
    raise Incomparable(f"values of type {kind} are not compared")


def refuse_old(values: pa.Array) -> None:
    """Raise Incomparable for dates and timestamps before 1900: a rewrite may have rebased them to another calendar."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    first = {"date32": _FIRST_SURE_DAY, "timestamp": _FIRST_SURE_MICROS}.get(
        str(values.type).partition("[")[0]
    )
    if first is None:
        return
    least = pc.min(canonical(values)).as_py()
    if least is not None and least < first:
        raise Incomparable("dates before 1900 may have been read differently from how they are stored")


def floats(bits: Longs, *, double: bool) -> npt.NDArray[np.float64]:
    """The numbers whose canonical form is ``bits``."""
    if double:
        return bits.view(np.float64)
    return bits.astype(np.int32).view(np.float32).astype(np.float64)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_large_string,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def _bits(values: pa.Array) -> pa.Array:
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    whole = np.int64 if plain.dtype == np.float64 else np.int32
    bits = np.where(np.isnan(plain), plain.dtype.type("nan"), plain).view(whole).astype(np.int64)
    return pa.array(bits, mask=values.is_null().to_numpy(zero_copy_only=False))


def _decimals(values: pa.Array, precision: int) -> pa.Array:
    if precision > SHORT_DECIMAL:
        return values.view(pa.binary(16)).cast(pa.binary())
    if len(values) == 0:
        return pa.array([], pa.int64())
    plain = values.fill_null(0)
    pairs = np.frombuffer(plain.buffers()[1], np.int64)[2 * plain.offset : 2 * (plain.offset + len(plain))]
    # Little-endian halves: the low half alone holds a number with this few digits.
    return pa.array(pairs[::2], mask=values.is_null().to_numpy(zero_copy_only=False))


def single(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays(found.chunks)
    return found


def whole(tables: list[pa.Table], types: Sequence[pa.DataType]) -> pa.Table:
    """The tables as one, with one chunk per column; they are released column by column."""
    columns = []
    for kind in types:
        chunks = [chunk for table in tables for chunk in table.column(0).chunks]
        tables = [table.remove_column(0) for table in tables]
        column = pa.chunked_array(chunks, kind)
        columns.append(column.unify_dictionaries().combine_chunks())
        del chunks, column
    return pa.table(columns, names=[str(c) for c in range(len(types))])
