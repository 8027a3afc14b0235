"""All live data and delete files of one snapshot: a single Arrow collect of the ``entries`` metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType, TimestampNTZType, TimestampType

from lakekeeper.core.units import Ints
from lakekeeper_iceberg.changes import RUN_ID
from lakekeeper_iceberg.native import Iceberg

_PATH_FIELD = 2147483546  # reserved field id of `file_path` in position delete files
BOUND_FIELDS = ("lower_bound", "upper_bound", "null_value_count", "nan_value_count", "value_count")


@dataclass(frozen=True, slots=True)
class Listing:
    """``data`` and ``deletes``: Arrow tables with the columns of :func:`list_files`, one row per file."""

    data: pa.Table
    deletes: pa.Table


def list_files(jvm: Iceberg, table: Any, metrics: Sequence[str] = ()) -> Listing:
    """Live files of the current snapshot of a pinned table.

    ``metrics`` are column names in Iceberg's spelling (``a.b`` for a nested one); column ``i`` adds
    ``lower_bound_i``, ``upper_bound_i``, ``null_value_count_i``, ``nan_value_count_i``, ``value_count_i``.
    """
    entries = jvm.metadata_table(table, "ENTRIES")
    file = "data_file"
    position = F.col(f"{file}.content") == 1
    columns = [
        F.col("snapshot_id"),
        # Snapshots of v1 tables have no sequence numbers.
        F.coalesce(F.col("sequence_number"), F.lit(0).cast("bigint")).alias("seq"),
        F.coalesce(F.col("file_sequence_number"), F.lit(0).cast("bigint")).alias("file_seq"),
        F.col(f"{file}.content").alias("content"),
        F.col(f"{file}.file_path").alias("path"),
        F.col(f"{file}.spec_id").alias("spec"),
        _partition(entries).alias("partition"),
        F.col(f"{file}.record_count").alias("rows"),
        F.col(f"{file}.file_size_in_bytes").alias("bytes"),
        _optional(entries, "referenced_data_file", "string").alias("referenced"),
        _optional(entries, "content_offset", "bigint").alias("dv_offset"),
        _optional(entries, "content_size_in_bytes", "bigint").alias("dv_bytes"),
        F.when(position, F.col(f"{file}.lower_bounds")[F.lit(_PATH_FIELD)]).alias("path_low"),
        F.when(position, F.col(f"{file}.upper_bounds")[F.lit(_PATH_FIELD)]).alias("path_high"),
    ]
    for i, name in enumerate(metrics):
        quoted = "`" + name.replace("`", "``") + "`"
        columns += [
            F.col(f"readable_metrics.{quoted}.{field}").alias(f"{field}_{i}") for field in BOUND_FIELDS
        ]
    live = jvm.to_arrow(entries.where("status < 2").select(*columns))
    is_data = pc.equal(live["content"], 0)
    return Listing(live.filter(is_data).combine_chunks(), live.filter(pc.invert(is_data)).combine_chunks())


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits recorded in the table's metadata.

    at          snapshot id → time of its commit in ms since the epoch, for all snapshots in the metadata
    of_writers  commit times of the current snapshot and its ancestors that changed data, ascending
    rewritten   (2, K): times of our own rewrites among these, ascending, and the bytes that each removed
    """

    at: dict[int, int]
    of_writers: Ints
    rewritten: Ints


def known_commits(jvm: Iceberg, table: Any, current: int | None) -> Commits:
    """The commits of a pinned table: one Arrow collect of its ``snapshots`` metadata table.

    Snapshots that are not ancestors of ``current`` (other branches, rolled back) do not count as commits of the table.
    The operation ``replace`` changes no rows.
    """
    if current is None:
        return Commits({}, np.zeros(0, np.int64), np.zeros((2, 0), np.int64))
    summary = F.col("summary")
    rows = jvm.metadata_table(table, "SNAPSHOTS").select(
        "snapshot_id",
        "parent_id",
        F.unix_millis("committed_at").alias("at"),
        (F.col("operation") == "replace").alias("layout"),
        (summary[RUN_ID].isNotNull() & summary["removed-files-size"].isNotNull()).alias("ours"),
        F.expr("coalesce(try_cast(summary['removed-files-size'] AS bigint), 0)").alias("bytes"),
    )
    by_id = {row["snapshot_id"]: row for row in jvm.to_arrow(rows).to_pylist()}
    line: list[dict[str, Any]] = []
    seen = current
    while (row := by_id.get(seen)) is not None and len(line) < len(by_id):
        line.append(row)
        seen = row["parent_id"]
    ours = sorted((row["at"], row["bytes"]) for row in line if row["layout"] and row["ours"])
    return Commits(
        {snapshot: row["at"] for snapshot, row in by_id.items()},
        np.sort(np.array([row["at"] for row in line if not row["layout"]], np.int64)),
        np.array(ours, np.int64).reshape(-1, 2).T,
    )


def _optional(entries: DataFrame, field: str, kind: str) -> Column:
    known = _file_type(entries).fieldNames()
    return F.col(f"data_file.{field}") if field in known else F.lit(None).cast(kind)


def _file_type(entries: DataFrame) -> StructType:
    kind = entries.schema["data_file"].dataType
    if not isinstance(kind, StructType):
        raise TypeError(kind)
    return kind


def _partition(entries: DataFrame) -> Column:
    """The partition tuple as exact JSON text: timestamps in µs, binary in hex; empty for an unpartitioned table."""
    if "partition" not in _file_type(entries).fieldNames():
        return F.lit("")
    kind = _file_type(entries)["partition"].dataType
    if not isinstance(kind, StructType):
        raise TypeError(kind)
    fields = []
    for field in kind.fields:
        quoted = "`" + field.name.replace("`", "``") + "`"
        value = F.col(f"data_file.partition.{quoted}")
        if isinstance(field.dataType, TimestampType):
            value = F.unix_micros(value)
        elif isinstance(field.dataType, BinaryType):
            value = F.hex(value)
        elif isinstance(field.dataType, TimestampNTZType):
            value = value.cast("string")
        fields.append(value.alias(field.name))
    return F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}) if fields else F.lit("")
