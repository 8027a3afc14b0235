"""HTTP servers of a service: on a thread of their own, on the loopback interface unless another address is given."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from lakekeeper.errors import OptionError, reason

LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("lakekeeper")
_DIGITS = 9  # most digits of a number in a request or an option
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Answering(BaseHTTPRequestHandler):
    """Answers a request with one text. Requests are not logged, and answers hide the version of Python."""

    timeout = 10  # seconds without a byte after which a connection is closed
    server_version = "lakekeeper"
    sys_version = ""

    def answer(self, code: int, kind: str, body: str, headers: Mapping[str, str] = _NOTHING) -> None:
        """Send the whole answer; ``kind`` is its content type."""
        data = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class _Server(ThreadingHTTPServer):
    """Logs an error that ends a request; its base class would print a traceback."""

    daemon_threads = True

    def handle_error(self, _: Any, client: Any) -> None:
        error = sys.exc_info()[1] or OSError("unknown")
        level = logging.DEBUG if isinstance(error, ConnectionError) else logging.WARNING
        _LOG.log(level, "a request from %s failed: %s", client[0], reason(error))


@contextmanager
def serving(
    option: str, address: str | None, handler: type[BaseHTTPRequestHandler]
) -> Iterator[tuple[str, int] | None]:
    """Serve while the context lasts, at ``PORT`` or ``HOST:PORT``; yields the address, None without one.

    Raises OptionError, which names the ``option``, for an address that cannot be bound.
    """
    if address is None:
        yield None
        return
    host, port = parse_address(option, address)
    try:
        server = _Server((host, port), handler)
    except OSError as error:
        raise OptionError(option, address, f"an address that is free ({error.strerror})") from error
    # The end of a command may wait for the server for this long; the default is half a second.
    serve = partial(server.serve_forever, poll_interval=0.05)
    thread = threading.Thread(target=serve, name="lakekeeper-http", daemon=True)
    thread.start()
    try:
        yield host, server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def parse_address(option: str, text: str) -> tuple[str, int]:
    """``9464`` → (loopback, 9464); ``10.0.0.7:9464``. Raises OptionError."""
    host, _, digits = text.rpartition(":")
    port = whole_number(digits)
    if port is None or port > 65_535:
        raise OptionError(option, text, "PORT or HOST:PORT, e.g. 9464")
    return host or LOOPBACK, port


def whole_number(text: str) -> int | None:
    """A number of ASCII digits, or the largest of nine digits if there are more; None for any other text."""
    if not (text.isascii() and text.isdecimal()):
        return None
    return int(text) if len(text) <= _DIGITS else 10**_DIGITS - 1
