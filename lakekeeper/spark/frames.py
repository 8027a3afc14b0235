"""Results as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.depth import block_depth, depth_curve, overlaps
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.model.blocks import Snapshot, python_value
from lakekeeper.spark.shims import shim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def blocks_frame(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """One row per block. Depth and overlaps are NULL if the table has no key; ``lo``/``hi`` are text per key column."""
    blocks = snapshot.blocks
    count = len(blocks)
    names = np.array([*blocks.key_ids, ""], dtype=object)
    depth = overlap = pa.nulls(count, pa.int64())
    if snapshot.key is not None and count:
        intervals = table_line(snapshot)
        depth = pa.array(block_depth(depth_curve(intervals), intervals), pa.int64())
        overlap = pa.array(overlaps(intervals), pa.int64())
    columns = {
        "path": blocks.path,
        "partition": pa.array([blocks.partitions[c] for c in blocks.partition], pa.string()),
        "spec": pa.array(blocks.spec, pa.int32()),
        "rows": pa.array(blocks.rows, pa.int64()),
        "bytes": pa.array(blocks.bytes, pa.int64()),
        "deleted_rows": pa.array(blocks.deleted_rows, pa.int64(), mask=blocks.deleted_rows < 0),
        "delete_bytes": pa.array(blocks.delete_bytes, pa.int64()),
        "level": pa.array(blocks.level, pa.int32()),
        "key_id": pa.array(names[blocks.key_id], pa.string()),
        "lo": _bounds(blocks.lo, count),
        "hi": _bounds(blocks.hi, count),
        "depth": depth,
        "overlaps": overlap,
        "added_at": pa.array(blocks.added_at * 1000, pa.timestamp("us", tz="UTC")),
    }
    return shim().from_arrow(spark, pa.table(columns))


def _bounds(bounds: tuple[pa.Array, ...], count: int) -> pa.Array:
    per_column = [_as_text(column) for column in bounds]
    rows = [list(row) for row in zip(*per_column, strict=True)] if per_column else [[] for _ in range(count)]
    return pa.array(rows, pa.list_(pa.string()))


def _as_text(column: pa.Array) -> list[str | None]:
    return [str(python_value(bound)) if bound.is_valid else None for bound in column]
