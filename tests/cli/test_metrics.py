"""The server of a service: real requests on a free port of the loopback interface."""

from __future__ import annotations

import json
import logging
import socket
import struct
import time
import urllib.error
import urllib.request

import pytest

from lakekeeper.cli.metrics import Watched, metrics_handler
from lakekeeper.cli.server import Answering, parse_address, serving
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import OptionError

REPORT = AutoReport((TableResult("a", "failed", Reason.of(Code.FAILED, error="x")),), 1)


def get(address: tuple[str, int] | None, path: str) -> tuple[int, str]:
    assert address is not None
    try:
        with urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_and_health_follow_the_passes() -> None:
    watched = Watched(900)
    with serving("--metrics", "0", metrics_handler(watched)) as address:
        assert address is not None
        assert address[0] == "127.0.0.1"
        assert get(address, "/healthz") == (200, '{"status": "ok", "passes": 0, "error": ""}')
        watched.ended(REPORT)
        assert 'lakekeeper_tables{status="failed"} 1\n' in get(address, "/metrics")[1]
        assert get(address, "/healthz")[0] == 200
        watched.failed("OptionError: auto.every")
        code, body = get(address, "/healthz")
        assert (code, json.loads(body)["error"]) == (503, "OptionError: auto.every")
        assert get(address, "/healthz?verbose=1")[0] == 503
        assert get(address, "/metrics?name[]=up")[0] == 200
        assert get(address, "/")[0] == 404
    with pytest.raises(OSError):
        get(address, "/metrics")


def test_a_client_that_resets_its_connection_is_no_error(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "lakekeeper")
    with serving("--metrics", "0", metrics_handler(Watched(900))) as address:
        assert address is not None
        with socket.create_connection(address) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET / HT")
        end = time.monotonic() + 20
        while not caplog.records and time.monotonic() < end:
            time.sleep(0.01)
    assert capfd.readouterr().err == ""
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_an_error_of_a_handler_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    class Failing(Answering):
        def do_GET(self) -> None:  # noqa: N802  # the server calls it by this name
            raise ValueError("wrong")

    with serving("--metrics", "0", Failing) as address, pytest.raises(OSError):
        get(address, "/")
    assert capfd.readouterr().err == ""
    assert [(record.levelname, "ValueError: wrong" in record.getMessage()) for record in caplog.records] == [
        ("WARNING", True)
    ]


def test_a_pass_that_never_ends_is_not_healthy() -> None:
    now = [0]
    watched = Watched(60, Clock(now_ms=lambda: now[0]))
    now[0] = 24 * 3_600_000 + 60_000
    assert watched.health()[0]
    now[0] += 1
    assert not watched.health()[0]


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3.4:", "x:y", "99999", "-1", "²", "9" * 5000])
def test_a_bad_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(OptionError, match=r"--metrics"):
        parse_address("--metrics", text)


@pytest.mark.parametrize("text, address", [("9464", ("127.0.0.1", 9464)), ("10.0.0.7:1", ("10.0.0.7", 1))])
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address("--metrics", text) == address


def test_a_port_in_use_is_a_usage_error_and_no_address_serves_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(OptionError, match="free"),
            serving("--metrics", str(taken.getsockname()[1]), metrics_handler(Watched(1))),
        ):
            pass
    with serving("--metrics", None, metrics_handler(Watched(1))) as address:
        assert address is None
