"""Candidate merges: nested sets of connected blocks, smallest runs first, from which the best are taken.

Of the blocks whose run size is under θ, for each θ of a ladder, every stretch of the key at least two deep is a batch:

    all runs           a ──────────  b ─────  c ──    due, leaves  40: a is a piece of a large run, and adds more work
    R < 16 files                     b ─────  c ──    due, leaves 120: taken                             than rent
    R < 8 files                               c ──    due, leaves  90: is in it already

Of the due batches, those that leave most are taken. So fresh files never pay for the large run below them, and the
cheapest nested set reduces a deep range: the smallest runs are merged first. A batch above the bounds of a group is cut
along the key, and each part is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import curve_over
from lakekeeper.core.layout.overlap_groups import fill, sections
from lakekeeper.core.layout.ranks import Intervals, stable_order
from lakekeeper.core.model.blocks import BlockSet, Bools, Index
from lakekeeper.core.planning.depth_selection import assign
from lakekeeper.core.planning.ski_rental import Field, Weighed, joined, weigh
from lakekeeper.core.units import Floats, Ints

LADDER = 3.0  # 2 brings the same for half as much work again
_START = 1.3  # first θ, in multiples of the smallest R: the first step then holds more than one size
_LESS = 0.95  # largest share of the blocks of one step that the next step may keep
_SURE = 6.0  # times due: what is inside such a batch is not weighed. Costs no regret, and halves the time of a plan
_ROWS_PER_LOOK = 1000
_CUT = 2  # output files' worth of rows or bytes from which on a single block may be cut
_SPARSE = 6  # points for each block, from which on the line is compacted first


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Batches of a field that are due.

    members, edges   batch ``i`` is ``members[edges[i]:edges[i + 1]]``, positions in the field
    weighed          their rent, work and gain
    part             per batch, whether it is a part of one that a bound cut
    wait             per candidate, queries until the first of its batches is due; infinite where none ever is
    """

    members: Index
    edges: Ints
    weighed: Weighed
    part: Bools
    wait: Floats

    @property
    def count(self) -> int:
        return len(self.part)


def find(field: Field) -> Found:
    """The batches to merge."""
    wait = np.full(len(field), np.inf)
    nest = _nest(field, wait)
    merged_in = nest.best()
    taken = np.flatnonzero(merged_in == np.arange(len(merged_in)))
    number = np.full(len(merged_in) + 1, -1, np.int64)
    number[taken] = np.arange(len(taken))
    of = np.full(len(field), -1, np.int64)
    held = nest.inside >= 0
    of[held] = number[merged_in[nest.inside[held]]]
    alone, single = _splits(field, np.flatnonzero(of < 0), wait)
    of[alone] = len(taken) + np.arange(len(alone))
    members = np.flatnonzero(of >= 0)
    members = members[stable_order(of[members])]
    edges = np.append(0, np.cumsum(np.bincount(of[members], minlength=len(taken) + len(alone))))
    part = np.concatenate([nest.part[taken], np.zeros(len(alone), dtype=np.bool_)])
    return Found(members, edges.astype(np.int64), joined([nest.weighed.at(taken), single]), part, wait)


def _sorted_already(field: Field, members: Index, edges: Ints) -> Bools:
    """Whether one merge of this call wrote all of a batch: another merge would write the same files again."""
    merge, first = field.merge[members], field.merge[members[edges[:-1]]]
    same = np.logical_and.reduceat(merge == np.repeat(first, np.diff(edges)), edges[:-1])
    return np.asarray(same & (first >= 0))


def large(blocks: BlockSet, options: Options) -> Bools:
    """Blocks that a merge may cut although they overlap no other, by their live rows or bytes."""
    rows = blocks.rows - np.maximum(blocks.deleted_rows, 0)
    return np.asarray(options.files.fullness(rows, np.maximum(blocks.live_bytes, 1)) >= _CUT)


def _splits(field: Field, at: Index, wait: Floats) -> tuple[Index, Weighed]:
    """Large blocks that are due alone, to be cut into files of the target size.

    Iceberg's writer looks at the size of a file once in 1,000 rows. A merge that wrote a large file in rows larger than
    a thousandth of the target would write it again as it is, so only a bound on rows cuts that one.
    """
    files, rows, live = field.scale.files, field.rows[at], field.live[at]
    coarse = field.merged[at] & (live * _ROWS_PER_LOOK > rows * files.target_bytes)
    full = files.fullness(rows, np.where(coarse, 0.0, live)) >= _CUT
    at = at[full & (field.merge[at] < 0)]
    if not len(at):
        return at, joined([])
    found = weigh(field, at, np.arange(len(at) + 1))
    wait[at] = np.minimum(wait[at], found.wait)
    due = np.flatnonzero((found.due >= 1) & np.isfinite(found.wait))
    return at[due], found.at(due)


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    """``B`` batches that are due, the outer ones before those inside them.

    inside   N numbers of the innermost batch that the block is in, −1 for none
    around   B numbers of the innermost batch around each, −1 for none
    weighed  their rent, work and gain
    part     B flags: one of several parts that a bound cut
    edges    batches ``edges[i]`` to ``edges[i + 1]`` are of one θ: none is inside another
    """

    inside: Ints
    around: Ints
    weighed: Weighed
    part: Bools
    edges: list[int]

    def best(self) -> Ints:
        """Per batch, the batch that merges it: itself or one around it; −1 for none, or if only inner ones merge."""
        spare = self.weighed.spare
        inner = np.zeros(len(spare))
        for a, b in reversed(list(pairwise(self.edges))):
            around, most = self.around[a:b], np.maximum(spare[a:b], inner[a:b])
            np.add.at(inner, around[around >= 0], most[around >= 0])
        number = np.arange(len(inner))
        found = np.append(np.where(spare >= inner, number, -1), -1)  # the last is around the outermost
        for a, b in pairwise(self.edges):
            outer = found[self.around[a:b]]
            found[a:b] = np.where(outer >= 0, outer, found[a:b])
        return found[:-1]


def _nest(field: Field, wait: Floats) -> _Nest:
    """The batches of all θ that are due; ``wait`` is lowered to what any batch with the block takes.

    Where the same block counts to different stretches at two θ, the inner batch is no part of one outer batch, and
    not looked at.
    """
    at = np.arange(len(field))
    inside = np.full(len(field), -1, np.int64)
    around, parts, edges = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)], [0]
    paid: list[Weighed] = []
    for theta in ladder(field.run_size):
        at = at[field.run_size[at] < theta]
        if len(at) < 2:
            break
        at, batch = _stretches(field, at)  # a block without overlap here has none among fewer blocks
        if not len(at):
            break
        members, ends, part = _bounded(field, at, batch)
        if not len(part):
            continue
        found = weigh(field, members, ends, apart=False)
        count = np.diff(ends)
        sooner = np.where(_sorted_already(field, members, ends), np.inf, found.wait)
        due = np.where(np.isfinite(sooner), found.due, 0.0)
        wait[members] = np.minimum(wait[members], np.repeat(sooner, count))
        outer = inside[members[ends[:-1]]]
        whole = np.logical_and.reduceat(inside[members] == np.repeat(outer, count), ends[:-1])
        pays = (due >= 1) & whole
        if pays.any():
            mine = np.repeat(pays, count)
            inside[members[mine]] = np.repeat((np.cumsum(pays) - 1 + edges[-1])[pays], count[pays])
            around.append(outer[pays])
            paid.append(found.at(np.flatnonzero(pays)))
            parts.append(part[pays])
            edges.append(edges[-1] + int(pays.sum()))
            sure = np.zeros(len(field), dtype=np.bool_)
            sure[members[np.repeat(pays & (due >= _SURE), count)]] = True
            at = at[~sure[at]]
    return _Nest(inside, np.concatenate(around), joined(paid), np.concatenate(parts), edges)


def ladder(run_size: Floats) -> Iterator[float]:
    """Values of θ from above the greatest run size down to above the smallest, each for a set of its own.

    A step that leaves out little more than the one before is skipped, except for the last one.
    """
    if not len(run_size):
        return
    ordered = np.sort(run_size)
    least, most = float(ordered[0]), float(ordered[-1])
    steps = max(0, int(np.ceil(np.log(max(most / (_START * least), 1.0)) / np.log(LADDER)))) + 1
    thetas = _START * least * LADDER ** np.arange(steps, -1, -1.0)
    held = np.searchsorted(ordered, thetas, side="left")
    last = np.inf
    for theta, count, then in zip(thetas.tolist(), held.tolist(), [*held[1:].tolist(), 0], strict=True):
        if count < _LESS * last or (count < last and then < _LESS * count):
            yield theta
            last = count


def _stretches(field: Field, at: Index) -> tuple[Index, Ints]:
    """The blocks ``at`` within a stretch at least two deep, and the number of the stretch."""
    lo, hi, group = _line_of(field.line, at)
    curve = curve_over(lo, hi, group)
    batch, _ = assign(curve, lo, hi, curve.folded > 1)
    return at[batch >= 0], batch[batch >= 0]


def _line_of(line: Intervals, at: Index) -> tuple[Ints, Ints, Ints]:
    if len(at) * _SPARSE > line.points:
        return line.lo[at], line.hi[at], line.group
    among = np.zeros(len(line.lo), dtype=np.bool_)
    among[at] = True  # positions only ever come in ascending order
    few = line.take(among)
    return few.lo, few.hi, few.group


def _bounded(field: Field, at: Index, batch: Ints) -> tuple[Index, Ints, Bools]:
    """The batches of two blocks and more as members and edges; those above the bounds of a group in their parts."""
    order = stable_order(batch)
    members, batch = at[order], batch[order]
    starts = np.flatnonzero(np.append(True, batch[1:] != batch[:-1]))
    count = np.diff(np.append(starts, len(batch)))
    size = np.add.reduceat(field.bytes[members], starts)
    large = (size > field.max_bytes) | (count > field.max_files)
    keep = (count > 1) & ~large
    whole = members[np.repeat(keep, count)]
    edges = np.append(0, np.cumsum(count[keep]))
    if not large.any():
        return whole, edges, np.zeros(len(edges) - 1, dtype=np.bool_)
    some = np.repeat(large, count)
    parts, owner = members[some], batch[some]
    cut = fill(owner, field.bytes[parts], max_bytes=field.max_bytes, max_files=field.max_files)
    order, piece = sections(cut, field.line.lo[parts], field.line.hi[parts])  # a part may fall apart
    length = np.bincount(piece)
    parts = parts[order[(length > 1)[piece]]]
    length = length[length > 1]
    part = np.append(np.zeros(len(edges) - 1, np.bool_), np.ones(len(length), np.bool_))
    return np.append(whole, parts), np.append(edges, edges[-1] + np.cumsum(length)), part
