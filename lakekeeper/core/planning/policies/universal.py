"""``universal``: merges sorted runs as Paimon's universal compaction does, by its rules in
:mod:`lakekeeper.core.planning.sorted_runs`.

In each partition and spec the newest blocks of level 0 and the levels above them are sorted runs. A few of the newest
runs become one, on the level below the next run; now and then, all runs become one, on the highest level.

A block that overlaps nothing and is full is left, and counts in no run: Paimon would raise its level without
rewriting it, and our levels are written with the file. So data in key order is not rewritten.

    unit   |--a--| |--b---|            |-d-|            groups {a, b} and {d, e}: no file is stretched over c
             |---e---------|  |---c---|  |--e--|

Paimon knows no constant blocks; here full ones are frozen, as by the other policies. A merge would return them
unchanged, and as runs of their own they would trigger it each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.core.config.layout_options import UniversalOptions
from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.levels import frozen, full_size
from lakekeeper.core.layout.overlap_groups import by_name, fill
from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.layout.snapshot_index import place_of, table_line
from lakekeeper.core.model.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.model.plan import Choice, Freeze, Merge, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.sorted_runs import (
    Unit,
    highest_level,
    pick,
)
from lakekeeper.core.units import Ints


@dataclass(frozen=True, slots=True)
class Universal:
    """The unit of each partition that a rule names, cut along the key where it exceeds the bounds of a group."""

    name: str = "universal"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if snapshot.key is None:
            return [Skip(candidates, Reason.of(Code.NO_KEY))]
        if not len(candidates):
            return []
        blocks = snapshot.blocks.take(candidates)
        line = table_line(snapshot, null_region=False).at(candidates)
        place, level = place_of(snapshot)[candidates], blocks.level_under(snapshot.key)
        still = frozen(blocks, line, options)
        choices: list[Choice] = []
        if still.any():
            choices.append(Freeze(candidates[still], Reason.of(Code.CONSTANT)))
        order, wall = _along(blocks, line, place, still, options)
        apart = np.zeros(len(blocks), dtype=np.bool_)
        apart[order[wall]] = True
        if (apart & ~still).any():
            choices.append(Skip(candidates[apart & ~still], Reason.of(Code.NO_OVERLAP)))
        picked = _pick(blocks, place, level, ~apart, options.universal, env.now_ms)
        merges, left = _merges(blocks, level, picked, (order, wall), options)
        ranked = sorted(merges, key=lambda merge: -merge.score)
        return [
            *(Merge(candidates[m.blocks], m.level, m.score, m.reason) for m in ranked),
            *choices,
            *(Skip(candidates[np.concatenate(at)], why) for why, at in left.items()),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _Picked:
    """Per block the number of its unit, -1 for none; the units; and the blocks outside of them by reason."""

    of: Ints
    units: list[Unit]
    left: dict[Reason, list[Index]]


def _along(
    blocks: BlockSet, line: Intervals, place: Ints, still: Bools, options: Options
) -> tuple[Index, Bools]:
    """The blocks along the key, and which of them, in that order, no merge improves: these separate the others.

    Ranges that share nothing but an end do not overlap here: neighbours of one sorted run do that.
    """
    order = _ordered(blocks, line.hi, line.lo)
    lo, hi, at = line.lo[order], line.hi[order], place[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (at[1:] != at[:-1]) | (lo[1:] >= np.maximum.accumulate(hi)[:-1])
    single = fresh & np.append(fresh[1:], True)
    wall = still[order] | (single & full_size(blocks, options)[order])
    border = np.append(True, wall[:-1]) | np.append(True, at[1:] != at[:-1])
    return order, wall | (single & border & np.append(border[1:] | wall[1:], True))


def _ordered(blocks: BlockSet, *keys: Ints) -> Index:
    """The order by ``keys``, the last first as in lexsort; names break ties."""
    order = np.lexsort(keys)
    sorted_keys = np.stack(keys)[:, order]
    same = (sorted_keys[:, 1:] == sorted_keys[:, :-1]).all(axis=0)
    tied = np.append(same, False) | np.append(False, same)
    if not tied.any():
        return order
    named = np.zeros(len(order), np.int64)
    named[order[tied]] = by_name(blocks.path.take(pa.array(order[tied])))
    return np.lexsort((named, *keys))


def _pick(
    blocks: BlockSet, place: Ints, level: Ints, among: Bools, options: UniversalOptions, now_ms: int
) -> _Picked:
    """What is due in each partition, of the runs that the blocks ``among`` make."""
    of = np.full(len(blocks), -1, np.int64)
    units: list[Unit] = []
    left: dict[Reason, list[Index]] = {}
    at = np.flatnonzero(among)
    if not len(at):
        return _Picked(of, units, left)
    age = np.where(level > 0, 0, -blocks.added_at)  # newest first; of a higher level all are one run
    at = at[_ordered(blocks.take(at), age[at], level[at], place[at])]
    owner, lev = place[at], level[at]
    first = np.append(True, owner[1:] != owner[:-1])  # of a partition
    head = first | np.append(True, (lev[1:] != lev[:-1]) | (lev[1:] == 0))  # of a run
    starts = np.flatnonzero(head)
    size = np.add.reduceat(blocks.bytes[at], starts)
    run = np.cumsum(head) - 1
    edges = np.append(run[first], len(starts))
    stops = np.append(starts, len(at))
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        mine = at[stops[a] : stops[b]]
        levels = lev[starts[a:b]]
        unit = pick(levels, size[a:b], options, _since_full(blocks, mine, level, options, now_ms))
        if unit is None:
            left.setdefault(_not_due(len(levels), options), []).append(mine)
            continue
        taken = at[stops[a] : stops[a + unit.runs]]
        of[taken] = len(units)
        units.append(unit)
        if len(taken) < len(mine):
            why = Reason.of(Code.OLDER_RUN, newest=unit.runs, runs=b - a)
            left.setdefault(why, []).append(mine[len(taken) :])
    return _Picked(of, units, left)


def _since_full(
    blocks: BlockSet, mine: Index, level: Ints, options: UniversalOptions, now_ms: int
) -> int | None:
    """Time since the youngest block of the highest level was written; no state is kept for it."""
    if options.full_interval_ms is None:
        return None
    full = mine[level[mine] == highest_level(options, int(level[mine].max()))]
    return now_ms - int(blocks.added_at[full].max()) if len(full) else None


def _not_due(count: int, options: UniversalOptions) -> Reason:
    if count < options.trigger:
        return Reason.of(Code.FEW_RUNS, runs=count, trigger=options.trigger)
    return Reason.of(
        Code.BALANCED_RUNS, runs=count, amplification=options.max_amplification, ratio=options.size_ratio
    )


def _merges(
    blocks: BlockSet, level: Ints, picked: _Picked, along: tuple[Index, Bools], options: Options
) -> tuple[list[Merge], dict[Reason, list[Index]]]:
    """The units as groups along the key, within bounds, none across a wall; and what is left, by reason."""
    left = dict(picked.left)
    order, wall = along
    chosen = picked.of[order] >= 0
    at, walls = order[chosen], np.cumsum(wall)[chosen]
    if not len(at):
        return [], left
    # A partition has one unit at most, and the line keeps partitions apart: along it, units are contiguous.
    part = fill(
        picked.of[at],
        blocks.bytes[at],
        max_bytes=options.groups.max_bytes,
        max_files=options.groups.max_files,
        apart=np.append(False, walls[1:] != walls[:-1]),
    )
    edges = np.append(np.flatnonzero(np.append(True, part[1:] != part[:-1])), len(at))
    lowest = np.minimum.reduceat(level[at], edges[:-1])
    groups = np.bincount(picked.of[at[edges[:-1]]], minlength=len(picked.units))
    merges: list[Merge] = []
    for a, b, low in zip(edges[:-1].tolist(), edges[1:].tolist(), lowest.tolist(), strict=True):
        number = int(picked.of[at[a]])
        unit, cut = picked.units[number], int(groups[number])
        if low == unit.level:
            why = Reason.of(Code.ON_OUTPUT_LEVEL, level=unit.level)
            left.setdefault(why, []).append(at[a:b])
            continue
        why = unit.why if cut == 1 else unit.why.plus(Reason.of(Code.GROUP_OF_RUNS, groups=cut))
        merges.append(Merge(at[a:b], unit.level, float(unit.runs), why))
    return merges, left


UNIVERSAL = Universal()
