"""What a service remembers from pass to pass, and a single pass does not; without Spark."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import socket
import sys
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace
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
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.errors import NotFound
from lakekeeper.recording import FleetMemory
from lakekeeper.spark.identifiers import Expanded
from lakekeeper.spark.interrupts import Draining
from lakekeeper.workloads import EventLogs


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
    for module in (fleet, service):
        monkeypatch.setattr(module, "has_ended", lambda _: False)
    return made


class Ending:
    """Opens tables of a session that ends while the one named ``b`` is opened; each fails with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, alert: Path) -> None:
        self.opened: list[str] = []
        self.memory = FleetMemory()
        program = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
        self.command = shlex.join([sys.executable, "-c", program, str(alert)])
        settings = AutoSettings(("a", "b", "c"), ("compact",), 0.001, alert_command=self.command)
        monkeypatch.setattr(fleet, "service_settings", lambda *_, **__: settings)
        monkeypatch.setattr(fleet, "expand", lambda _, names: tuple(Expanded(n, (n,)) for n in names))
        monkeypatch.setattr(fleet, "open_table", self._open)
        monkeypatch.setattr(fleet, "fleet_memory", lambda _: self.memory)
        monkeypatch.setattr(self.memory, "keep", self._keep)
        monkeypatch.setattr(Setup, "session", lambda _: None)
        monkeypatch.setattr(service, "FleetMemory", lambda _: self.memory)
        monkeypatch.setattr(service, "session_store", lambda *_: None)
        for module in (fleet, service):
            monkeypatch.setattr(module, "has_ended", lambda _: "b" in self.opened)
        self.kept: list[AutoReport] = []

    def _open(self, _: Any, name: str, *_rest: Any) -> Any:
        self.opened.append(name)
        raise NotFound(name, "the session has ended")

    def _keep(self, report: AutoReport, _now_ms: int) -> None:
        self.kept.append(report)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ending:
    return Ending(monkeypatch, tmp_path / "alert")


def test_a_service_ends_with_spark(ending: Ending, tmp_path: Path) -> None:
    """Its thread repeated passes forever that could only fail, and each failure was held against the tables."""
    spark: Any = None
    repeated = lk.auto(spark)
    patience = Event()
    while repeated.running and not patience.wait(0.01):
        assert len(ending.opened) < 10, "it goes on"
    assert ending.opened == ["a", "b"], "nothing is started after the end of Spark"
    assert (ending.kept, repeated.reports) == ([], [])
    assert not (tmp_path / "alert").exists()


def test_a_pass_in_which_spark_ends_counts_against_no_table(ending: Ending) -> None:
    spark: Any = None
    report = lk.run(spark)
    assert ending.opened == ["a", "b"]
    assert [each.status for each in report.tables] == ["failed", "failed", "stopped"]
    assert ending.kept == []


@pytest.mark.parametrize("once", [True, False])
def test_the_command_blames_no_table_for_the_end_of_spark(
    ending: Ending, capsys: pytest.CaptureFixture[str], tmp_path: Path, once: bool
) -> None:
    setup = Setup(quiet=True, conf=[f"spark.lakekeeper.auto.alert-command={ending.command}"])
    assert repeat(setup, ("a", "b", "c"), every=None if once else "30s", once=once, dry_run=False) == 1
    said = capsys.readouterr()
    assert "Spark has ended" in said.err
    assert json.loads(said.out)["stopped"] == 1
    assert (ending.opened, ending.kept) == (["a", "b"], [])
    assert not (tmp_path / "alert").exists()


def test_threads_that_open_a_table_at_once_get_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option ``workload``, planning one table opens all: the one that was opening was opened again."""
    begun, let = Event(), Event()
    given: list[str] = []

    class WithWorkload:
        """A table whose plan reads event logs, while the other table is opened."""

        def __init__(self, logs: EventLogs) -> None:
            self._context = SimpleNamespace(session=SimpleNamespace(one_look=nullcontext))
            self._logs = logs

        @property
        def automatic(self) -> bool:
            assert begun.wait(30)
            Timer(0.2, let.set).start()
            self._logs.of(["no such log"], "b")
            return True

    def open_table(_: Any, name: str, _backoff: Any, logs: EventLogs) -> WithWorkload:
        given.append(name)
        if name == "b":
            return WithWorkload(logs)
        begun.set()
        assert let.wait(30)
        raise NotFound(name, "no such table")

    settings = AutoSettings(("a", "b"), ("compact",), 1.0, at_once=2)
    monkeypatch.setattr(fleet, "service_settings", lambda *_, **__: settings)
    monkeypatch.setattr(fleet, "expand", lambda _, names: tuple(Expanded(n, (n,)) for n in names))
    monkeypatch.setattr(fleet, "open_table", open_table)
    monkeypatch.setattr(fleet, "fleet_memory", lambda _: FleetMemory())
    monkeypatch.setattr(fleet, "has_ended", lambda _: False)
    spark: Any = None
    report = lk.run(spark)
    assert sorted(given) == ["a", "b"]
    assert ["no such table" in str(each.reason) for each in report.tables] == [True, False]


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
    monkeypatch.setattr(service, "has_ended", lambda _: False)

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
    assert len(opened.given) == 3
    assert "Spark has ended" in capsys.readouterr().err


def test_the_first_line_has_no_credentials(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Setup, "session", lambda _: None)
    assert repeat(Setup(), ("s3a://AKIA:very/secret@bucket/a,b",), every=None, once=True, dry_run=True) == 1
    assert "lakekeeper auto: s3a://***@bucket/a,b; " in capsys.readouterr().err
    assert [name for name, _ in opened.given] == ["s3a://AKIA:very/secret@bucket/a,b"]


def test_a_full_disk_behind_stdout_and_stderr_ends_no_service(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`> service.log 2>&1`: the message that a line was lost could not be written either, and ended the service."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if text:  # click writes nothing first, to see whether it may
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return 0

    monkeypatch.setattr(Setup, "session", lambda _: None)
    waits = iter([False, True])
    monkeypatch.setattr(Draining, "wait", lambda *_: next(waits))
    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr(sys, "stderr", Full())
    assert repeat(Setup(), ("a", "b"), every="30s", once=False, dry_run=False) == 1
    assert len(opened.given) == 4, "two passes over two tables"


def test_a_full_disk_behind_stdout_costs_a_line_and_no_service(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        """Has no room for the first line."""

        def write(self, text: str) -> int:
            if text and not self.tell():  # click writes nothing first, to see whether it may
                super().write("lost\n")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(text)

    out = Full()
    monkeypatch.setattr(Setup, "session", lambda _: None)
    waits = iter([False, True])
    monkeypatch.setattr(Draining, "wait", lambda *_: next(waits))
    monkeypatch.setattr(sys, "stdout", out)
    assert repeat(Setup(quiet=True), ("a", "b"), every="30s", once=False, dry_run=False) == 1
    assert len(opened.given) == 4, "two passes over two tables"
    lost, report = filter(None, out.getvalue().split("\n"))
    assert (lost, json.loads(report)["failed"]) == ("lost", 2)
    assert "a line on stdout is lost: OSError: [Errno 28]" in capsys.readouterr().err
