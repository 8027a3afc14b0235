"""The report of a call on the rows that it expired, or would expire."""

from __future__ import annotations

import json
from typing import Any

from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code

WHERE = "d < DATE '2026-03-01'"


def report(**given: Any) -> LifecycleReport:
    plain: dict[str, Any] = {"dry_run": False, "version_before": 7, "version_after": 8}
    plain["ended"] = Reason.of(Code.ROWS_EXPIRED, rows=30)
    return LifecycleReport("db.t", **plain | {"where": WHERE} | given)


def test_the_report_says_what_was_deleted_and_where_it_is() -> None:
    done = report(
        deleted_rows_count=30,
        touched_data_files_count=4,
        unread_data_files_count=3,
        run_id="r-1",
        duration_ms=900,
    )
    assert done.status == "done"
    assert str(done).splitlines() == [
        f"db.t: rows where {WHERE} in 0.9 s, version 7 -> 8",
        "  deleted     30 rows in 4 files, 3 of them without reading a row",
        "  run         r-1; restore them from the trash",
    ]
    assert json.loads(done.to_json())["ended"]["code"] == "rows_expired"


def test_a_dry_run_says_what_would_be_deleted() -> None:
    due = {
        "due_data_files_count": 4,
        "due_bytes_count": 2048,
        "due_whole_files_count": 3,
        "due_rows_count": 40,
    }
    planned = report(dry_run=True, version_after=None, **due)
    assert planned.status == "planned"
    assert "expired     in 4 files, 2.0 KiB, at most 40 rows; all rows of 3 of these files" in str(planned)
    assert "at most" not in str(report(dry_run=True, **due | {"due_rows_count": None}))
    assert "all rows" not in str(report(dry_run=True, **due | {"due_whole_files_count": 0}))


def test_nothing_expired() -> None:
    idle = report(ended=Reason.of(Code.NONE_EXPIRED), version_after=None)
    assert (idle.status, str(idle)) == (
        "idle", f"db.t: rows where {WHERE}: no row has expired; nothing was committed"
    )  # fmt: skip
