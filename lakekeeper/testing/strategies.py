"""Hypothesis strategies for policies and adapters: snapshots and tables of the memory lake.

They use the draws of ``lakekeeper.testing.draws``; hypothesis shrinks failing cases.
"""

from __future__ import annotations

from hypothesis import strategies as st

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.testing.draws import ANY, Shape, draw_key, draw_snapshot, draw_table
from lakekeeper.testing.lake import MemoryTable


def keys(shape: Shape = ANY) -> st.SearchStrategy[ClusterKey]:
    """Cluster keys of one to four columns of every orderable kind."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_key(rng, shape))


def snapshots(shape: Shape = ANY) -> st.SearchStrategy[Snapshot]:
    """Snapshots with blocks of mixed kinds, NULLs, missing and truncated statistics, partitions, levels, keys."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_snapshot(rng, shape))


def tables() -> st.SearchStrategy[MemoryTable]:
    """Tables of the memory lake with a history of appends and deletes, and a key."""
    return st.randoms(use_true_random=False).map(draw_table)
