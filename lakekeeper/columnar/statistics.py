"""The statistics of a written file: counts and the bounds of floats and long text from values, others from its footer.

s        NULLs
s.x      NULLs, NaNs, bounds    the leaf of a struct
s.l[]    NULLs, NaNs            in a list or a map, whose bounds no format records
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.long_texts import LongTexts
from lakekeeper.columnar.tallies import Tally
from lakekeeper.columnar.types import arrow_type, leaf_columns
from lakekeeper.core.model.file_merge import ColumnStats, FileColumn


def statistics_of(
    footer: pq.FileMetaData, columns: Sequence[FileColumn], tallies: Sequence[Tally], long: LongTexts
) -> tuple[ColumnStats, ...]:
    """The statistics of a written file by column; ``tallies`` are the counts of its values."""
    leaves = _first_leaves(columns, 0)
    return tuple(
        _stats_of(footer, long, leaf, (column,), tally)
        for leaf, column, tally in zip(leaves, columns, tallies, strict=False)
    )


def _first_leaves(columns: Sequence[FileColumn], first: int) -> Iterator[int]:
    """The number of each column's first column of Parquet."""
    return accumulate((len(leaf_columns(column)) for column in columns), initial=first)


def _stats_of(
    footer: pq.FileMetaData, long: LongTexts, leaf: int, path: tuple[FileColumn, ...], tally: Tally
) -> ColumnStats:
    """The statistics of a column, or of a part of it; ``path`` leads to it, ``leaf`` is its first column of Parquet."""
    column = path[-1]
    if column.children:
        leaves = _first_leaves(column.children, leaf)
        parts = tuple(
            _stats_of(footer, long, at, (*path, child), part)
            for at, child, part in zip(leaves, column.children, tally.children, strict=False)
        )
        return ColumnStats(None, None, tally.nulls, children=parts)
    repeated = any(step.kind in ("list", "map") for step in path)
    lo, hi = (None, None) if repeated else _bounds(footer, long, leaf, column, tally)
    return ColumnStats(lo, hi, tally.nulls, tally.nans)


def _bounds(
    footer: pq.FileMetaData, long: LongTexts, leaf: int, column: FileColumn, tally: Tally
) -> tuple[Any, Any]:
    """The bounds of all row groups; none if those of one are not known."""
    kind = arrow_type(column.kind)
    # A footer has no bounds of floats if there are NaNs, and those of ∞ are wrong in some versions of Arrow.
    if pa.types.is_floating(kind):
        return (_json(tally.bounds[0]), _json(tally.bounds[1])) if tally.bounds else (None, None)
    ends: list[tuple[Any, Any]] = [long.bounds[leaf]] if leaf in long.bounds else []
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(leaf).statistics
        if chunk.has_min_max:
            ends.append((_plain(chunk.min_raw, kind), _plain(chunk.max_raw, kind)))
        elif chunk.num_values and leaf not in long.bounds:
            return None, None
    if not ends:
        return None, None
    lo, hi = min(lo for lo, _ in ends), max(hi for _, hi in ends)
    return _json(lo), _json(hi)


def _plain(raw: Any, kind: pa.DataType) -> Any:
    """A raw statistic as a number or bytes, in the order of the values."""
    if pa.types.is_decimal(kind):
        return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    if isinstance(raw, str):
        return raw.encode()
    return int(raw) if isinstance(raw, bool) else raw


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else value
