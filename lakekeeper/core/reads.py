"""What queries read: the share of them that opens each block, and what they would open of a merge's outputs.

    queries      ├──┤   ├──────┤      ├┤            share of b = those that meet it, by weight
    block b         |─────────|

    a merge of blocks with union U into n files: who meets U reads one file, and of the others as much as lies in
    the query's range:   1 + (n − 1) · (bytes of the query's range in U) / (bytes of U)

Where no workload is known, queries are taken to ask for a range of 1 % around a row, every row alike: a block is read
by the share of its partition that lies in its range, and by 1 % beside it (reference: algorithms §5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakekeeper.core.asked import Asked, Stretches, asked_of, value_of
from lakekeeper.core.blocks import BlockSet, Bools, Index, Ints, Snapshot
from lakekeeper.core.keys import ClusterKey, KeyColumn
from lakekeeper.core.lines import data_line, place_of, table_line
from lakekeeper.core.mass import Floats, Line
from lakekeeper.core.ranks import Intervals
from lakekeeper.core.workload import Filters, Span, Workload

RANGE = 0.01
"""Of a partition's bytes: what a query asks for where nobody knows better."""

_MOST_SHAPES = 300
"""Queries over several columns or spans are asked one by one; of more kinds than this the heaviest stand for all."""

CURVE_FLOOR = {"linear": 1.0, "zorder": 1.55, "hilbert": 1.2}
"""Files that a curve opens, by those that squares would (measured at 400 files in two dimensions: algorithms §3)."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """``G`` groups of blocks, group ``g`` is ``members[edges[g]:edges[g + 1]]``, that come out as ``files`` files."""

    members: Index
    edges: Ints
    files: Floats


class Reads(Protocol):
    """Who reads what: ``share`` has N shares of the queries, one for each block."""

    @property
    def share(self) -> Floats: ...

    def outputs(self, groups: Groups) -> Floats:
        """G numbers: files of the group's outputs that a query opens on average."""
        ...


def reads_of(snapshot: Snapshot, workload: Workload | None, now_ms: int) -> Reads:
    """Who reads what of a snapshot; uniform where there is no workload, everybody everything where there is no key."""
    if snapshot.key is None or not len(snapshot.blocks):
        return _Everyone(np.ones(len(snapshot.blocks)))
    if workload is None or not len(workload):
        return _Uniform(snapshot)
    return Asking(snapshot.blocks, snapshot.key, workload, now_ms)


@dataclass(frozen=True, slots=True, eq=False)
class _Everyone:
    share: Floats

    def outputs(self, groups: Groups) -> Floats:
        return groups.files


class _Uniform:
    """Ranges of 1 % of a partition around a row, every row alike."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._line = table_line(snapshot, null_region=False)
        self._mass = data_line(snapshot)
        place = place_of(snapshot)
        size = snapshot.blocks.live_bytes.astype(np.float64)
        self._whole = (np.bincount(place, size) / max(float(size.sum()), 1e-300))[place]
        self.share = self._shares(self._line.lo, self._line.hi, self._whole)

    def outputs(self, groups: Groups) -> Floats:
        lo, hi = _hulls(self._line.lo, self._line.hi, groups)
        whole = self._whole[groups.members[groups.edges[:-1]]]
        held = np.minimum(self._mass.share(lo, hi), whole)
        return np.asarray(np.minimum(held + groups.files * RANGE * whole, groups.files * whole))

    def _shares(self, lo: Ints, hi: Ints, whole: Floats) -> Floats:
        return np.asarray(np.minimum(self._mass.share(lo, hi) + RANGE * whole, whole))


class Asking:
    """The queries of a workload against the bounds of the blocks, column by column of the key.

    ``key`` orders the outputs of merges; ``blocks`` may have bounds of more columns behind those of the key (named by
    ``beside``), which only leave blocks out.
    """

    def __init__(
        self,
        blocks: BlockSet,
        key: ClusterKey,
        workload: Workload,
        now_ms: int,
        beside: tuple[KeyColumn, ...] = (),
    ) -> None:
        self._layout = key.layout
        self._keyed = len(key.columns)
        columns = (*key.columns, *beside)
        kinds = {column.name.lower(): column.kind for column in columns}
        shapes, self.unusable = _shapes(workload, kinds, now_ms)
        spans: list[list[Span]] = [[s for shape in shapes for s in shape.get(name, ())] for name in kinds]
        self._lines = [asked_of(blocks, c, column.kind, spans[c]) for c, column in enumerate(columns)]
        self._plain, self._several, self._all = _sorted_out(
            shapes, self._lines, list(kinds.values()), list(kinds)
        )
        self._total = max(sum(shapes.values()), 1e-300)
        self.share = self._shares()

    def _shares(self) -> Floats:
        read = np.full(len(self._lines[0].lo), self._all)
        for line, plain in zip(self._lines, self._plain, strict=True):
            if plain is not None:
                read += plain.meeting(line.lo, line.hi)
        for shape in self._several:
            met = np.ones(len(read), dtype=np.bool_)
            for c, stretches, null in shape.parts:
                line = self._lines[c]
                met &= _meets(line.lo, line.hi, stretches) | (line.nulls if null else False)
            read += shape.weight * met
        return np.asarray(np.minimum(read / self._total, 1.0))

    def outputs(self, groups: Groups) -> Floats:
        """As in :class:`Reads`; bounds of columns behind the first that varies stay as wide as the group's."""
        hulls = [_hulls(*_bounded(line), groups) for line in self._lines]
        files, free = groups.files, self._free(hulls)
        read = self._all * files
        for c, (line, plain) in enumerate(zip(self._lines, self._plain, strict=True)):
            if plain is not None:
                lo, hi = hulls[c]
                meeting = plain.meeting(lo, hi)
                inside = plain.covered(line, lo, hi) / np.maximum(line.upto(hi) - line.below(lo), 1e-300)
                unit = line.unit(lo, hi)
                inside = np.minimum(inside * (1 - unit) + meeting * unit, meeting)
                read = read + np.minimum(self._along(c, meeting, inside, files, free == c), meeting * files)
        for shape in self._several:
            read = read + shape.weight * self._several_outputs(shape, hulls, files, free)
        return np.asarray(read / self._total)

    @property
    def _curved(self) -> bool:
        return self._layout != "linear"

    def _along(self, c: int, meeting: Floats, inside: Floats, files: Floats, ordered: Bools) -> Floats:
        """Files opened by queries on column ``c``: ``inside`` of the bytes lie in their ranges, summed by weight."""
        if not self._curved:
            return np.where(ordered, meeting + (files - 1) * inside, meeting * files)
        if c >= self._keyed:
            return meeting * files
        side = files ** (1 / self._keyed)
        return np.asarray(self._floor(files) * (meeting + (side - 1) * inside) * files / side)

    def _several_outputs(
        self, shape: _Shape, hulls: list[tuple[Ints, Ints]], files: Floats, free: Ints
    ) -> Floats:
        """Files that one query over several columns, spans or NULL opens of each group's outputs."""
        side = files ** (1 / self._keyed) if self._curved else files
        met = np.ones(len(files), dtype=np.bool_)
        opened = np.ones(len(files)) if self._curved else files.copy()
        deeper = free  # linear: where a column is asked for one value, the next one orders what is left
        for c, stretches, null in shape.parts:
            lo, hi = hulls[c]
            met &= _meets(lo, hi, stretches) | null
            if c >= self._keyed:
                continue
            inside, pieces = self._inside(self._lines[c], lo, hi, stretches)
            if self._curved:
                opened = opened * np.minimum(pieces + (side - 1) * inside, side)
                continue
            opened = np.where(deeper == c, np.minimum(pieces + (opened - 1) * inside, opened), opened)
            single = len(stretches) == 1 and stretches[0][0] == stretches[0][1]
            deeper = np.where((deeper == c) & single, c + 1, deeper)
        if self._curved:
            asked = sum(c < self._keyed for c, _, _ in shape.parts)
            opened = np.minimum(opened * side ** (self._keyed - asked) * self._floor(files), files)
        return np.where(met, opened, 0.0)

    def _inside(
        self, line: Asked, lo: Ints, hi: Ints, stretches: tuple[tuple[int, int], ...]
    ) -> tuple[Floats, Floats]:
        """Of each hull the share of its bytes within the stretches, and how many of them meet it."""
        held = np.maximum(line.upto(hi) - line.below(lo), 1e-300)
        inside, pieces = np.zeros(len(lo)), np.zeros(len(lo))
        unit = line.unit(lo, hi)
        for a, b in stretches:
            low, high = np.maximum(lo, a), np.minimum(hi, b)
            share = np.where(low <= high, (line.upto(high) - line.below(low)) / held, 0.0)
            inside += np.where(low <= high, share * (1 - unit) + unit, 0.0)
            pieces += low <= high
        return np.minimum(inside, 1.0), pieces

    def _free(self, hulls: list[tuple[Ints, Ints]]) -> Ints:
        """Per group the key column that its outputs are ordered by: the first in which they are not all alike."""
        free = np.full(len(hulls[0][0]), self._keyed - 1)
        for c in reversed(range(self._keyed - 1)):
            lo, hi = hulls[c]
            free = np.where(hi > lo, c, free)
        return np.asarray(free, dtype=np.int64)

    def _floor(self, files: Floats) -> Floats:
        return np.where(files > 1, CURVE_FLOOR[self._layout], 1.0)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One kind of query over several columns, several spans, or NULL: per column its stretches and if NULL is asked."""

    weight: float
    parts: tuple[tuple[int, tuple[tuple[int, int], ...], bool], ...]


class _Spans(tuple[tuple[str, tuple[Span, ...]], ...]):
    """What a query asks of the key's columns; hashable, so that equal ones are counted together."""

    __slots__ = ()

    def get(self, name: str, default: tuple[Span, ...]) -> tuple[Span, ...]:
        return next((spans for column, spans in self if column == name), default)


def _shapes(workload: Workload, kinds: dict[str, str], now_ms: int) -> tuple[dict[_Spans, float], int]:
    """Different questions to the key's columns with their weights, and how many scans had values of another kind."""
    found: dict[_Spans, float] = {}
    unusable = 0
    for scan, weight in zip(workload.scans, workload.weights(now_ms).tolist(), strict=True):
        asked, good = _usable(scan.filters, kinds)
        unusable += not good
        found[asked] = found.get(asked, 0.0) + weight
    return found, unusable


def _usable(filters: Filters, kinds: dict[str, str]) -> tuple[_Spans, bool]:
    good, asked = True, []
    for column, spans in sorted(filters.items()):
        kind = kinds.get(column.lower())
        if kind is None or any(s.whole for s in spans):
            continue
        try:
            for span in spans:
                for bound in (span.lo, span.hi):
                    if bound is not None:
                        value_of(bound, kind)
        except (ValueError, OverflowError):
            good = False
            continue
        asked.append((column.lower(), spans))
    return _Spans(asked), good


def _sorted_out(
    shapes: dict[_Spans, float], lines: list[Asked], kinds: list[str], names: list[str]
) -> tuple[list[Stretches | None], list[_Shape], float]:
    """Questions of one stretch by column, all others one by one, and the weight of those that ask for everything."""
    single: list[list[tuple[int, int, float]]] = [[] for _ in lines]
    several: list[_Shape] = []
    everything = 0.0
    for asked, weight in shapes.items():
        parts = []
        for name, spans in sorted(asked, key=lambda one: names.index(one[0])):
            c = names.index(name)
            stretches = sorted(
                s for s in (lines[c].stretch(span, kinds[c]) for span in spans if not span.null) if s
            )
            parts.append((c, _joined(stretches), any(span.null for span in spans)))
        if not parts:
            everything += weight
        elif len(parts) == 1 and len(parts[0][1]) == 1 and not parts[0][2]:
            c, ((lo, hi),), _ = parts[0]
            single[c].append((lo, hi, weight))
        else:
            several.append(_Shape(weight, tuple(parts)))
    plain = [_summed(line, found) if found else None for line, found in zip(lines, single, strict=True)]
    return plain, _heaviest(several), everything


def _summed(line: Asked, found: list[tuple[int, int, float]]) -> Stretches:
    lo, hi, weight = zip(*found, strict=True)
    return Stretches.of(line, np.array(lo, np.int64), np.array(hi, np.int64), np.array(weight, np.float64))


def _joined(stretches: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted stretches without overlaps."""
    joined: list[tuple[int, int]] = []
    for lo, hi in stretches:
        if joined and lo <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], hi))
        else:
            joined.append((lo, hi))
    return tuple(joined)


def _heaviest(shapes: list[_Shape]) -> list[_Shape]:
    if len(shapes) <= _MOST_SHAPES:
        return shapes
    kept = sorted(shapes, key=lambda s: (-s.weight, s.parts))[:_MOST_SHAPES]
    grown = sum(s.weight for s in shapes) / max(sum(s.weight for s in kept), 1e-300)
    return [_Shape(s.weight * grown, s.parts) for s in kept]


def _meets(lo: Ints, hi: Ints, stretches: tuple[tuple[int, int], ...]) -> Bools:
    """Which [lo, hi] share a number with one of the sorted, disjoint stretches."""
    if not stretches:
        return np.zeros(len(lo), dtype=np.bool_)
    starts, ends = (np.array(side) for side in zip(*stretches, strict=True))
    first = np.searchsorted(ends, lo)  # the first that does not end before
    met: Bools = (first < len(ends)) & (starts[np.minimum(first, len(ends) - 1)] <= hi)
    return met


def _bounded(line: Asked) -> tuple[Ints, Ints]:
    """Bounds for a hull: a block that holds nothing but NULL does not widen it."""
    empty = line.hi < 0
    return np.where(empty, line.top, line.lo), line.hi


def _hulls(lo: Ints, hi: Ints, groups: Groups) -> tuple[Ints, Ints]:
    members, starts = groups.members, groups.edges[:-1]
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.minimum.reduceat(lo[members], starts), np.maximum.reduceat(hi[members], starts)


@dataclass(frozen=True, slots=True)
class Demand:
    """A workload as policies see it (``core.policies.Queries``): along the points of the blocks' own intervals."""

    workload: Workload
    now_ms: int

    def shares(self, snapshot: Snapshot, intervals: Intervals) -> Line | None:
        """Weights of the queries that began, and that ended before, at each point; shares of all queries.

        A compound key is asked by its first column; None for a key that follows a curve, and where no query asks
        anything of that column. A query for several values counts for each.
        """
        key = snapshot.key
        if key is None or key.layout != "linear" or not len(snapshot.blocks) or not len(self.workload):
            return None
        first = ClusterKey(key.columns[:1])
        name, kind = first.columns[0].name.lower(), first.columns[0].kind
        shapes, _ = _shapes(self.workload, {name: kind}, self.now_ms)
        if all(not asked for asked in shapes):
            return None
        line = asked_of(snapshot.blocks, 0, kind, [s for asked in shapes for s in asked.get(name, ())])
        lo, hi, weight = [], [], []
        for asked, heavy in shapes.items():
            found = [line.stretch(s, kind) for s in asked.get(name, (Span(),)) if not s.null]
            for stretch in filter(None, found):
                lo.append(stretch[0])
                hi.append(stretch[1])
                weight.append(heavy)
        number = np.zeros(intervals.points, np.int64)
        number[intervals.lo], number[intervals.hi] = line.lo, line.hi
        for region in (intervals.null_lo, intervals.null_hi):
            number[region[region >= 0]] = -2  # NULL lies under every value
        total = max(sum(shapes.values()), 1e-300)
        asked_at = Stretches.of(
            line, np.array(lo, np.int64), np.array(hi, np.int64), np.array(weight) / total
        )
        begun = asked_at.begun[np.searchsorted(asked_at.starts, number, side="right")]
        over = asked_at.over[np.searchsorted(asked_at.ends, number, side="left")]
        return Line(begun, over, float(asked_at.begun[-1]))
