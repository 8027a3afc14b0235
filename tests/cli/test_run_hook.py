"""What ``lakekeeper run`` logs where maintenance fails beside a program; sessions here have no JVM."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper
from lakekeeper.cli.run_hook import main

ERROR = ValueError("Invalid connection jdbc:postgresql://meta/db?user=a&password=hunter2\nat line 2")
PROGRAM = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n"


def fail(*_: object) -> Any:
    raise ERROR


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that creates a session without a JVM; what the hook changes in this process is undone."""
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "true"))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: session)
    for name in ("__init__", "stop"):
        monkeypatch.setattr(SparkSession, name, getattr(SparkSession, name))
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setattr(sys, "argv", ["run_hook", str(file)])
    monkeypatch.setattr(sys, "path", list(sys.path))
    return str(file)


@pytest.mark.parametrize(
    "install, message",
    [
        (fail, "lakekeeper could not be installed: ValueError: Invalid connection "),
        (lambda _: SimpleNamespace(finish=fail), "the last automatic pass failed: ValueError: Invalid "),
    ],
    ids=["install", "finish"],
)
def test_an_error_beside_the_program_is_one_line_without_secrets(
    program: str,
    install: Any,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lakekeeper, "install", install)
    with caplog.at_level(logging.ERROR, "lakekeeper"):
        main(program)
    [logged] = caplog.messages
    assert logged.startswith(message)
    assert "hunter2" not in logged
    assert "\n" not in logged
