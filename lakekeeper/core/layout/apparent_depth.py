"""The depth that one sorted run appears to have when bounds are kept per column.

A block that straddles two values of a column covers, as a bounding box, all tuples of both values, although other
blocks hold some of them:

    rows     (c1, 1..5) (c1, 6..9 │ c2, 1..3) (c2, 4..9)         three blocks, disjoint as they are sorted
    boxes    |--------|
             |------------------------------------------|        the middle block appears to cover all of c1 and c2
                                              |---------|

Queries prune by bounds, so a run costs them its apparent depth. No merge can reduce that, so it is no reason to merge.

For n blocks over V values (or prefixes of several columns), let ρ = n/V. If ρ ≤ 1, a share ρ of the values contains
the end of a block and is read twice. If ρ > 1, each value has a straddling block at both ends, and a block of its own
for all but 1/ρ of its tuples. So each column before the last adds

    ρ  if ρ ≤ 1,  else  2 − 1/ρ             to a depth of 1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.layout.levels import run_floor
from lakekeeper.core.layout.snapshot_index import column_line, place_of
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.units import Floats


def _distinct(snapshot: Snapshot, column: int) -> float:
    """Estimated number of values of a column: its distinct bounds, or its range where nearly all bounds differ."""
    blocks, bounds = snapshot.blocks, column_line(snapshot, column)[2] - 1
    if bounds < len(blocks) or not (
        pa.types.is_integer(blocks.lo[column].type) or pa.types.is_date(blocks.lo[column].type)
    ):
        return float(max(bounds, 1))
    lo, hi = (
        pc.min_max(side.cast(pa.int32()) if pa.types.is_date(side.type) else side)
        for side in (blocks.lo[column], blocks.hi[column])
    )
    return float(max(hi["max"].as_py() - lo["min"].as_py() + 1, bounds))


class RunLook:
    """The apparent depth of the sorted runs of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        blocks, key = snapshot.blocks, snapshot.key
        if key is None:
            raise AssertionError("a run is sorted by a key")
        self._floor = 1.0
        self._prefixes: list[float] = []
        if key.curved:
            if not (blocks.placed_by and bool((blocks.curve_id >= 0).all())):
                self._floor = float(run_floor(key, blocks, place_of(snapshot)).max())
            return
        blurred = any(not bool(exact.all()) for exact in blocks.exact)
        values = 1.0
        # The part that truncated bounds leave open counts as one more column.
        for column in range(len(blocks.lo) - (not blurred)):
            values *= _distinct(snapshot, column)
            self._prefixes.append(values)

    def of(self, files: Floats, share: Floats) -> Floats:
        """Apparent depths of runs of ``files`` blocks, each over a ``share`` of the table's rows."""
        depth = np.full(len(files), self._floor)
        for values in self._prefixes:
            ratio = files / np.maximum(values * share, 1.0)
            depth += np.where(ratio <= 1, ratio, 2 - 1 / np.maximum(ratio, 1.0))
        return depth
