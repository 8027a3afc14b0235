"""The report of a call on the statistics that it computed."""

from __future__ import annotations

import json
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.statistics_report import StatisticsReport

DONE = Reason.of(Code.STATISTICS_COMPUTED, files=3)


def report(**given: Any) -> StatisticsReport:
    plain: dict[str, Any] = {"dry_run": False, "version_before": 7, "version_after": 8, "ended": DONE}
    return StatisticsReport("db.t", **plain | given)


def test_the_report_says_what_was_done() -> None:
    done = report(described_data_files_count=3, read_bytes_count=2048, run_ids=("r-1",), duration_ms=1500)
    assert done.status == "done"
    assert str(done).splitlines() == [
        "db.t: statistics computed in 1.5 s",
        "  read        3 files, 2.0 KiB",
        "  run         r-1",
    ]
    written = report(statistics_files=("/t/a.stats",), run_ids=("r-1",))
    assert "  written     /t/a.stats" in str(written)
    assert json.loads(written.to_json())["statistics_files"] == ["/t/a.stats"]


def test_a_dry_run_says_what_would_be_read() -> None:
    planned = report(dry_run=True, version_after=None, described_data_files_count=3, read_bytes_count=2048)
    assert (planned.status, planned.changed) == ("planned", False)
    assert "nothing was written\ndb.t: would read 3 files, 2.0 KiB: statistics of 3 files computed" in str(
        planned
    )
    assert report(dry_run=True).status == "idle"


def test_where_nothing_was_due_the_report_says_why() -> None:
    idle = report(ended=Reason.of(Code.NOTHING_TO_DO), version_after=None)
    assert (idle.status, str(idle)) == ("idle", "db.t: no statistics were computed: nothing to do")
