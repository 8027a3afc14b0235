"""Prediction for a plan: what queries open before and after it.

plan ─► tasks and blocks left ─► weighed on the scale of the snapshot ─► the same plan with predictions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.read_model import Reads
from lakekeeper.core.cost.scoring import Scale, groups_of, scale_of
from lakekeeper.core.cost.workload_reads import WorkloadReads
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import (
    Left,
    Plan,
    Prediction,
    Tasks,
)
from lakekeeper.core.text.formatting import counted, significant
from lakekeeper.core.units import Floats
from lakekeeper.core.workload.workload import Scan, Workload

_MOST_CHECKED = 200


def explained(
    plan: Plan, snapshot: Snapshot, options: Options, now_ms: int, workload: Workload | None = None
) -> Plan:
    """``plan``, with the worth of each task, and with what queries read of the blocks that are left.

    The plan was made on ``snapshot`` with these options. Tasks are weighed by columns, without creating them: of 10⁵
    tasks, a printed plan shows the first few.
    Raises TypeError for a plan whose tasks have no block positions.
    """
    if not isinstance(plan.tasks, Tasks):
        raise TypeError(
            f"explained: expected a plan as make_plan returns it, got tasks in a {type(plan.tasks)}"
        )
    scale = scale_of(snapshot, options, now_ms, workload)
    tasks = plan.tasks
    groups, size = groups_of(snapshot.blocks, tasks.members, tasks.edges, options)
    worths = scale.worth(groups, size)
    own = scale.worth(groups, size, tasks.packs) if tasks.packs.any() else worths
    known = workload is not None and len(workload) > 0
    return replace(
        plan,
        tasks=tasks.weighed(own),
        left=_left(plan.left, scale.reads.share),
        prediction=Prediction(
            worth=scale.everything(worths),
            basis=basis(workload, scale),
            scanned=workload.unread / len(workload) if workload is not None and known else 0.0,
            costs=scale.coefficients,
            error=scan_error(scale.reads, workload) if workload is not None and known else None,
            path=snapshot.blocks.path,
            bytes=snapshot.blocks.bytes,
            share=scale.reads.share,
        ),
    )


def scan_error(reads: Reads, workload: Workload) -> float | None:
    """Median relative error of the files predicted for the newest scans; None if Spark reported no files.

    ``reads`` are those of the workload on the current blocks, so the error holds only for scans since the last change.
    """
    reported = [scan for scan in workload.scans if scan.files_read and scan.understood][-_MOST_CHECKED:]
    wrong = [
        abs(files - (scan.files_read or 0)) / (scan.files_read or 1)
        for scan, files in zip(reported, files_predicted(reads, reported), strict=True)
    ]
    return round(float(median(wrong)), 4) if wrong else None


def files_predicted(reads: Reads, scans: Sequence[Scan]) -> list[float]:
    """Files that each scan of the workload of ``reads`` is predicted to open."""
    if isinstance(reads, WorkloadReads):
        return [reads.files_of(scan) for scan in scans]
    return [float(reads.share.sum())] * len(scans)


def _left(left: tuple[Left, ...], share: Floats) -> tuple[Left, ...]:
    """The same, with the number of files that a query opens among the blocks of each reason."""
    if len(left) == 1 and left[0].blocks == len(share):
        return (replace(left[0], files_per_query=float(share.sum())),)
    if not left:
        return ()
    at = np.concatenate([item.at for item in left])
    starts = np.cumsum([0, *(len(item.at) for item in left)])[:-1]
    sums = np.add.reduceat(share[at], starts).tolist()
    return tuple(replace(item, files_per_query=float(files)) for item, files in zip(left, sums, strict=True))


def basis(workload: Workload | None, scale: Scale) -> str:
    """A description of the queries that a cost is based on, and their rate."""
    rate = f"{significant(scale.rate * 3600)} an hour"
    if workload is None:
        return f"queries of 1% of the data, {rate} (no workload is known)"
    unread = f", {workload.unread:,} not understood" if workload.unread else ""
    source = f", from {workload.source}" if workload.source else ""
    return f"{counted(len(workload), 'scan')}{unread}, {rate}{source}"
