"""Whether blocks may form one sorted run, as far as their bounds show; sorting them again would help no reader.

Bounds are kept per column, so readers see a block of a compound key as a bounding box. Blocks in the order of their
boxes are one run if each begins no lower than the previous one ends:

    first column     (4 … 5)  (5 … 5)  (5 … 5)  (5 … 7)         at 5 the next column decides, between the two blocks
    second column             (a … c)  (c … f)                  that hold only 5; the others do not bound it there

Where texts are truncated, bounds show the order down to the prefix. Blocks that a merge has sorted, and that hold one
prefix, may be in order within it, whatever their later columns: another merge could not show it either.
"""

from __future__ import annotations

import numpy as np

from lakekeeper.core.layout.snapshot_index import column_line, table_line
from lakekeeper.core.layout.truncation import truncated_text
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.units import Ints


class Boxes:
    """The bounding boxes of one snapshot's blocks."""

    def __init__(self, snapshot: Snapshot) -> None:
        blocks, line = snapshot.blocks, table_line(snapshot, null_region=False)
        plain = len(blocks.lo) == 1 or bool(blocks.placed_by)
        self._sides: list[tuple[Ints, Ints]] = [(line.lo, line.hi)]
        self._sorted = [np.zeros(len(blocks), np.bool_)]
        self._rank = np.zeros(len(blocks), np.int64)
        if not plain:
            self._sides = [column_line(snapshot, c)[:2] for c in range(len(blocks.lo))]
            lo, hi = self._sides[0]
            # Within a tuple, NULL is the least value.
            self._sides[0] = np.where(blocks.null_count[0] > 0, 0, lo), hi
            merged = blocks.level_under(snapshot.key) > 0
            self._sorted = [merged & truncated_text(blocks, c) for c in range(len(blocks.lo))]
            order = np.lexsort([end for lo, hi in reversed(self._sides) for end in (hi, lo)])
            self._rank[order] = np.arange(len(blocks))

    def one_run(self, at: Index, edges: Ints) -> Bools:
        """For each batch ``at[edges[i]:edges[i + 1]]``, in the order of ``order_of``, whether it may be one run.

        False for a batch of a single block.
        """
        count = np.diff(edges)
        if len(self._sides) > 1:
            at = at[np.lexsort((self._rank[at], np.repeat(np.arange(len(count)), count)))]
        before, after = at[:-1], at[1:]
        fits, open_ = np.zeros(len(before), np.bool_), np.ones(len(before), np.bool_)
        for (lo, hi), hidden in zip(self._sides, self._sorted, strict=True):
            end, begin = hi[before], lo[after]
            meet = open_ & (end == begin)
            constant = (lo[before] == end) & (hi[after] == begin) & ~(hidden[before] & hidden[after])
            fits |= (open_ & (end < begin)) | (meet & ~constant)
            open_ = meet & constant
        broken = np.append(False, ~(fits | open_))
        broken[edges[:-1]] = False
        return np.asarray(~np.logical_or.reduceat(broken, edges[:-1]) & (count > 1))
