"""The alert command: real processes that read their input, fail, or do not exist."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from pathlib import Path

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, PatternResult, TableResult
from lakekeeper.engine.alert import Alerts

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


def test_without_a_problem_nothing_is_started(tmp_path: Path) -> None:
    Alerts(appending(tmp_path / "alerts")).after(report())
    Alerts(None).after(report("a"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["/no/such/command", f"{shlex.quote(sys.executable)} -c 'raise SystemExit(3)'"]
)
def test_a_command_that_fails_is_a_warning(command: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        Alerts(command).after(report("a"))
    assert "the alert command failed" in caplog.text


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    Alerts(f"{appending(tmp_path / 'alerts')} ; touch {tmp_path}/injected").after(report("a"))
    assert not (tmp_path / "injected").exists()
