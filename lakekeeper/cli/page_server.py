"""The page of a service over HTTP: anyone who reaches the address can read it; pausing a table requires a token.

A request is refused unless its Host header names this server, so that a page of another site, whose name resolves to
the loopback interface, cannot read it. A change is a POST with the token, so no other page can make a change either.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from lakekeeper.cli.metrics import MetricsHandler, Watched
from lakekeeper.cli.server import LOOPBACK, parse_address, whole_number
from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.watch import Watch
from lakekeeper.errors import OptionError, reason
from lakekeeper.history.history import Recorded
from lakekeeper.history.store import HistoryStore
from lakekeeper.page.head import POLICY
from lakekeeper.page.service_page import ServiceView, control_page, service_page, table_page
from lakekeeper.recording import prices_of

TOKEN = "LAKEKEEPER_UI_TOKEN"  # noqa: S105 - the name of a variable
_SHORTEST_TOKEN = 16
_LONGEST_FORM = 4096  # bytes
MOST_OPERATIONS = 1000
"""Newest operations that a page covers."""
_SEE_OTHER = 303
_LOG = logging.getLogger("lakekeeper")
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class PageSettings:
    """Where the page is served, and who may change something on it.

    address      PORT or HOST:PORT; None: there is no page
    extra_hosts  names under which browsers may reach it, besides those of the loopback interface
    token        the token that a change requires; empty: no changes are possible. Never shown.
    """

    address: str | None
    extra_hosts: tuple[str, ...] = ()
    token: str = field(default="", repr=False)

    def check(self) -> None:
        """Raises OptionError for an address beyond the loopback interface without host names, or for a short token."""
        if self.address is None:
            return
        host, _ = parse_address("--ui", self.address)
        if not _is_loopback(host) and not self.extra_hosts:
            raise OptionError(
                "--ui", self.address,
                f"{LOOPBACK}, or --ui-host NAME with the name by which browsers reach this machine: anyone there can "
                "then read the names and the history of your tables",
            )  # fmt: skip
        if self.token and len(self.token) < _SHORTEST_TOKEN:
            raise OptionError(TOKEN, "a shorter one", f"a token of at least {_SHORTEST_TOKEN} characters")

    def admits(self, host: str) -> bool:
        """Whether a Host header names this server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return _is_loopback(name) or name in {each.lower() for each in self.extra_hosts}


@dataclass(frozen=True)
class ServicePages:
    """The sources of the pages of a service."""

    settings: PageSettings
    watched: Watched
    watch: Watch
    history: HistoryOptions
    pause_ms: int
    clock: Clock = field(default_factory=Clock)

    def view(self, recorded: Recorded) -> ServiceView:
        """What a page shows now, with these operations on all tables."""
        return ServiceView(
            self.clock.now_ms(),
            self.pause_ms,
            self.watched.metrics,
            self.watch.now(),
            recorded,
            prices_of(self.history),
            bool(self.settings.token),
        )

    def recorded(self, name: str = "") -> Recorded:
        """The newest operations of one table, or of all without their groups."""
        if self.history.file is None:
            return Recorded()
        try:
            store = HistoryStore(self.history.file)
            if not name:
                newest = store.operations(limit=MOST_OPERATIONS + 1, details=False)
            else:
                tables = [table for table in store.tables() if table.is_called(name)]
                found = (
                    each for table in tables for each in store.operations(table, limit=MOST_OPERATIONS + 1)
                )
                newest = tuple(sorted(found, key=lambda each: -each.end_ms))
            return Recorded(newest[:MOST_OPERATIONS], cut=len(newest) > MOST_OPERATIONS)
        except Exception as error:  # the page shows everything else
            return Recorded(error=reason(error))

    def change(self, form: Mapping[str, list[str]]) -> tuple[int, str]:
        """Pause or resume the table that a form names: the status of the response, and a message if it was refused."""
        given = form.get("token", [""])[0]
        if not self.settings.token or not hmac.compare_digest(given.encode(), self.settings.token.encode()):
            return 403, "Wrong token for this service."
        for action, act in (("pause", self.watch.pause), ("resume", self.watch.resume)):
            for name in form.get(action, ()):
                if name not in self.view(Recorded()).names:
                    return 404, "This service maintains no such table."
                act(name)
                _LOG.warning("%s: %s on the service page", name, f"{action}d")
                return _SEE_OTHER, ""
        return 400, "Choose a table to pause or resume."


class PageHandler(MetricsHandler):
    """Requests for the pages, and for ``/metrics`` and ``/healthz``."""

    pages: ServicePages

    def do_GET(self) -> None:  # noqa: N802  # the server calls it by this name
        """Answer with a page."""
        if not self._is_ours():
            return
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self.answer(400, _TEXT, "not a URL\n", _HEADERS)
            return
        if parts.path in ("/metrics", "/healthz"):
            super().do_GET()
        elif parts.path == "/":
            self.answer(200, _HTML, service_page(self.pages.view(self.pages.recorded())), _HEADERS)
        elif parts.path == "/tables" and self.pages.settings.token:
            self.answer(200, _HTML, control_page(self.pages.view(Recorded())), _HEADERS)
        elif parts.path == "/table":
            self._table(parse_qs(parts.query).get("name", [""])[0])
        else:
            self.answer(404, _TEXT, "see /, /metrics and /healthz\n", _HEADERS)

    def do_POST(self) -> None:  # noqa: N802  # the server calls it by this name
        """Pause or resume a table."""
        if not self._is_ours():
            return
        length = whole_number(self.headers.get("Content-Length", ""))
        if self.path != "/tables" or length is None or length > _LONGEST_FORM:
            self.close_connection = True  # the body is not read
            code = 404 if self.path != "/tables" else 400 if length is None else 413
            self.answer(code, _TEXT, "refused\n", _HEADERS)
            return
        form = parse_qs(self.rfile.read(length).decode("utf-8", "replace"))
        code, message = self.pages.change(form)
        if code == _SEE_OTHER:
            self.answer(code, _TEXT, "", {**_HEADERS, "Location": "/tables"})
        else:
            self.answer(code, _HTML, control_page(self.pages.view(Recorded()), message), _HEADERS)

    def _table(self, name: str) -> None:
        view = self.pages.view(Recorded())
        if name in view.names:
            self.answer(200, _HTML, table_page(view, name, self.pages.recorded(name)), _HEADERS)
        else:
            self.answer(404, _TEXT, "this service maintains no such table\n", _HEADERS)

    def _is_ours(self) -> bool:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) == 1 and self.pages.settings.admits(hosts[0]):
            return True
        self.close_connection = True
        self.answer(421, _TEXT, "this server has another name: see --ui-host\n", _HEADERS)
        return False


def page_handler(pages: ServicePages) -> type[PageHandler]:
    """The handler for a service."""
    return type("Handler", (PageHandler,), {"watched": pages.watched, "pages": pages})


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
