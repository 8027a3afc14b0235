"""How the writer encodes a new file, chosen by its first rows: which columns get a dictionary, and rows per batch."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import leaves
from lakekeeper.columnar.values import is_text

_PIECES, _PIECE = 4, 1 << 14  # pieces sampled from a row group, and the rows of each
_MOST_DISTINCT = 0.8
"""Share of distinct values in the pieces above which a dictionary does not pay.

The writer keeps the dictionary of a row group up to 1 MiB, 131,072 values of 8 bytes. Of so many values at random,
65,536 rows hold 79 % distinct ones. A larger dictionary is abandoned halfway, and has then cost CPU and bytes.
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
            sampled = leaves(field.name, column.type, _sample(column))
            found += [path for path, values in sampled if _repeats(values)]
    return found


def batch_rows(rows: pa.Table) -> int:
    """Rows that the writer encodes at once: it checks the size of a page, and updates statistics, after each batch."""
    widest = max((column.nbytes for column in rows.columns), default=0) / max(rows.num_rows, 1)
    least, most = _BATCH_ROWS
    return max(least, min(most, int(_BATCH_BYTES / max(widest, 1))))


def _sample(column: pa.ChunkedArray) -> list[pa.Array]:
    step = max(len(column) // _PIECES, _PIECE)
    return [chunk for at in range(0, len(column), step) for chunk in column.slice(at, _PIECE).chunks]


def _repeats(sample: pa.ChunkedArray) -> bool:
    distinct: int = pc.count_distinct(sample, mode="all").as_py()
    return distinct <= _MOST_DISTINCT * len(sample)
