"""Lookups: the queries that ask for single values of some columns, which a Bloom filter can answer without a read.

where note = 'a'              a lookup of one value
where note in ('a', 'b')      of two
where note > 'a'              none: a filter holds no order
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.units import Floats
from lakekeeper.core.workload.workload import Scan, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Lookups:
    """The lookups of a workload.

    share    for each of N blocks, the share of all queries that are lookups and open it
    values   the mean number of values that a lookup asks for
    """

    share: Floats
    values: float


def lookups_of(
    snapshot: Snapshot, workload: Workload, columns: Collection[str], now_ms: int
) -> Lookups | None:
    """The lookups of values of ``columns``; None if there are none.

    If Spark reported how many files the lookups opened, the prediction does not exceed that: readers skip further files
    by the statistics of columns that a snapshot does not have.
    """
    named = {column.lower() for column in columns}
    weights = workload.weights(now_ms)
    requested = np.array([_values(scan, named) for scan in workload.scans], np.float64)
    of_lookups = np.where(requested > 0, weights, 0.0)
    weight, total = float(of_lookups.sum()), float(weights.sum())
    if weight <= 0:
        return None
    scans = tuple(scan for scan, n in zip(workload.scans, requested.tolist(), strict=True) if n > 0)
    share = reads_of(snapshot, replace(workload, scans=scans), now_ms).share
    opened = [scan.files_read for scan in scans if scan.files_read is not None]
    if opened:
        share = share * min(1.0, float(np.mean(opened)) / max(float(share.sum()), 1e-300))
    return Lookups(share * (weight / total), float((of_lookups * requested).sum()) / weight)


def _values(scan: Scan, columns: Collection[str]) -> int:
    """The number of values of a column that a scan asks for, the lowest over the columns; 0 if it is not a lookup."""
    if not scan.understood:
        return 0
    counts = [
        len(spans)
        for column, spans in scan.filters.items()
        if column.lower() in columns and all(s.lo is not None and s.lo == s.hi for s in spans)
    ]
    return min(counts, default=0)
