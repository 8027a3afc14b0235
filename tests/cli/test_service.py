"""What a service remembers from pass to pass, and a single pass does not; without Spark."""

from __future__ import annotations

import json
import shlex
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper import fleet
from lakekeeper.cli import service
from lakekeeper.cli.service import repeat
from lakekeeper.cli.setup import Setup
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.engine.merge.partition_backoff import Backoff
from lakekeeper.errors import NotFound
from lakekeeper.recording import FleetMemory
from lakekeeper.spark.identifiers import Expanded
from lakekeeper.spark.interrupts import Draining


class Opened:
    """Replaces the opening of tables, none of which exists."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Backoff | None]] = []

    def __call__(self, _: Any, name: str, backoff: Backoff | None, *_logs: Any) -> Any:
        self.given.append((name, backoff))
        raise NotFound(name, "no such table")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    made = Opened()
    settings = AutoSettings(("a", "b"), ("compact",), 0.001)
    monkeypatch.setattr(fleet, "service_settings", lambda *_, **__: settings)
    monkeypatch.setattr(fleet, "expand", lambda _, names: tuple(Expanded(n, (n,)) for n in names))
    monkeypatch.setattr(fleet, "open_table", made)
    monkeypatch.setattr(fleet, "fleet_memory", lambda _: FleetMemory())
    return made


def test_a_service_gives_each_table_the_same_memory_in_every_pass(opened: Opened) -> None:
    spark: Any = None
    with lk.auto(spark) as service:
        assert service.wait(3, timeout=30)
    by_table: dict[str, set[int]] = {"a": set(), "b": set()}
    for name, backoff in opened.given:
        assert backoff is not None
        assert backoff.pause_ms == 1
        by_table[name].add(id(backoff))
    assert len(opened.given) >= 6
    assert [len(found) for found in by_table.values()] == [1, 1]
    assert not by_table["a"] & by_table["b"]


def test_a_single_pass_has_no_memory(opened: Opened) -> None:
    spark: Any = None
    lk.run(spark)
    assert opened.given == [("a", None), ("b", None)]


def test_a_running_service_serves_metrics_and_raises_alerts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen: list[str] = []

    def one_pass(*_: Any, **__: Any) -> AutoReport:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            seen.append(answer.read().decode())
        return AutoReport((TableResult("a", "failed", Reason.of(Code.FAILED, error="boom")),), 1)

    program = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    command = shlex.join([sys.executable, "-c", program, str(tmp_path / "alert")])
    monkeypatch.setattr(Setup, "session", lambda _: None)
    monkeypatch.setattr(fleet, "one_pass", one_pass)
    setup = Setup(conf=[f"spark.lakekeeper.auto.alert-command={command}"])
    assert repeat(setup, ("a",), every=None, once=True, dry_run=False, metrics=str(port)) == 1
    assert seen == ['{"status": "ok", "passes": 0, "error": ""}']
    assert f"http://127.0.0.1:{port}/metrics" in capsys.readouterr().err
    assert json.loads((tmp_path / "alert").read_text())["tables"][0]["reason"]["text"] == "boom"


@pytest.mark.parametrize("once", [True, False])
def test_the_command_remembers_as_long_as_it_runs(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], once: bool
) -> None:
    monkeypatch.setattr(Setup, "session", lambda _: None)
    monkeypatch.setattr(service, "has_ended", lambda _: False)
    passes = iter([False, False, True])  # the results of the waits between passes; True stops the service
    monkeypatch.setattr(Draining, "wait", lambda *_: next(passes))
    code = repeat(Setup(quiet=True), ("a", "b"), every=None if once else "30s", once=once, dry_run=False)
    assert code == 1
    memories = {(name, id(backoff)) for name, backoff in opened.given}
    assert len(opened.given) == (2 if once else 6)
    assert len(memories) == 2
    assert all((backoff is None) is once for _, backoff in opened.given)
    assert all(backoff is None or backoff.pause_ms == 30_000 for _, backoff in opened.given)
    assert capsys.readouterr().out.count("\n") == (1 if once else 3)


def test_the_command_ends_with_spark(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its passes would fail forever, while the service counts as healthy."""
    monkeypatch.setattr(Setup, "session", lambda _: None)
    monkeypatch.setattr(service, "has_ended", lambda _: len(opened.given) > 2)
    monkeypatch.setattr(Draining, "wait", lambda *_: len(opened.given) > 4)
    assert repeat(Setup(quiet=True), ("a", "b"), every="30s", once=False, dry_run=False) == 1
    assert len(opened.given) == 4
    assert "Spark has ended" in capsys.readouterr().err
