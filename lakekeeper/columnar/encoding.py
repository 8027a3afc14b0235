"""How the writer encodes a new file, chosen by its first rows: which columns get a dictionary, and rows per batch."""

from __future__ import annotations

import math
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import leaves
from lakekeeper.columnar.values import is_text

_PIECES, _PIECE = 4, 1 << 14  # pieces sampled from a row group, and the rows of each
_LEAST_REPEATED = 8.0
"""How often a value has to occur in a row group, on average, for a dictionary to pay.

A reader that looks for one value decodes the dictionary of each row group into a set (Iceberg's
``ParquetDictionaryRowGroupFilter``). With order keys that occurred twice, this took twice as long as reading all rows.
"""
_MOST_DISTINCT = 1 << 17
"""Values of 8 bytes in the largest dictionary that the writer keeps, 1 MiB.

It abandons a larger one halfway, which has then cost CPU and bytes.
"""
_BATCH_BYTES = 1 << 18
_BATCH_ROWS = (1_024, 8_192)  # the writer's default, and where more rows no longer save CPU


def dictionary_columns(rows: pa.Table, repetitive: Collection[str]) -> list[str]:
    """The columns of Parquet to write with a dictionary: those that repeat in these rows; text only if ``repetitive``.

    Text within nested columns counts as numbers do: how the inputs store it is not known.
    """
    found = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if is_text(field.type):
            found += [field.name] if field.name in repetitive else []
        else:
            pieces = _sample(column)
            share = sum(map(len, pieces)) / max(len(column), 1)
            sampled = leaves(field.name, column.type, pieces)
            found += [path for path, values in sampled if _repeats(values, share)]
    return found


def batch_rows(rows: pa.Table) -> int:
    """Rows that the writer encodes at once: it checks the size of a page, and updates statistics, after each batch."""
    widest = max((column.nbytes for column in rows.columns), default=0) / max(rows.num_rows, 1)
    least, most = _BATCH_ROWS
    return max(least, min(most, int(_BATCH_BYTES / max(widest, 1))))


def _sample(column: pa.ChunkedArray) -> list[pa.Array]:
    step = max(len(column) // _PIECES, _PIECE)
    return [chunk for at in range(0, len(column), step) for chunk in column.slice(at, _PIECE).chunks]


def _repeats(sample: pa.ChunkedArray, share: float) -> bool:
    """Whether the column, of which this share is sampled, has few enough distinct values.

    As many as a random column of the most values allowed would show in the sample, or fewer. A single row repeats none.
    """
    count = len(sample)
    most = max(min(count / max(share, 1e-9) / _LEAST_REPEATED, _MOST_DISTINCT), 1.0)
    distinct = len(pc.unique(sample))  # in half the time of pc.count_distinct
    return count != 1 and distinct <= math.ceil(most * (1 - (1 - 1 / most) ** count))
