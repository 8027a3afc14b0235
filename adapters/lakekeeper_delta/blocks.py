"""AddFile actions as a BlockSet: read by the driver where it can, else by one Arrow collect of narrow columns.

The log holds statistics as JSON text. Only the row count and the key columns are parsed, with their own types, so that
decimals never pass through doubles.
Bounds may be too wide, but never too narrow:

    timestamps   are truncated to milliseconds    hi + 999 µs; before 1973 offsets are truncated to minutes: ± 59 s
    text         is truncated to 32 characters    unchanged (Delta's own max has a tie-breaker), exact=False
    bad UTF-8    is replaced in the statistics    no bounds
    no min/max   although values exist            no bounds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, arrow_type
from lakekeeper.core.model.run_folders import NO_KEY
from lakekeeper.errors import Unsupported
from lakekeeper.spark.jvm import try_cast
from lakekeeper_delta.columns import Found, nested, physical_name
from lakekeeper_delta.driver_listing import can_list, listed
from lakekeeper_delta.file_marks import CURVE_TAG, KEY_TAG, LEVEL_TAG, PLACE, SHORT_TEXT, delete_id
from lakekeeper_delta.known_state import all_files
from lakekeeper_delta.live_adds import live_adds
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_counts import physical_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_TEMPORAL = ("date", "timestamp", "timestamp_ntz")
_ABSOLUTE = "^([a-zA-Z][a-zA-Z0-9+.-]*:/|/)"
_MS = 999  # µs by which a timestamp may exceed its statistic
_LMT = 59_000_000  # µs by which an offset truncated to whole minutes may be off


def read_blocks(log: Log, state: State, key: ClusterKey | None, found: Sequence[Found]) -> BlockSet:
    """The live files of ``state`` as blocks.

    Reads no data file, except to count the rows of files whose AddFile lacks ``numRecords``. Raises Unsupported for a
    file with an absolute path.
    """
    adds = live_adds(log, state) if can_list(found) else None
    table = None if adds is None else listed(adds, state, found)
    if table is None:
        table = listed_by_spark(log, state, found)
    refuse_foreign(log, table)
    return _made(log, state, key, found, table)


def without_key(log: Log, state: State, blocks: BlockSet) -> Snapshot:
    """The snapshot of a version with these blocks, under no key."""
    return Snapshot(
        table=log.name,
        format="delta",
        version=state.version,
        table_uuid=state.table_uuid,
        schema_id=state.schema_id,
        key=None,
        blocks=blocks,
        complete=False,
        properties=state.properties,
        log_mark=state.log_mark,
    )


def listed_by_spark(log: Log, state: State, found: Sequence[Found]) -> pa.Table:
    """The live files of ``state``, with their bounds, by a Spark job."""
    return log.jvm.to_arrow(all_files(log, state).select(*_columns(state, found)))


def added_blocks(
    log: Log,
    state: State,
    key: ClusterKey | None,
    found: Sequence[Found],
    adds: DataFrame,
    at: Mapping[str, int],
) -> BlockSet:
    """The live files of ``state`` among AddFile actions with their ``version``, as blocks.

    ``at`` names these files, each with the version of its last add. Raises as :func:`read_blocks`.
    """
    table = log.jvm.to_arrow(adds.select("version", *_columns(state, found)))
    refuse_foreign(log, table)
    last = [
        at.get(path) == version
        for path, version in zip(table["path"].to_pylist(), table["version"].to_pylist(), strict=True)
    ]
    return _made(log, state, key, found, table.filter(pa.array(last, pa.bool_())))


def _made(
    log: Log, state: State, key: ClusterKey | None, found: Sequence[Found], table: pa.Table
) -> BlockSet:
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    columns["rows"] = _row_counts(log, state, columns)
    return make_blocks(_as_blocks(columns, found), key)


def _columns(state: State, found: Sequence[Found]) -> list[Column]:
    from pyspark.sql import functions as F

    stats = F.from_json(F.col("stats"), _stats_schema(found))
    selected = [
        *_same_for_all(state.snapshot._gateway_client),
        _partition_text(state).alias("partition"),
        stats.getField("numRecords").alias("rows"),
    ]
    for i, item in enumerate(found):
        if item.partition:
            selected += _partition_bounds(i, item)
        else:
            selected += _stat_bounds(i, item, stats)
    return selected


@cache
def _same_for_all(_gateway: Any) -> tuple[Column, ...]:
    """The columns that depend on no table: some 800 calls to the JVM, made once for each JVM."""
    from pyspark.sql import functions as F

    dv, tags = F.col("deletionVector"), F.col("tags")
    return (
        F.col("path"),
        F.col("size").alias("bytes"),
        F.col("modificationTime").alias("added_at"),
        F.coalesce(dv.getField("cardinality"), F.lit(0)).alias("deleted_rows"),
        F.coalesce(dv.getField("sizeInBytes").cast("bigint"), F.lit(0)).alias("delete_bytes"),
        delete_id(dv).alias("delete_id"),
        *_level_and_key(tags),
        is_foreign().alias("foreign"),
        *_curve(tags.getItem(CURVE_TAG)),
    )


def is_foreign() -> Column:
    """Whether the log names a file by an absolute path, as that of another table."""
    from pyspark.sql import functions as F

    path = F.col("path")
    return path.startswith("/") | (path.contains(":/") & path.rlike(_ABSOLUTE))


def _level_and_key(tags: Column) -> list[Column]:
    """By the tags, else by the path: Trino's DELETE drops the tags of a file that it masks."""
    from pyspark.sql import functions as F

    level = try_cast(tags.getItem(LEVEL_TAG), "int")
    place = F.when(level.isNull(), F.regexp_extract("path", PLACE, 0))
    key, folder = (F.element_at(F.split(place, "/"), at) for at in (-2, -1))
    by_path = place != ""
    key_id = F.when(by_path & (key != NO_KEY), key).when(~by_path | by_path.isNull(), tags.getItem(KEY_TAG))
    return [
        F.coalesce(level, F.when(by_path, F.substring(folder, 2, 4).cast("int")), F.lit(0)).alias("level"),
        F.coalesce(key_id, F.lit("")).alias("key_id"),
    ]


def _curve(tag: Column) -> list[Column]:
    from pyspark.sql import functions as F

    # Casting text that is not a number raises an exception, even where it returns NULL: most files have no tag.
    part = [F.split_part(tag, F.lit(":"), F.lit(i)) for i in (1, 2, 3)]
    ends = [F.coalesce(try_cast(text, "bigint"), F.lit(UNKNOWN).cast("bigint")) for text in part[1:]]
    whole = (ends[0] >= 0) & (ends[1] >= ends[0])
    return [
        F.when(whole, part[0]).otherwise(F.lit("")).alias("curve_id"),
        F.when(whole, ends[0]).otherwise(F.lit(UNKNOWN)).alias("curve_lo"),
        F.when(whole, ends[1]).otherwise(F.lit(UNKNOWN)).alias("curve_hi"),
    ]


def _partition_text(state: State) -> Column:
    """Partition values as JSON text with sorted names, so that equal partitions have equal text."""
    from pyspark.sql import functions as F

    if not state.partition_columns:
        return F.lit("")
    values = F.col("partitionValues")
    pairs = [
        values.getItem(physical_name(state, name)).alias(name) for name in sorted(state.partition_columns)
    ]
    return F.to_json(F.struct(*pairs), {"ignoreNullFields": "false"})


def _partition_bounds(i: int, item: Found) -> list[Column]:
    from pyspark.sql import functions as F

    text = F.col("partitionValues").getItem(item.physical[0])
    # The protocol also writes NULL as an empty string.
    value = _typed(F.nullif(text, F.lit("")), item.column.kind, item.sql_type)
    nulls = F.when(text.isNull() | (text == ""), F.lit(1)).otherwise(F.lit(0)).cast("bigint")
    return [
        value.alias(f"lo{i}"),
        value.alias(f"hi{i}"),
        nulls.alias(f"nulls{i}"),
        F.lit(True).alias(f"exact{i}"),
        F.lit(False).alias(f"lmt{i}"),
    ]


def _stat_bounds(i: int, item: Found, stats: Column) -> list[Column]:
    from pyspark.sql import functions as F

    lo, hi, nulls = (leaf(stats.getField(n), item.physical) for n in ("minValues", "maxValues", "nullCount"))
    kind = item.column.kind
    exact, lmt = F.lit(True), F.lit(False)
    if kind == "string":
        exact = (F.octet_length(lo) < SHORT_TEXT) & (F.octet_length(hi) < SHORT_TEXT)
        whole = ~(lo.contains("\ufffd") | hi.contains("\ufffd"))
        lo, hi = F.when(whole, lo), F.when(whole, hi)
    if kind == "timestamp":
        lmt = ~F.coalesce(lo.endswith("Z") & hi.endswith("Z"), F.lit(False))
    return [
        _typed(lo, kind, item.sql_type).alias(f"lo{i}"),
        _typed(hi, kind, item.sql_type).alias(f"hi{i}"),
        F.coalesce(nulls, F.lit(UNKNOWN)).alias(f"nulls{i}"),
        F.coalesce(exact, F.lit(False)).alias(f"exact{i}"),
        lmt.alias(f"lmt{i}"),
    ]


def leaf(struct: Column, path: Sequence[str]) -> Column:
    """The field of a struct at a path."""
    for step in path:
        struct = struct.getField(step)
    return struct


def _typed(value: Column, kind: str, sql_type: str) -> Column:
    """A value (text, or already parsed) cast to the type of its bounds."""
    if kind == "int":
        return try_cast(value, "bigint")
    if kind == "float":
        # Cast through its own type: 0.1 as a float is greater than 0.1 as a double.
        return try_cast(value, sql_type).cast("double")
    return try_cast(value, kind)


def _stats_schema(found: Sequence[Found]) -> StructType:
    """The schema of statistics with only the row count and the key columns, by their physical names."""
    from pyspark.sql import types as T

    def parsed(item: Found) -> DataType:
        # Dates and timestamps remain text, to keep the zone; Spark's JSON reader parses the others exactly.
        kind = item.column.kind
        if kind in _TEMPORAL or kind == "string":
            return T.StringType()
        if kind.startswith("decimal"):
            precision, scale = kind[len("decimal(") : -1].split(",")
            return T.DecimalType(int(precision), int(scale))
        return {"float": T.FloatType(), "double": T.DoubleType()}.get(item.sql_type, T.LongType())

    plain = [item for item in found if not item.partition]
    bounds = struct_of({item.physical: parsed(item) for item in plain})
    counts = struct_of({item.physical: T.LongType() for item in plain})
    schema = T.StructType([T.StructField("numRecords", T.LongType())])
    if plain:
        schema = schema.add("minValues", bounds).add("maxValues", bounds).add("nullCount", counts)
    return schema


def struct_of(leaves: Mapping[tuple[str, ...], DataType]) -> DataType:
    """Spark's type of nested structs with these leaves."""
    from pyspark.sql import types as T

    return nested(leaves, lambda fields: T.StructType([T.StructField(name, kind) for name, kind in fields]))


def refuse_foreign(log: Log, table: pa.Table) -> None:
    """Raise Unsupported if one of these files is ``foreign``, see :func:`is_foreign`."""
    outside = table["path"].filter(table["foreign"])
    if len(outside):
        raise Unsupported(
            log.name,
            "files by absolute path",
            f"{len(outside)} of its files are named by absolute path, as in a shallow clone "
            f"(e.g. {outside[0].as_py()}); rewrite it as a table of its own first; nothing was written",
        )


def _as_blocks(columns: Mapping[str, pa.Array], found: Sequence[Found]) -> dict[str, Any]:
    """Arrow columns of the log in the form that ``make_blocks`` takes."""
    plain = ("path", "partition", "rows", "bytes", "deleted_rows", "delete_bytes", "delete_id")
    made: dict[str, Any] = {n: columns[n] for n in (*plain, "level", "key_id", "added_at", "curve_id")}
    for end in ("curve_lo", "curve_hi"):
        made[end] = columns[end].to_numpy(zero_copy_only=False)
    bounds = [_bounds(columns, i, item) for i, item in enumerate(found)]
    for at, name in enumerate(("lo", "hi", "null_count", "exact")):
        made[name] = [b[at] for b in bounds]
    return made


def _bounds(columns: Mapping[str, pa.Array], i: int, item: Found) -> tuple[pa.Array, pa.Array, pa.Array, Any]:
    kind = arrow_type(item.column.kind)
    lo, hi = columns[f"lo{i}"], columns[f"hi{i}"]
    nulls, exact = columns[f"nulls{i}"], columns[f"exact{i}"].to_numpy(zero_copy_only=False)
    if item.partition:
        nulls = pc.if_else(pc.equal(nulls, 1), columns["rows"], 0)
    elif pa.types.is_timestamp(kind):
        lo, hi = _widened(lo, hi, columns[f"lmt{i}"])
        exact = np.zeros(len(exact), dtype=np.bool_)
    # The model cannot use one bound without the other.
    both = pc.and_(lo.is_valid(), hi.is_valid())
    lo, hi = (pc.if_else(both, side, pa.scalar(None, side.type)).cast(kind) for side in (lo, hi))
    return lo, hi, nulls, exact


def _widened(lo: pa.Array, hi: pa.Array, zoned: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bounds in µs that contain every timestamp; the ends of the int64 range are left unchanged."""
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    low, high = (side.cast(pa.int64()) for side in (lo, hi))
    start_1973 = 94_694_400_000_000
    blurred = zoned.to_numpy(zero_copy_only=False)
    down, up = (
        np.where(blurred & (pc.fill_null(side, 0).to_numpy(zero_copy_only=False) < start_1973), _LMT, 0)
        for side in (low, high)
    )
    low_us = pc.fill_null(low, 0).to_numpy(zero_copy_only=False)
    high_us = pc.fill_null(high, 0).to_numpy(zero_copy_only=False)
    low_us = np.where(low_us < bottom + _LMT, bottom, low_us - down)
    high_us = np.where(high_us > top - _LMT - _MS, top, high_us + up + _MS)
    kind = pa.timestamp("us", tz=lo.type.tz)
    return (
        pa.array(low_us, mask=~low.is_valid().to_numpy(zero_copy_only=False)).cast(kind),
        pa.array(high_us, mask=~high.is_valid().to_numpy(zero_copy_only=False)).cast(kind),
    )


def _row_counts(log: Log, state: State, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Rows of each file; files without a row count in the log are counted."""
    rows = columns["rows"]
    if not rows.null_count:
        return rows
    unknown = columns["path"].filter(rows.is_null()).to_pylist()
    masked = columns["path"].filter(pc.greater(columns["deleted_rows"], 0)).to_pylist()
    counted = physical_rows(log, state, unknown, masked)
    known = zip(columns["path"].to_pylist(), rows.to_pylist(), strict=True)
    return pa.array([counted[path] if n is None else n for path, n in known], pa.int64())
