"""Ski rental (rent or buy): what overlapping files have cost their readers so far, against the cost of a merge.

A table is a set of sorted runs. Each query pays *rent* for every run over its key; a merge *buys* one run for several.
Which merges pay depends on future queries and commits, which are unknown: the problem is repeated ski rental.
For a batch B of blocks, with P(b) the share of the queries that open b, in byte-equivalents (``core.cost``):

    paid(B)   Σ P(b) · cost of reading b · queries since b was added
    kept(B)   what one sorted run in their place would have cost: at each point since the oldest block there
    rent(B)   paid − kept           what the overlap has cost so far
    work(B)   ρ·bytes + O·files     what the merge costs

and B is due once

    rent(B) ≥ 0.7 · work(B)

Break-even (1) is right where nothing is known: however queries end, at most twice what hindsight would have paid. Half
is right where a table goes on as it began: rent then grows with the square of time, and at a half the merge pays back
within as long as its blocks have waited. 0.7 is the geometric mean of the two: an adversary who ends all queries right
after each merge makes it cost 2.4 times hindsight, and against the exact optimum of steady commits (``tests/bench``),
over prices of a scan from 0.005 to 10 rewrites of a file, it costs 1.13 times as much (break-even 1.15, half 1.08).

Sources: Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching" (1988) for ski rental; Mathieu, Rajaraman,
Young, Yousefi, "Competitive data-structure dynamization" (SODA 2021) for merging all runs below a size once that much
rent was paid, and its competitive ratio of O(log* n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.scoring import Scale
from lakekeeper.core.layout.apparent_depth import RunLook
from lakekeeper.core.layout.key_distribution import Line
from lakekeeper.core.layout.ranks import Intervals, dense
from lakekeeper.core.layout.single_run import Boxes
from lakekeeper.core.layout.snapshot_index import data_line, kept, place_of, table_line
from lakekeeper.core.model.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.planning.block_age import ages, delete_ages
from lakekeeper.core.planning.policy import Part
from lakekeeper.core.units import Floats, Ints

DUE = 0.7
"""A merge is due once its rent reaches this share of its work."""
_NOISE = 1e-9  # share of the work: gains below it are rounding
_ROUNDING = 1e-12  # share of a sum over the whole line: a smaller difference of two such sums is rounding
_SPARSE = 6  # points for each block, from which on the line is compacted first


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """``N`` candidates along the key, in the order of the line, with all that their merges are judged by.

    at           positions among the blocks of the snapshot
    line, data   their intervals, and how the table's bytes are spread over the same points
    cost         N byte-equivalents that a query pays to read the block, on average over all queries
    paid         N byte-equivalents that queries have paid for that since it was added
    age          N ages, in queries of the table; ``live_age``, times live bytes
    merge        N numbers of the merges of the same call that wrote them, −1 for none: what one merge wrote is sorted
    merged       N flags: a merge under this key wrote it, in this call or before
    live, bytes  N sizes: without deleted rows, and as they are; ``rows``, rows that are not deleted
    run_size     N bytes ÷ share of the partition's bytes in the block's range: the size of the sorted run that it is
                 a piece of. A fresh file over the whole key is its own run; a piece of a run of a hundred, a hundred
    work         N works of rewriting
    look         how deep the sorted runs that merges make look; ``boxes``, which blocks look like one
    max_bytes, max_files   bounds of one group
    """

    at: Index
    blocks: BlockSet
    line: Intervals
    data: Line
    cost: Floats
    paid: Floats
    age: Floats
    live_age: Floats
    merge: Ints
    merged: Bools
    live: Floats
    rows: Ints
    bytes: Ints
    run_size: Floats
    work: Floats
    look: RunLook
    boxes: Boxes
    scale: Scale
    max_bytes: int
    max_files: int

    def __len__(self) -> int:
        return len(self.at)

    def added_ms(self, members: Index, starts: Ints, now_ms: int) -> Ints:
        """Per batch of ``members`` when its bytes were added, on average, in ms since the epoch."""
        mean = np.add.reduceat(self.live_age[members], starts) / np.add.reduceat(self.live[members], starts)
        return np.asarray(now_ms - 1000 * mean / self.scale.rate, np.int64)


def field_of(
    snapshot: Snapshot, at: Index, scale: Scale, options: Options, now_ms: int, parts: Mapping[str, Part]
) -> Field:
    """The blocks ``at`` as candidates; ``parts`` says which merge of the same call wrote one, by path."""
    blocks, line = snapshot.blocks, table_line(snapshot, null_region=False)
    mine, data = line.at(at), data_line(snapshot)
    live = np.maximum(blocks.live_bytes[at], 1).astype(np.float64)
    whole = kept(snapshot, "live bytes of places", lambda: _by_place(snapshot))[place_of(snapshot)[at]]
    added_ms, merge = _inherited(blocks, at, parts, now_ms)
    age = np.maximum(ages(snapshot, now_ms, at), (now_ms - added_ms) / 1000)
    paid = scale.plain[at] * age
    if blocks.delete_files.any():
        paid += scale.deletes[at] * delete_ages(snapshot, now_ms, at)
    share = scale.reads.share[at]
    return Field(
        at=at,
        blocks=blocks,
        line=mine,
        data=data,
        cost=share * (scale.plain[at] + scale.deletes[at]),
        paid=share * scale.rate * paid,
        age=scale.rate * age,
        live_age=live * (scale.rate * age),
        merge=merge,
        merged=blocks.level_under(snapshot.key)[at] > 0,
        live=live,
        rows=(blocks.rows - np.maximum(blocks.deleted_rows, 0))[at],
        bytes=blocks.bytes[at],
        run_size=live * (whole / np.maximum(data.inside(mine.lo, mine.hi), live)),
        work=scale.work()[at],
        look=kept(snapshot, "look", lambda: RunLook(snapshot)),
        boxes=kept(snapshot, "boxes", lambda: Boxes(snapshot)),
        scale=scale,
        max_bytes=options.groups.max_bytes,
        max_files=options.groups.max_files,
    )


def _by_place(snapshot: Snapshot) -> Floats:
    """The live bytes of each partition and spec."""
    return np.asarray(np.bincount(place_of(snapshot), np.maximum(snapshot.blocks.live_bytes, 1)), np.float64)


def _inherited(blocks: BlockSet, at: Index, parts: Mapping[str, Part], now_ms: int) -> tuple[Ints, Ints]:
    """Per block, the time at which the inputs of a merge that was cut short were added (else now), and its merge."""
    if not parts:
        return np.full(len(at), now_ms), np.full(len(at), -1)
    found = pc.index_in(blocks.path.take(pa.array(at)), value_set=pa.array(list(parts), pa.string()))
    number = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    merges = {part.merge: i for i, part in enumerate(parts.values())}
    added_ms = [*(part.added_ms or now_ms for part in parts.values()), now_ms]
    merge = [*(merges[part.merge] for part in parts.values()), -1]
    return np.array(added_ms, np.int64)[number], np.array(merge, np.int64)[number]


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Per batch its rent and work so far, and what its overlap costs each query, all in byte-equivalents.

    Blocks that are one sorted run already cost nothing if they come out as no fewer files, or if merges wrote them all:
    a writer makes more files than ``files`` here, which is an estimate, and another merge would make as many again.
    """

    rent: Floats
    work: Floats
    gain: Floats

    def at(self, index: Index) -> Weighed:
        """Some of the batches."""
        return Weighed(self.rent[index], self.work[index], self.gain[index])

    @property
    def due(self) -> Floats:
        """The rent as a share of the rent that makes the batch due; from 1 on, it is due."""
        return np.asarray(np.maximum(self.rent, 0.0) / np.maximum(DUE * self.work, 1e-300))

    @property
    def spare(self) -> Floats:
        """The rent beyond that which makes it due; negative before."""
        return np.asarray(self.rent - DUE * self.work)

    @property
    def wait(self) -> Floats:
        """Queries until it is due; infinite if its overlap costs queries nothing."""
        wait = np.full(len(self.rent), np.inf)
        gains = self.gain > _NOISE * self.work
        wait[gains] = np.maximum(-self.spare[gains], 0.0) / self.gain[gains]
        return wait


def joined(some: Sequence[Weighed]) -> Weighed:
    """Batches one after another."""
    columns = ("rent", "work", "gain")
    return Weighed(*(np.concatenate([np.zeros(0), *(getattr(w, name) for w in some)]) for name in columns))


def weigh(field: Field, members: Index, edges: Ints, *, apart: bool = True) -> Weighed:
    """Batches of candidates: batch ``i`` is ``members[edges[i]:edges[i + 1]]``, none of them empty.

    Without ``apart`` the oldest block at a point is that of any batch there: faster, and where batches overlap one
    another the rent comes out lower, never higher.
    """
    starts, scale = edges[:-1], field.scale
    live = np.add.reduceat(field.live[members], starts)
    files, each = scale.outputs(live, np.add.reduceat(field.rows[members], starts))
    opened = scale.reads.outputs(Groups(field.at[members], edges, files))
    first = np.minimum.reduceat(field.line.lo[members], starts)
    last = np.maximum.reduceat(field.line.hi[members], starts)
    # One file for each query that meets the batch, since its oldest block; the rest of the query's range has
    # been there for as long as the bytes have.
    mean = np.add.reduceat(field.live_age[members], starts) / live
    met, more = opened.met * field.look.of(files, opened.met), opened.files - opened.met
    batch = np.repeat(np.arange(len(starts)), np.diff(edges)) if apart else None
    kept = each * (met * _oldest(field, members, (first, last), batch) + more * mean)
    final = (files >= np.diff(edges)) | np.logical_and.reduceat(field.merged[members], starts)
    gain = np.add.reduceat(field.cost[members], starts) - each * (met + more)
    return Weighed(
        rent=np.add.reduceat(field.paid[members], starts) - kept,
        work=np.add.reduceat(field.work[members], starts),
        gain=np.where(field.boxes.one_run(field.at[members], edges) & final, 0.0, gain),
    )


def _oldest(field: Field, at: Index, hull: tuple[Ints, Ints], batch: Ints | None) -> Floats:
    """Per batch over its hull, the age of the oldest block at each point, averaged over the data there.

    ages     3 ──────────────        5 ─────
                     4 ────────────────
    oldest   3      |4      |       |5     |4
    """
    lo, hi = field.line.lo[at], field.line.hi[at]
    first, last = hull
    upto, before = field.data.upto, field.data.before
    if batch is not None or len(at) * _SPARSE <= field.line.points:  # between their bounds, no age changes
        points = field.line.points
        # Each batch on a line of its own.
        offset = np.zeros(len(at), np.int64) if batch is None else batch * points
        ends = np.zeros(len(first), np.int64) if batch is None else np.arange(len(first)) * points
        lo, hi, bounds = dense(lo + offset, hi + offset)
        first, last = np.searchsorted(bounds, first + ends), np.searchsorted(bounds, last + ends)
        same, bounds = upto is before, bounds % points
        upto = upto[bounds]
        before = upto if same else before[bounds]
    oldest, at_point = oldest_over(lo, hi, field.age[at], len(upto))
    # One run of sums over the line: the stretches between a batch's points, and then all of these points.
    stretches = np.zeros(len(upto))
    np.cumsum((before[1:] - upto[:-1]) * oldest[:-1], out=stretches[1:])
    if upto is before:  # no block is a single point
        inside = stretches[last] - stretches[first]
    else:
        atom = (upto - before) * at_point
        atoms = np.cumsum(atom)
        inside = atoms[last] - atoms[first] + atom[first] + stretches[last] - stretches[first]
    held = upto[last] - before[first]
    # Of sums that cancel out, the rest is rounding: nothing is held there.
    some = held > _ROUNDING * upto[last]
    return np.where(some, np.maximum(inside, 0.0) / np.where(some, held, 1.0), at_point[first])


def oldest_over(lo: Ints, hi: Ints, age: Floats, points: int) -> tuple[Floats, Floats]:
    """The greatest age over each stretch from a point to the next, and over each point; 0 where there is none.

    The sparse table of range maxima the other way round: each interval is two windows of a power of two, and from the
    widest down a window hands its age to its halves.
    """
    wide = np.flatnonzero(hi > lo)
    length = (hi - lo)[wide]
    power = (np.frexp(length.astype(np.float64))[1] - 1).astype(np.int8)
    order = wide[np.argsort(power, kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(power)))
    over, halved = np.zeros(points), np.empty(points)
    for k in range(len(edges) - 2, -1, -1):
        now, width = order[edges[k] : edges[k + 1]], 1 << k
        np.maximum.at(over, lo[now], age[now])
        np.maximum.at(over, hi[now] - width, age[now])
        if k:
            half = width >> 1
            halved[:half] = over[:half]
            np.maximum(over[half:], over[:-half], out=halved[half:])
            over, halved = halved, over
    at_point = over.copy()
    np.maximum(at_point[1:], over[:-1], out=at_point[1:])
    single = np.flatnonzero(hi == lo)
    np.maximum.at(at_point, lo[single], age[single])
    return over, at_point
