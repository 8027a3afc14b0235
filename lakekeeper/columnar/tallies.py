"""What footers do not have as statistics need it, from the values: NULLs and NaNs of a column and of its parts, and
the bounds of floats.

struct   a field's NULLs include those of the struct
list     elements of the lists; none of a NULL list
map      keys and values, likewise
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.nested import parts
from lakekeeper.core.model.file_merge import FileColumn


@dataclass(slots=True)
class Tally:
    """Counts of a column and, in ``children``, of its parts; ``bounds`` of its floats, None without any but NaN.

    Among the bounds, -0.0 is below 0.0.
    """

    nulls: int = 0
    nans: int = 0
    bounds: tuple[float, float] | None = None
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
                self._add_bounds(chunk)
            for child, part in zip(self.children, parts(chunk), strict=True):
                child.add(part)

    def _add_bounds(self, values: pa.Array) -> None:
        ends = pc.min_max(values).as_py()
        if ends["min"] is None or not ends["min"] <= ends["max"]:
            return  # of NaNs alone: NaN for both, or ∞ and -∞ before Arrow 25
        lo, hi = ends["min"], ends["max"]
        if not (lo and hi):  # Arrow returns either zero
            negative = np.signbit(values.filter(pc.equal(values, 0.0)).to_numpy())
            lo, hi = lo or (-0.0 if negative.any() else 0.0), hi or (-0.0 if negative.all() else 0.0)
        before = self.bounds or (math.inf, -math.inf)
        self.bounds = min(before[0], lo, key=_in_order), max(before[1], hi, key=_in_order)


def _in_order(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)
