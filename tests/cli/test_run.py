"""Arguments that ``lakekeeper run`` passes to PySpark; ``tests/spark/test_run_program.py`` runs whole programs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from lakekeeper.cli import main
from lakekeeper.cli.run import submit_args
from lakekeeper.spark.installation import SUBMIT_ARGS


@pytest.mark.parametrize("given", ["", "pyspark-shell", "--conf spark.a=env --name 'a b' pyspark-shell"])
def test_the_command_line_wins_over_the_environment(given: str) -> None:
    found = shlex.split(submit_args(given, ["--conf", "spark.a=it's ours"]))
    assert found[-3:] == ["--conf", "spark.a=it's ours", "pyspark-shell"], "the last of several values counts"
    assert found[:-3] == shlex.split(given)[:-1]


OF_THE_PROGRAM = ["--json", "-q", "--conf", "k=v", "--name", "x", "-h", "--", "--log-json", "a"]


@pytest.mark.parametrize("before", [(), ("--",)])
def test_what_follows_the_program_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command[2:]))
    monkeypatch.setenv(SUBMIT_ARGS, "")
    program = tmp_path / "app.py"
    program.touch()
    main(["run", "--conf", "spark.a=b", *before, str(program), *OF_THE_PROGRAM])
    assert started == [[str(program), *OF_THE_PROGRAM]]
    assert shlex.split(os.environ[SUBMIT_ARGS])[:2] == ["--conf", "spark.a=b"]


def test_an_argument_of_the_program_does_not_change_how_an_error_is_reported(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "missing.py", "--json"]) == 2
    assert capfd.readouterr() == (
        "",
        "lakekeeper: PROGRAM: got 'missing.py', expected the path of a Python program\n",
    )
