"""Tables on paper for tests of decisions: blocks as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policy import Env

MB = 1_000_000
TARGET = 128 << 20
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BEGAN = 1_700_000_000_000


def snapshot_of(
    rows: Sequence[tuple[Any, Any, int, float]], *, kind: str = "int", level: int | list[int] = 0, **more: Any
) -> Snapshot:
    """Blocks as (lo, hi, bytes, hours since BEGAN), named a, b, c …; ``more`` are columns of blocks."""
    key = ClusterKey((KeyColumn(("k",), kind, "1"),))
    n = len(rows)
    levels = level if isinstance(level, list) else [level] * n
    columns: dict[str, Any] = {
        "path": [chr(97 + i % 26) + str(i // 26 or "") for i in range(n)],
        "rows": [1000] * n,
        "bytes": [size for _, _, size, _ in rows],
        "added_at": [int(BEGAN + hours * HOUR_MS) for _, _, _, hours in rows],
        "level": levels,
        "key_id": [key.key_id if one else "" for one in levels],
        "lo": [[lo for lo, _, _, _ in rows]],
        "hi": [[hi for _, hi, _, _ in rows]],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        **more,
    }
    return Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key))


def at(hours: float, **more: Any) -> Env:
    """The environment so many hours after BEGAN."""
    return Env(now_ms=int(BEGAN + hours * HOUR_MS), **more)


def plan_of(snapshot: Snapshot, env: Env, **options: Any) -> Plan:
    """The plan of ``adaptive``; options with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return make_plan(snapshot, [ADAPTIVE], resolve(named), env)


def inputs(plan: Plan) -> list[str]:
    """The inputs of each task as one word."""
    return sorted("".join(sorted(task.inputs)) for task in plan.tasks)


def reasons(plan: Plan) -> dict[str, int]:
    """Codes of the reasons why blocks are left → number of blocks."""
    return {left.reason.code: left.blocks for left in plan.left}


def shares(values: list[float]) -> np.ndarray:
    """Plain numbers as an array."""
    return np.array(values, np.float64)
