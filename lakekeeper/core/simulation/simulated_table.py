"""A table without files: blocks on a line, their snapshot, and the effect of a merge.

A merge is simulated on metadata alone: the rows of each input are assumed to be spread evenly over its range, and the
outputs are cut at equal shares of the sum, none above the target size.

    inputs    |=========|                 rows
                  |============|       ▁▂▄▅▅▄▂▂   ─►  |===|===|======|   three outputs of a third each
                            |=====|

If a stream has the keys themselves, these are merged, sorted and cut, so that figures are exact. A compound key needs
them: the bounds of every column of a block are computed from its keys, as in the statistics of a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.layout.split_points import positions
from lakekeeper.core.model.blocks import Bools, Index, Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.policy import Part
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.units import Floats, Ints

_KEY = ClusterKey((KeyColumn(("position",), "float", "1"),))
_COLUMNS = ("number", "lo", "hi", "low", "high", "rows", "bytes", "level", "added", "place")


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Blocks that are about to be added, column by column as in :class:`World`; ``keys``: one array each, or none."""

    lo: Floats
    hi: Floats
    rows: Ints
    bytes: Ints
    level: Ints
    place: Ints
    keys: list[Floats]


@dataclass(slots=True, eq=False)
class World:
    """The live blocks of the simulated table, column by column; ``number`` identifies a block and only grows.

    ``low`` and ``high`` are (N, K) bounds of each column of a compound key, as whole numbers; K is 0 for one column.
    ``added`` is the time in ms; that of a merge is halfway to the next commit. ``parts`` maps a block to the merge that
    wrote it (``Env.parts``); a caller that simulates the rounds of one call clears it first.
    """

    arrivals: Arrivals
    number: Ints
    lo: Floats
    hi: Floats
    low: Ints
    high: Ints
    rows: Ints
    bytes: Ints
    level: Ints
    added: Ints
    place: Ints
    keys: list[Floats]
    parts: dict[str, Part] = field(default_factory=dict)
    numbered: int = 0
    version: int = 0
    commits: int = 0

    @classmethod
    def empty(cls, arrivals: Arrivals) -> World:
        """An empty table for these arrivals."""
        none, flat = np.zeros(0, np.int64), np.zeros(0, np.float64)
        box = np.zeros((0, len(arrivals.digits)), np.int64)
        return cls(arrivals, none, flat, flat, box, box, none, none, none, none, none, [])

    def __len__(self) -> int:
        return len(self.number)

    @property
    def key(self) -> ClusterKey:
        """The key of the simulated table."""
        if not self.arrivals.digits:
            return _KEY
        names = [KeyColumn((f"c{i}",), "int", str(i)) for i in range(len(self.arrivals.digits))]
        return ClusterKey(tuple(names))

    def arrive(self, commit: int) -> int:
        """Add the blocks of this commit, and return their bytes."""
        self.commits = commit + 1
        at = slice(int(self.arrivals.edges[commit]), int(self.arrivals.edges[commit + 1]))
        a = self.arrivals
        level = np.zeros(at.stop - at.start, np.int64) if a.level is None else a.level[at]
        keys = [] if a.keys is None else list(a.keys[at])
        made = Made(a.lo[at], a.hi[at], a.rows[at], a.bytes[at], level, a.place[at], keys)
        self._add(made, a.time_of(commit))
        return int(a.bytes[at].sum())

    def snapshot(self) -> Snapshot:
        """The table as the planner sees it."""
        key = self.key
        seen = self.arrivals.times_of(self.commits)
        blocks = make_blocks(self.columns(key), key)
        return Snapshot(self.arrivals.name, "paper", self.version, "paper", "0", key, blocks, commits_ms=seen)

    def columns(self, key: ClusterKey) -> dict[str, Any]:
        names = [name for name, _ in self.arrivals.places]
        spec = np.array([spec for _, spec in self.arrivals.places], np.int64)
        count, width = len(self), len(key.columns)
        ends = (self.low.T, self.high.T) if self.arrivals.digits else ([self.lo], [self.hi])
        return {
            "path": pc.cast(pa.array(self.number), pa.string()),
            "partition": pa.array(names, pa.string()).take(pa.array(self.place)),
            "spec": spec[self.place],
            "rows": self.rows,
            "bytes": self.bytes,
            "level": self.level,
            "key_id": pa.array(["", key.key_id]).take(pa.array((self.level > 0).astype(np.int64))),
            "lo": [pa.array(np.ascontiguousarray(side)) for side in ends[0]],
            "hi": [pa.array(np.ascontiguousarray(side)) for side in ends[1]],
            "null_count": [np.zeros(count, np.int64)] * width,
            "exact": [np.ones(count, np.bool_)] * width,
            "added_at": self.added,
        }

    def merge(self, tasks: Sequence[MergeTask], commit: int) -> tuple[int, bool]:
        """Simulate the tasks of one plan; (bytes read, whether any task raised a level or wrote fewer files)."""
        self.version += 1
        gone: Bools = np.zeros(len(self), dtype=np.bool_)
        read, nearer = 0, False
        made: list[Made] = []
        for task in tasks:
            at = self._find(task.inputs)
            gone[at] = True
            read += int(self.bytes[at].sum())
            made.append(self._sorted(at, task))
            nearer |= task.level > task.input_level or len(made[-1].lo) < len(at)
        keep = ~gone
        self.keys = [self.keys[i] for i in np.flatnonzero(keep)] if self.keys else []
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[keep])
        for task, outputs in zip(tasks, made, strict=True):
            first = self.numbered
            self._add(outputs, self.arrivals.after(commit))
            made_by = Part(task.id, task.added_ms)
            self.parts.update({str(n): made_by for n in range(first, self.numbered)})
        return read, nearer

    def _find(self, paths: tuple[str, ...]) -> Index:
        wanted = np.array([int(path) for path in paths], np.int64)
        return np.searchsorted(self.number, wanted)  # numbers only grow, so they are sorted

    def _sorted(self, at: Index, task: MergeTask) -> Made:
        size, rows = int(self.bytes[at].sum()), int(self.rows[at].sum())
        parts = max(1, -(-size // task.target_bytes), -(-rows // (task.target_rows or max(rows, 1))))
        keys: list[Floats] = []
        if self.keys:
            parts = min(parts, max(rows, 1))
            keys = np.array_split(np.sort(np.concatenate([self.keys[i] for i in at])), parts)
            lo, hi = np.array([k[0] for k in keys]), np.array([k[-1] for k in keys])
            counts = np.array([len(k) for k in keys], np.int64)
        else:
            lo, hi = self._even(at, parts)
            counts = np.diff(rows * np.arange(parts + 1) // parts)
        sizes = np.diff(size * np.concatenate([[0], np.cumsum(counts)]) // max(rows, 1))
        level = np.full(parts, task.level, np.int64)
        return Made(lo, hi, counts, sizes, level, np.full(parts, self.place[at[0]], np.int64), keys)

    def _even(self, at: Index, parts: int) -> tuple[Floats, Floats]:
        lo, hi = self.lo[at], self.hi[at]
        cuts = positions(lo, hi, self.bytes[at].astype(np.float64), np.arange(1, parts) / parts)
        ends = np.concatenate([np.nextafter(cuts, -np.inf), [hi.max()]])
        starts = np.concatenate([[lo.min()], cuts])
        return starts, np.maximum(starts, ends)  # with many equal keys, an output is a single point

    def _add(self, made: Made, added: int) -> None:
        count = len(made.lo)
        fresh: dict[str, Any] = {n: getattr(made, n) for n in ("lo", "hi", "rows", "bytes", "level", "place")}
        fresh["low"], fresh["high"] = self._boxes(made)
        fresh["number"] = np.arange(self.numbered, self.numbered + count)
        fresh["added"] = np.full(count, added, np.int64)
        self.numbered += count
        self.keys += made.keys
        for name in _COLUMNS:
            setattr(self, name, np.concatenate([getattr(self, name), fresh[name]]))

    def _boxes(self, made: Made) -> tuple[Ints, Ints]:
        """Bounds of each column of a compound key, from the keys."""
        digits = self.arrivals.digits
        if not digits or not made.keys:
            none = np.zeros((len(made.lo), len(digits)), np.int64)
            return none, none
        columns = [tuples(keys, digits) for keys in made.keys]
        return np.stack([c.min(axis=0) for c in columns]), np.stack([c.max(axis=0) for c in columns])


def tuples(ranks: Floats, digits: tuple[int, ...]) -> Ints:
    """(N, K) values of the columns of a compound key, from the ranks of the tuples."""
    left = ranks.astype(np.int64)
    columns = []
    for count in reversed(digits):
        left, value = np.divmod(left, count)
        columns.append(value)
    return np.stack(columns[::-1], axis=1)
