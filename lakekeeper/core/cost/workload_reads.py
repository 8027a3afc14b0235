"""The read model of a workload: the blocks that its queries open now, and the outputs of a merge that they would open.

    scans ─► by the partitions that their filters admit ─► by column of the key ─┬─► one stretch: summed, two searches
                                                                                 └─► several columns, spans or NULL:
                                                                                     one by one, the heaviest

A scan whose filter could not be parsed, but which reported how many files it opened, opens that share of all blocks.
Any other filter that is not on the key or a partition is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.cost.partition_pruning import PartitionFields
from lakekeeper.core.cost.query_ranges import KeyLine, Stretches, key_line_of, value_of
from lakekeeper.core.cost.read_model import Groups, Opened, null_share
from lakekeeper.core.model.blocks import BlockSet, Bools, Index
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.units import Floats, Ints
from lakekeeper.core.workload.workload import Filters, Scan, Span, Workload

_MOST_SHAPES = 300
"""Queries over several columns or spans are evaluated one by one, and the heaviest represent all beyond this number."""
_MOST_PLACES = 64
"""The number of different sets of partitions that are evaluated; the heaviest represent all others."""
CURVE_FLOOR = {"linear": 1.0, "zorder": 1.55, "hilbert": 1.2}
"""Files that queries open on a curve, relative to square files (measured at 400 files in two dimensions)."""

_Part = tuple[str, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class _Shape:
    """One kind of query over several columns, several spans, or NULL: per column its ranges, and whether NULL too."""

    weight: float
    parts: tuple[tuple[int, tuple[tuple[int, int], ...], bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Queries:
    """The queries that admit the same partitions.

    at        the blocks in these partitions; ``share`` is the extent to which each is admitted
    plain     for each key column, the queries for one stretch of this column alone
    several   all other queries that filter by the key
    whole     weight of the queries that do not filter by the key
    """

    at: Index
    share: Floats
    plain: list[Stretches | None]
    several: list[_Shape]
    whole: float


@dataclass(frozen=True, slots=True, eq=False)
class _Outputs:
    """What is known of the outputs of groups: per key column their hulls, share of NULLs, and whether NULL may occur.

    ``free`` is, for each group, the key column by which its outputs are ordered.
    """

    hulls: list[tuple[Ints, Ints]]
    nulls: list[Floats]
    holds: list[Bools]
    free: Ints


class WorkloadReads:
    """The queries of a workload against the bounds of the blocks, column by column of the key.

    ``key`` orders the outputs of merges; after the columns of the key, ``blocks`` may have bounds of further columns
    (named by ``beside``), which only exclude blocks.
    """

    def __init__(
        self,
        blocks: BlockSet,
        key: ClusterKey,
        workload: Workload,
        now_ms: int,
        beside: tuple[KeyColumn, ...] = (),
        place: Ints | None = None,
    ) -> None:
        self._blocks = blocks
        self._layout = key.layout
        self._keyed = len(key.columns)
        columns = (*key.columns, *beside)
        self._kinds = {column.name.lower(): column.kind for column in columns}
        self._partitions = PartitionFields.of(blocks.partitions)
        self._divided = self._partitions.columns - set(self._kinds)
        by_place, self.unusable, self._blind = self._sorted_out(workload, now_ms)
        shapes = [shape for some in by_place.values() for shape in some]
        spans = {
            name: [s for shape in shapes for c, found in shape if c == name for s in found]
            for name in self._kinds
        }
        self._lines = [
            key_line_of(blocks, c, column.kind, spans[name])
            for c, (name, column) in enumerate(zip(self._kinds, columns, strict=True))
        ]
        self._total = max(float(workload.weights(now_ms).sum()), 1e-300)
        self._queries = [self._queries_of(filters, found) for filters, found in _heaviest_places(by_place)]
        self.share = self._shares()

    def _sorted_out(
        self, workload: Workload, now_ms: int
    ) -> tuple[dict[tuple[_Part, ...], dict[tuple[_Part, ...], float]], int, float]:
        """Filters on partitions → filters on the key → weight; scans with values of another kind; blind reads.

        Blind reads are the weight of scans whose filters are not understood, times the share of the blocks they opened.
        """
        found: dict[tuple[_Part, ...], dict[tuple[_Part, ...], float]] = {}
        unusable, blind, count = 0, 0.0, max(len(self._blocks), 1)
        for scan, weight in zip(workload.scans, workload.weights(now_ms).tolist(), strict=True):
            if not scan.understood and scan.files_read is not None:
                blind += weight * min(scan.files_read / count, 1.0)
                continue
            on_key, good = self._usable(scan)
            unusable += not good
            shapes = found.setdefault(self._places(scan), {})
            shapes[on_key] = shapes.get(on_key, 0.0) + weight
        return found, unusable, blind

    def _places(self, scan: Scan) -> tuple[_Part, ...]:
        return tuple((c, s) for c, s in _lowered(scan.filters) if c in self._divided)

    def _usable(self, scan: Scan) -> tuple[tuple[_Part, ...], bool]:
        good, on_key = True, []
        for column, spans in _lowered(scan.filters):
            kind = self._kinds.get(column)
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
            on_key.append((column, spans))
        return tuple(on_key), good

    def _queries_of(self, places: tuple[_Part, ...], shapes: dict[tuple[_Part, ...], float]) -> _Queries:
        blocks = self._blocks
        at, share = np.arange(len(blocks)), np.ones(len(blocks))
        if places:
            share = self._partitions.admitted(dict(places))[blocks.partition]
            at = np.flatnonzero(share > 0)
            share = share[at]
        single: list[list[tuple[int, int, float]]] = [[] for _ in self._lines]
        several: list[_Shape] = []
        whole = 0.0
        for on_key, weight in shapes.items():
            parts = [self._part(name, spans) for name, spans in on_key]
            if not parts:
                whole += weight
            elif len(parts) == 1 and len(parts[0][1]) == 1 and not parts[0][2]:
                c, ((lo, hi),), _ = parts[0]
                single[c].append((lo, hi, weight))
            else:
                several.append(_Shape(weight, tuple(sorted(parts))))
        plain = [
            _summed(line, found) if found else None for line, found in zip(self._lines, single, strict=True)
        ]
        return _Queries(at, share, plain, _heaviest(several), whole)

    def _part(self, name: str, spans: tuple[Span, ...]) -> tuple[int, tuple[tuple[int, int], ...], bool]:
        c = list(self._kinds).index(name)
        found = (self._lines[c].stretch(span, self._kinds[name]) for span in spans if not span.null)
        return c, _joined(sorted(s for s in found if s)), any(span.null for span in spans)

    # -- what is opened now

    def files_of(self, scan: Scan) -> float:
        """The number of files that one scan of the workload opens."""
        if not scan.understood and scan.files_read is not None:
            return float(min(scan.files_read, len(self._blocks)))
        on_key, _ = self._usable(scan)
        queries = self._queries_of(self._places(scan), {on_key: 1.0})
        return float((queries.share * self._meeting(queries)).sum())

    def _shares(self) -> Floats:
        read = np.full(len(self._blocks), self._blind)
        for queries in self._queries:
            read[queries.at] += queries.share * self._meeting(queries)
        return np.asarray(np.minimum(read / self._total, 1.0))

    def _meeting(self, queries: _Queries) -> Floats:
        """For each of their blocks, the weight of the queries that its bounds do not exclude."""
        at = queries.at
        mine = np.full(len(at), queries.whole)
        for line, plain in zip(self._lines, queries.plain, strict=True):
            if plain is not None:
                mine += plain.meeting(line.lo[at], line.hi[at])
        for shape in queries.several:
            met = np.ones(len(at), dtype=np.bool_)
            for c, stretches, null in shape.parts:
                line = self._lines[c]
                met &= _meets(line.lo[at], line.hi[at], stretches) | (line.nulls[at] if null else False)
            mine += shape.weight * met
        return mine

    # -- what would be opened after a merge

    def outputs(self, groups: Groups) -> Opened:
        """As in :class:`Reads`; bounds of columns behind the first that varies stay as wide as the group's."""
        hulls = [_hulls(*_bounded(line), groups) for line in self._lines]
        nulls = [null_share(self._blocks, c, groups) for c in range(len(self._lines))]
        holds = [
            np.logical_or.reduceat(line.nulls[groups.members], groups.edges[:-1]) for line in self._lines
        ]
        free = self._free(hulls)
        met, read = np.full(len(groups.files), self._blind), self._blind * groups.files
        heads = groups.members[groups.edges[:-1]]
        for queries in self._queries:
            admits = np.zeros(len(self._blocks))
            admits[queries.at] = queries.share
            share = admits[heads]
            for some, opened in self._opened(queries, groups.files, _Outputs(hulls, nulls, holds, free)):
                met += share * some
                read += share * opened
        return Opened(np.minimum(met / self._total, 1.0), np.asarray(read / self._total))

    def _opened(self, queries: _Queries, files: Floats, outputs: _Outputs) -> Iterator[tuple[Floats, Floats]]:
        """Weight of the queries that meet each group, and the files that they open, for each kind of query."""
        hulls, nulls, free = outputs.hulls, outputs.nulls, outputs.free
        yield np.full(len(files), queries.whole), queries.whole * files
        for c, (line, plain) in enumerate(zip(self._lines, queries.plain, strict=True)):
            if plain is None:
                continue
            lo, hi = hulls[c]
            meeting = plain.meeting(lo, hi)
            inside = plain.covered(line, lo, hi) / np.maximum(line.upto(hi) - line.below(lo), 1e-300)
            unit = line.unit(lo, hi)
            inside = np.minimum(inside * (1 - unit) + meeting * unit, meeting)
            valued = np.where(free == c, np.maximum(files * (1 - nulls[c]), 1.0), files)
            yield meeting, np.minimum(self._along(c, meeting, inside, valued, free == c), meeting * files)
        for shape in queries.several:
            met, opened = self._several(shape, files, outputs)
            yield shape.weight * met, shape.weight * opened

    @property
    def _curved(self) -> bool:
        return self._layout != "linear"

    def _along(self, c: int, meeting: Floats, inside: Floats, files: Floats, ordered: Bools) -> Floats:
        """Files opened by queries on column ``c``: ``inside`` of the bytes are in their ranges, summed by weight."""
        if not self._curved:
            return np.where(ordered, meeting + (files - 1) * inside, meeting * files)
        if c >= self._keyed:
            return meeting * files
        side = np.maximum(files, 1.0) ** (1 / self._keyed)  # a group without live rows has no output
        return np.asarray(self._floor(files) * (meeting + (side - 1) * inside) * files / side)

    def _several(self, shape: _Shape, files: Floats, outputs: _Outputs) -> tuple[Floats, Floats]:
        """Whether one query over several columns, spans or NULL meets each group, and the files that it opens."""
        nulls = outputs.nulls
        side = files ** (1 / self._keyed) if self._curved else files
        met = np.ones(len(files), dtype=np.bool_)
        opened = np.ones(len(files)) if self._curved else files.copy()
        # Linear: where a query fixes one value of a column, the next column orders the rest.
        deeper = outputs.free
        for c, stretches, null in shape.parts:
            lo, hi = outputs.hulls[c]
            met &= _meets(lo, hi, stretches) | (outputs.holds[c] if null else False)
            if c >= self._keyed:
                continue
            inside, pieces = self._inside(self._lines[c], lo, hi, stretches)
            if null:  # NULL rows are sorted together, before all values
                inside, pieces = inside * (1 - nulls[c]) + nulls[c], pieces + outputs.holds[c]
            elif not self._curved:
                inside = inside * (1 - nulls[c])
            if self._curved:
                opened = opened * np.minimum(pieces + (side - 1) * inside, side)
                continue
            opened = np.where(deeper == c, np.minimum(pieces + (opened - 1) * inside, opened), opened)
            single = len(stretches) == 1 and stretches[0][0] == stretches[0][1] and not null
            deeper = np.where((deeper == c) & single, c + 1, deeper)
        if self._curved:
            restricted = sum(c < self._keyed for c, _, _ in shape.parts)
            opened = np.minimum(opened * side ** (self._keyed - restricted) * self._floor(files), files)
        return met.astype(np.float64), np.where(met, opened, 0.0)

    def _inside(
        self, line: KeyLine, lo: Ints, hi: Ints, stretches: tuple[tuple[int, int], ...]
    ) -> tuple[Floats, Floats]:
        """For each hull, the share of its bytes within the stretches, and the number of stretches that meet it."""
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
        """For each group, the key column by which its outputs are ordered: the first that is not constant."""
        free = np.full(len(hulls[0][0]), self._keyed - 1)
        for c in reversed(range(self._keyed - 1)):
            lo, hi = hulls[c]
            free = np.where(hi > lo, c, free)
        return np.asarray(free, dtype=np.int64)

    def _floor(self, files: Floats) -> Floats:
        return np.where(files > 1, CURVE_FLOOR[self._layout], 1.0)


def _lowered(filters: Filters) -> list[_Part]:
    return [(column.lower(), tuple(spans)) for column, spans in sorted(filters.items())]


def _heaviest_places(
    by_place: dict[tuple[_Part, ...], dict[tuple[_Part, ...], float]],
) -> list[tuple[tuple[_Part, ...], dict[tuple[_Part, ...], float]]]:
    if len(by_place) <= _MOST_PLACES:
        return list(by_place.items())
    weight = {places: sum(shapes.values()) for places, shapes in by_place.items()}
    kept = sorted(by_place, key=lambda places: -weight[places])[:_MOST_PLACES]
    grown = sum(weight.values()) / max(sum(weight[places] for places in kept), 1e-300)
    return [(places, {shape: w * grown for shape, w in by_place[places].items()}) for places in kept]


def _heaviest(shapes: list[_Shape]) -> list[_Shape]:
    if len(shapes) <= _MOST_SHAPES:
        return shapes
    kept = sorted(shapes, key=lambda s: (-s.weight, s.parts))[:_MOST_SHAPES]
    grown = sum(s.weight for s in shapes) / max(sum(s.weight for s in kept), 1e-300)
    return [_Shape(s.weight * grown, s.parts) for s in kept]


def _summed(line: KeyLine, found: list[tuple[int, int, float]]) -> Stretches:
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


def _meets(lo: Ints, hi: Ints, stretches: tuple[tuple[int, int], ...]) -> Bools:
    """Which [lo, hi] share a number with one of the sorted, disjoint stretches."""
    if not stretches:
        return np.zeros(len(lo), dtype=np.bool_)
    starts, ends = (np.array(side) for side in zip(*stretches, strict=True))
    first = np.searchsorted(ends, lo)  # the first that does not end before
    met: Bools = (first < len(ends)) & (starts[np.minimum(first, len(ends) - 1)] <= hi)
    return met


def _bounded(line: KeyLine) -> tuple[Ints, Ints]:
    """Bounds for a hull: a block that holds only NULL does not widen the hull."""
    empty = line.hi < 0
    return np.where(empty, line.top, line.lo), line.hi


def _hulls(lo: Ints, hi: Ints, groups: Groups) -> tuple[Ints, Ints]:
    members, starts = groups.members, groups.edges[:-1]
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.minimum.reduceat(lo[members], starts), np.maximum.reduceat(hi[members], starts)
