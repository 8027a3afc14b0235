"""Selection by depth: shared by the policies that read the depth curve.

    levels ─► curve per (partition, spec, level) ─► gate ─► hot points ─► runs ─► blocks ─► bounded groups

A policy of this family only decides which points of a level above its gate are hot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import Counts, DepthCurve, depth_curve, range_max
from lakekeeper.core.layout.levels import (
    Gates,
    frozen,
    gates,
    order_hidden,
    partition_group,
    run_floor,
)
from lakekeeper.core.layout.overlap_groups import Groups, bounded_groups
from lakekeeper.core.layout.ranks import Intervals, rank_blocks
from lakekeeper.core.model.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.model.plan import Choice, Freeze, Merge, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import Ints

Hot = Callable[[DepthCurve, Gates], Bools]
"""Points of the curve that call for a merge; only points of levels above their gate are considered."""


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """The blocks that may be merged: positions in the snapshot, their level and group, their intervals."""

    at: Index
    blocks: BlockSet
    level: Ints
    place: Ints
    group: Ints
    intervals: Intervals


def select_by_depth(
    snapshot: Snapshot,
    candidates: Index,
    options: Options,
    hot: Hot,
    *,
    one_level: bool,
) -> list[Choice]:
    """Merges of the levels above their gate, and why every other candidate is left.

    With ``one_level``, a partition merges one level at a time, that of the greatest average depth (Snowflake sorts
    levels by AvgDepth); without, all of them, the lowest first (Databend). Merging only the lowest would starve the
    others on every stream that keeps level 0 above its gate.
    """
    if snapshot.key is None:
        return [Skip(candidates, Reason.of(Code.NO_KEY))]
    if not len(candidates):
        return []
    everything = len(candidates) == len(snapshot.blocks)
    blocks = snapshot.blocks if everything else snapshot.blocks.take(candidates)
    field, choices = _field(snapshot, blocks, candidates, options)
    if not len(field.at):
        return choices
    curve = depth_curve(field.intervals)
    level = np.zeros(int(field.group.max()) + 1, np.int64)
    level[field.group] = field.level
    floor = run_floor(snapshot.key, field.blocks, field.group)
    gate = gates(curve, field.intervals, options, level, floor)
    lo, hi = field.intervals.lo, field.intervals.hi
    run, peak = assign(curve, lo, hi, hot(curve, gate) & gate.above[curve.group])
    groups, cut = _groups(field, run, options)
    waiting = _waiting(field, groups, gate) if one_level else np.zeros(len(field.at), dtype=np.bool_)
    merges = _merges(field, groups, run, peak, waiting)
    return [*merges, *choices, *_left(field, gate, run, cut, waiting, merges)]


def _field(
    snapshot: Snapshot, blocks: BlockSet, candidates: Index, options: Options
) -> tuple[_Field, list[Choice]]:
    level = blocks.level_under(snapshot.key)
    top = options.planning.max_level
    place = partition_group(blocks)
    code = place * (int(level.max(initial=0)) + 1) + level
    distinct, group = np.unique(code, return_inverse=True) if code.any() else (code[:1], code)
    intervals = rank_blocks(blocks, group if len(distinct) > 1 else None, null_region=False)
    still = frozen(blocks, intervals, options)
    hidden = order_hidden(blocks, level) & ~still
    blind = intervals.missing & (level > 0) & ~still & ~hidden
    done = (level >= top) & ~still & ~hidden & ~blind
    keep = ~still & ~hidden & ~blind & ~done
    choices: list[Choice] = []
    if still.any():
        choices.append(Freeze(candidates[still], Reason.of(Code.CONSTANT)))
    if hidden.any():
        choices.append(Skip(candidates[hidden], Reason.of(Code.ORDER_HIDDEN)))
    if blind.any():
        choices.append(Skip(candidates[blind], Reason.of(Code.NO_STATISTICS)))
    if done.any():
        choices.append(Skip(candidates[done], Reason.of(Code.MAX_LEVEL, level=top)))
    if keep.all():
        return _Field(candidates, blocks, level, place, group, intervals), choices
    at = candidates[keep]
    field = _Field(at, blocks.take(keep), level[keep], place[keep], group[keep], intervals.take(keep))
    return field, choices


def assign(curve: DepthCurve, lo: Ints, hi: Ints, hot: Bools) -> tuple[Ints, Counts]:
    """Per block the number of the deepest hot run that it touches (ties: the leftmost), or -1; each run's depth.

    Neighbouring hot points are one run as long as some block spans the stretch between them. Each block
    is in one run at most, so batches are disjoint.
    """
    run_of_block = np.full(len(lo), -1, np.int64)
    if not hot.any():
        return run_of_block, np.zeros(0, np.int32)
    joined = hot[1:] & hot[:-1] & (curve.through[:-1] > 0) & (curve.group[1:] == curve.group[:-1])
    starts, ends = hot.copy(), hot.copy()
    starts[1:] &= ~joined
    ends[:-1] &= ~joined
    first, last = np.flatnonzero(starts), np.flatnonzero(ends)
    before = np.cumsum(ends, dtype=np.int32) - ends  # runs that end before a point
    begun = np.cumsum(starts, dtype=np.int32)  # runs that start at or before it
    left, right = before[lo], begun[hi] - 1  # the runs that a block touches
    run_of_block = np.where(left <= right, left, -1).astype(np.int64)
    several = np.flatnonzero(left < right)
    peak = _peaks(curve.folded, first, last)
    if len(several):
        rank = peak.astype(np.int64) * len(first) + (len(first) - 1 - np.arange(len(first)))
        order = np.argsort(rank)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        run_of_block[several] = order[range_max(place, left[several], right[several])]
    return run_of_block, peak


def _peaks(depth: Counts, first: Index, last: Index) -> Counts:
    """The greatest depth in each of several consecutive runs."""
    ends = np.stack([first, last + 1], axis=1).ravel()
    return np.maximum.reduceat(depth, ends[: -1 if last[-1] + 1 == len(depth) else None])[::2]


def _groups(field: _Field, run: Ints, options: Options) -> tuple[Groups, Bools]:
    """Merge groups as positions in the field; and which blocks lost theirs to the size bounds."""
    chosen: Index = np.flatnonzero(run >= 0)
    cut = np.zeros(len(run), dtype=np.bool_)
    if not len(chosen):
        return Groups(chosen, np.zeros(1, np.int64)), cut
    groups, lost = bounded_groups(
        run[chosen],
        field.intervals.lo[chosen],
        field.intervals.hi[chosen],
        field.blocks.bytes[chosen],
        names=lambda at: field.blocks.path.take(pa.array(chosen[at])),
        max_bytes=options.groups.max_bytes,
        max_files=options.groups.max_files,
    )
    cut[chosen] = lost
    return Groups(chosen[groups.members], groups.edges), cut


def _waiting(field: _Field, groups: Groups, gate: Gates) -> Bools:
    """Blocks of groups whose level is not the deepest on average in their partition; equal ones lowest first."""
    waiting = np.zeros(len(field.at), dtype=np.bool_)
    if not len(groups):
        return waiting
    head = groups.members[groups.edges[:-1]]
    level, place = field.level[head], field.place[head]
    order = np.lexsort((level, -gate.average[field.group[head]], place))
    first = order[np.append(True, place[order][1:] != place[order][:-1])]
    chosen = np.zeros(int(place.max()) + 1, np.int64)
    chosen[place[first]] = level[first]
    waiting[groups.members] = np.repeat(level != chosen[place], np.diff(groups.edges))
    return waiting


def _merges(field: _Field, groups: Groups, run: Ints, peak: Counts, waiting: Bools) -> list[Merge]:
    """The groups that do not wait: low levels first, the deepest and largest of a level first."""
    if not len(groups):
        return []
    members, edges = groups.members, groups.edges
    head = members[edges[:-1]]
    level, depth = field.level[head], peak[run[head]]
    size = np.add.reduceat(field.blocks.bytes[members], edges[:-1])
    order = np.lexsort((field.intervals.lo[head], -size, -depth, level))
    order = order[~waiting[head][order]]
    at = field.at[members]
    first, end, own, deep = (column[order].tolist() for column in (edges[:-1], edges[1:], level, depth))
    why = Reason.each(Code.DEEP, files=np.diff(edges)[order].tolist(), level=own, depth=deep)
    return [
        Merge(at[a:b], k + 1, float(d), reason)
        for a, b, k, d, reason in zip(first, end, own, deep, why, strict=True)
    ]


def _left(
    field: _Field, gate: Gates, run: Ints, cut: Bools, waiting: Bools, merges: list[Merge]
) -> list[Choice]:
    """Why each block of the field that is in no merge is left."""
    merged = np.zeros(int(field.at.max()) + 1, dtype=np.bool_)
    for merge in merges:
        merged[merge.blocks] = True
    free = ~merged[field.at]
    enough = ~gate.above[field.group]
    reasons = (
        (free & ~enough & waiting, Code.DEEPER_LEVEL_FIRST),
        (free & ~enough & cut & ~waiting, Code.NO_ROOM),
        (free & ~enough & (run < 0), Code.DEEPER_RANGE_FIRST),
        (free & ~enough & (run >= 0) & ~waiting & ~cut, Code.NO_PARTNER),
    )
    left: list[Choice] = []
    if (free & enough).any():
        left.append(Skip(field.at[free & enough], _shallow(gate, field.group[free & enough])))
    left += [Skip(field.at[mask], Reason.of(code)) for mask, code in reasons if mask.any()]
    return left


def _shallow(gate: Gates, group: Ints) -> Reason:
    """The reason for blocks below their gates, from the deepest of these levels."""
    average, threshold = gate.average[group], gate.threshold[group]
    deepest = average.max()
    nearest = threshold[average == deepest].min()
    return Reason.of(Code.SHALLOW, depth=round(float(deepest), 2), threshold=float(nearest))
