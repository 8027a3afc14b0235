"""Bounds of text and bytes that footers lack.

Arrow's writer leaves out the bounds of a row group if one of them is longer than 4,096 bytes, and keeps the number of
its NULLs. A reader of the footer that skips such a row group has bounds that are too narrow.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import leaves
from lakekeeper.columnar.values import is_text

_LIMIT = 4_096  # bytes of a bound that the writer records


class LongTexts:
    """By the number of a column of Parquet: lower and upper bound of its row groups with a longer value."""

    def __init__(self) -> None:
        self.bounds: dict[int, tuple[bytes, bytes]] = {}

    def add(self, group: pa.Table) -> None:
        """The rows of a row group."""
        columns = (
            leaf
            for field, column in zip(group.schema, group.columns, strict=True)
            for leaf in leaves(field.name, field.type, column.chunks)
        )
        for number, (_, values) in enumerate(columns):
            if is_text(values.type) and _has_long(values):
                found = pc.min_max(values.cast(pa.binary())).as_py()
                lo, hi = self.bounds.get(number, (found["min"], found["max"]))
                self.bounds[number] = min(lo, found["min"]), max(hi, found["max"])


def _has_long(values: pa.ChunkedArray) -> bool:
    return values.nbytes > _LIMIT and (pc.max(pc.binary_length(values)).as_py() or 0) > _LIMIT
