"""All live data and delete files of one snapshot.

few files, of a common kind     the driver reads the manifests (``small_listing``): no Spark job
else                            one Arrow collect of the ``entries`` metadata table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType, TimestampNTZType, TimestampType

from lakekeeper_iceberg import small_listing
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.small_listing import BOUNDS, COUNTS, PATH_FIELD

BOUND_FIELDS = tuple(name for name, _ in (*BOUNDS, *COUNTS))


@dataclass(frozen=True, slots=True)
class Listing:
    """``data`` and ``deletes``: Arrow tables with the columns of :func:`list_files`, one row per file.

    ``manifest`` is the CRC-32 of the path of the manifest that lists the file.
    """

    data: pa.Table
    deletes: pa.Table


def list_files(jvm: Iceberg, table: Any, metrics: Sequence[str] = ()) -> Listing:
    """Live files of the current snapshot of a pinned table.

    ``metrics`` are column names in Iceberg's spelling (``a.b`` for a nested one); column ``i`` adds
    ``lower_bound_i``, ``upper_bound_i``, ``null_value_count_i``, ``nan_value_count_i``, ``value_count_i``.
    """
    few = small_listing.list_files(jvm, table, metrics)
    return list_by_spark(jvm, table, metrics) if few is None else Listing(*few)


def list_by_spark(jvm: Iceberg, table: Any, metrics: Sequence[str] = ()) -> Listing:
    """Like :func:`list_files`, for any table, by a Spark job."""
    entries = jvm.metadata_table(table, "ENTRIES")
    file = "data_file"
    position = F.col(f"{file}.content") == 1
    columns = [
        F.col("snapshot_id"),
        F.crc32(F.input_file_name()).alias("manifest"),
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
        F.when(position, F.col(f"{file}.lower_bounds")[F.lit(PATH_FIELD)]).alias("path_low"),
        F.when(position, F.col(f"{file}.upper_bounds")[F.lit(PATH_FIELD)]).alias("path_high"),
    ]
    for i, name in enumerate(metrics):
        quoted = "`" + name.replace("`", "``") + "`"
        columns += [
            F.col(f"readable_metrics.{quoted}.{field}").alias(f"{field}_{i}") for field in BOUND_FIELDS
        ]
    live = jvm.to_arrow(entries.where("status < 2").select(*columns))
    is_data = pc.equal(live["content"], 0)
    return Listing(live.filter(is_data).combine_chunks(), live.filter(pc.invert(is_data)).combine_chunks())


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
