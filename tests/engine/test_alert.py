"""The alert command: real processes that read their input, fail, or do not exist."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, PatternResult, TableResult
from lakekeeper.core.scheduling.task import Task
from lakekeeper.engine import alert
from lakekeeper.engine.alert import Alerts
from lakekeeper.errors import OptionError

WHY = Reason.of(Code.FAILED, error="boom")


def report(*failed: str, unmatched: bool = False) -> AutoReport:
    tables = [TableResult(name, "failed", WHY) for name in failed]
    patterns = (PatternResult("x.*", "unmatched", Reason.of(Code.NO_TABLE_MATCHES), 0),) if unmatched else ()
    return AutoReport((TableResult("fine", "done", WHY), *tables), 1, patterns=patterns)


def appending(path: Path) -> str:
    program = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
    return shlex.join([sys.executable, "-c", program, str(path)])


def test_each_problem_is_reported_once_until_it_is_over(tmp_path: Path) -> None:
    out = tmp_path / "alerts"
    alerts = Alerts(appending(out))
    for each in (report("a"), report("a"), report("a", "b", unmatched=True), report(), report("a")):
        alerts.after(each)
    received = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[t["table"] for t in alert["tables"]] for alert in received] == [["a"], ["b"], ["a"]]
    assert [[p["pattern"] for p in alert["patterns"]] for alert in received] == [[], ["x.*"], []]
    assert received[0]["tables"][0]["reason"]["text"] == "boom"


@pytest.mark.parametrize("code", [Code.QUIET_HOURS, Code.FLEET_BUDGET_SPENT])
def test_a_table_that_was_not_attempted_has_not_recovered(code: Code, tmp_path: Path) -> None:
    """In quiet hours it is not even planned; without a budget its verb waits, with its failures."""
    out = tmp_path / "alerts"
    alerts = Alerts(appending(out))
    waits = () if code == Code.QUIET_HOURS else (Task("merge", "a", "compact", failures=2),)
    why = Reason.of(code, window="08:00-18:00", limit="auto.budget-bytes")
    held = AutoReport((TableResult("a", "waiting", why, tasks=waits),), 1)
    for each in (report("a"), held, report("a"), held, report("a", "b"), held, report(), report("a")):
        alerts.after(each)
    received = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[t["table"] for t in alert["tables"]] for alert in received] == [["a"], ["b"], ["a"]]


def test_a_failed_verb_that_waits_has_not_recovered_though_another_verb_committed(tmp_path: Path) -> None:
    out = tmp_path / "alerts"
    alerts = Alerts(appending(out))
    tasks = (
        Task("merge", "a", "recluster", failures=1),
        Task("statistics", "a", "compute_statistics", "done"),
    )
    held = AutoReport((TableResult("a", "done", WHY, tasks=tasks),), 1)
    for each in (report("a"), held, report("a"), report(), report("a")):
        alerts.after(each)
    received = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[t["table"] for t in alert["tables"]] for alert in received] == [["a"], ["a"]]


def test_a_table_that_could_not_be_listed_has_not_recovered(tmp_path: Path) -> None:
    """As while its catalog is down; the catalog's pattern recovers by itself."""
    out = tmp_path / "alerts"
    alerts = Alerts(appending(out))
    down = AutoReport((), 1, patterns=(PatternResult("ice.db.*", "failed", WHY, 0),))
    listed = PatternResult("ice.db.*", "matched", None, 1)
    up = AutoReport((TableResult("a", "failed", WHY),), 1, patterns=(listed,))
    dropped = AutoReport((), 1, patterns=(PatternResult("ice.db.*", "unmatched", WHY, 0),))
    for each in (up, down, up, down, dropped, up):
        alerts.after(each)
    received = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[t["table"] for t in alert["tables"]] for alert in received] == [["a"], [], [], ["a"]]
    assert [[p["status"] for p in alert["patterns"]] for alert in received] == [
        [],
        ["failed"],
        ["failed"],
        [],
    ]


def test_a_table_that_is_paused_has_not_recovered(tmp_path: Path) -> None:
    """One that its owner switched off is no longer maintained."""
    out = tmp_path / "alerts"
    alerts = Alerts(appending(out))
    paused, off = (
        AutoReport((TableResult("a", "off", Reason.of(code)),), 1)
        for code in (Code.PAUSED, Code.DISABLED_ON_TABLE)
    )
    for each in (report("a"), paused, report("a"), off, report("a")):
        alerts.after(each)
    received = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[t["table"] for t in alert["tables"]] for alert in received] == [["a"], ["a"]]


def test_a_verb_that_an_error_ended_after_a_commit_is_reported(tmp_path: Path) -> None:
    """Once, though the table is parked between two attempts."""
    out = tmp_path / "alerts"
    alerts, ended = Alerts(appending(out)), Reason.of(Code.ENDED_BY_ERROR, error="boom")
    for status in ("partial", "parked", "partial"):
        alerts.after(AutoReport((TableResult("a", status, ended),), 1))
    (alert,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(t["table"], t["status"]) for t in alert["tables"]] == [("a", "partial")]


def test_without_a_problem_nothing_is_started(tmp_path: Path) -> None:
    Alerts(appending(tmp_path / "alerts")).after(report())
    Alerts(None).after(report("a"))
    assert list(tmp_path.iterdir()) == []


def python(program: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-c", program, *arguments])


SLOW = "import time; time.sleep(30)"
URL = "https://hooks.example.com/services/T0/B0/webhook"


@pytest.mark.parametrize(
    "command, why",
    [
        (f"/no/such/command {URL}", "/no/such/command"),
        (python("raise SystemExit(3)", URL), f"{Path(sys.executable).name}: exit code 3"),
        (python(r"import os; os.write(1, b'\xff'); raise SystemExit(4)", URL), "exit code 4"),
        (python(SLOW, URL), f"{Path(sys.executable).name}: still running after 0.5 s"),
        (f"'a\0b' {URL}", "null byte"),
    ],
)
def test_a_command_that_fails_is_a_warning_without_its_arguments(
    command: str, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert, "PATIENCE_SECONDS", 0.5 if SLOW in command else 30.0)
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        Alerts(command).after(report("a"))
    assert "the alert command failed" in caplog.text
    assert why in caplog.text
    assert "webhook" not in caplog.text


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_is_not_text_does_no_harm(stream: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        Alerts(python(f"import sys; sys.{stream}.buffer.write(bytes([255, 254]))")).after(report("a"))
    assert caplog.text == ""


def test_a_command_that_leaves_a_process_behind_has_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its alert counted as failed after 30 s, and each pass repeated it."""
    left = tmp_path / "pid"
    program = (
        "import subprocess, sys; from pathlib import Path; sys.stdin.read(); "
        f"child = subprocess.Popen([sys.executable, '-c', {SLOW!r}]); "
        "Path(sys.argv[1]).write_text(str(child.pid))"
    )
    monkeypatch.setattr(alert, "PATIENCE_SECONDS", 10.0)
    alerts = Alerts(python(program, str(left)))
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        alerts.after(report("a"))
    os.kill(int(left.read_text()), signal.SIGKILL)
    left.unlink()
    alerts.after(report("a"))
    assert (caplog.text, left.exists()) == ("", False)


def test_an_alert_that_failed_is_repeated(tmp_path: Path) -> None:
    """With what is still wrong then; a table that recovered meanwhile is not in it."""
    out, program = tmp_path / "alerts", "import sys; open(sys.argv[1], 'r+').write(sys.stdin.read())"
    alerts = Alerts(python(program, str(out)))
    alerts.after(report("a", "b"))
    out.touch()
    alerts.after(report("a", "c"))
    received = json.loads(out.read_text())
    assert [t["table"] for t in received["tables"]] == ["a", "c"]


def test_what_recovered_while_alerts_fail_is_reported_when_it_fails_again(tmp_path: Path) -> None:
    out, program = tmp_path / "alerts", "import sys; open(sys.argv[1], 'r+').write(sys.stdin.read())"
    alerts = Alerts(python(program, str(out)))
    out.touch()
    alerts.after(report("a"))
    out.unlink()
    alerts.after(report("b"))
    out.touch()
    alerts.after(report("a", "b"))
    assert [t["table"] for t in json.loads(out.read_text())["tables"]] == ["a", "b"]


@pytest.mark.parametrize("command", [f'notify "{URL}', "it's", "notify \\"])
def test_a_command_that_cannot_be_split_is_an_option_error(command: str) -> None:
    with pytest.raises(OptionError, match=r"auto\.alert-command") as error:
        Alerts(command)
    assert "webhook" not in str(error.value)


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    Alerts(f"{appending(tmp_path / 'alerts')} ; touch {tmp_path}/injected").after(report("a"))
    assert not (tmp_path / "injected").exists()
