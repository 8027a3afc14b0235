"""Combines the reports of a table's verbs into one status, with its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Fact, Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import FAILED, PARTIAL, PLANNED, MergeReport, count_status
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.auto_report import TableResult
from lakekeeper.core.vacuum.vacuum_report import VacuumReport

_WORST_FIRST = ("failed", "partial", "done", "idle")


def outcome(
    table: str,
    reports: Sequence[MergeReport],
    freed: VacuumReport | None = None,
    others: Sequence[tuple[str, Reason]] = (),
    *,
    error: str = "",
) -> TableResult:
    """The result of a table: its merges in order, its vacuum, and the ``error`` that ended its turn, if any.

    ``others`` has the status and the reason of each other verb.
    """
    parts = [merged(reports)] if reports else []
    if error:
        done = [_rewrote(r) for r in reports if r.changed]
        parts = [("failed", Reason.of(Code.FAILED, error=error).plus(*done))]
    parts += others
    parts += [] if freed is None else [vacuumed(freed)]
    status, reason = _together(parts or [merged(())])
    scores = (r.plan.prediction.worth.score for r in reports if r.plan and r.plan.prediction)
    deleted = freed is not None and freed.changed
    return TableResult(
        table=table,
        status=status,
        reason=reason,
        rewritten_bytes_count=sum(r.rewritten_bytes_count for r in reports),
        rewritten_data_files_count=sum(r.rewritten_data_files_count for r in reports),
        added_data_files_count=sum(r.added_data_files_count for r in reports),
        run_ids=tuple(run for r in reports for run in r.run_ids),
        score=next((round(score, 1) for score in scores), None),
        deleted_files_count=freed.deleted_files_count if freed and deleted else 0,
        deleted_bytes_count=freed.deleted_bytes_count if freed and deleted else 0,
    )


def _together(parts: Sequence[tuple[str, Reason]]) -> tuple[str, Reason]:
    """The worst status of a table's verbs; the reasons of idle verbs come last."""
    status = min((status for status, _ in parts), key=_WORST_FIRST.index)
    reasons = [reason for _, reason in sorted(parts, key=lambda part: part[0] == "idle")]
    return status, reasons[0].plus(*reasons[1:])


def merged(reports: Sequence[MergeReport]) -> tuple[str, Reason]:
    """The status of merges on one table, taken together, and why."""
    groups = tuple(group for report in reports for group in report.groups)
    counts = count_status(groups)
    lost = counts.get("failed", 0) + counts.get("dropped", 0)
    changed = [report for report in reports if report.changed]
    if not reports:
        return "idle", Reason.of(Code.NOTHING_REQUESTED)
    if "planned" in counts:
        return "idle", Reason.of(Code.GROUPS_DUE, groups=counts["planned"])
    if not groups and not changed:
        return "idle", _all([_not_due(report) for report in reports])
    if lost and not changed:
        details = (g.detail for g in groups if g.status in ("failed", "dropped"))
        return "failed", next((detail for detail in details if detail), Reason.of(Code.NO_PROGRESS))
    broken = [report.ended for report in changed if Code.ENDED_BY_ERROR in report.ended.codes]
    if "failed" in counts:
        why = next((group.detail for group in groups if group.status == "failed" and group.detail), None)
        failed = Reason.of(Code.GROUPS_FAILED, groups=counts["failed"])
        broken.append(failed.plus(why) if why else failed)
    elif any(map(leaves_failing, changed)):
        broken.append(Reason.of(Code.FAILED_BEFORE))
    return "partial" if lost or broken else "done", _all([*(_rewrote(report) for report in changed), *broken])


def leaves_failing(report: MergeReport) -> bool:
    """Whether the plan leaves files whose last merge failed."""
    return report.plan is not None and any(
        Code.FAILED_BEFORE in left.reason.codes for left in report.plan.left
    )


def kept_up(verb: str, report: StatisticsReport | LifecycleReport) -> tuple[str, Reason]:
    """The status of a verb that merges nothing, and why."""
    if report.changed or report.status == PLANNED:
        return report.status if report.changed else "idle", report.ended
    if report.status == FAILED:
        return "failed", report.ended
    return "idle", Reason.of(Code.VERB_NOT_DUE, verb=verb).plus(report.ended)


def vacuumed(freed: VacuumReport) -> tuple[str, Reason]:
    """The status of a vacuum, and why."""
    size = {
        "versions": freed.expired_snapshots_count,
        "files": freed.deleted_files_count,
        "bytes": freed.deleted_bytes_count,
    }
    if freed.status == PLANNED:
        return "idle", Reason.of(Code.VACUUM_DUE, **size)
    if not freed.changed:
        return freed.status, Reason.of(Code.NOT_VACUUMED).plus(freed.ended)
    done = Reason.of(Code.VACUUMED, **size)
    if freed.expired_refs_count:
        done = done.plus(Reason.of(Code.REFS_EXPIRED, refs=freed.expired_refs_count))
    return freed.status, done.plus(freed.ended) if freed.status == PARTIAL else done


def _not_due(report: MergeReport) -> Reason:
    left = report.plan.left if report.plan else ()
    return Reason.of(Code.VERB_NOT_DUE, verb=report.verb).plus(left[0].reason if left else report.ended)


def _rewrote(report: MergeReport) -> Reason:
    facts: dict[str, Fact] = {
        "verb": report.verb,
        "files_before": report.rewritten_data_files_count,
        "files_after": report.added_data_files_count,
    }
    if report.verb == "recluster" and report.depth_before is not None and report.depth_after is not None:
        depths = {"depth_before": report.depth_before, "depth_after": report.depth_after}
        return Reason.of(Code.REWROTE_DEPTH, **facts, **depths)
    if report.verb == "merge_deletes" and report.removed_delete_files_count:
        deletes = {
            "delete_files_before": report.removed_delete_files_count,
            "delete_files_after": report.added_delete_files_count,
        }
        return Reason.of(Code.MERGED_DELETE_FILES, **facts, **deletes)
    return Reason.of(Code.REWROTE, **facts)


def _all(reasons: Iterable[Reason]) -> Reason:
    first, *others = reasons
    return first.plus(*others)
