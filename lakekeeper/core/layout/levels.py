"""Levels: which blocks may still be merged, and which levels are clustered well enough (seed 000).

A level is how often rows were reclustered. New data starts at 0; a merge of level n makes level n + 1;
blocks merge with their own level only, so that no row is stirred again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import DepthCurve
from lakekeeper.core.layout.ranks import Intervals, constant
from lakekeeper.core.model.blocks import BlockSet, Bools
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.units import Ints


def partition_group(blocks: BlockSet) -> Ints:
    """A number per block for its (partition, spec): a merge never crosses either."""
    partition = np.argsort(np.argsort(np.array(blocks.partitions)))[
        blocks.partition
    ]  # by text, not by chance
    if not len(blocks) or (blocks.spec == blocks.spec[0]).all():
        return partition
    specs, spec = np.unique(blocks.spec, return_inverse=True)
    return partition * len(specs) + spec


def full_size(blocks: BlockSet, options: Options) -> Bools:
    """Blocks so full, in rows or live bytes, that packing them with others brings nothing."""
    ratio = options.number("constant-size-ratio")
    rows = ratio * min(options.integer("max-rows-per-file"), int(np.iinfo(np.int64).max))
    size = ratio * options.integer("target-file-size-bytes")
    filled: Bools = (blocks.rows >= rows) | (blocks.live_bytes >= size)
    return filled


def frozen(blocks: BlockSet, intervals: Intervals, options: Options) -> Bools:
    """Full blocks that hold one key only: level -1, derived each time and never written (seed 000)."""
    return constant(blocks, intervals, full_size(blocks, options))


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """Per group of the curve: its mean depth over overlapping points, the threshold, and whether it is above."""

    average: npt.NDArray[np.float64]
    threshold: npt.NDArray[np.float64]
    peak: Ints

    @property
    def above(self) -> Bools:
        return np.asarray(self.average > self.threshold)


def run_depth(columns: int) -> int:
    """How deep one perfectly sorted run can look through bounds that are kept column by column.

    A block that straddles two values of a column covers, as a box, all of both. So a point lies in at
    most two straddlers for each column before the last, in its own block, and where keys are equal in one more:

        rows     (c1, 1..5) (c1, 6..9 │ c2, 1..3) (c2, 4..9)         three blocks, disjoint as they are sorted
        boxes    |--------|
                 |------------------------------------------|        the middle one seems to cover c1 and c2
                                                  |---------|
    """
    return 2 * columns


def run_floor(key: ClusterKey, blocks: BlockSet, group: Ints) -> npt.NDArray[np.float64]:
    """Per group of blocks, how deep one perfectly sorted run of the key can look: see :func:`run_depth`.

    On a curve, blocks with a range of their own are a line of one column. Ranges of boxes cover too much:
    simulated, single runs of 3 to 4,096 blocks over two to four columns look on average 2.0 to 2.6 deep by
    Hilbert's curve, and 2.0 to 10.6 by z-order, which jumps: there it grows with the logarithm of the blocks.
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
    """The depth gate of each group, on the folded depth; ``level`` is that of each group's blocks.

    The threshold is ``depth-threshold``, or the share ``depth-threshold-ratio`` of the group's blocks,
    at least 1 (seed 000: ``threshold = blocks_num * ratio``). Above level 0 it is never lower than ``floor``, what a
    single sorted run can show: no merge betters that, and it would be tried again up to the highest level.
    """
    size = len(level)
    starts = np.flatnonzero(np.diff(curve.group, prepend=-1))  # points of a group stand together
    present = curve.group[starts]
    over = curve.folded > 1
    points, total = np.zeros(size, np.int64), np.zeros(size, np.int64)
    points[present] = np.add.reduceat(over, starts, dtype=np.int64)
    total[present] = np.add.reduceat(curve.folded * over, starts, dtype=np.int64)
    peak = np.zeros(size, np.int64)
    peak[present] = np.maximum.reduceat(curve.folded, starts)
    average = np.where(points > 0, total / np.maximum(points, 1), 1.0)
    ratio = options.number("depth-threshold-ratio")
    threshold = np.full(size, options.number("depth-threshold"))
    if ratio > 0:
        threshold = np.maximum(1.0, np.bincount(curve.group[intervals.lo], minlength=size) * ratio)
    return Gates(average, np.maximum(threshold, np.where(level > 0, floor, 0.0)), peak)
