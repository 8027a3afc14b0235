"""``sizes``: small neighbours of one level, partition and spec are packed together (seed 001's small files).

With a cluster key, neighbours are neighbours along the key, and two small blocks with a larger one wholly
between them are none: packing them would stretch one file over the other.

    small |--|   |--| small   large |--------|   small |--|          {1, 2} are packed, the third is alone

How many it takes depends on the oldest of them: ``min-input-files`` while it is fresh, down to ``min-input-files-old``
(seed 001's time factor), so that a stream of small files is packed many at a time and its last few all the same.

Packing keeps the level: it does not count as a merge of the LSM kind, and it ends because each group
must come out as fewer files than went in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.levels import frozen
from lakekeeper.core.neighbours import Line, group_of, line_of, split, stretches
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice, Merge, Skip
from lakekeeper.core.policies import Env
from lakekeeper.core.ranks import rank_blocks
from lakekeeper.core.sections import fill
from lakekeeper.core.youth import Youth, youth_of

Fewest = npt.NDArray[np.float64]

_ROW_SLACK = 0.6
_UNIT = 1 << 30  # one file's worth in whole numbers


@dataclass(frozen=True, slots=True)
class Sizes:
    """Groups of enough small neighbours that come out as fewer files."""

    name: str = "sizes"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        blocks = snapshot.blocks.take(candidates)
        level = blocks.level_under(snapshot.key)
        group = group_of(blocks, level)
        target = options.integer("target-file-size-bytes")
        small = blocks.live_bytes < options.number("min-file-size-ratio") * target
        intervals = None
        if snapshot.key is not None:
            intervals = rank_blocks(blocks, group, null_region=False)
            small &= ~frozen(blocks, intervals, options)
        youth = youth_of(blocks, env)
        old = options.number("min-input-files-old")
        fewest = np.maximum(youth.between(options.number("min-input-files"), old), 2.0)
        line = line_of(blocks, group, intervals)
        merges, packed, waits = _pack(blocks, line, small, fewest, options)
        choices: list[Choice] = [
            Merge(
                candidates[at],
                int(level[at[0]]),
                float(len(at)),
                f"{len(at)} small neighbours of level {level[at[0]]}{_told(at, fewest, youth, options)}",
            )
            for at in sorted(merges, key=lambda at: -len(at))
        ]
        if (~small).any():
            choices.append(Skip(candidates[~small], "not a small file"))
        if waits.any():
            said = _told(np.flatnonzero(waits), fewest, youth, options)
            choices.append(Skip(candidates[waits], f"small, but too few neighbours so far{said}"))
        alone = small & ~packed & ~waits
        if alone.any():
            choices.append(
                Skip(candidates[alone], "small, but no neighbours that would come out as fewer files")
            )
        return choices


def _told(at: Index, fewest: Fewest, youth: Youth, options: Options) -> str:
    """How many it takes of these blocks, and their ages; nothing where their age can not matter."""
    if not youth.known or options["min-input-files"] <= options["min-input-files-old"]:
        return ""
    least, most = math.ceil(fewest[at].min()), math.ceil(fewest[at].max())
    return f"; min-input-files {least if least == most else f'{least} to {most}'}{youth.told(at)}"


def _pack(
    blocks: BlockSet, line: Line, small: Bools, fewest: Fewest, options: Options
) -> tuple[list[Index], Bools, Bools]:
    """Stretches of neighbours that are sure to come out as fewer files; else what fits into single files.

    Besides, which blocks are packed, and which would be if fewer sufficed: the oldest of a group says how many do.
    """
    packed, waits = np.zeros(len(blocks), dtype=np.bool_), np.zeros(len(blocks), dtype=np.bool_)
    merges: list[Index] = []
    weight = _files_worth(blocks, options)
    max_bytes = options.integer("max-file-group-size-bytes")
    max_files = options.integer("max-file-group-input-files")
    for members in stretches(blocks, line, small, max_bytes=max_bytes, max_files=max_files):
        total = float(weight[members].sum())
        if total <= 1 or 2 * total + 1 < len(members):
            parts = [members]
        else:
            share = (weight[members] * _UNIT).astype(np.int64)
            parts = split(members, fill(members * 0, share, max_bytes=_UNIT, max_files=max_files))
        for part in parts:
            if len(part) < 2:
                continue
            enough = len(part) >= fewest[part].min()
            (packed if enough else waits)[part] = True
            if enough:
                merges.append(part)
    return merges, packed, waits


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


SIZES = Sizes()
