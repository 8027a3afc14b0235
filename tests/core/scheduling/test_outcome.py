from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.scheduling.outcome import kept_up, outcome
from lakekeeper.core.vacuum.vacuum_report import VacuumReport

BROKEN = Reason.of(Code.ENDED_BY_ERROR, error="503 Slow Down")


def merge(*statuses: str, **given: Any) -> MergeReport:
    """A compaction whose groups ended with these statuses; it committed if one of them did."""
    groups = tuple(GroupResult(str(n), status, 4, 400) for n, status in enumerate(statuses))
    plain: dict[str, Any] = {"commits": int("committed" in statuses), "groups": groups}
    return MergeReport("db.t", "compact", dry_run=False, version_before=1, version_after=2, **plain | given)


def vacuum(deleted: int = 0, failed: int = 0, *, expired: int = 0, dry_run: bool = False) -> VacuumReport:
    return VacuumReport(
        "db.t",
        dry_run,
        2,
        deleted_files_count=deleted,
        deleted_bytes_count=9 * deleted,
        failed_files_count=failed,
        expired_snapshots_count=expired,
    )


@pytest.mark.parametrize(
    "reports, freed, status, codes",
    [
        ([], None, "idle", ["nothing_requested"]),
        ([merge()], None, "idle", ["verb_not_due"]),
        ([merge("planned")], None, "idle", ["groups_due"]),
        ([merge("committed")], None, "done", ["rewrote"]),
        ([merge("committed", "dropped")], None, "partial", ["rewrote"]),
        ([merge("committed", "failed")], None, "partial", ["rewrote", "groups_failed"]),
        ([merge("failed")], None, "failed", ["no_progress"]),
        ([merge("committed", ended=BROKEN)], None, "partial", ["rewrote", "ended_by_error"]),
        ([merge()], vacuum(), "idle", ["verb_not_due", "not_vacuumed"]),
        ([merge()], vacuum(3), "done", ["vacuumed", "verb_not_due"]),
        ([merge("committed")], vacuum(3, 1), "partial", ["rewrote", "vacuumed"]),
        ([], vacuum(0, 4), "failed", ["not_vacuumed"]),
        ([merge("committed")], vacuum(0, 4), "failed", ["rewrote", "not_vacuumed"]),
        ([], vacuum(0, 4, expired=7), "partial", ["vacuumed"]),
        ([merge("failed")], vacuum(3), "failed", ["no_progress", "vacuumed"]),
        ([], vacuum(3, dry_run=True), "idle", ["vacuum_due"]),
        ([], vacuum(expired=7), "done", ["vacuumed"]),
        ([], vacuum(expired=7, dry_run=True), "idle", ["vacuum_due"]),
        ([], vacuum(dry_run=True), "idle", ["not_vacuumed"]),
    ],
)
def test_the_status_is_the_worst_of_the_verbs_and_completed_work_comes_first(
    reports: list[MergeReport], freed: VacuumReport | None, status: str, codes: list[str]
) -> None:
    found = outcome("db.t", reports, freed)
    assert found.status == status
    assert [code for code in found.reason.codes if code in codes] == codes


def test_an_error_is_the_reason_and_completed_work_is_reported_too() -> None:
    found = outcome("db.t", [merge("committed")], error="no space left")
    assert found.status == "failed"
    assert [*found.reason.codes][:2] == ["failed", "rewrote"]
    assert "no space left" in str(found.reason)


def test_the_counts_of_all_verbs_add_up() -> None:
    counts = ("rewritten_bytes_count", "rewritten_data_files_count", "added_data_files_count")
    reports = [
        merge("committed", run_ids=(run,), **dict(zip(counts, numbers, strict=True)))
        for run, numbers in (("a", (400, 4, 1)), ("b", (50, 2, 1)))
    ]
    found = outcome("db.t", reports, vacuum(3))
    assert (found.rewritten_bytes_count, found.rewritten_data_files_count) == (450, 6)
    assert (found.added_data_files_count, found.run_ids) == (2, ("a", "b"))
    assert (found.deleted_files_count, found.deleted_bytes_count) == (3, 27)
    assert outcome("db.t", reports, vacuum(3, dry_run=True)).deleted_files_count == 0


@pytest.mark.parametrize(
    "dry_run, text",
    [
        (False, "vacuum: 7 versions expired, 0 files deleted (0 B)"),
        (True, "dry run: vacuum would expire 7 versions and delete 0 files (0 B)"),
    ],
)
def test_a_vacuum_that_only_expires_versions_gives_their_number(dry_run: bool, text: str) -> None:
    assert str(outcome("db.t", [], vacuum(expired=7, dry_run=dry_run)).reason) == text


def test_an_expiry_for_which_the_trash_has_no_slot_is_no_idle_table() -> None:
    full = Reason.of(Code.TRASH_FULL, entries=48, most=48)
    report = LifecycleReport("db.t", False, "d < x", 1, None, full, due_data_files_count=1)
    found = outcome("db.t", [], others=[kept_up("expire_rows", report)])
    assert (found.status, found.reason.code) == ("failed", "trash_full")


@pytest.mark.parametrize("status, attention", [("dropped", False), ("failed", True)])
def test_a_group_that_fails_needs_attention_though_others_committed(status: str, attention: bool) -> None:
    assert outcome("t", [merge("committed", status)]).needs_attention == attention


def test_why_a_group_failed_is_part_of_the_reason() -> None:
    detail = Reason.of(Code.FAILED, error="a damaged file")
    groups = (GroupResult("1", "committed", 4, 400), GroupResult("2", "failed", 4, 400, detail=detail))
    assert "1 group failed; a damaged file" in str(outcome("t", [merge(commits=1, groups=groups)]).reason)
