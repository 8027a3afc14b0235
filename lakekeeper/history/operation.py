"""One call of a verb on a table, as the history keeps it.

Names follow those of Databricks' ``system.storage.predictive_optimization_operations_history`` where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import (
    DeleteReport,
    GroupResult,
    MergeReport,
    MetadataReport,
    RestoreReport,
    UndoReport,
)
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.outcome import merged, vacuumed
from lakekeeper.core.units import DAY_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.history.table_id import TableId

CORE_SECONDS = "CORE_SECONDS"
Metrics = Mapping[str, int | float]
Report = (
    MergeReport
    | VacuumReport
    | DeleteReport
    | LifecycleReport
    | RestoreReport
    | UndoReport
    | MetadataReport
    | StatisticsReport
)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NOT_METRICS = frozenset({"version", "version_before", "version_after", "rollback_to"})


@dataclass(frozen=True, slots=True)
class Decision:
    """Blocks that a plan left unchanged, and why."""

    reason: Reason
    blocks: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"reason": self.reason.to_dict(), "blocks": self.blocks, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a verb on a table.

    operation_id       also the job group of its Spark jobs, and the prefix of the run ids of its commits; the attempts
                       of one restore or undo share it
    operation_type     the verb
    operation_status   ``done``, ``idle`` (nothing was due), ``partial``, ``failed`` or ``interrupted``
    operation_metrics  counts, sizes and depths of the report, and what the plan predicted
    core_seconds       executor time of its Spark jobs; None if Spark did not measure it
    origin             ``call``, or ``auto`` for automatic runs
    groups             the groups of a merge: inputs, outputs, outcome and reason of each
    decisions          the blocks that the first plan left, by reason
    versions           of lakekeeper and of the libraries in the session
    """

    operation_id: str
    operation_type: str
    operation_status: str
    table: TableId
    start_ms: int
    end_ms: int
    reason: Reason
    operation_metrics: Metrics = field(default_factory=dict)
    core_seconds: float | None = None
    origin: str = "call"
    policies: tuple[str, ...] = ()
    cluster_key: str = ""
    version_before: int | None = None
    version_after: int | None = None
    run_ids: tuple[str, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    decisions: tuple[Decision, ...] = ()
    application_id: str = ""
    user: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in UTC."""
        return {
            "operation_id": self.operation_id,
            "operation_type": self.operation_type,
            "operation_status": self.operation_status,
            "start_time": utc(self.start_ms),
            "end_time": utc(self.end_ms),
            "catalog_name": self.table.catalog,
            "schema_name": self.table.schema,
            "table_name": self.table.name,
            "table_format": self.table.format,
            "operation_metrics": dict(self.operation_metrics),
            "usage_unit": CORE_SECONDS,
            "usage_quantity": self.core_seconds,
            "origin": self.origin,
            "policies": list(self.policies),
            "cluster_key": self.cluster_key,
            "version_before": self.version_before,
            "version_after": self.version_after,
            "run_ids": list(self.run_ids),
            "reason": self.reason.to_dict(),
            "application_id": self.application_id,
            "user_name": self.user,
            "versions": dict(self.versions),
            "groups": [group.to_dict() for group in self.groups],
            "decisions": [decision.to_dict() for decision in self.decisions],
        }


@dataclass(frozen=True, slots=True)
class Ended:
    """What a report says about an operation: everything but who ran it, where and when."""

    status: str
    reason: Reason
    metrics: Metrics = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    cluster_key: str = ""
    version_before: int | None = None
    version_after: int | None = None
    run_ids: tuple[str, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    decisions: tuple[Decision, ...] = ()


def ended(report: Report) -> Ended:
    """What the history keeps of a report."""
    metrics = _metrics(report)
    if isinstance(report, MergeReport):
        return _merge(report, metrics)
    if isinstance(report, VacuumReport):
        status, reason = vacuumed(report)
        ran = (report.run_id,) if report.changed else ()
        return Ended(status, reason, metrics, version_before=report.version, run_ids=ran)
    if isinstance(report, DeleteReport):
        status = "done" if report.changed else "idle"
        return Ended(
            status,
            Reason.of(Code.DONE if report.changed else Code.NOTHING_TO_DO),
            metrics,
            version_before=report.version_before,
            version_after=report.version_after,
            run_ids=_run_ids(report),
        )
    if isinstance(report, RestoreReport):
        status = "idle" if report.already else "done"
        reason = Reason.of(Code.NOTHING_TO_DO if report.already else Code.DONE)
        return Ended(status, reason, metrics, version_after=report.version, run_ids=_run_ids(report))
    if isinstance(report, UndoReport):
        return Ended(
            report.status,
            Reason.of(Code.NOTHING_TO_DO) if report.already else Reason.of(Code.UNDONE, run=report.undone),
            metrics,
            version_before=report.version_before,
            version_after=report.version_after,
            run_ids=_run_ids(report),
        )
    if isinstance(report, LifecycleReport | StatisticsReport):
        return Ended(
            report.status,
            report.ended,
            metrics,
            version_before=report.version_before,
            version_after=report.version_after,
            run_ids=_run_ids(report),
        )
    status = "done" if report.changed else "idle"
    reason = Reason.of(Code.DONE if report.changed else Code.NOTHING_TO_DO)
    return Ended(status, reason, metrics, version_after=report.version)


def _run_ids(
    report: DeleteReport | LifecycleReport | RestoreReport | StatisticsReport | UndoReport,
) -> tuple[str, ...]:
    """The runs that committed something."""
    if isinstance(report, StatisticsReport):
        return report.run_ids
    return (report.run_id,) if report.run_id else ()


def _merge(report: MergeReport, metrics: Metrics) -> Ended:
    status, reason = merged([report])
    landed = [group for group in report.groups if group.status == "committed"]
    rows = {
        "attempted_bytes_count": report.attempted_bytes_count,
        "rewritten_rows_count": sum(group.rows_in for group in landed),
        "added_rows_count": sum(group.rows_out for group in landed),
    }
    plan = report.plan
    return Ended(
        status=status,
        reason=reason,
        metrics={**metrics, **rows, **(_predicted(plan) if plan else {})},
        policies=plan.policies if plan else (),
        cluster_key=plan.key if plan else "",
        version_before=report.version_before,
        version_after=report.version_after,
        run_ids=report.run_ids,
        groups=report.groups,
        decisions=tuple(Decision(left.reason, left.blocks, left.bytes) for left in plan.left) if plan else (),
    )


def _predicted(plan: Plan) -> Metrics:
    """What the first plan of the call predicted; empty where nothing was predicted."""
    if plan.prediction is None:
        return {}
    worth = plan.prediction.worth
    return {
        "predicted_score": worth.score,
        "predicted_query_seconds_saved_per_day": worth.seconds_saved * DAY_MS / 1000,
        "predicted_work_bytes": worth.work,
    }


def _metrics(report: Report) -> dict[str, int | float]:
    """The numbers of a report, by the names that they have in it."""
    found: dict[str, int | float] = {}
    for name in report.__dataclass_fields__:
        value = getattr(report, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _NOT_METRICS:
            found[name] = value
    return found


def utc(ms: int) -> str:
    """``2026-01-31T23:59:59.123Z``: sorts by time, and SQLite's functions read it."""
    at = _EPOCH + timedelta(milliseconds=ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def epoch_ms(text: str) -> int:
    """Inverse of :func:`utc`."""
    at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return round((at - _EPOCH) / timedelta(milliseconds=1))
