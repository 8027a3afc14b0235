"""Levels, as in Databend's recluster RFC: which blocks may still be merged, and which levels are clustered well enough.

A level counts how often rows were reclustered. New data starts at 0; a merge of level n produces level n + 1. Blocks
merge only with blocks of their own level, so that rows are not rewritten repeatedly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import DepthCurve
from lakekeeper.core.layout.overlap_groups import by_name
from lakekeeper.core.layout.ranks import Intervals, column_ranks, constant
from lakekeeper.core.layout.truncation import truncated_text
from lakekeeper.core.model.blocks import BlockSet, Bools
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.units import Ints


def partition_group(blocks: BlockSet) -> Ints:
    """A number per block for its (partition, spec): a merge never crosses either."""
    # Numbered by text, so that the numbers do not depend on the input order.
    partition = (by_name(pa.array(blocks.partitions, pa.string())) - 1)[blocks.partition]
    if not len(blocks) or (blocks.spec == blocks.spec[0]).all():
        return partition
    specs, spec = np.unique(blocks.spec, return_inverse=True)
    return partition * len(specs) + spec


FULL_RATIO = 0.8
"""Share of the target size or rows from which a block is full, as in Databend's recluster RFC."""


def full_size(blocks: BlockSet, options: Options) -> Bools:
    """Blocks that are full, in rows or live bytes: packing them with others gains nothing."""
    files = options.files
    filled: Bools = blocks.live_bytes >= FULL_RATIO * files.target_bytes
    if files.max_rows is not None:
        filled = filled | (blocks.rows >= FULL_RATIO * files.max_rows)
    return filled


def frozen(blocks: BlockSet, intervals: Intervals, options: Options) -> Bools:
    """Full blocks that hold one key only: level -1 in Databend's recluster RFC, derived each time and never stored."""
    return constant(blocks, intervals, full_size(blocks, options))


def order_hidden(blocks: BlockSet, level: Ints) -> Bools:
    """Merged blocks that hold one truncated text: their statistics show no order behind it, whatever a merge does."""
    hidden = np.zeros(len(blocks), dtype=np.bool_)
    if blocks.placed_by:
        return hidden
    undecided: Bools = level > 0
    texts = [truncated_text(blocks, column) for column in range(len(blocks.lo))]
    for column in range(len(texts)):
        if not any((undecided & text).any() for text in texts[column:]):
            break
        lo, hi, _ = column_ranks(blocks, column)
        undecided = undecided & (lo == hi)
        hidden |= undecided & texts[column]
    return hidden


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """For each group of the curve, its mean depth over overlapping points, its threshold, and its peak depth.

    ``above`` flags the groups whose mean depth exceeds the threshold.
    """

    average: npt.NDArray[np.float64]
    threshold: npt.NDArray[np.float64]
    peak: Ints

    @property
    def above(self) -> Bools:
        return np.asarray(self.average > self.threshold)


def run_depth(columns: int) -> int:
    """The greatest depth that one perfectly sorted run can appear to have when bounds are kept per column.

    A block that straddles two values of a column covers, as a bounding box, all tuples of both values. So a point is
    covered by at most two straddling blocks for each column before the last, by its own block, and, where keys are
    equal, by one more:

        rows     (c1, 1..5) (c1, 6..9 │ c2, 1..3) (c2, 4..9)         three blocks, disjoint as they are sorted
        boxes    |--------|
                 |------------------------------------------|        the middle block appears to cover c1 and c2
                                                  |---------|
    """
    return 2 * columns


def run_floor(key: ClusterKey, blocks: BlockSet, group: Ints) -> npt.NDArray[np.float64]:
    """For each group of blocks, the depth that one perfectly sorted run can appear to have (see :func:`run_depth`).

    On a curve, blocks with stored curve ranges count as a single-column line. Ranges derived from boxes are too wide:
    in simulations, single runs of 3 to 4,096 blocks over two to four columns have an average apparent depth of 2.0 to
    2.6 on a Hilbert curve, and of 2.0 to 10.6 in z-order, which jumps: there it grows with the logarithm of the blocks.
    """
    size = int(group.max(initial=0)) + 1
    if not key.curved:
        return np.full(size, float(run_depth(len(key.columns))))
    boxed = np.bincount(group[blocks.curve_id < 0], minlength=size) > 0
    many = np.bincount(group, minlength=size)
    wide = np.full(size, 3.0) if key.layout == "hilbert" else 1 + np.log2(np.maximum(many, 2))
    return np.where(boxed, wide, float(run_depth(1)))


def gates(
    curve: DepthCurve,
    intervals: Intervals,
    options: Options,
    level: Ints,
    floor: npt.NDArray[np.float64] | float,
) -> Gates:
    """The depth gate of each group, on the folded depth; ``level`` is the level of each group's blocks.

    The threshold is ``depth-threshold``, or with ``depth-threshold-ratio`` that share of the group's blocks, at least 1
    (Databend: ``threshold = blocks_num * ratio``, with the blocks of the whole table in its code). Above level 0 it is
    never lower than ``floor``, the apparent depth of a single sorted run: no merge can improve on that, and the merge
    would be repeated up to the highest level.
    """
    size = len(level)
    starts = np.flatnonzero(np.diff(curve.group, prepend=-1))  # points of a group are contiguous
    present = curve.group[starts]
    over = curve.folded > 1
    points, total = np.zeros(size, np.int64), np.zeros(size, np.int64)
    points[present] = np.add.reduceat(over, starts, dtype=np.int64)
    total[present] = np.add.reduceat(curve.folded * over, starts, dtype=np.int64)
    peak = np.zeros(size, np.int64)
    peak[present] = np.maximum.reduceat(curve.folded, starts)
    average = np.where(points > 0, total / np.maximum(points, 1), 1.0)
    threshold = np.full(size, options.planning.depth_threshold)
    ratio = options.planning.depth_threshold_ratio
    if ratio is not None:
        threshold = np.maximum(1.0, np.bincount(curve.group[intervals.lo], minlength=size) * ratio)
    return Gates(average, np.maximum(threshold, np.where(level > 0, floor, 0.0)), peak)
