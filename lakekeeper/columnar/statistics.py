"""The statistics of a written file: counts from its values, bounds from its footer.

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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakekeeper.columnar.sorting import unscaled
from lakekeeper.columnar.tallies import Tally
from lakekeeper.columnar.types import arrow_type, leaf_columns
from lakekeeper.core.model.file_merge import ColumnStats, FileColumn


def statistics_of(
    written: pq.ParquetFile, columns: Sequence[FileColumn], tallies: Sequence[Tally]
) -> tuple[ColumnStats, ...]:
    """The statistics of a written file by column; ``tallies`` are the counts of its values."""
    leaves = _first_leaves(columns, 0)
    return tuple(
        _stats_of(written, leaf, (column,), tally)
        for leaf, column, tally in zip(leaves, columns, tallies, strict=False)
    )


def _first_leaves(columns: Sequence[FileColumn], first: int) -> Iterator[int]:
    """The number of each column's first column of Parquet."""
    return accumulate((len(leaf_columns(column)) for column in columns), initial=first)


def _stats_of(written: pq.ParquetFile, leaf: int, path: tuple[FileColumn, ...], tally: Tally) -> ColumnStats:
    """The statistics of a column, or of a part of it; ``path`` leads to it, ``leaf`` is its first column of Parquet."""
    column = path[-1]
    if column.children:
        leaves = _first_leaves(column.children, leaf)
        parts = tuple(
            _stats_of(written, at, (*path, child), part)
            for at, child, part in zip(leaves, column.children, tally.children, strict=False)
        )
        return ColumnStats(None, None, tally.nulls, children=parts)
    repeated = any(step.kind in ("list", "map") for step in path)
    lo, hi = (None, None) if repeated else _bounds(written, leaf, path, tally)
    return ColumnStats(lo, hi, tally.nulls, tally.nans)


def _bounds(
    written: pq.ParquetFile, leaf: int, path: tuple[FileColumn, ...], tally: Tally
) -> tuple[Any, Any]:
    """From the footer; if it lacks one, from the values."""
    footer, kind = written.metadata, arrow_type(path[-1].kind)
    chunks = [footer.row_group(g).column(leaf).statistics for g in range(footer.num_row_groups)]
    bounded = [chunk for chunk in chunks if chunk.has_min_max]
    if tally.nulls + tally.nans == footer.num_rows:
        return None, None
    if not bounded or any(not chunk.has_min_max and chunk.num_values for chunk in chunks):
        return _read_bounds(written, path)
    lows = [_plain(chunk.min_raw, kind) for chunk in bounded]
    highs = [_plain(chunk.max_raw, kind) for chunk in bounded]
    return _json(min(lows)), _json(max(highs))


def _plain(raw: Any, kind: pa.DataType) -> Any:
    """A raw statistic as a number or bytes, in the order of the values."""
    if pa.types.is_decimal(kind):
        return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    if isinstance(raw, str):
        return raw.encode()
    return int(raw) if isinstance(raw, bool) else raw


def _read_bounds(written: pq.ParquetFile, path: tuple[FileColumn, ...]) -> tuple[Any, Any]:
    """Bounds from the values: the footer leaves out texts of more than some thousand bytes."""
    values = written.read(columns=[path[0].name]).column(path[0].name)
    for step in path[1:]:
        values = pc.struct_field(values, step.name)
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    found = pc.min_max(values).as_py()
    if pa.types.is_decimal(values.type):
        return unscaled(found["min"], values.type.scale), unscaled(found["max"], values.type.scale)
    return _json(found["min"]), _json(found["max"])


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else value
