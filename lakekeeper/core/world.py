"""A table that exists on paper only: blocks on a line, the snapshot that they make, and what a merge does to them.

A merge is played on metadata alone: each input's rows count as spread evenly over its range, and the outputs are cut at
equal shares of the sum, none above the target size.

    inputs    |=========|                 rows
                  |============|       ▁▂▄▅▅▄▂▂   ─►  |===|===|======|   three outputs of a third each
                            |=====|

Where a stream holds the keys themselves they are merged, sorted and cut, so that figures are exact.
Nothing is ever deleted in this world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.blocks import Bools, Index, Ints, Snapshot, make_blocks
from lakekeeper.core.cuts import positions
from lakekeeper.core.keys import ClusterKey, KeyColumn
from lakekeeper.core.plan import MergeTask
from lakekeeper.core.streams import Arrivals, Floats

_KEY = ClusterKey((KeyColumn(("position",), "float", "1"),))
_COLUMNS = ("number", "lo", "hi", "rows", "bytes", "level", "added", "place")
COMMIT_MS = 60_000
"""Commits of the paper table are a minute apart; decisions count ages in commits."""


_Number = TypeVar("_Number", int, Ints)


def moment(commit: _Number) -> _Number:
    """When a commit (numbered from 0) happens, in ms."""
    return (commit + 1) * COMMIT_MS


@dataclass(slots=True, eq=False)
class World:
    """The live blocks of the paper table, column by column; ``number`` names a block and only grows.

    ``added`` is when, in ms: commits are at :func:`moment`, and a merge is half way to the next one.
    """

    arrivals: Arrivals
    number: Ints
    lo: Floats
    hi: Floats
    rows: Ints
    bytes: Ints
    level: Ints
    added: Ints
    place: Ints
    keys: list[Floats]
    numbered: int = 0
    version: int = 0
    commits: int = 0

    @classmethod
    def empty(cls, arrivals: Arrivals) -> World:
        """A table of the arrivals' shape without a block."""
        none, flat = np.zeros(0, np.int64), np.zeros(0, np.float64)
        return cls(arrivals, none, flat, flat, none, none, none, none, none, [])

    def __len__(self) -> int:
        return len(self.number)

    def arrive(self, commit: int) -> int:
        """The blocks of this commit are added; their bytes."""
        self.commits = commit + 1
        at = slice(int(self.arrivals.edges[commit]), int(self.arrivals.edges[commit + 1]))
        a = self.arrivals
        level = np.zeros(at.stop - at.start, np.int64) if a.level is None else a.level[at]
        keys = [] if a.keys is None else list(a.keys[at])
        self._add((a.lo[at], a.hi[at], a.rows[at], a.bytes[at], level, a.place[at]), keys, moment(commit))
        return int(a.bytes[at].sum())

    def snapshot(self) -> Snapshot:
        """The table as the planner sees it."""
        names = [name for name, _ in self.arrivals.places]
        spec = np.array([spec for _, spec in self.arrivals.places], np.int64)
        count = len(self)
        blocks = make_blocks(
            {
                "path": pc.cast(pa.array(self.number), pa.string()),
                "partition": pa.array(names, pa.string()).take(pa.array(self.place)),
                "spec": spec[self.place],
                "rows": self.rows,
                "bytes": self.bytes,
                "level": self.level,
                "key_id": pa.array(["", _KEY.key_id]).take(pa.array((self.level > 0).astype(np.int64))),
                "lo": [pa.array(self.lo)],
                "hi": [pa.array(self.hi)],
                "null_count": [np.zeros(count, np.int64)],
                "exact": [np.ones(count, np.bool_)],
                "added_at": self.added,
            },
            _KEY,
        )
        seen = np.arange(self.commits, dtype=np.int64)
        name = self.arrivals.name
        return Snapshot(name, "paper", self.version, "paper", "0", _KEY, blocks, commits_ms=moment(seen))

    def merge(self, tasks: Sequence[MergeTask], commit: int) -> tuple[int, bool]:
        """Play tasks of one plan; (bytes read, whether any rose a level or came out as fewer files)."""
        self.version += 1
        gone: Bools = np.zeros(len(self), dtype=np.bool_)
        read, nearer = 0, False
        made: list[tuple[tuple[Floats, Floats, Ints, Ints, Ints, Ints], list[Floats]]] = []
        for task in tasks:
            at = self._find(task.inputs)
            gone[at] = True
            read += int(self.bytes[at].sum())
            outputs, keys = self._sorted(at, task)
            made.append((outputs, keys))
            nearer |= task.level > task.input_level or len(outputs[0]) < len(at)
        keep = ~gone
        self.keys = [self.keys[i] for i in np.flatnonzero(keep)] if self.keys else []
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[keep])
        for outputs, keys in made:
            self._add(outputs, keys, moment(commit) + COMMIT_MS // 2)
        return read, nearer

    def _find(self, paths: tuple[str, ...]) -> Index:
        wanted = np.array([int(path) for path in paths], np.int64)
        return np.searchsorted(self.number, wanted)  # numbers only grow, so they are sorted

    def _sorted(
        self, at: Index, task: MergeTask
    ) -> tuple[tuple[Floats, Floats, Ints, Ints, Ints, Ints], list[Floats]]:
        size, rows = int(self.bytes[at].sum()), int(self.rows[at].sum())
        parts = max(1, -(-size // task.target_bytes), -(-rows // task.target_rows))
        keys: list[Floats] = []
        if self.keys:
            keys = np.array_split(np.sort(np.concatenate([self.keys[i] for i in at])), parts)
            lo, hi = np.array([k[0] for k in keys]), np.array([k[-1] for k in keys])
            counts = np.array([len(k) for k in keys], np.int64)
        else:
            lo, hi = self._even(at, parts)
            counts = np.diff(rows * np.arange(parts + 1) // parts)
        sizes = np.diff(size * np.concatenate([[0], np.cumsum(counts)]) // max(rows, 1))
        level = np.full(parts, task.level, np.int64)
        return (lo, hi, counts, sizes, level, np.full(parts, self.place[at[0]], np.int64)), keys

    def _even(self, at: Index, parts: int) -> tuple[Floats, Floats]:
        lo, hi = self.lo[at], self.hi[at]
        cuts = positions(lo, hi, self.bytes[at].astype(np.float64), np.arange(1, parts) / parts)
        ends = np.concatenate([np.nextafter(cuts, -np.inf), [hi.max()]])
        starts = np.concatenate([[lo.min()], cuts])
        return starts, np.maximum(starts, ends)  # of many equal keys, outputs are that one point

    def _add(
        self, columns: tuple[Floats, Floats, Ints, Ints, Ints, Ints], keys: list[Floats], added: int
    ) -> None:
        count = len(columns[0])
        fresh = dict(zip(("lo", "hi", "rows", "bytes", "level", "place"), columns, strict=True))
        fresh["number"] = np.arange(self.numbered, self.numbered + count)
        fresh["added"] = np.full(count, added, np.int64)
        self.numbered += count
        self.keys += keys
        for name in _COLUMNS:
            setattr(self, name, np.concatenate([getattr(self, name), fresh[name]]))
