"""Rent or buy: which overlapping blocks have cost more scans since they were born than rewriting them would.

Merging a batch B saves each query the scans beyond one: Σ Q(range of b) − Q(union of B), with Q the share of the
queries that read a range. So since its blocks were born it has cost

    rent(B) = Σ Q(range of b) · age of b  −  ∫ greatest age there dQ        scans for one query a commit; the second
                                                                            part is what one run would have cost

and it is bought once price · rent(B) ≥ bytes of B / target size: the rule of ski rental, at most twice as dear as
knowing the future. Which blocks make a batch is decided by price, too: of blocks with equivalent run size

    R = bytes / share of the partition's bytes in the range       a fresh wide file: 1 file; four of them merged: 4

those under θ are looked at, for each θ of a ladder; stretches at least two deep are the batches, one inside the
other. Of those that pay, the ones are taken that leave most, price · rent − cost:

    all of them       a ──────────  b ─────  c ──    pays, leaves  40: a is a large run, and adds more cost than rent
    R < 16 files                    b ─────  c ──    pays, leaves 120: merged
    R < 8 files                              c ──    pays, leaves  90: is in it already

The rent of a small batch alone would else buy the rewrite of whatever large run lies below it.

(reference: algorithms §4; ski rental: Karlin, Manasse, Rudolph, Sleator 1988.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lakekeeper.core.blocks import Bools, Index, Ints
from lakekeeper.core.depth import Counts, DepthCurve, curve_over
from lakekeeper.core.mass import Floats, Line
from lakekeeper.core.ranks import Intervals, dense
from lakekeeper.core.selection import assign

LADDER = 2.0  # 1.5 and 3 bring the same
_START = 1.3  # of the smallest R: the first step holds more than one size
_SPARSE = 6  # points for each block, from which on the line is compacted first
_PART = 0.25  # of the price, at which a stretch with a point that is too deep is merged
_REACH = 4  # blocks of such a stretch, for each block over its deepest point
_SURE = 6.0  # rewrites paid in scans, from which on a batch is taken whole: what is inside it could leave little more
_NOISE = 1e-9  # of the scans: differences below it are rounding


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """``N`` candidates on one line.

    line      their intervals, over all points of the table's blocks
    queries   share of the queries that read a range
    share     N shares of the queries that read the block and would not have to, were it merged with others:
              of a block that is one single key, only as far as it is smaller than a file of the target size
    age       N ages in commits
    files     N sizes in files of the target size
    run_size  N equivalent run sizes, in the same unit
    settled   N flags: came out of a merge, so that a batch of such blocks alone has to be deeper than ``alone``
    """

    line: Intervals
    queries: Line
    share: Floats
    age: Floats
    files: Floats
    run_size: Floats
    settled: Bools
    alone: int


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Batches of a field.

    of       N numbers of batches, −1 for none
    offer    N best values of price · rent / cost that any batch with the block reached; 0 where nothing overlaps
    peak     per batch, its greatest depth
    forced   per batch, whether its depth forced it
    """

    of: Ints
    offer: Floats
    peak: Ints
    forced: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Per batch: how much rent it has paid, its cost in files, blocks, and whether a merge can better it."""

    rent: Floats
    cost: Floats
    count: Ints
    worth: Bools


def weigh(field: Field, at: Index, batch: Ints, peak: Counts | Ints) -> Weighed:
    """The blocks ``at`` as batches numbered by ``batch``."""
    size = len(peak)
    share, age = field.share[at], field.age[at]
    first, last = np.full(size, field.line.points), np.zeros(size, np.int64)
    np.minimum.at(first, batch, field.line.lo[at])
    np.maximum.at(last, batch, field.line.hi[at])
    first = np.minimum(first, last)  # a number without blocks
    union = field.queries.share(first, last)
    scans = np.bincount(batch, share, size)
    paid = np.asarray(np.bincount(batch, share * age, size), np.float64)
    rent = paid - _kept(field, at, first, last)
    count = np.bincount(batch, minlength=size)
    fresh = np.bincount(batch, ~field.settled[at], size) > 0
    worth: Bools = (count > 1) & (scans - union > _NOISE * scans) & (fresh | (peak > field.alone))
    cost = np.asarray(np.bincount(batch, field.files[at], size), np.float64)
    return Weighed(rent, cost, count, worth)


def _kept(field: Field, at: Index, first: Ints, last: Ints) -> Floats:
    """Per batch over [first, last], the scans that one run would have cost: at each point, of its oldest block.

    ages     3 ──────────────        5 ─────
                     4 ────────────────
    oldest   3      |4      |       |5     |4
    """
    lo, hi = field.line.lo[at], field.line.hi[at]
    upto, before = field.queries.upto, field.queries.before
    if len(at) * _SPARSE <= field.line.points:  # between their bounds, no age changes
        lo, hi, bounds = dense(lo, hi)
        first, last = np.searchsorted(bounds, first), np.searchsorted(bounds, last)
        same = upto is before
        upto = upto[bounds]
        before = upto if same else before[bounds]
    oldest, at_point = oldest_over(lo, hi, field.age[at], len(upto))
    # One run of sums over the line: the stretches between a batch's points, and then all of these points.
    stretches = np.zeros(len(upto))
    np.cumsum((before[1:] - upto[:-1]) * oldest[:-1], out=stretches[1:])
    if upto is before:  # no query is for a single point
        inside = stretches[last] - stretches[first]
    else:
        atom = (upto - before) * at_point
        points = np.cumsum(atom)
        inside = points[last] - points[first] + atom[first] + stretches[last] - stretches[first]
    return np.asarray(np.maximum(inside, 0.0) / max(field.queries.total, 1e-300))


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


def find(field: Field, price: float, most_deep: int) -> Found:
    """Batches that pay: first those around points that are too deep, which pay less; then those that leave most.

    What is too deep after all of them is merged in any case.
    """
    count = len(field.files)
    of, offer = np.full(count, -1, np.int64), np.zeros(count)
    peaks = [_too_deep(field, of, price, most_deep)]
    bargains = len(peaks[0])
    nest = _nest(field, np.flatnonzero(of < 0), price, offer)
    merged_in = nest.best()
    taken = merged_in == np.arange(len(merged_in))
    number = np.append(np.cumsum(taken) - 1 + bargains, -1)
    held = nest.inside >= 0
    of[held] = number[merged_in[nest.inside[held]]]
    peaks.append(nest.peak[taken])
    done = bargains + int(taken.sum())
    peaks.append(_unbearable(field, of, done, most_deep))
    every = np.concatenate(peaks).astype(np.int64)
    at = np.arange(len(every))
    return Found(of, offer, every, (at < bargains) | (at >= done))


@dataclass(frozen=True, slots=True, eq=False)
class _Nest:
    """``B`` batches that pay, the outer ones before those inside them.

    inside   N numbers of the innermost batch that the block is in, −1 for none
    around   B numbers of the innermost batch around each, −1 for none
    spare    B times price · rent − cost
    peak     B depths
    edges    batches ``edges[i]`` to ``edges[i + 1]`` are of one θ: none is inside another
    """

    inside: Ints
    around: Ints
    spare: Floats
    peak: Counts
    edges: list[int]

    def best(self) -> Ints:
        """Per batch, the one that it is merged in: itself or one around it; −1 where none is, or some inside it are."""
        inner = np.zeros(len(self.spare))
        for a, b in reversed(list(pairwise(self.edges))):
            around, most = self.around[a:b], np.maximum(self.spare[a:b], inner[a:b])
            np.add.at(inner, around[around >= 0], most[around >= 0])
        number = np.arange(len(inner))
        found = np.append(np.where(self.spare >= inner, number, -1), -1)  # the last is around the outermost
        for a, b in pairwise(self.edges):
            outer = found[self.around[a:b]]
            found[a:b] = np.where(outer >= 0, outer, found[a:b])
        return found[:-1]


def _nest(field: Field, at: Index, price: float, offer: Floats) -> _Nest:
    """The batches of all θ among the blocks ``at`` that pay; ``offer`` is raised to what any of them offers.

    Where the same block counts to different stretches at two θ, the inner batch is no part of one outer batch, and
    not looked at.
    """
    inside = np.full(len(field.files), -1, np.int64)
    around, spare, peaks, edges = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0, np.int32)], [0]
    for theta in ladder(field.run_size[at]):
        at = at[field.run_size[at] < theta]
        if len(at) < 2:
            break
        batch, peak = _deep(field, at)
        at, batch = at[batch >= 0], batch[batch >= 0]  # who has no company here has none among fewer
        if not len(at):
            break
        found = weigh(field, at, batch, peak)
        ratio = np.where(found.worth, price * found.rent / np.maximum(found.cost, _NOISE), 0.0)
        offer[at] = np.maximum(offer[at], ratio[batch])
        outer = np.full(len(peak), -1, np.int64)
        outer[batch] = inside[at]
        pays = ratio >= 1
        pays[batch[inside[at] != outer[batch]]] = False
        if pays.any():
            mine = pays[batch]
            inside[at[mine]] = (np.cumsum(pays) - 1 + edges[-1])[batch[mine]]
            around.append(outer[pays])
            spare.append((price * found.rent - found.cost)[pays])
            peaks.append(peak[pays])
            edges.append(edges[-1] + len(peaks[-1]))
            at = at[~(pays & (ratio >= _SURE))[batch]]
    return _Nest(inside, np.concatenate(around), np.concatenate(spare), np.concatenate(peaks), edges)


def ladder(run_size: Floats) -> Iterator[float]:
    """Values of θ from above the greatest run size down to above the smallest, without steps that hold the same."""
    if not len(run_size):
        return
    ordered = np.sort(run_size)
    least, most = float(ordered[0]), float(ordered[-1])
    steps = max(0, int(np.ceil(np.log(max(most / (_START * least), 1.0)) / np.log(LADDER)))) + 1
    thetas = _START * least * LADDER ** np.arange(steps, -1, -1.0)
    held = np.searchsorted(ordered, thetas, side="left")
    for i, theta in enumerate(thetas.tolist()):
        if i == 0 or held[i] < held[i - 1]:
            yield theta


def _deep(field: Field, at: Index) -> tuple[Ints, Counts]:
    """Per block ``at``, the stretch at least two deep that it is in, or −1; each stretch's depth."""
    lo, hi, group = _line_of(field.line, at)
    curve = curve_over(lo, hi, group)
    return assign(curve, lo, hi, curve.folded > 1)


def _line_of(line: Intervals, at: Index) -> tuple[Ints, Ints, Ints]:
    if len(at) * _SPARSE > line.points:
        return line.lo[at], line.hi[at], line.group
    among = np.zeros(len(line.lo), dtype=np.bool_)
    among[at] = True  # positions only ever come in ascending order
    few = line.take(among)
    return few.lo, few.hi, few.group


def _too_deep(field: Field, of: Ints, price: float, most_deep: int) -> Counts:
    """Numbers the batches around points that are too deep in ``of``; their depths.

    A stretch that is rarely asked would else wait for long. The widest around such a point is taken that has paid a
    part of its price, and is not far larger than the point is deep:

        limit ┄┄┄┄┄┄┄┄┄┄┄┌─┐┄┄┄┄┄┄
                     ┌───┘ └┐                wider: spares more, and costs more
        2   ┌────────┘      └───────
    """
    peaks = [np.zeros(0, np.int32)]
    if len(of) < 2:
        return peaks[0]
    curve = curve_over(field.line.lo, field.line.hi, field.line.group)
    limit = bearable(curve, most_deep)
    if int(curve.folded.max()) <= limit:
        return peaks[0]
    for floor in [4**i for i in range(limit.bit_length()) if 4**i <= limit]:
        at = np.flatnonzero(of < 0)
        batch, peak = assign(curve, field.line.lo[at], field.line.hi[at], curve.folded > floor)
        small = (peak > limit) & (np.bincount(batch[batch >= 0], minlength=len(peak)) <= _REACH * peak)
        among = (batch >= 0) & np.append(small, False)[batch]
        at, batch = at[among], batch[among]
        if not len(at):
            continue
        weighed = weigh(field, at, batch, peak)
        take = weighed.worth & (price * weighed.rent >= _PART * weighed.cost)
        taken = take[batch]
        of[at[taken]] = (np.cumsum(take) - 1 + sum(map(len, peaks)))[batch[taken]]
        peaks.append(peak[take])
    return np.concatenate(peaks)


def _unbearable(field: Field, of: Ints, done: int, most_deep: int) -> Counts:
    """Numbers the batches of points that will be too deep after the ``done`` batches, each one run over its hull."""
    first, last = np.full(done, field.line.points), np.zeros(done, np.int64)
    merged, rest = of >= 0, np.flatnonzero(of < 0)
    np.minimum.at(first, of[merged], field.line.lo[merged])
    np.maximum.at(last, of[merged], field.line.hi[merged])
    lo, hi = np.concatenate([field.line.lo[rest], first]), np.concatenate([field.line.hi[rest], last])
    curve = curve_over(lo, hi, field.line.group)
    hot = curve.folded > bearable(curve, most_deep)
    if not hot.any():
        return np.zeros(0, np.int32)
    batch, peak = assign(curve, lo[: len(rest)], hi[: len(rest)], hot)
    at, batch = rest[batch >= 0], batch[batch >= 0]
    weighed = weigh(field, at, batch, peak)
    take = weighed.worth & (weighed.rent > 0)  # what was just merged has paid none: nothing is forced twice
    taken = take[batch]
    of[at[taken]] = (np.cumsum(take) - 1 + done)[batch[taken]]
    return peak[take]


def bearable(curve: DepthCurve, most_deep: int) -> int:
    """``most_deep``, or twice the median depth where that is less, but at least 8."""
    covered = curve.folded[curve.folded > 0]
    usual = float(np.median(covered)) if len(covered) else 1.0
    return min(most_deep, max(8, int(2 * usual)))
