"""The metrics of a service in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakekeeper.core.scheduling.auto_report import STATUSES, AutoReport

_PATTERNS = ("matched", "unmatched", "failed")


@dataclass(frozen=True, slots=True)
class ServiceMetrics:
    """Counts since the service started, and its last pass.

    ended_ms    when the last pass ended; 0 before that
    error       why the last pass as a whole failed, such as a bad conf; empty if it ended with a report
    """

    passes: int = 0
    errors: int = 0
    rewritten_bytes: int = 0
    deleted_bytes: int = 0
    ended_ms: int = 0
    error: str = ""
    last: AutoReport | None = None

    def after(self, report: AutoReport, now_ms: int) -> ServiceMetrics:
        """The metrics after one more pass."""
        return replace(
            self,
            passes=self.passes + 1,
            rewritten_bytes=self.rewritten_bytes + sum(t.rewritten_bytes_count for t in report.tables),
            deleted_bytes=self.deleted_bytes + sum(t.deleted_bytes_count for t in report.tables),
            ended_ms=now_ms,
            error="",
            last=report,
        )

    def after_error(self, error: str, now_ms: int) -> ServiceMetrics:
        """The metrics after one more pass, which raised an error."""
        return replace(self, passes=self.passes + 1, errors=self.errors + 1, ended_ms=now_ms, error=error)

    def healthy(self, now_ms: int, pause_ms: int, longest_ms: int) -> bool:
        """Whether passes keep running: the last one raised no error, and ended at most a pause and a long pass ago.

        A failed table is not a reason to restart a service: see ``lakekeeper_tables``.
        """
        return not self.error and now_ms - self.ended_ms <= pause_ms + longest_ms

    def text(self) -> str:
        """All metrics. Those of the last report are missing until a pass has ended with a report."""
        lines = [
            *_metric("passes_total", "counter", "Passes that have ended.", {"": self.passes}),
            *_metric("pass_errors_total", "counter", "Passes that raised an error.", {"": self.errors}),
            *_metric(
                "rewritten_bytes_total", "counter", "Bytes read by rewrites.", {"": self.rewritten_bytes}
            ),
            *_metric(
                "deleted_bytes_total",
                "counter",
                "Bytes of the files that vacuums deleted.",
                {"": self.deleted_bytes},
            ),
            *_metric(
                "last_pass_timestamp_seconds", "gauge", "End of the last pass.", {"": self.ended_ms / 1000}
            ),
        ]
        return "\n".join([*lines, *(_of_report(self.last) if self.last else ())]) + "\n"


def _of_report(report: AutoReport) -> Iterable[str]:
    tables = {_label("status", s): sum(t.status == s for t in report.tables) for s in STATUSES}
    patterns = {_label("status", s): sum(p.status == s for p in report.patterns) for s in _PATTERNS}
    wrong = {
        "{" + f'table="{_escaped(t.table)}",status="{t.status}"' + "}": 1
        for t in report.tables
        if t.needs_attention
    }
    debt = report.debt
    yield from _metric(
        "last_pass_duration_seconds", "gauge", "Duration of the last pass.", {"": report.duration_ms / 1000}
    )
    yield from _metric(
        "last_pass_exit_code",
        "gauge",
        "1 if a table or pattern of the last pass needs attention, else 0.",
        {"": report.exit_code},
    )
    yield from _metric("tables", "gauge", "Tables of the last pass by status.", tables)
    yield from _metric("patterns", "gauge", "Patterns of the last pass by status.", patterns)
    yield from _metric("table_unhealthy", "gauge", "Tables with a verb that failed or is parked.", wrong)
    yield from _metric(
        "debt_query_seconds_per_day",
        "gauge",
        "Query-seconds per day that the work due at the last pass would save.",
        {"": debt.query_seconds_per_day},
    )
    yield from _metric(
        "debt_bytes", "gauge", "Bytes that the work due at the last pass would rewrite.", {"": debt.bytes}
    )


def _metric(name: str, kind: str, text: str, values: Mapping[str, float]) -> list[str]:
    full = f"lakekeeper_{name}"
    samples = [f"{full}{labels} {value:.17g}" for labels, value in values.items()]
    return [f"# HELP {full} {text}", f"# TYPE {full} {kind}", *samples]


def _label(name: str, value: str) -> str:
    return "{" + f'{name}="{_escaped(value)}"' + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
