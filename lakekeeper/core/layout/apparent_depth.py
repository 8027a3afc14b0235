"""How deep one sorted run looks through bounds that are kept column by column.

A block that straddles two values of a column covers, as a box, all of both, and every other tuple of theirs is in a
block besides:

    rows     (c1, 1..5) (c1, 6..9 │ c2, 1..3) (c2, 4..9)         three blocks, disjoint as they are sorted
    boxes    |--------|
             |------------------------------------------|        the middle one seems to cover all of c1 and c2
                                              |---------|

Queries read by bounds, so a run costs them what it looks like, and no merge changes that: it is no reason for one.

Of n blocks over V values (or prefixes of several columns), with ρ = n/V: where ρ ≤ 1, a share ρ of the values holds the
end of a block, and is read twice; where ρ > 1, each value has a straddler at both ends, and a block of its own for all
but 1/ρ of its tuples. So each column before the last adds

    ρ  where ρ ≤ 1,  else  2 − 1/ρ          to a depth of 1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.layout.levels import run_floor
from lakekeeper.core.layout.ranks import column_ranks
from lakekeeper.core.layout.snapshot_index import place_of
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.core.units import Floats


def _distinct(blocks: BlockSet, column: int) -> float:
    """About how many values a column has: its distinct bounds, or its range where nearly all bounds differ."""
    bounds = column_ranks(blocks, column)[2] - 1
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
    """The look of the sorted runs of one snapshot."""

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
        # What a truncated bound leaves open is one more column.
        for column in range(len(blocks.lo) - (not blurred)):
            values *= _distinct(blocks, column)
            self._prefixes.append(values)

    def of(self, files: Floats, share: Floats) -> Floats:
        """Depths that runs of so many files look to have, each over a share of the table's rows."""
        depth = np.full(len(files), self._floor)
        for values in self._prefixes:
            ratio = files / np.maximum(values * share, 1.0)
            depth += np.where(ratio <= 1, ratio, 2 - 1 / np.maximum(ratio, 1.0))
        return depth
