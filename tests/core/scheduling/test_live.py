"""The pass in progress as a value: progress by phases, and the order of the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.live import LivePass, Progress
from lakekeeper.core.scheduling.task import Task

HOUR_MS = 3_600_000


def test_the_progress_of_a_merge() -> None:
    progress = Progress(7)
    assert (progress.step, progress.share) == ("planning", 0.0)
    for phase, facts, step, share, written in (
        ("planned", {"tasks": 2, "bytes": 90}, "rewriting", 0.0, 0),
        ("read", {"bytes": 50}, "rewriting", 0.0, 0),
        ("written", {"bytes": 40}, "rewriting", 0.5, 40),
        ("written", {"bytes": 20}, "rewriting", 1.0, 60),
        ("before_commit", {}, "committing", 1.0, 60),
        ("committed", {"version": 3}, "committing", 1.0, 60),
        ("planned", {"tasks": 4}, "rewriting", 0.0, 60),  # the next round
    ):
        progress = progress.after(phase, facts)
        assert (progress.step, progress.share, progress.bytes) == (step, share, written)
    assert progress.began_ms == 7


def test_the_progress_of_a_vacuum() -> None:
    planned = Progress(7).after("planned", {"files": 40, "bytes": 1}, "gc")
    progress = planned.after("deleted", {"files": 30})
    assert (progress.step, progress.share) == ("deleting", 0.75)
    assert progress.after("deleted", {"files": 30}).share == 1.0


def test_the_progress_of_statistics() -> None:
    """They delete nothing, and a commit describes many files."""
    planned = Progress(7).after("planned", {"files": 200, "bytes": 1}, "statistics")
    assert (planned.step, planned.share) == ("describing", 0.0)
    assert planned.after("written", {"files": 150}, "statistics").share == 0.75


@pytest.mark.parametrize("held", [False, True])
def test_the_queue_has_the_order_in_which_tasks_start_and_held_back_tasks_last(held: bool) -> None:
    best = Task("merge", "a", "compact", since_ms=0, score=50.0)
    old = Task("merge", "b", "compact", since_ms=-24 * HOUR_MS, score=10.0)
    ended = Task("merge", "c", "compact", "done", since_ms=0, score=99.0)
    if held:
        old = replace(old, reason=Reason.of(Code.BUDGET_SPENT))
    queue = LivePass(tasks=(best, ended, old)).queue(0)
    assert [task.table for task in queue] == (["a", "b"] if held else ["b", "a"])
