"""Simulated upserts, as Flink writes them to Iceberg: each commit has rows, and an equality delete for their keys.

    commit 1   base files             |---------|---------|---------|
    commit 2   rows of some keys        ·   ·     ·    ·     ·  ·      and a delete that applies to all older rows
    commit 3   …

A merge at a commit has applied every delete up to it, so none of these applies to its outputs, and they lack rows whose
key was upserted later. Each reader of an older block opens every delete that may apply to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import UNKNOWN, Index
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.simulation.simulated_table import Made, World
from lakekeeper.core.units import Floats, Ints

KEY_BYTES = 16  # per row of an equality delete
ROW_BYTES = 1024  # per row of the table


@dataclass(slots=True, eq=False)
class UpsertWorld(World):
    """A world in which ``seq`` is the commit that added each block: only later deletes apply to it."""

    seq: dict[int, int] = field(default_factory=dict)
    upserted: dict[float, int] = field(default_factory=dict)

    def arrive(self, commit: int) -> int:
        first = self.numbered
        size = super(UpsertWorld, self).arrive(commit)
        for number in range(first, self.numbered):
            self.seq[number] = commit
        for i in range(len(self.keys) - (self.numbered - first), len(self.keys)):
            self.keys[i] = self.keys[i][~np.isnan(self.keys[i])]  # files with fewer keys are padded with NaN
            if commit >= self.arrivals.present:
                self.upserted.update(dict.fromkeys(self.keys[i].tolist(), commit))
        return size

    def columns(self, key: ClusterKey) -> dict[str, Any]:
        columns = super(UpsertWorld, self).columns(key)
        a, seq = self.arrivals, self._seqs(np.arange(len(self)))
        size = np.zeros(a.commits + 1, np.int64)  # cumulative rows in the deletes up to a commit
        rows = [
            int(a.bytes[a.edges[t] : a.edges[t + 1]].sum()) // ROW_BYTES for t in range(a.present, a.commits)
        ]
        size[a.present + 1 :] = np.cumsum(rows)
        files = np.maximum(self.commits - 1 - np.maximum(seq, a.present - 1), 0)
        held = size[self.commits] - size[np.minimum(np.maximum(seq, a.present - 1) + 1, self.commits)]
        oldest = np.minimum(np.maximum(seq + 1, a.present), a.commits - 1)
        at_ms = np.array([a.time_of(t) for t in range(a.commits)], np.int64)
        applies = files > 0
        return {
            **columns,
            "rows": np.maximum(self.bytes // ROW_BYTES, 1),
            "delete_id": [f"{s}-{self.commits}" if on else "" for s, on in zip(seq, applies, strict=True)],
            "deleted_rows": np.where(applies, UNKNOWN, 0),
            "delete_bytes": held * KEY_BYTES,
            "delete_files": files,
            "delete_rows": held,
            "deleted_at": np.where(applies, at_ms[oldest], 0),
        }

    def merge(self, tasks: Any, commit: int) -> tuple[int, bool]:
        first = self.numbered
        found = super(UpsertWorld, self).merge(tasks, commit)
        for number in range(first, self.numbered):
            self.seq[number] = commit
        return found

    def _seqs(self, at: Index) -> Ints:
        return np.array([self.seq[int(n)] for n in self.number[at]], np.int64)

    def _sorted(self, at: Index, task: MergeTask) -> Made:
        alive: list[Floats] = []
        size = 0.0
        for i, seq in zip(at.tolist(), self._seqs(at).tolist(), strict=True):
            keys = self.keys[i]
            kept = np.array([k for k in keys.tolist() if self.upserted.get(k, -1) <= seq], np.float64)
            alive.append(kept)
            size += float(self.bytes[i]) * len(kept) / max(len(keys), 1)
        rows = sum(map(len, alive))
        level, place = task.level, int(self.place[at[0]])
        if not rows:
            none = np.zeros(0, np.int64)
            return Made(none.astype(np.float64), none.astype(np.float64), none, none, none, none, [])
        parts = max(1, min(rows, -(-int(size) // task.target_bytes)))
        keys = np.array_split(np.sort(np.concatenate(alive)), parts)
        count = np.array([len(k) for k in keys], np.int64)
        return Made(
            lo=np.array([k[0] for k in keys]),
            hi=np.array([k[-1] for k in keys]),
            rows=count,
            bytes=np.maximum((size * count / rows).astype(np.int64), 1),
            level=np.full(parts, level, np.int64),
            place=np.full(parts, place, np.int64),
            keys=keys,
        )


def world_of(arrivals: Arrivals, *, upserts: bool) -> World:
    """An empty simulated table for these arrivals."""
    return UpsertWorld.empty(arrivals) if upserts else World.empty(arrivals)
