"""Results as rows with a fixed schema: the columns that a procedure or a table function returns.

Counts have the names that Iceberg's procedures give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lakekeeper.core.cost.key_advisor import Advice
from lakekeeper.core.layout.clustering_info import ClusteringInformation
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.report import (
    DeleteReport,
    KeyReport,
    MergeReport,
    MetadataReport,
    RestoreReport,
    UndoReport,
)
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.outcome import merged
from lakekeeper.core.vacuum.streams_report import StreamsReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.trash.entries import TrashEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """A schema as Spark SQL text, and a function from one result to rows of it."""

    schema: str
    rows: Callable[[Any], Iterable[Row]]


def as_frame(spark: SparkSession, columns: Columns, results: Iterable[Any]) -> DataFrame:
    """The rows of results that are computed already: reading the rows starts no maintenance."""
    names = spark.createDataFrame([], columns.schema).columns
    rows = [tuple(row[name] for name in names) for result in results for row in columns.rows(result)]
    return spark.createDataFrame(rows, columns.schema)


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc)


def _fields(result: Any) -> Row:
    return {name: getattr(result, name) for name in (*result.__dataclass_fields__, "status")}


def _merge(report: MergeReport) -> list[Row]:
    why = merged((report,))[1] if report.status == "idle" else report.ended
    return [_fields(report) | {"reason": str(why), "run_ids": list(report.run_ids)}]


def _vacuum(report: VacuumReport) -> list[Row]:
    kinds = {kind: counts[0] for kind, counts in report.deleted_by_kind.items()}
    return [_fields(report) | {"reason": str(report.ended), "deleted_files_count_by_kind": kinds}]


def _plain(report: DeleteReport | RestoreReport | UndoReport) -> list[Row]:
    return [_fields(report)]


def _reasoned(report: LifecycleReport | MetadataReport | StatisticsReport) -> list[Row]:
    return [_fields(report) | {"reason": str(report.ended)}]


def _statistics(report: StatisticsReport) -> list[Row]:
    [row] = _reasoned(report)
    return [row | {"statistics_files": list(report.statistics_files), "run_ids": list(report.run_ids)}]


def _key(report: KeyReport) -> list[Row]:
    return [_fields(report) | {"changes": [tuple(change) for change in report.changes]}]


def _information(info: ClusteringInformation) -> list[Row]:
    return [asdict(info)]


def _streams(report: StreamsReport) -> list[Row]:
    return [
        {
            "sink": each.sink,
            "position": each.position,
            "version": each.version,
            "committed_at": _time(each.at_ms),
            "vacuum_keeps": report.holds(each),
        }
        for each in report.streams
    ]


def _trash(entry: TrashEntry) -> list[Row]:
    return [asdict(entry) | {"since": _time(entry.at_ms)}]


def _advice(advice: Advice) -> list[Row]:
    return [
        {
            "columns": list(one.columns),
            "layout": one.layout,
            "present": one.present,
            "best": one == advice.best,
            "files_per_query_now": advice.now.files,
            "files_per_query": one.worth.after.files,
            "bytes_per_query_now": advice.now.bytes,
            "bytes_per_query": one.worth.after.bytes,
        }
        for one in advice.candidates
    ]


MERGE = Columns(
    "rewritten_data_files_count BIGINT, added_data_files_count BIGINT, rewritten_bytes_count BIGINT, "
    "failed_data_files_count BIGINT, removed_delete_files_count BIGINT, status STRING, reason STRING, "
    "added_bytes_count BIGINT, added_delete_files_count BIGINT, depth_before DOUBLE, depth_after DOUBLE, "
    "version_before BIGINT, version_after BIGINT, replayed_rows_count BIGINT, conflicts BIGINT, "
    "run_ids ARRAY<STRING>, duration_ms BIGINT",
    _merge,
)
VACUUM = Columns(
    "deleted_files_count BIGINT, deleted_bytes_count BIGINT, deleted_files_count_by_kind MAP<STRING, BIGINT>, "
    "expired_snapshots_count BIGINT, failed_files_count BIGINT, kept_versions_count BIGINT, status STRING, "
    "reason STRING, trash STRING, version BIGINT, run_id STRING, duration_ms BIGINT",
    _vacuum,
)
DELETE = Columns(
    "deleted_rows_count BIGINT, touched_data_files_count BIGINT, unread_data_files_count BIGINT, status STRING, "
    "version_before BIGINT, version_after BIGINT, retries BIGINT, run_id STRING, duration_ms BIGINT, trash STRING",
    _plain,
)
LIFECYCLE = Columns(
    "deleted_rows_count BIGINT, touched_data_files_count BIGINT, unread_data_files_count BIGINT, status STRING, "
    "reason STRING, where STRING, due_data_files_count BIGINT, due_bytes_count BIGINT, due_whole_files_count BIGINT, "
    "due_rows_count BIGINT, version_before BIGINT, version_after BIGINT, run_id STRING, duration_ms BIGINT",
    _reasoned,
)
RESTORE = Columns(
    "name STRING, kind STRING, rows BIGINT, files BIGINT, bytes BIGINT, status STRING, version BIGINT, "
    "run_id STRING, duration_ms BIGINT",
    _plain,
)
UNDO = Columns(
    "undone STRING, restored_data_files_count BIGINT, restored_bytes_count BIGINT, "
    "removed_data_files_count BIGINT, removed_bytes_count BIGINT, status STRING, version_before BIGINT, "
    "version_after BIGINT, rollback_to BIGINT, run_id STRING, duration_ms BIGINT",
    _plain,
)
METADATA = Columns(
    "files_before BIGINT, files_after BIGINT, status STRING, reason STRING, version BIGINT, duration_ms BIGINT",
    _reasoned,
)
STATISTICS = Columns(
    "described_data_files_count BIGINT, read_bytes_count BIGINT, statistics_files ARRAY<STRING>, status STRING, "
    "reason STRING, version_before BIGINT, version_after BIGINT, conflicts BIGINT, run_ids ARRAY<STRING>, "
    "duration_ms BIGINT",
    _statistics,
)
KEY = Columns(
    "key_before STRING, key_after STRING, kept_as STRING, status STRING, "
    "changes ARRAY<STRUCT<what: STRING, before: STRING, after: STRING>>",
    _key,
)
INFORMATION = Columns(
    "cluster_by_keys STRING, total_partition_count BIGINT, total_constant_partition_count BIGINT, "
    "average_overlaps DOUBLE, average_depth DOUBLE, partition_depth_histogram MAP<STRING, BIGINT>, "
    "average_point_depth DOUBLE, max_depth BIGINT, blocks_with_null BIGINT, blocks_without_statistics BIGINT, "
    "levels MAP<INT, BIGINT>, total_bytes BIGINT, total_rows BIGINT, notes STRING, version BIGINT",
    _information,
)
DEPTH = Columns("average_depth DOUBLE", lambda depth: [{"average_depth": depth}])
STREAMS = Columns(
    "sink STRING, position STRING, version BIGINT, committed_at TIMESTAMP, vacuum_keeps STRING", _streams
)
TRASH = Columns(
    "name STRING, kind STRING, since TIMESTAMP, state STRING, where STRING, rows BIGINT, files BIGINT, "
    "bytes BIGINT, version BIGINT",
    _trash,
)
ADVICE = Columns(
    "columns ARRAY<STRING>, layout STRING, present BOOLEAN, best BOOLEAN, files_per_query_now DOUBLE, "
    "files_per_query DOUBLE, bytes_per_query_now DOUBLE, bytes_per_query DOUBLE",
    _advice,
)
