"""Keys that no query filters by: a merge by such a key never pays, and another column would serve better."""

from __future__ import annotations

from lakekeeper.core.cost.partition_pruning import PartitionFields
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.workload.workload import Workload


def key_instead(snapshot: Snapshot, workload: Workload | None, now_ms: int) -> Reason | None:
    """Why no merge by the current key pays, and the column that would serve the workload; None if queries use the key.

    A filter on its first column uses a ``linear`` key; a filter on any column uses one that follows a curve.
    """
    key = snapshot.key
    if workload is None or key is None or not len(workload):
        return None
    filtering = {
        column.lower()
        for scan in workload.scans
        for column, spans in scan.filters.items()
        if not any(span.whole for span in spans)
    }
    leading = key.columns if key.curved else key.columns[:1]
    if filtering & {column.name.lower() for column in leading}:
        return None
    named = ", ".join(column.name for column in leading)
    filtering -= PartitionFields.of(snapshot.blocks.partitions).columns
    other = [
        (column, share) for column, share in workload.filtered(now_ms).items() if column.lower() in filtering
    ]
    if not other:
        return Reason.of(Code.KEY_NOT_FILTERED, key=named)
    column, share = other[0]
    return Reason.of(Code.OTHER_KEY_FILTERED, key=named, column=column, share=round(float(share), 4))
