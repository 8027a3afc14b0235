"""What ``lakekeeper run`` logs where maintenance fails beside a program; sessions here have no JVM."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Timer
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
    session = SimpleNamespace(_jsparkSession=None, conf=SimpleNamespace(get=lambda *_: "true"))
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


@pytest.mark.parametrize("ends", ["", "raise SystemExit\n"])
def test_the_last_pass_follows_the_threads_of_the_program(
    program: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran when the main code ended: what the program's threads wrote after that was not maintained."""
    order: list[str] = []
    release = Event()
    after = Timer(0.2, release.set)
    monkeypatch.setattr(
        lakekeeper, "install", lambda _: SimpleNamespace(finish=lambda: order.append("last pass"))
    )
    monkeypatch.setattr(
        lakekeeper,
        "written_by_thread",
        lambda: order.append("a write" if release.wait(30) else "late"),
        raising=False,
    )
    with ThreadPoolExecutor(1) as idle:
        idle.submit(after.start).result()  # its worker waits for more work, and is not awaited
        Path(program).write_text(
            PROGRAM
            + "import threading, lakekeeper\n"
            + "threading.Thread(target=lakekeeper.written_by_thread).start()\n"
            + ends
        )
        with pytest.raises(SystemExit) if ends else nullcontext():
            main(program)
    assert order == ["a write", "last pass"]


def test_a_session_of_spark_connect_is_left_alone(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its confs are calls of the server: one that refuses them made the program fail."""
    remote = SimpleNamespace(conf=SimpleNamespace(get=fail))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: remote)
    monkeypatch.setattr(lakekeeper, "install", fail)
    main(program)


def test_confs_that_cannot_be_read_are_a_line_of_the_log(
    program: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = SimpleNamespace(_jsparkSession=None, conf=SimpleNamespace(get=fail))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: session)
    main(program)
    [logged] = caplog.messages
    assert logged.startswith("lakekeeper could not be installed: ValueError")
