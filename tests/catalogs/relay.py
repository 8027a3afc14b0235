"""A relay in front of a Nessie server, which makes one commit fail in the ways of a network and of a gateway.

Spark ──► Relay ──► Nessie ◄── tests
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.catalogs.nessie import Nessie

NOT_SENT = "the connection breaks before the commit"
LOST_ANSWER = "the connection breaks after the commit"
GATEWAY_TIMEOUT = "a gateway answers 504 after the commit"
SENT_TWICE = "a gateway repeats the commit and returns the second answer"
MODES = (NOT_SENT, LOST_ANSWER, GATEWAY_TIMEOUT, SENT_TWICE)
LANDS = (LOST_ANSWER, GATEWAY_TIMEOUT, SENT_TWICE)
"""Those in which the commit happens."""
_HOP = frozenset({"connection", "content-length", "date", "host", "server", "transfer-encoding"})


class Relay(ThreadingHTTPServer):
    """Passes all calls on. ``mode`` is how the next commit fails, or empty."""

    daemon_threads = True

    def __init__(self, server: Nessie) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = server
        self._mode = ""
        self._first: Callable[[], object] | None = None
        self._lock = threading.Lock()

    @property
    def nessie(self) -> Nessie:
        """The server as it is seen through the relay."""
        return Nessie(self.server_address[1])

    def arm(self, mode: str) -> None:
        with self._lock:
            self._mode = mode

    def before(self, act: Callable[[], object]) -> None:
        """What to do when the next commit has arrived, before it is passed on."""
        with self._lock:
            self._first = act

    def fault(self, path: str) -> str:
        """How this call fails; one call only."""
        if not path.endswith("/history/commit"):
            return ""
        with self._lock:
            mode, self._mode = self._mode, ""
            first, self._first = self._first, None
        if first is not None:
            first()
        return mode


class _Handler(BaseHTTPRequestHandler):
    server: Relay
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Nothing."""

    def _pass_on(self) -> None:
        body = self._body()
        mode = self.server.fault(self.path)
        if mode == NOT_SENT:
            self.close_connection = True
            return
        status, headers, answer = self._ask(body)
        if mode == LOST_ANSWER:
            self.close_connection = True
            return
        if mode == SENT_TWICE:
            status, headers, answer = self._ask(body)
        if mode == GATEWAY_TIMEOUT:
            status, headers, answer = 504, {"Content-Type": "text/html"}, b"<html>Gateway Time-out</html>"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        inner = http.client.HTTPConnection("127.0.0.1", self.server.server.port, timeout=60)
        try:
            kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            inner.request(self.command, self.path, body=body, headers=kept)
            answer = inner.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            return answer.status, headers, answer.read()
        finally:
            inner.close()
