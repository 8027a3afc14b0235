"""``/metrics`` and ``/healthz`` of a service."""

from __future__ import annotations

import json

from lakekeeper.cli.server import Answering
from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.core.scheduling.metrics import ServiceMetrics
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock

_LONGEST_PASS_MS = 24 * HOUR_MS


class Watched:
    """The metrics of a service, written by its passes and read by the server's threads."""

    def __init__(self, pause_seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._pause_ms = int(pause_seconds * 1000)
        self.metrics = ServiceMetrics(ended_ms=self._clock.now_ms())  # replaced as a whole: no lock is needed

    def ended(self, report: AutoReport) -> None:
        """Record a pass that ended with a report."""
        self.metrics = self.metrics.after(report, self._clock.now_ms())

    def failed(self, error: str) -> None:
        """Record a pass that raised an error."""
        self.metrics = self.metrics.after_error(error, self._clock.now_ms())

    def health(self) -> tuple[bool, str]:
        """Whether passes keep running, and a JSON object with the status, the number of passes and the last error."""
        metrics = self.metrics
        healthy = metrics.healthy(self._clock.now_ms(), self._pause_ms, _LONGEST_PASS_MS)
        plain = {"status": "ok" if healthy else "failing", "passes": metrics.passes, "error": metrics.error}
        return healthy, json.dumps(plain)


class MetricsHandler(Answering):
    """Requests for ``/metrics`` and ``/healthz``."""

    watched: Watched

    def do_GET(self) -> None:  # noqa: N802  # the server calls it by this name
        """Answer with the metrics, or with the health."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self.answer(200, "text/plain; version=0.0.4; charset=utf-8", self.watched.metrics.text())
        elif path == "/healthz":
            healthy, body = self.watched.health()
            self.answer(200 if healthy else 503, "application/json", body)
        else:
            self.answer(404, "text/plain; charset=utf-8", "see /metrics and /healthz\n")


def metrics_handler(watched: Watched) -> type[MetricsHandler]:
    """The handler for a service."""
    return type("Handler", (MetricsHandler,), {"watched": watched})
