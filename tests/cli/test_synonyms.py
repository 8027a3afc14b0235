"""A user who types another tool's command reads which of our commands does it."""

from __future__ import annotations

import pytest

from lakekeeper.cli import app, main
from lakekeeper.cli.synonyms import COMMANDS


@pytest.mark.parametrize(
    "typed, ours",
    [
        ("optimize", "recluster, or compact"),
        ("expire_snapshots", "vacuum"),
        ("remove-orphan-files", "vacuum --orphans"),
        ("options", "docs/reference/options.md"),
    ],
)
def test_another_tools_command_points_to_ours(
    typed: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"lakekeeper: No such command '{typed}'.")
    assert f"See {ours}" in line
    assert "Did you mean" not in line


def test_a_misspelled_command_gets_the_nearest_one_and_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reclust"]) == 2
    assert capsys.readouterr().err == "lakekeeper: No such command 'reclust'. Did you mean 'recluster'?\n"


def test_no_command_of_ours_counts_as_another_tools() -> None:
    ours = {
        command.name or command.callback.__name__.replace("_", "-")
        for command in app.registered_commands
        if command.callback
    }
    assert len(ours) > 10
    assert not ours & COMMANDS.keys()
