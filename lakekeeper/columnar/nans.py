"""Columns of floats with NaN, of which no row group may have bounds in the footer.

    values   1.0  NaN  2.0
    bounds   [1.0, 2.0]        of Arrow, without NaN ──► a reader skips the row group for  x > 5, and NaN is lost

Spark, DuckDB and Trino order NaN above all numbers. Parquet's Java writer leaves such a row group without bounds too.
Floats in lists and maps do not matter: no reader skips row groups by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import leaves, parts
from lakekeeper.columnar.types import leaf_columns
from lakekeeper.core.model.file_merge import FileColumn

_FLOATS = ("float", "double")


def columns_with_nan(rows: pa.Table) -> set[str]:
    """The Parquet columns, by path, in which one of these rows has NaN; those in lists and maps are left out."""
    return {
        path
        for field, column in zip(rows.schema, rows.columns, strict=True)
        for path, values in _floats(field.name, field.type, column.chunks)
        if any(pc.any(pc.is_nan(chunk)).as_py() for chunk in values)
    }


def _floats(
    path: str, kind: pa.DataType, values: Sequence[pa.Array]
) -> Iterator[tuple[str, Sequence[pa.Array]]]:
    if pa.types.is_floating(kind):
        yield path, values
    elif pa.types.is_struct(kind):
        split = [parts(chunk) for chunk in values]
        for number in range(kind.num_fields):
            field = kind.field(number)
            yield from _floats(f"{path}.{field.name}", field.type, [each[number] for each in split])


def float_leaves(column: FileColumn, path: str = "") -> Iterator[tuple[int, str]]:
    """(number among the column's leaves, path in Parquet) of each float that is not in a list or a map."""
    path = f"{path}{column.name}"
    if column.kind in _FLOATS:
        yield 0, path
    elif column.kind == "struct":
        before = 0
        for child in column.children:
            for number, below in float_leaves(child, f"{path}."):
                yield before + number, below
            before += len(leaf_columns(child))


def all_columns(rows: pa.Table) -> list[str]:
    """The paths of all Parquet columns in which these rows are written."""
    return [
        path
        for field, column in zip(rows.schema, rows.columns, strict=True)
        for path, _ in leaves(field.name, column.type, column.chunks)
    ]
