"""The reads of one snapshot: by its workload, or by uniform queries where no workload is known."""

from __future__ import annotations

import numpy as np

from lakekeeper.core.cost.read_model import EveryBlock, Reads, Uniform
from lakekeeper.core.cost.workload_reads import WorkloadReads
from lakekeeper.core.layout.snapshot_index import place_of
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.workload.workload import Workload


def reads_of(snapshot: Snapshot, workload: Workload | None, now_ms: int) -> Reads:
    """What queries read of a snapshot: uniform ranges without a workload; everything without a key."""
    if snapshot.key is None or not len(snapshot.blocks):
        return EveryBlock(np.ones(len(snapshot.blocks)))
    if workload is None:
        return Uniform(snapshot)
    return WorkloadReads(snapshot.blocks, snapshot.key, workload, now_ms, place=place_of(snapshot))
