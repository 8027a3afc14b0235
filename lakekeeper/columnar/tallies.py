"""NULLs and NaNs of a column and of its parts, counted from the values: footers count neither as statistics need them.

struct   a field's NULLs include those of the struct
list     elements of the lists; none of a NULL list
map      keys and values, likewise
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import parts
from lakekeeper.core.model.file_merge import FileColumn


@dataclass(slots=True)
class Tally:
    """Counts of a column and, in ``children``, of its parts; and whether one of its floats is finite."""

    nulls: int = 0
    nans: int = 0
    finite: bool = False
    children: list[Tally] = field(default_factory=list)

    @classmethod
    def of(cls, column: FileColumn) -> Tally:
        """Nothing counted yet."""
        return cls(children=[cls.of(child) for child in column.children])

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Count these values."""
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else (values,):
            self.nulls += chunk.null_count
            if pa.types.is_floating(chunk.type):
                self.nans += pc.sum(pc.is_nan(chunk)).as_py() or 0
                self.finite = self.finite or bool(pc.any(pc.is_finite(chunk)).as_py())
            for child, part in zip(self.children, parts(chunk), strict=True):
                child.add(part)
