"""Blocks as boxes of two columns, and workloads as filters."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.workload import Scan, Workload, collect

KEY = ClusterKey((KeyColumn(("a",), "int", "1"), KeyColumn(("b",), "int", "2")))


def as_snapshot(
    boxes: list[tuple[Any, ...]],
    key: ClusterKey = KEY,
    *,
    sizes: list[int] | None = None,
    partition: Any = None,
) -> Snapshot:
    """Blocks from (lo, hi) per column; None for a block of NULLs, "?" without statistics."""
    width, n = len(key.columns), len(boxes)
    rows = [10] * n

    def side(c: int, which: int) -> list[Any]:
        return [None if b[c] in (None, "?") else b[c][which] for b in boxes]

    columns = {
        "path": [f"f{i:04d}" for i in range(n)],
        "rows": rows,
        "bytes": sizes or [100] * n,
        "lo": [side(c, 0) for c in range(width)],
        "hi": [side(c, 1) for c in range(width)],
        "null_count": [[10 if b[c] is None else 0 for b in boxes] for c in range(width)],
        "exact": [[True] * n for _ in range(width)],
    }
    if partition is not None:
        columns["partition"] = partition
    return Snapshot("t", "memory", 1, "uuid", "schema", key, make_blocks(columns, key))


def workload(*filters: dict[str, Any], weight: float = 1.0) -> Workload:
    scans = [
        Scan(1000, {c: tuple(s) if isinstance(s, list) else (s,) for c, s in f.items()}, weight=weight)
        for f in filters
    ]
    return collect("t", scans, source="test")


def one_column(lo: int, hi: int) -> tuple[tuple[int, int]]:
    return ((lo, hi),)


ONE = ClusterKey((KeyColumn(("a",), "int", "1"),))
