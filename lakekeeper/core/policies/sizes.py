"""``sizes``: small neighbours of one level, partition and spec are packed together (seed 001's small files).

With a cluster key, neighbours are neighbours along the key, and two small blocks with a larger one wholly
between them are none: packing them would stretch one file over the other.

    small |--|   |--| small   large |--------|   small |--|          {1, 2} are packed, the third is alone

Packing keeps the level: it does not count as a merge of the LSM kind, and it ends because each group
must come out as fewer files than went in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakekeeper.core.blocks import BlockSet, Bools, Index, Ints, Snapshot
from lakekeeper.core.levels import frozen, partition_group
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice, Merge, Skip
from lakekeeper.core.policies import Env
from lakekeeper.core.ranks import dense, rank_blocks
from lakekeeper.core.sections import by_name, fill

_ROW_SLACK = 0.6
_UNIT = 1 << 30  # one file's worth in whole numbers


@dataclass(frozen=True, slots=True)
class Sizes:
    """Groups of at least ``min-input-files`` small neighbours that come out as fewer files."""

    name: str = "sizes"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        blocks = snapshot.blocks.take(candidates)
        level = blocks.level_under(snapshot.key)
        group = dense(partition_group(blocks) * 2048 + level, np.zeros(0, np.int64))[0]
        target = options.integer("target-file-size-bytes")
        small = blocks.live_bytes < options.number("min-file-size-ratio") * target
        if snapshot.key is None:
            lo = hi = _by_age(blocks, group)
        else:
            intervals = rank_blocks(blocks, group, null_region=False)
            lo, hi = intervals.lo, intervals.hi
            small &= ~frozen(blocks, intervals, options)
        merges, packed = _pack(blocks, np.flatnonzero(small), (group, lo, hi), small, options)
        choices: list[Choice] = [
            Merge(
                candidates[at],
                int(level[at[0]]),
                float(len(at)),
                f"{len(at)} small neighbours of level {level[at[0]]}",
            )
            for at in sorted(merges, key=lambda at: -len(at))
        ]
        if (~small).any():
            choices.append(Skip(candidates[~small], "not a small file"))
        alone = small & ~packed
        if alone.any():
            choices.append(
                Skip(candidates[alone], "small, but no neighbours that would come out as fewer files")
            )
        return choices


def _by_age(blocks: BlockSet, group: Ints) -> Ints:
    """Without a key, blocks lie in the order in which they were added."""
    order = np.lexsort((by_name(blocks.path), blocks.added_at, group))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _pack(
    blocks: BlockSet, at: Index, line: tuple[Ints, Ints, Ints], small: Bools, options: Options
) -> tuple[list[Index], Bools]:
    """Stretches of neighbours that are sure to come out as fewer files; else what fits into single files."""
    group, lo, _ = line
    packed = np.zeros(len(blocks), dtype=np.bool_)
    merges: list[Index] = []
    if not len(at):
        return merges, packed
    order = at[np.lexsort((by_name(blocks.path.take(pa.array(at))), lo[at], group[at]))]
    weight = _files_worth(blocks, options)
    apart = _apart(order, line, small)
    max_bytes = options.integer("max-file-group-size-bytes")
    max_files = options.integer("max-file-group-input-files")
    fewest = options.integer("min-input-files")
    size = blocks.bytes[order]
    stretch = fill(group[order], size, max_bytes=max_bytes, max_files=max_files, apart=apart)
    for members in _split(order, stretch):
        total = float(weight[members].sum())
        if total <= 1 or 2 * total + 1 < len(members):
            parts = [members]
        else:
            share = (weight[members] * _UNIT).astype(np.int64)
            parts = _split(members, fill(members * 0, share, max_bytes=_UNIT, max_files=max_files))
        for part in parts:
            if len(part) >= fewest and len(part) > 1:
                merges.append(part)
                packed[part] = True
    return merges, packed


def _files_worth(blocks: BlockSet, options: Options) -> npt.NDArray[np.float64]:
    """How many output files each block's live rows fill.

    A writer that fills files one after another needs at most 2 x + 1 files for rows worth x: two
    neighbouring files hold more than one file's worth. Rows count with slack, as writers that only know
    bytes have to guess where the row bound lies.
    """
    rows = blocks.rows - np.maximum(blocks.deleted_rows, 0)
    by_rows = rows / (_ROW_SLACK * options.integer("max-rows-per-file"))
    by_bytes = blocks.live_bytes / options.integer("target-file-size-bytes")
    return np.asarray(np.maximum(by_rows, by_bytes), dtype=np.float64)


def _split(order: Index, part: Ints) -> list[Index]:
    return np.split(order, np.flatnonzero(part[1:] != part[:-1]) + 1)


def _apart(order: Index, line: tuple[Ints, Ints, Ints], small: Bools) -> Bools:
    """Per small block in order: does a larger block lie wholly between it and all small ones before?"""
    group, lo, hi = line
    large = np.flatnonzero(~small)
    apart = np.zeros(len(order), dtype=np.bool_)
    if not len(large) or len(order) < 2:
        return apart
    width = int(hi.max()) + 1
    large = large[np.lexsort((lo[large], group[large]))]
    starts = group[large] * width + lo[large]
    soonest_end = np.minimum.accumulate((group[large] * width + hi[large])[::-1])[::-1]
    reach = np.maximum.accumulate(group[order] * width + hi[order])
    next_start = (group[order] * width + lo[order])[1:]
    after = np.searchsorted(starts, reach[:-1], side="left")
    within = after < len(starts)
    apart[1:] = within & (soonest_end[np.minimum(after, len(starts) - 1)] <= next_start)
    return apart


SIZES = Sizes()
