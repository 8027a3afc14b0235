"""The log of a command: JSON lines where requested, and no phase twice where the display shows it."""

from __future__ import annotations

import json
import logging

import pytest

from lakekeeper.cli.logs import logs
from lakekeeper.engine.events import Events


def test_json_lines_carry_the_facts_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with logs(as_json=True):
        Events("ice.db.t", "r1").emit("committed", version=7, rewrites=2)
        Events("ice.db.t", "r1").emit("read", task="x")
        logging.getLogger("lakekeeper").warning("%s", 'a "quoted"\nwarning')
    committed, warning = map(json.loads, capsys.readouterr().err.splitlines())
    assert (committed["level"], committed["table"], committed["run_id"]) == ("INFO", "ice.db.t", "r1")
    assert (committed["phase"], committed["facts"]) == ("committed", {"version": 7, "rewrites": 2})
    assert (warning["level"], warning["message"]) == ("WARNING", 'a "quoted"\nwarning')
    assert warning["time"].endswith("+00:00")


def test_the_traceback_of_a_record_has_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    with logs(as_json=True):
        logging.getLogger("lakekeeper").error("failed", exc_info=OSError("token=hunter2 expired"))
    record = json.loads(capsys.readouterr().err)
    assert record["traceback"] == "OSError: token=*** expired\n"


def test_by_default_the_display_shows_phases_and_the_log_shows_warnings(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with logs(as_json=False):
        Events("t", "r1").emit("conflict", reason="lost")
        logging.getLogger("lakekeeper").warning("shown")
    assert capsys.readouterr().err == ""
    assert [record.getMessage() for record in caplog.records] == ["shown"]


def test_a_command_leaves_the_loggers_as_they_were() -> None:
    loggers = [logging.getLogger(name) for name in ("lakekeeper", "lakekeeper.events")]
    before = [(each.level, each.propagate, list(each.handlers)) for each in loggers]
    for as_json in (True, False):
        with pytest.raises(KeyError), logs(as_json=as_json):
            raise KeyError
    assert [(each.level, each.propagate, list(each.handlers)) for each in loggers] == before
