"""Levels: which blocks may still be merged, and which levels are clustered well enough (seed 000).

A level is how often rows were reclustered. New data starts at 0; a merge of level n makes level n + 1;
blocks merge with their own level only, so that no row is stirred again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.blocks import BlockSet, Bools, Ints
from lakekeeper.core.depth import DepthCurve
from lakekeeper.core.options import Options
from lakekeeper.core.ranks import Intervals, constant


def partition_group(blocks: BlockSet) -> Ints:
    """A number per block for its (partition, spec): a merge never crosses either."""
    partition = blocks.partition.astype(np.int64)
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


def gates(curve: DepthCurve, intervals: Intervals, options: Options, size: int) -> Gates:
    """The depth gate of each of ``size`` groups, on the folded depth.

    The threshold is ``depth-threshold``, or the share ``depth-threshold-ratio`` of the group's blocks,
    at least 1 (seed 000: ``threshold = blocks_num * ratio``).
    """
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
    if ratio <= 0:
        return Gates(average, np.full(size, options.number("depth-threshold")), peak)
    count = np.bincount(curve.group[intervals.lo], minlength=size)
    return Gates(average, np.maximum(1.0, count * ratio), peak)
