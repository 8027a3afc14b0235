"""Progress on stderr: each run has counts of its own, whatever other runs one display observes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.cli.progress import Progress

Event = tuple[str, Mapping[str, Any]]


def merge(table: str, groups: int) -> Event:
    return "planned", {"table": table, "run_id": f"merge-{table}", "tasks": groups, "bytes": 10, "round": 1}


def written(table: str) -> Event:
    return "written", {"table": table, "run_id": f"merge-{table}", "rows": 1, "bytes": 1}


def vacuum(table: str, files: int) -> Event:
    return "planned", {"table": table, "run_id": f"vacuum-{table}", "files": files, "bytes": 5, "plan": None}


def deleted(table: str, files: int) -> Event:
    return "deleted", {"table": table, "run_id": f"vacuum-{table}", "files": files, "version": 1}


def of(verb: str, phase: str, **info: Any) -> Event:
    return phase, {"table": "t", "run_id": verb, **info}


@pytest.mark.parametrize(
    "events, said",
    [
        pytest.param(
            [merge("a", 2), written("a"), written("a"), vacuum("a", 5), deleted("a", 3), deleted("a", 2)],
            [
                "a: round 1, 2 groups, 10 B",
                "a: written 1 of 2 (1 row, 1 B)",
                "a: written 2 of 2 (1 row, 1 B)",
                "a: 5 files to delete, 5 B",
                "a: 3 files deleted",
                "a: 5 files deleted",
            ],
            id="a vacuum after a merge",
        ),
        pytest.param(
            [vacuum("a", 5), deleted("a", 5), vacuum("b", 2), deleted("b", 2)],
            [
                "a: 5 files to delete, 5 B",
                "a: 5 files deleted",
                "b: 2 files to delete, 5 B",
                "b: 2 files deleted",
            ],
            id="one table after another",
        ),
        pytest.param(
            [merge("a", 1), merge("b", 2), written("b"), written("a"), written("b")],
            [
                "a: round 1, 1 group, 10 B",
                "b: round 1, 2 groups, 10 B",
                "b: written 1 of 2 (1 row, 1 B)",
                "a: written 1 of 1 (1 row, 1 B)",
                "b: written 2 of 2 (1 row, 1 B)",
            ],
            id="two tables at the same time",
        ),
        pytest.param(
            [
                of("statistics", "planned", files=3, bytes=2048),
                of("statistics", "written", files=3),
                of("statistics", "committed", version=4, files=3),
            ],
            ["t: 3 files without statistics, 2.0 KiB", "t: committed version 4, 3 files with new statistics"],
            id="statistics",
        ),
        pytest.param(
            [of("restore", "committed", version=4, restored_rows=1)],
            ["t: committed version 4, 1 row restored"],
            id="a restore",
        ),
        pytest.param(
            [of("undo", "committed", version=4)], ["t: committed version 4"], id="a commit without counts"
        ),
    ],
)
def test_each_run_has_its_own_counts(
    events: list[Event], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress() as progress:
        for phase, info in events:
            progress(phase, info)
    assert capsys.readouterr().err.splitlines() == said


def test_a_bar_is_that_of_one_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bar shows the run that was planned last; others print lines."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress() as progress:
        for phase, info in (merge("a", 2), merge("b", 5), written("a"), written("b"), written("b")):
            progress(phase, info)
        assert progress.bar is not None
        assert (progress.bar.tasks[0].completed, progress.bar.tasks[0].total) == (2, 5)
        progress("committed", {"table": "a", "run_id": "merge-a", "version": 7, "rewrites": 2})
        assert progress.bar is not None
    assert "a: written 1 of 2" in capsys.readouterr().err
