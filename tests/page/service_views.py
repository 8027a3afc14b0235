"""Views of a service on paper: tables of every status, with hostile and long names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, PatternResult, TableResult
from lakekeeper.core.scheduling.debt import Debt
from lakekeeper.core.scheduling.live import LivePass, Progress
from lakekeeper.core.scheduling.metrics import ServiceMetrics
from lakekeeper.core.scheduling.task import Task
from lakekeeper.history.costs import Prices
from lakekeeper.history.history import Recorded
from lakekeeper.page.service_page import ServiceView
from tests.history.operations import DAY_MS, operation
from tests.page.pages import HOSTILE

NOW = 1_800_000_000_000
MB = 1_000_000
LONG = HOSTILE + "a_name_without_a_break_" * 5
FAILED = Reason.of(Code.FAILED, error=f"SparkException: lost executor {HOSTILE}")
DONE = Reason.of(Code.REWROTE, verb="compact", files_before=40, files_after=3)


def _result(name: str, status: str, reason: Reason, gain: float, size: int) -> TableResult:
    return TableResult(name, status, reason, debt=Debt(query_seconds_per_day=gain, bytes=size))


def service_view(**given: Any) -> ServiceView:
    """A service in its third pass: one task runs, two wait, one of them held back; one table is paused."""
    results = (
        _result("ice.db.events", "done", DONE, 812.4, 900 * MB),
        _result(LONG, "failed", FAILED, 20.0, 5 * MB),
        _result("ice.db.small", "idle", Reason.of(Code.NO_GAIN), 0.0, 0),
    )
    pattern = PatternResult("ice.gone.*", "unmatched", Reason.of(Code.NO_TABLE_MATCHES), 0)
    last = AutoReport(results, 42_000, patterns=(pattern,))
    running = Task("merge", "ice.db.events", "recluster", "running", NOW - 90_000, 61.0, bytes=900 * MB)
    waiting = Task("merge", "ice.db.small", "compact", since_ms=NOW - 3 * 3_600_000, score=12.0, bytes=7 * MB)
    held = replace(waiting, table=LONG, reason=Reason.of(Code.QUIET_HOURS, window="09:00-18:00 UTC"))
    live = LivePass(
        NOW - 95_000,
        ("ice.db.events", LONG, "ice.db.small", "ice.db.fresh"),
        (running, waiting, held),
        ((running, Progress(NOW - 90_000, "rewriting", 3, 8, 310 * MB)),),
        frozenset({"ice.db.small"}),
    )
    worked = [
        operation(
            f"op-{n}",
            end_ms=NOW - n * DAY_MS // 3,
            operation_metrics={"rewritten_bytes_count": (n % 7) * 40 * MB},
        )
        for n in range(30)
    ]
    metrics = ServiceMetrics(2, 0, 12_000 * MB, 800 * MB, NOW - 600_000, "", last)
    plain: dict[str, Any] = {
        "now_ms": NOW,
        "pause_ms": 900_000,
        "metrics": metrics,
        "live": live,
        "recorded": Recorded(tuple(worked)),
        "prices": Prices(core_hour=0.5),
        "controls": True,
    }
    return ServiceView(**plain | given)
