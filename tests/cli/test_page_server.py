"""The page of a service over HTTP: who may read it, who may change something, and what no request can do."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from lakekeeper.cli.metrics import Watched
from lakekeeper.cli.page_server import PageSettings, ServicePages, page_handler
from lakekeeper.cli.server import serving
from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.engine.watch import Watch
from lakekeeper.errors import OptionError
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.page.service_page import service_page, table_page
from tests.history.operations import DAY_MS, operation, traced
from tests.page.pages import HOSTILE, Page

TOKEN = "correct horse battery"  # noqa: S105 - of this test


@dataclass(frozen=True)
class Site:
    """A running server."""

    pages: ServicePages
    port: int

    def ask(
        self, method: str, path: str, body: str = "", host: str = "", length: str = ""
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        if host != "none":
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
        if method == "POST":
            connection.putheader("Content-Length", length or str(len(body)))
        connection.endheaders(body.encode())
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer.headers

    def post(self, **form: str) -> tuple[int, str, http.client.HTTPMessage]:
        return self.ask("POST", "/tables", urlencode(form))


def site(settings: PageSettings, history: HistoryOptions | None = None) -> Iterator[Site]:
    watched, watch = Watched(900), Watch()
    tables = ("ice.db.events", HOSTILE)
    watched.ended(AutoReport(tuple(TableResult(n, "idle", Reason.of(Code.NO_GAIN)) for n in tables), 1))
    pages = ServicePages(settings, watched, watch, history or HistoryOptions(), 900_000)
    settings.check()
    with serving("--ui", settings.address, page_handler(pages)) as address:
        assert address is not None
        yield Site(pages, address[1])


@pytest.fixture
def read_only() -> Iterator[Site]:
    yield from site(PageSettings("0"))


@pytest.fixture
def controlled() -> Iterator[Site]:
    yield from site(PageSettings("0", token=TOKEN))


def test_each_table_has_a_page_whose_headers_forbid_everything_else(read_only: Site) -> None:
    for path in ("/", f"/table?name={quote(HOSTILE, safe='')}"):
        code, text, headers = read_only.ask("GET", path)
        assert code == 200
        assert Page(text).count("script") == 0
        assert HOSTILE in Page(text).text
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "script-src" not in policy
        assert {"form-action 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Python" not in headers["Server"]
    assert read_only.ask("GET", "/metrics")[1].startswith("# HELP lakekeeper_passes_total")
    assert json.loads(read_only.ask("GET", "/healthz")[1])["status"] == "ok"
    for path in ("/table", "/table?name=ice.db.other", "/../etc/passwd", "/tables"):
        assert read_only.ask("GET", path)[0] == 404


@pytest.mark.parametrize(
    "host, code",
    [
        ("127.0.0.1:1", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("10.0.0.7", 421),
        ("[", 421),
        ("none", 421),
    ],
)
def test_a_request_for_another_host_is_refused(controlled: Site, host: str, code: int) -> None:
    """An attacker's host name that resolves to the loopback interface: DNS rebinding."""
    for path in ("/", "/metrics", "/healthz"):
        got, text, _ = controlled.ask("GET", path, host=host)
        assert got == code
        assert ("ice.db.events" in text) is (code == 200 and path == "/")
    form = urlencode({"token": TOKEN, "pause": "ice.db.events"})
    assert controlled.ask("POST", "/tables", form, host=host)[0] == (303 if code == 200 else 421)


def test_a_client_with_the_token_pauses_and_resumes_a_table(
    controlled: Site, caplog: pytest.LogCaptureFixture
) -> None:
    watch = controlled.pages.watch
    with caplog.at_level(logging.DEBUG):
        code, _, headers = controlled.post(token=TOKEN, pause=HOSTILE)
        assert (code, headers["Location"]) == (303, "/tables")
        assert watch.is_paused(HOSTILE)
        assert "paused (idle)" in Page(controlled.ask("GET", "/")[1]).text
        assert controlled.post(token=TOKEN, resume=HOSTILE)[0] == 303
        assert not watch.is_paused(HOSTILE)
    assert f"{HOSTILE}: paused on the service page" in caplog.messages
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(controlled.pages)


@pytest.mark.parametrize(
    "form, code",
    [
        ({"pause": "ice.db.events"}, 403),
        ({"token": "", "pause": "ice.db.events"}, 403),
        ({"token": TOKEN[:-1], "pause": "ice.db.events"}, 403),
        ({"token": "ünïcode", "pause": "ice.db.events"}, 403),
        ({"token": TOKEN}, 400),
        ({"token": TOKEN, "pause": "ice.db.other"}, 404),
    ],
)
def test_any_other_change_is_refused(controlled: Site, form: dict[str, str], code: int) -> None:
    got, text, headers = controlled.post(**form)
    assert got == code
    assert TOKEN not in text
    assert "Content-Security-Policy" in headers
    assert controlled.pages.watch.now().paused == frozenset()


def test_only_a_post_of_the_form_changes_something(controlled: Site, read_only: Site) -> None:
    form = urlencode({"token": TOKEN, "pause": "ice.db.events"})
    assert controlled.ask("GET", f"/tables?{form}")[0] == 200
    assert controlled.ask("PUT", "/tables", form)[0] == 501
    assert controlled.ask("POST", "/", form)[0] == 404
    assert controlled.ask("POST", "/tables", length="5000")[0] == 413
    for length in ("-1", "²", "9" * 5000):
        assert controlled.ask("POST", "/tables", length=length)[0] == (413 if length[0] == "9" else 400)
    assert read_only.ask("POST", "/tables", urlencode({"token": "", "pause": "ice.db.events"}))[0] == 403
    assert controlled.pages.watch.now().paused == read_only.pages.watch.now().paused == frozenset()


def test_a_path_that_is_no_url_is_a_bad_request(read_only: Site) -> None:
    assert read_only.ask("GET", "http://[::1/")[0] == 400


def test_operations_of_all_tables_and_of_one(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.db")
    store.add(operation("op-1"), DAY_MS)
    store.add(operation("op-2", operation_type="vacuum"), DAY_MS)
    for found in site(PageSettings("0"), HistoryOptions(path=str(store.path))):
        assert "The newest 2 of 2." in Page(found.ask("GET", "/")[1]).text
        assert "vacuum" in Page(found.ask("GET", "/table?name=ice.db.events")[1]).text
        assert (
            "No operation on this table"
            in Page(found.ask("GET", f"/table?name={quote(HOSTILE, safe='')}")[1]).text
        )
        store.path.write_bytes(b"not a database, and no reason for the page to fail")
        assert found.ask("GET", "/")[0] == 200


@pytest.mark.parametrize(
    "name, found",
    [
        ("ice.db.events", ["named"]),
        ("db.events", ["named"]),
        ("ice.db.`events`", ["named"]),
        ("lake.db.events", []),
        ("/data/t", ["by-path"]),
        ("file:/data/t/", ["by-path"]),
        ("delta.`/data/t`", ["by-path"]),
        ("/data/t[1]", ["brackets"]),
        ("file:/data/t[1]", ["brackets"]),
    ],
)
def test_the_page_of_a_table_has_its_history_by_each_of_its_names(
    tmp_path: Path, name: str, found: list[str]
) -> None:
    store = HistoryStore(tmp_path / "history.db")
    for each, table in (
        ("named", TableId("ice", "db", "events", "iceberg")),
        ("by-path", TableId("", "", "/data/t", "delta")),
        ("brackets", TableId("", "", "/data/t[1]", "delta")),
    ):
        store.add(operation(each, table=table), DAY_MS)
    history = HistoryOptions(path=str(store.path))
    pages = ServicePages(PageSettings("0"), Watched(900), Watch(), history, 900_000)
    recorded = pages.recorded(name)
    assert [each.operation_id for each in recorded.operations or ()] == found


def test_a_page_says_that_its_charts_do_not_cover_all_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HistoryStore(tmp_path / "history.db")
    monkeypatch.setattr("lakekeeper.cli.page_server.MOST_OPERATIONS", 3)
    history = HistoryOptions(path=str(store.path))
    pages = ServicePages(PageSettings("0"), Watched(900), Watch(), history, 900_000)
    name = str(operation("any").table)
    for number in range(4):
        store.add(operation(f"op-{number}"), DAY_MS)
        of_all, of_one = pages.recorded(), pages.recorded(name)
        for recorded in (of_all, of_one):
            assert (len(recorded.operations or ()), recorded.cut) == (min(number + 1, 3), number == 3)
        view = pages.view(of_all)
        for page in (service_page(view), table_page(view, name, of_one)):
            assert ("cover the newest 3 operations" in str(page)) == (number == 3)


def test_only_the_page_of_a_table_reads_details_and_the_form_reads_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HistoryStore(tmp_path / "history.db")
    store.add(operation("op-1"), DAY_MS)
    for found in site(PageSettings("0", token=TOKEN), HistoryOptions(path=str(store.path))):
        statements = traced(monkeypatch)
        assert "The newest 1 of 1." in Page(found.ask("GET", "/")[1]).text
        assert any(" FROM operations" in each for each in statements)
        assert not any("merge_groups" in each or "decisions" in each for each in statements)
        statements.clear()
        assert found.ask("GET", "/tables")[0] == 200
        assert found.post(token=TOKEN, pause="ice.db.events")[0] == 303
        assert found.post(pause="ice.db.events")[0] == 403
        assert statements == []
        assert found.ask("GET", "/table?name=ice.db.events")[0] == 200
        assert sum("merge_groups" in each for each in statements) == 1
        assert not any("LIMIT" in each and "catalog_name" not in each for each in statements)


def test_a_history_that_cannot_be_read_is_not_one_that_is_not_configured(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"garbage " * 500)
    for found in site(PageSettings("0"), HistoryOptions(path=str(path))):
        for page in ("/", "/table?name=ice.db.events"):
            text = Page(found.ask("GET", page)[1]).text
            assert f"{path}: the history cannot be read: DatabaseError: file is not a database" in text
            assert "No history is configured" not in text
    for found in site(PageSettings("0")):
        assert "No history is configured" in Page(found.ask("GET", "/")[1]).text


def test_an_address_that_other_hosts_reach_needs_a_name() -> None:
    for address in ("0.0.0.0:0", "10.0.0.7:0", "example.org:0"):
        with pytest.raises(OptionError, match="--ui-host NAME"):
            PageSettings(address).check()
    PageSettings("127.0.0.9:0").check()
    allowed = PageSettings("0.0.0.0:0", ("Lake.example.org",))
    allowed.check()
    assert allowed.admits("lake.example.org:8080")
    assert not allowed.admits("other.example.org")
    with pytest.raises(OptionError, match="at least 16 characters") as raised:
        PageSettings("0", token="short").check()  # noqa: S106 - of this test
    assert "short'" not in str(raised.value)
