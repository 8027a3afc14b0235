"""``sizes``: small neighbours of one level, partition and spec are packed together (small files).

With a cluster key, neighbours are neighbours along the key. Two small blocks with a larger one entirely between them
are not neighbours: a packed file would span the larger one.

    small |--|   |--| small   large |--------|   small |--|          {1, 2} are packed, the third is alone

Without a key, neighbours are files that were added one after another; after seven days, larger files between small ones
no longer separate them. A writer that adds a full file and a small remainder in each commit leaves no other neighbours.

Files are packed by tiers: a file joins a group that weighs at least twice as much as the file does, or that makes a
full file. So a file at least doubles each time a byte is packed, and each byte is packed O(log) times however small
commits are:

    ▂▂         packed            █▂▂        one is larger than the others together: only these are packed
    █▂▂▂▂▂     packed            █ ▄
    ▆▂▂▂▂▂     ▆ waits: the group would come out as two files of its size

The factor is 2 while the oldest of the group is new and falls to 1 at seven days (the time factor of Relyt's service):
the last few of a stream are packed too. A group has ``min-input-files`` and must come out as fewer files than went in;
packing keeps the level, since it does not count as a merge of the LSM kind.

Packing helps queries that read many files, since opening each one costs. If a workload is known, and the packed files
would cost its queries more than the small ones (point queries would read larger files), the small files are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import groups_of, scale_of
from lakekeeper.core.layout.adjacency import group_of, line_of, split, stretches
from lakekeeper.core.layout.levels import frozen
from lakekeeper.core.layout.overlap_groups import fill
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.model.plan import Choice, Merge, Skip
from lakekeeper.core.model.reason import Reason, between
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.policy import Env, no_queries
from lakekeeper.core.planning.time_decay import youth_of
from lakekeeper.core.units import Floats

GROWTH = 2.0
"""How many times as much as its largest file a fresh group weighs."""
_OLD = 1.0  # the same at seven days
_ROW_SLACK = 0.6
_OVER = 1.1  # a writer exceeds the target by up to a tenth to avoid a small file
_UNIT = 1 << 30  # one file's worth in whole numbers


@dataclass(frozen=True, slots=True)
class Sizes:
    """Groups of small neighbours, tier by tier."""

    name: str = "sizes"
    lays_out: bool = False

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        scale = scale_of(snapshot, options, env.now_ms, env.workload)
        if not scale.rate:
            return [Skip(candidates, no_queries(env))]
        blocks = snapshot.blocks.take(candidates)
        level = blocks.level_under(snapshot.key)
        group = group_of(blocks, level)
        target = options.files.target_bytes
        full = options.files.min_size_ratio * target
        small = blocks.live_bytes < full
        intervals, still = None, np.zeros(len(blocks), dtype=np.bool_)
        if snapshot.key is not None:
            intervals = rank_blocks(blocks, group, null_region=False)
            still = frozen(blocks, intervals, options)
            small &= ~still
        factor = youth_of(blocks, env.now_ms).between(GROWTH, _OLD)
        found = stretches(
            blocks,
            line_of(blocks, group, intervals),
            small,
            max_bytes=options.groups.max_bytes,
            max_files=options.groups.max_files,
            across=factor <= _OLD if snapshot.key is None else None,
        )
        facts = _Facts(blocks.live_bytes.astype(np.float64), factor, _files_worth(blocks, options), full)
        fewest = options.planning.min_input_files
        packs = [part for one in found for part in _packed(facts, one, fewest)]
        merges, costly = _paying(snapshot, candidates, packs, options, env)
        choices: list[Choice] = [
            Merge(
                candidates[at],
                int(level[at[0]]),
                float(len(at)),
                Reason.of(Code.SMALL_FILES, files=len(at), level=int(level[at[0]])),
                packs=True,
            )
            for at in sorted(merges, key=lambda at: -len(at))
        ]
        done = np.zeros(len(blocks), dtype=np.bool_)
        for at in (*merges, *costly):
            done[at] = True
        if costly:
            choices.append(Skip(candidates[np.concatenate(costly)], Reason.of(Code.PACKING_COSTS)))
        if still.any():
            choices.append(Skip(candidates[still], Reason.of(Code.CONSTANT)))
        if (~small & ~still).any():
            choices.append(Skip(candidates[~small & ~still], Reason.of(Code.NOT_SMALL, full_bytes=int(full))))
        waiting = _waiting(facts, found, small & ~done, fewest)
        return [*choices, *(Skip(candidates[at], why) for at, why in waiting)]


def _waiting(facts: _Facts, found: list[Index], free: Bools, fewest: int) -> list[tuple[Index, Reason]]:
    """Small files outside the groups: those with too few neighbours, and those whose neighbours are too small."""
    if not free.any():
        return []
    missing = np.zeros(len(free), np.int64)
    count = np.array([len(one) for one in found])
    missing[np.concatenate(found)] = np.repeat(np.maximum(fewest - count, 0), count)
    few, light = np.flatnonzero(free & (missing > 0)), np.flatnonzero(free & (missing == 0))
    waiting: list[tuple[Index, Reason]] = []
    if len(few):
        waiting.append((few, Reason.of(Code.FEW_NEIGHBOURS, more=between(missing[few]))))
    if len(light):
        factor = between(np.round(facts.factor[light], 2))
        waiting.append((light, Reason.of(Code.LIGHT_NEIGHBOURS, factor=factor, full_bytes=int(facts.full))))
    return waiting


@dataclass(frozen=True, slots=True, eq=False)
class _Facts:
    """Per block its live bytes, how many times as much its group has to weigh, and the output files that it fills.

    ``full`` are the bytes from which a file is not small.
    """

    size: Floats
    factor: Floats
    weight: Floats
    full: float


def _packed(facts: _Facts, members: Index, fewest: int) -> list[Index]:
    """Groups of a stretch of neighbours, each of which weighs at least the factor times its largest file."""
    pending, found = [members], []
    while pending:
        some = pending.pop()
        if len(some) < fewest:
            continue
        size = facts.size[some]
        largest = int(np.argmax(size))
        if not _grows(facts, some):
            pending += [some[:largest], some[largest + 1 :]]
            continue
        for part in _filled(facts.weight, some):
            if len(part) == len(some) or _grows(facts, part):
                found += [part] if len(part) >= fewest else []
            else:
                pending.append(part)
    return found


def _grows(facts: _Facts, part: Index) -> bool:
    """Does each file of the group come out as much larger, or as a full one? Outputs of a group are of equal size."""
    size = facts.size[part]
    files = max(1, math.ceil(facts.weight[part].sum() / _OVER))
    return bool(size.sum() / files >= min(facts.factor[part].min() * size.max(), facts.full))


def _filled(weight: Floats, members: Index) -> list[Index]:
    """The whole group if it certainly becomes fewer files; else the parts that fit into single files."""
    total = float(weight[members].sum())
    if total <= 1 or 2 * total + 1 < len(members):
        return [members]
    share = (weight[members] * _UNIT).astype(np.int64)
    return split(members, fill(members * 0, share, max_bytes=_UNIT, max_files=len(members)))


def _paying(
    snapshot: Snapshot, candidates: Index, packs: list[Index], options: Options, env: Env
) -> tuple[list[Index], list[Index]]:
    """Groups from which queries gain, and those from which they do not."""
    if not packs:
        return [], []
    scale = scale_of(snapshot, options, env.now_ms, env.workload)
    members = candidates[np.concatenate(packs)]
    edges = np.cumsum([0, *map(len, packs)])
    groups, size = groups_of(snapshot.blocks, members, edges, options)
    pays = scale.worth(groups, size, np.ones(len(packs), dtype=np.bool_)).ratio > 0
    return [at for at, yes in zip(packs, pays, strict=True) if yes], [
        at for at, yes in zip(packs, pays, strict=True) if not yes
    ]


def _files_worth(blocks: BlockSet, options: Options) -> Floats:
    """How many output files each block's live rows fill.

    A writer that fills files one after another needs at most 2 x + 1 files for rows worth x: two
    neighbouring files hold more than one file's worth. Rows count with slack, as writers that only know
    bytes have to guess where the row bound falls.
    """
    rows = blocks.rows - np.maximum(blocks.deleted_rows, 0)
    return options.files.fullness(rows, blocks.live_bytes, _ROW_SLACK)


SIZES = Sizes()
