"""The text of ``--help`` for each command, in a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lakekeeper.cli import app, main


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from _commands(command, (*path, name))


COMMANDS = [" ".join(path) for path in _commands(typer.main.get_command(app))]


def shown(command: str) -> str:
    """The help as in a terminal of 80 columns, two of which click leaves free."""
    arguments = [*command.split(), "--help"]
    return CliRunner().invoke(app, arguments, prog_name="lakekeeper", terminal_width=78).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_reads_well_in_80_columns(command: str) -> None:
    text = shown(command)
    assert max(map(len, text.splitlines())) <= 80
    cut = [line for line in text.splitlines() if line.endswith("...") and not line.startswith("Usage: ")]
    assert cut == [], "a summary is cut off"
    assert re.findall(r"<[\w\[\]]+>", text) == [], "a Python type instead of a metavar"


def test_all_commands_are_found() -> None:
    assert len(COMMANDS) > 24
    assert {"", "auto", "run", "trash", "trash empty"} <= set(COMMANDS)


def test_run_lists_the_options_that_it_takes_and_refuses_others_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", shown("run"), re.MULTILINE))
    assert listed == {"--conf", "--properties-file", "--master", "--help"}
    for option in ("--catalog", "--warehouse"):
        assert main(["run", option, "x", "app.py"]) == 2
        assert f"{option}: the program creates the session; use --conf instead" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["history", "cost", "status", "release"])
def test_a_command_without_a_session_lists_no_option_of_one(command: str) -> None:
    text = shown(command)
    assert "--json" in text
    for option in ("--catalog", "--warehouse", "--master"):
        assert option not in text
