"""How many rows fit into memory once their dictionaries are decoded.

Arrow decodes a dictionary without a check of the text's 32-bit offsets: beyond 2 GiB they overflow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.values import Longs

_OFFSET = 4


def slices(rows: pa.Table, most: int, *, longest: int) -> Iterator[pa.Table]:
    """The rows in slices of at most ``longest`` rows, of which each fits as :func:`fitting` says."""
    at = 0
    while at < rows.num_rows:
        some = rows.slice(at, longest)
        some = some.slice(0, fitting(some, most))
        yield some
        at += some.num_rows


def fitting(rows: pa.Table, most: int) -> int:
    """The number of first rows whose text decodes to at most ``most`` bytes; at least one."""
    repeated = [column for column in rows.columns if pa.types.is_dictionary(column.type)]
    count: int = rows.num_rows
    if sum(map(_longest, repeated)) * count <= most:
        return count
    ends = np.cumsum(sum(map(_bytes, repeated)))
    return max(1, int(np.searchsorted(ends, most, side="right")))


def _longest(column: pa.ChunkedArray) -> int:
    """Bytes of the longest value of the dictionaries."""
    lengths = (pc.max(pc.binary_length(chunk.dictionary)).as_py() for chunk in column.chunks)
    return max((int(length or 0) for length in lengths), default=0) + _OFFSET


def _bytes(column: pa.ChunkedArray) -> Longs:
    """Decoded bytes of each row."""
    return np.concatenate([_bytes_of(chunk) for chunk in column.chunks])


def _bytes_of(chunk: pa.DictionaryArray) -> Longs:
    lengths = pc.binary_length(chunk.dictionary).fill_null(0).to_numpy().astype(np.int64)
    numbers = chunk.indices.fill_null(len(lengths)).to_numpy()
    found: Longs = np.append(lengths, 0)[numbers] + _OFFSET
    return found
