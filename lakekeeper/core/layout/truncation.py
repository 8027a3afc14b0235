"""Upper bounds at the resolution of their statistics.

Formats truncate long texts, and Delta cuts timestamps to milliseconds. A truncated lower bound is a prefix P of the
value; the upper bound is above all values that begin with P:

    P        |-------------------|  P′            Iceberg: P with its last character raised
    P        |-------------------|  P + U+007F    Delta: P and a tie-breaker
    12:00:00.000 |---------------|  12:00:00.000999

Compared as they are, two files in which every value begins with P would seem to overlap over all columns behind this
one, however they are sorted, and each merge of them would seem to pay. So planning counts such an upper bound as P if
some block begins with P. Formats do not record which of the two bounds is truncated: a whole one can be lowered too, by
one character at most.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import BlockSet, Bools

_MILLISECOND = 999  # µs from the least to the greatest time in it
_TIE_BREAKERS = ("\x7f", "\U0010ffff")
_SURROGATES = range(0xD800, 0xE000)


def upper_bounds(blocks: BlockSet, column: int) -> pa.Array:
    """The upper bounds of a key column, those that are truncated as the value they were truncated to."""
    lo, hi = blocks.lo[column], blocks.hi[column]
    truncated = pa.array(~blocks.exact[column])
    if blocks.exact[column].all():
        return hi
    if pa.types.is_timestamp(hi.type):
        lowered = pc.subtract(hi.cast(pa.int64()), _MILLISECOND).cast(hi.type)
        used = truncated
    elif pa.types.is_string(hi.type):
        cut = pc.or_(*(pc.ends_with(hi, mark) for mark in _TIE_BREAKERS))
        head = pc.utf8_slice_codeunits(hi, 0, -1)
        lowered = pc.if_else(cut, head, _joined(head, pc.utf8_slice_codeunits(hi, -1), ""))
        used = pc.and_(truncated, pc.or_(cut, pc.is_in(lowered, lo.drop_null())))
    elif pa.types.is_binary(hi.type):
        lowered = _joined(pc.binary_slice(hi, 0, -1), pc.binary_slice(hi, -1), b"")
        used = pc.and_(truncated, pc.is_in(lowered, lo.drop_null()))
    else:
        return hi
    # A bound that happens to end so, and was not truncated, could fall below the lower one.
    used = pc.and_kleene(used, pc.greater_equal(lowered, lo))
    return pc.if_else(pc.fill_null(used, fill_value=False), lowered, hi)


def truncated_text(blocks: BlockSet, column: int) -> Bools:
    """Blocks whose bounds in this key column may be prefixes of longer values."""
    kind = blocks.hi[column].type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return ~blocks.exact[column]
    return np.zeros(len(blocks), np.bool_)


def _joined(head: pa.Array, last: pa.Array, nothing: str | bytes) -> pa.Array:
    """Texts, or bytes, with their last character lowered by one."""
    coded = last.dictionary_encode()
    below = pa.array([_lowered(each) for each in coded.dictionary.to_pylist()], head.type)
    return pc.binary_join_element_wise(head, below.take(coded.indices), pa.scalar(nothing, head.type))


def _lowered(last: str | bytes) -> str | bytes:
    if isinstance(last, bytes):
        return bytes([last[0] - 1]) if last and last[0] else last
    if not last or last == "\0":
        return last
    code = ord(last) - 1
    return chr(_SURROGATES.start - 1 if code in _SURROGATES else code)
