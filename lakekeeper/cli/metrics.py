"""``/metrics`` and ``/healthz`` of a service, over HTTP on the loopback interface unless another address is given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.core.scheduling.metrics import ServiceMetrics
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import OptionError

_LOOPBACK = "127.0.0.1"
_LONGEST_PASS_MS = 24 * HOUR_MS


class Watched:
    """The metrics of a service, written by its passes and read by the server's threads."""

    def __init__(self, pause_seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._pause_ms = int(pause_seconds * 1000)
        self.metrics = ServiceMetrics(ended_ms=self._clock.now_ms())  # replaced as a whole: no lock is needed

    def ended(self, report: AutoReport) -> None:
        """A pass has ended."""
        self.metrics = self.metrics.after(report, self._clock.now_ms())

    def failed(self, error: str) -> None:
        """A pass has raised."""
        self.metrics = self.metrics.after_error(error, self._clock.now_ms())

    def health(self) -> tuple[bool, str]:
        """Whether passes go on, and a JSON object that says why not."""
        metrics = self.metrics
        healthy = metrics.healthy(self._clock.now_ms(), self._pause_ms, _LONGEST_PASS_MS)
        plain = {"status": "ok" if healthy else "failing", "passes": metrics.passes, "error": metrics.error}
        return healthy, json.dumps(plain)


@contextmanager
def serving(address: str | None, watched: Watched) -> Iterator[tuple[str, int] | None]:
    """Serve while the context lasts, at ``PORT`` or ``HOST:PORT``; yields the address, None without one.

    Raises OptionError for an address that cannot be served at.
    """
    if address is None:
        yield None
        return
    host, port = parse_address(address)
    try:
        server = ThreadingHTTPServer((host, port), _handler(watched))
    except OSError as error:
        raise OptionError("--metrics", address, f"an address that is free ({error.strerror})") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="lakekeeper-metrics", daemon=True)
    thread.start()
    try:
        yield host, server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def parse_address(text: str) -> tuple[str, int]:
    """``9464`` → (loopback, 9464); ``10.0.0.7:9464``. Raises OptionError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise OptionError("--metrics", text, "PORT or HOST:PORT, e.g. 9464")
    return host or _LOOPBACK, int(port)


def _handler(watched: Watched) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", watched.metrics.text())
            elif self.path == "/healthz":
                healthy, body = watched.health()
                self._answer(200 if healthy else 503, "application/json", body)
            else:
                self._answer(404, "text/plain; charset=utf-8", "see /metrics and /healthz\n")

        def _answer(self, code: int, kind: str, body: str) -> None:
            data = body.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Scrapes are not logged."""

    return Handler
