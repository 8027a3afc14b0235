"""Adjacent blocks along the key: shared by the policies that pack blocks without a depth curve.

Two chosen blocks with another block entirely between them are not adjacent: packing them would produce a file that
spans the other one.

    chosen |--|   |--| chosen   kept |--------|   chosen |--|          {1, 2} may be packed, the third is alone
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.levels import partition_group
from lakekeeper.core.layout.overlap_groups import by_name, fill
from lakekeeper.core.layout.ranks import Intervals, dense
from lakekeeper.core.model.blocks import BlockSet, Bools, Index
from lakekeeper.core.units import Ints

_LEVELS = 2048  # above any level that the options permit


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """For each block, its group (one partition, spec and level) and its ends along the key, as point numbers."""

    group: Ints
    lo: Ints
    hi: Ints


def group_of(blocks: BlockSet, level: Ints) -> Ints:
    """A number per block for its (partition, spec, level), in ascending order of these."""
    return dense(partition_group(blocks) * _LEVELS + level, np.zeros(0, np.int64))[0]


def line_of(blocks: BlockSet, group: Ints, intervals: Intervals | None) -> Line:
    """The blocks along the key; without a key (``intervals`` is None), in the order in which they were added."""
    if intervals is not None:
        return Line(group, intervals.lo, intervals.hi)
    order = np.lexsort((by_name(blocks.path), blocks.added_at, group))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Line(group, place, place)


def stretches(
    blocks: BlockSet,
    line: Line,
    chosen: Bools,
    *,
    max_bytes: int,
    max_files: int,
    across: Bools | None = None,
) -> list[Index]:
    """The chosen blocks as stretches of adjacent blocks of one group, in order, each filled up to the bounds.

    A stretch of a single block may exceed them. Nothing separates two blocks of ``across`` that follow each other.
    """
    at = np.flatnonzero(chosen)
    if not len(at):
        return []
    names = by_name(blocks.path.take(pa.array(at)))
    order = at[np.lexsort((names, line.lo[at], line.group[at]))]
    apart = _apart(order, line, ~chosen)
    if across is not None:
        apart[1:] &= ~(across[order[1:]] & across[order[:-1]])
    size = blocks.bytes[order]
    return split(order, fill(line.group[order], size, max_bytes=max_bytes, max_files=max_files, apart=apart))


def split(order: Index, part: Ints) -> list[Index]:
    """``order`` split wherever the part number changes."""
    return np.split(order, np.flatnonzero(part[1:] != part[:-1]) + 1)


def _apart(order: Index, line: Line, staying: Bools) -> Bools:
    """For each chosen block in order, whether a kept block is entirely between it and all chosen blocks before it."""
    group, lo, hi = line.group, line.lo, line.hi
    stay = np.flatnonzero(staying)
    apart = np.zeros(len(order), dtype=np.bool_)
    if not len(stay) or len(order) < 2:
        return apart
    width = int(hi.max()) + 1
    stay = stay[np.lexsort((lo[stay], group[stay]))]
    starts = group[stay] * width + lo[stay]
    soonest_end = np.minimum.accumulate((group[stay] * width + hi[stay])[::-1])[::-1]
    reach = np.maximum.accumulate(group[order] * width + hi[order])
    next_start = (group[order] * width + lo[order])[1:]
    after = np.searchsorted(starts, reach[:-1], side="left")
    within = after < len(starts)
    apart[1:] = within & (soonest_end[np.minimum(after, len(starts) - 1)] <= next_start)
    return apart
