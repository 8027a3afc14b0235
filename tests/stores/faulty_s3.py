"""An S3 of a test: moto's server in a process of its own, and in this process a relay through which all calls pass.

    Spark, S3A, S3FileIO ──► FaultyS3 ──► moto            the relay counts calls, makes one fail, or holds some up
    readers of the tests ────────────────► moto

The server is AWS Glue too, and a call that concerns a table there counts as one of the table's. The relay also gives
what AWS promises and moto does not: of two conditional puts of one key, one is refused, and so is an update of a table
in Glue that names another version than the current one.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from tests.stores.bucket import listing
from tests.stores.store import Store

SLOW_DOWN = "slow down"
LOST_ANSWER = "lost answer"
CUT_OFF = "cut off"
STALE = "stale"
MODES = (SLOW_DOWN, LOST_ANSWER, CUT_OFF, STALE)
"""503; the call succeeds without an answer; half of the answer arrives; a listing from before the run."""

_HOP = frozenset({"connection", "content-length", "date", "server", "transfer-encoding"})
_DROPPED = (_HOP - {"date"}) | {"expect"}  # of a request, whose date Azure's SDK signs
_PATIENCE = 60  # seconds for which a held call waits for the others
_BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass(frozen=True)
class Call:
    """One request: what it does, and to which key.

    ``list``, ``delete many``, or the method in lower case; of Glue, the name of the call, and the prefix of the table.
    """

    verb: str
    key: str
    conditional: bool

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which it can fail."""
        if self.verb == "list":
            return MODES
        return (SLOW_DOWN, CUT_OFF) if self.verb in ("get", "GetTable") else (SLOW_DOWN, LOST_ANSWER)

    def __str__(self) -> str:
        return f"{self.verb} {self.key}" + (" if none match" if self.conditional else "")


@dataclass(frozen=True)
class Answer:
    """What a server answers."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


_CHANGED = Answer(
    400,
    (("Content-Type", "application/x-amz-json-1.1"), ("x-amzn-ErrorType", "ConcurrentModificationException")),
    b'{"__type": "ConcurrentModificationException", "Message": "Update table failed due to concurrent modifications."}',
)


class FaultyS3(ThreadingHTTPServer):
    """The relay. Without a fault it only passes on."""

    daemon_threads = True

    def __init__(self, host: str, relay: type[Relay] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), relay or Relay)
        self.host = host
        self.page = 1_000
        """Keys in a page of a listing, at most."""
        self.held: Callable[[Call], threading.Barrier | None] = lambda _: None
        """The barrier at which a call waits before it happens."""
        self.storing = threading.Lock()
        self._counting = threading.Lock()
        self._prefix = ""
        self._at, self._mode, self._times = -1, "", 1
        self._each = False
        self._failed: set[tuple[str, ...]] = set()
        self._calls: list[Call] | None = None
        self._before: dict[str, str] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def arm(self, store: Store, prefix: str, at: int = -1, mode: str = "", *, times: int = 1) -> None:
        """Make the call with this number fail, of those below ``prefix``, and the ones after it up to ``times``.

        -1: only count.
        """
        self._arm(store, prefix, mode)
        with self._counting:
            self._at, self._times, self._each = at, times, False

    def arm_each(self, store: Store, prefix: str, mode: str) -> None:
        """Fail the first attempt of each call below ``prefix`` that can fail in this way."""
        self._arm(store, prefix, mode)
        with self._counting:
            self._at, self._each = -1, True

    def _arm(self, store: Store, prefix: str, mode: str) -> None:
        before = store.entries(prefix)
        with self._counting:
            self._before, self._prefix, self._mode = before, prefix, mode
            self._calls, self._failed = [], set()

    @property
    def failed(self) -> int:
        """How many calls `arm_each` has failed."""
        return len(self._failed)

    def disarm(self) -> list[Call]:
        """The calls that were counted."""
        with self._counting:
            found, self._calls = self._calls or [], None
            return found

    def fault(self, call: Call, request: tuple[str, ...] = ()) -> str:
        """How this call fails, or empty if it succeeds. A retried call has the same ``request``."""
        with self._counting:
            if self._calls is None or not call.key.startswith(self._prefix):
                return ""
            number = len(self._calls)
            self._calls.append(call)
            if self._each and self._mode in call.modes and request not in self._failed:
                self._failed.add(request)
                return self._mode
            return self._mode if self._at <= number < self._at + self._times and self._at >= 0 else ""

    @property
    def before(self) -> dict[str, str]:
        """The entries of a listing before the run."""
        return self._before

    def handle_error(self, *_: object) -> None:
        """Clients that close the connection are part of the tests."""


class Relay(BaseHTTPRequestHandler):
    """One connection."""

    busy = Answer(503, (("Content-Type", "application/xml"),), _BUSY)
    page_size = "max-keys"
    """The parameter of a listing that limits its page."""
    exclusive = True
    """Writes pass one at a time, so that of two conditional ones the second finds what the first has written."""
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer leaves in one piece
    disable_nagle_algorithm = True
    server: FaultyS3

    def do_GET(self) -> None:
        self._relay()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def handle_expect_100(self) -> bool:
        """S3A waits for this answer, a second or more, before it sends an object."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def log_message(self, *_: object) -> None:
        """Tests have no use for an access log."""

    def _relay(self) -> None:
        body = self.received()
        address = urlsplit(self.path)
        query = {name: found[0] for name, found in parse_qs(address.query, keep_blank_values=True).items()}
        call = self.call_of(unquote(address.path), query, body)
        barrier = self.server.held(call)
        if barrier is not None:
            barrier.wait(_PATIENCE)
        fault = self.server.fault(call, (call.verb, self.path, self.headers.get("Range", "")))
        if fault == SLOW_DOWN:
            self._answer(self.busy)
        elif fault == STALE:
            self._answer(self.stale(query))
        else:
            self._pass_on(call, body, fault)

    def _pass_on(self, call: Call, body: bytes, fault: str) -> None:
        if self.command in ("GET", "HEAD") or not self.exclusive:
            found = self.ask(call, body)
        else:
            with self.server.storing:
                found = self.refused(call, body) or self.ask(call, body)
        if fault == LOST_ANSWER:
            self.close_connection = True
        else:
            self._answer(found, cut_off=fault == CUT_OFF)

    def stale(self, query: dict[str, str]) -> Answer:
        """A listing as it was before the run."""
        found = listing(self.server.before, query.get("prefix", ""), query.get("delimiter", ""))
        return Answer(200, (("Content-Type", "application/xml"),), found)

    def refused(self, call: Call, body: bytes) -> Answer | None:
        """The answer to an update of a version of a table in Glue that is not the current one; None to others."""
        if call.verb != "UpdateTable":
            return None
        payload = json.loads(body)
        wanted = {"DatabaseName": payload["DatabaseName"], "Name": payload["TableInput"]["Name"]}
        found = self.ask(call, json.dumps(wanted).encode(), target="AWSGlue.GetTable")
        current = json.loads(found.body).get("Table", {}).get("VersionId")
        return _CHANGED if "VersionId" in payload and payload["VersionId"] != current else None

    def call_of(self, path: str, query: dict[str, str], body: bytes) -> Call:
        """What the current request is, by its path, decoded."""
        glue, _, name = self.headers.get("X-Amz-Target", "").partition(".")
        if glue == "AWSGlue":
            payload = json.loads(body or b"{}")
            table = payload.get("TableInput", payload).get("Name", "")
            return Call(
                name, f"glue/{payload.get('DatabaseName', '')}.db/{table}", conditional="VersionId" in payload
            )
        _, _, key = path.lstrip("/").partition("/")
        conditional = "If-None-Match" in self.headers and self.command == "PUT"
        if "delete" in query and self.command == "POST":
            first = body.partition(b"<Key>")[2].partition(b"</Key>")[0]
            return Call("delete many", first.decode(), conditional)
        if self.command == "GET" and not key:
            return Call("list", query.get("prefix", ""), conditional)
        return Call(self.command.lower(), key, conditional)

    def received(self) -> bytes:
        """The body of the current request."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def ask(self, call: Call, body: bytes, *, target: str = "") -> Answer:
        """The server's answer; with ``target``, to this call of Glue instead."""
        path = self.path
        if call.verb == "list" and self.server.page < 1_000:
            path += f"&{self.page_size}={self.server.page}"
        server = http.client.HTTPConnection(self.server.host, timeout=_PATIENCE)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _DROPPED}
            if target:
                headers["X-Amz-Target"] = target
            server.request(self.command, path, body=body or None, headers=headers)
            found = server.getresponse()
            shown = tuple((name, value) for name, value in found.getheaders() if name.lower() not in _HOP)
            size = found.getheader("Content-Length")
            if self.command == "HEAD" and size is not None:
                shown = (*shown, ("Content-Length", size))
            return Answer(found.status, shown, found.read())
        finally:
            server.close()

    def _answer(self, answer: Answer, *, cut_off: bool = False) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if "Content-Length" not in dict(answer.headers) and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if cut_off else answer.body)
        self.wfile.flush()
        if cut_off:
            self.close_connection = True
