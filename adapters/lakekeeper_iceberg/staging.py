"""Read and write one task through Iceberg's own Spark source; nothing is committed.

The source serves staged tasks under a group id that stands for a table name:

    stage(tasks, id) ─► spark.read.load(id) ─► sort ─► df.write.save(id) ─► files, known to the coordinator only
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, Observation

from lakekeeper.core.plan import MergeTask
from lakekeeper.core.rebase import Output, Rewrite
from lakekeeper_iceberg.levels import data_root, folder
from lakekeeper_iceberg.native import Iceberg

COUNTED = "lakekeeper_rows_read"
_CODEC = "write.parquet.compression-codec"
_ROW_GROUP = "write.parquet.row-group-size-bytes"
_ROW_GROUP_DEFAULT = 128 << 20
_SESSION_CODEC = "spark.sql.iceberg.compression-codec"
# The writer looks at sizes every 1,000 rows and estimates what it still buffers: aim below the row limit.
_ROW_MARGIN = 0.6


def read_staged(jvm: Iceberg, table: Any, tasks: Sequence[Any], task: MergeTask) -> tuple[str, DataFrame]:
    """(group id, live rows of the scan tasks). The id must be given to :func:`unstage` once the rows were used."""
    group = f"lakekeeper-read-{uuid.uuid4()}"
    jvm.table_cache.add(group, table)
    jvm.task_sets.stageTasks(table, group, jvm.array_list(tasks))
    reader = jvm.spark.read.format("iceberg").option("file-open-cost", "0")
    if not task.cuts:
        # One task sorts the group anyhow: one split, so that the files are read in their order.
        reader = reader.option("split-size", str(max(task.input_bytes * 2, 1 << 27)))
    return group, reader.load(group)


def write_staged(
    jvm: Iceberg, table: Any, rows: DataFrame, task: MergeTask, sort_order: int | None
) -> tuple[list[Any], tuple[Output, ...]]:
    """Write rows in their order below the folder of the task's level; (DataFile objects, what they hold)."""
    properties = {str(k): str(v) for k, v in dict(table.properties()).items()}
    root = data_root(str(table.location()), properties)
    key_id = task.key.key_id if task.key else ""
    # The writer asks the table object where files go: give it one that says the level's folder.
    target = _target_bytes(task)
    placed = jvm.pinned(
        table,
        {
            "write.data.path": folder(root, key_id, task.level),
            _ROW_GROUP: str(_row_group_bytes(properties, target)),
        },
    )
    group = f"lakekeeper-write-{uuid.uuid4()}"
    jvm.table_cache.add(group, placed)
    try:
        writer = (
            rows.write.format("iceberg")
            .option("use-table-distribution-and-ordering", "false")
            .option("distribution-mode", "none")
            .option("target-file-size-bytes", str(target))
            .option("output-spec-id", str(placed.spec().specId()))
        )
        if _CODEC not in properties and not jvm.spark.conf.get(_SESSION_CODEC, ""):
            writer = writer.option("compression-codec", "zstd")
        if sort_order is not None:
            writer = writer.option("output-sort-order-id", str(sort_order))
        writer.mode("append").save(group)
        files = list(jvm.new_files.fetchNewFiles(placed, group))
    finally:
        jvm.table_cache.remove(group)
        jvm.new_files.clearRewrite(placed, group)
    outputs = (Output(str(f.location()), int(f.recordCount()), int(f.fileSizeInBytes())) for f in files)
    return files, tuple(outputs)


def unstage(jvm: Iceberg, table: Any, group: str) -> None:
    """Forget a group that was read; an unknown one is no error."""
    with suppress(Exception):  # cleaning up must never hide what happened before
        jvm.table_cache.remove(group)
        jvm.task_sets.removeTasks(table, group)


def _target_bytes(task: MergeTask) -> int:
    """Iceberg cuts by size only: the size at which a file of average rows stays below the row limit."""
    row_bytes = task.input_bytes / max(task.input_rows, 1)
    by_rows = max(1, int(task.target_rows * row_bytes * _ROW_MARGIN))
    crowded = task.input_rows > task.target_rows
    return min(task.target_bytes, by_rows) if crowded else task.target_bytes


def rows_read(counter: Observation | None) -> int | None:
    """What a counter on the rows of a read saw, once they were written; None where there is none."""
    if counter is None or counter._jo is None:
        return None
    seen = counter._jo.getOrEmpty()  # not `get`: it would wait for ever if nobody ever told it
    return int(seen.apply(COUNTED)) if seen.contains(COUNTED) else None


def _row_group_bytes(properties: Mapping[str, str], target: int) -> int:
    """Row groups of a quarter of the target, if the table does not ask for smaller ones.

    The writer counts what it still buffers before compression. With row groups as large as a file it
    would cut at a half of the target or less, and leave files that the next compaction takes for small.
    """
    asked = int(properties.get(_ROW_GROUP) or _ROW_GROUP_DEFAULT)
    return max(1, min(asked, target // 4))


def own_files(table: Any, rewrite: Rewrite) -> tuple[str, ...]:
    """The outputs of a rewrite that lie below the table's own folders; nothing else may ever be deleted."""
    location = str(table.location()).rstrip("/")
    properties = {str(k): str(v) for k, v in dict(table.properties()).items()}
    roots = tuple(_plain(root) + "/" for root in (location, data_root(location, properties)))
    return tuple(o.path for o in rewrite.outputs if _plain(o.path).startswith(roots) and "/../" not in o.path)


def _plain(path: str) -> str:
    """A local path without its scheme: catalogs say ``/a``, ``file:/a`` or ``file:///a`` for the same."""
    return re.sub(r"^file:/{1,3}", "/", path)
