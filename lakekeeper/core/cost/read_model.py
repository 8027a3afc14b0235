"""The read model: the share of queries that open each block, and what queries would open of the outputs of a merge.

    queries      ├──┤   ├──────┤      ├┤            share of b = those that meet it, by weight
    block b         |─────────|

    a merge of blocks with union U into n files: a query that meets U reads one file, and as much of the others as is in
    the query's range:   1 + (n − 1) · (bytes of the query's range in U) / (bytes of U)

Without a workload, each query is assumed to select a range of 1% of a partition around a row, every row alike: the
share of queries that open a block is the share of the partition in the block's range, plus 1%.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakekeeper.core.layout.snapshot_index import data_line, place_of, table_line
from lakekeeper.core.model.blocks import BlockSet, Index, Snapshot
from lakekeeper.core.units import Floats, Ints

RANGE = 0.01
"""The share of a partition's bytes that a query selects if no workload is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """``G`` groups of blocks that come out as ``files`` files; group ``g`` is ``members[edges[g]:edges[g + 1]]``."""

    members: Index
    edges: Ints
    files: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """For the outputs of each of ``G`` groups: the share of the queries that open any of them, and the files opened."""

    met: Floats
    files: Floats


class Reads(Protocol):
    """What queries read: ``share`` has, for each of N blocks, the share of the queries that open it."""

    @property
    def share(self) -> Floats: ...

    def outputs(self, groups: Groups) -> Opened:
        """What a query opens of each group's outputs, on average."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EveryBlock:
    """Each query reads every block: a table without a key, or without blocks."""

    share: Floats

    def outputs(self, groups: Groups) -> Opened:
        return Opened(np.ones(len(groups.files)), groups.files)


class Uniform:
    """Ranges of 1% of a partition around a row, every row alike."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._blocks = snapshot.blocks
        self._line = table_line(snapshot, null_region=False)
        self._mass = data_line(snapshot)
        place = place_of(snapshot)
        size = snapshot.blocks.live_bytes.astype(np.float64)
        self._whole = (np.bincount(place, size) / max(float(size.sum()), 1e-300))[place]
        held = self._mass.share(self._line.lo, self._line.hi)
        self.share = np.asarray(np.minimum(held + RANGE * self._whole, self._whole))

    def outputs(self, groups: Groups) -> Opened:
        """As in :class:`Reads`; rows whose key is NULL are in files of their own, which no range of values opens."""
        starts, members = groups.edges[:-1], groups.members
        lo = np.minimum.reduceat(self._line.lo[members], starts)
        hi = np.maximum.reduceat(self._line.hi[members], starts)
        whole = self._whole[members[starts]]
        met = np.minimum(self._mass.share(lo, hi), whole)
        files = np.maximum(groups.files * (1 - null_share(self._blocks, 0, groups)), 1.0)
        one = np.where(lo < hi, met, met * files)  # rows of a single key are in all of its files
        return Opened(met, np.minimum(one + files * RANGE * whole, files * whole))


def null_share(blocks: BlockSet, column: int, groups: Groups) -> Floats:
    """Share of each group's rows that are NULL in a key column, as far as statistics show."""
    nulls = np.maximum(blocks.null_count[column], 0)
    if not nulls.any():
        return np.zeros(len(groups.files))
    starts = groups.edges[:-1]
    rows = np.add.reduceat(blocks.rows[groups.members], starts)
    return np.asarray(np.add.reduceat(nulls[groups.members], starts) / np.maximum(rows, 1))
