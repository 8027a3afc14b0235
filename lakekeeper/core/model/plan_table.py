"""A plan as an Arrow table: one row per live block, with its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lakekeeper.core.model.plan import Plan


def plan_table(plan: Plan) -> pa.Table:
    """One row per live block.

    path, bytes, files_per_query   the block, its size, and the share of the queries that open it
    action                         ``merge``, ``leave``, or ``freeze`` (full and constant in the key)
    reason, reason_text            the code of the reason, and the reason as text
    policy                         the policy that chose the merge (NULL for blocks that are left)
    group, partition, level        of the merge that contains the block; the level is that of the outputs
    group_files_before, group_files_after, group_bytes_saved, group_score   of the whole group, per query

    Values that were not predicted are NULL.
    """
    tasks, left = plan.tasks, plan.left
    path = pa.concat_arrays(
        [pa.array([p for t in tasks for p in t.inputs], pa.string()), *(item.paths for item in left)]
    )
    counts = [len(t.inputs) for t in tasks], [len(item.paths) for item in left]
    merged, free = sum(counts[0]), sum(counts[1])

    def of_tasks(values: list[object], kind: pa.DataType) -> pa.Array:
        taken = np.repeat(np.arange(len(tasks)), counts[0])
        return pa.concat_arrays([pa.array(values, kind).take(pa.array(taken)), pa.nulls(free, kind)])

    text, whole, number = pa.string(), pa.int64(), pa.float64()
    actions = ["freeze" if item.frozen else "leave" for item in left]
    reasons = [t.reason for t in tasks] + [item.reason for item in left]
    owner = pa.array(np.repeat(np.arange(len(reasons)), counts[0] + counts[1]))
    worths = [t.worth for t in tasks]
    size, share = _facts(plan, path)
    return pa.table(
        {
            "path": path,
            "bytes": size,
            "files_per_query": share,
            "action": pa.array(["merge"] * merged + np.repeat(actions, counts[1]).tolist(), text),
            "reason": pa.array([str(reason.code) for reason in reasons], text).take(owner),
            "reason_text": pa.array([str(reason) for reason in reasons], text).take(owner),
            "policy": of_tasks([t.policy for t in tasks], text),
            "group": of_tasks([t.id for t in tasks], text),
            "partition": of_tasks([t.partition for t in tasks], text),
            "level": of_tasks([t.level for t in tasks], whole),
            "group_files_before": of_tasks([w and w.before.files for w in worths], number),
            "group_files_after": of_tasks([w and w.after.files for w in worths], number),
            "group_bytes_saved": of_tasks([w and w.saved.bytes for w in worths], number),
            "group_score": of_tasks([w and w.score for w in worths], number),
        }
    )


def _facts(plan: Plan, path: pa.Array) -> tuple[pa.Array, pa.Array]:
    found = plan.prediction
    if found is None:
        return pa.nulls(len(path), pa.int64()), pa.nulls(len(path), pa.float64())
    at = pc.index_in(path, value_set=found.path).to_numpy(zero_copy_only=False)
    return pa.array(found.bytes[at], pa.int64()), pa.array(found.share[at], pa.float64())
