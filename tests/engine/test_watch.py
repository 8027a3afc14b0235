"""The view of a pass from outside, and pauses. `test_sweep` tests the pass itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.scheduling.task import Task
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.watch import Watch

TASK = Task("merge", "a", "compact", "running")


def test_pauses_last_from_pass_to_pass() -> None:
    watch = Watch()
    watch.pause("a")
    watch.pause("b")
    watch.begin(["a", "b"])
    watch.end()
    watch.resume("b")
    watch.resume("never paused")
    assert watch.now().paused == {"a"}
    assert (watch.is_paused("a"), watch.is_paused("b")) == (True, False)


def test_a_pass_begins_without_the_tasks_of_the_previous_one() -> None:
    now = iter(range(10, 20))
    watch = Watch(Clock(now_ms=now.__next__))
    watch.begin(["a"])
    watch.changed(TASK)
    assert [progress.began_ms for _, progress in watch.now().running] == [11]
    watch.changed(replace(TASK, state="failed"))
    assert watch.now().running == ()
    watch.begin(["b"])
    assert (watch.now().names, watch.now().tasks, watch.now().began_ms) == (("b",), (), 12)


def test_the_observer_of_the_call_is_called_too_and_its_error_halts_the_run() -> None:
    watch = Watch()
    watch.changed(TASK)

    def halting(phase: str, info: Mapping[str, Any]) -> None:
        raise RuntimeError(phase)

    with pytest.raises(RuntimeError, match="written"):
        watch.observing(TASK, halting)("written", {"bytes": 5, "table": "a"})
    assert [progress.bytes for _, progress in watch.now().running] == [5]
    ended = replace(TASK, verb="recluster")
    watch.observing(ended, None)("written", {"bytes": 5})
    assert len(watch.now().running) == 1


def test_statistics_are_not_shown_as_deletions() -> None:
    """As a vacuum does, they report files when they are planned."""
    watch, task = Watch(Clock(lambda: 5)), Task("statistics", "a", "compute_statistics", "running")
    watch.changed(task)
    note = watch.observing(task, None)
    note("planned", {"files": 200, "bytes": 1})
    note("written", {"files": 150})
    [(_, progress)] = watch.now().running
    assert (progress.step, progress.share) == ("describing", 0.75)
