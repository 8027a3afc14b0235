"""Tasks as data: they survive JSON, stay small, and remember failures and waiting from pass to pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.task import Task, done, failed, parked, renewed, skipped
from lakekeeper.core.units import DAY_MS

MERGE = Task("merge", "ice.db.t", "recluster", since_ms=5_000)
WHY = Reason.of(Code.REWROTE, verb="recluster", files_before=4, files_after=1)

tasks = st.builds(
    Task,
    kind=st.sampled_from(["plan", "lifecycle", "merge", "statistics", "gc"]),
    table=st.text(),
    verb=st.text(),
    state=st.sampled_from(["queued", "running", "done", "failed", "skipped"]),
    since_ms=st.integers(0, 2**53),
    score=st.floats(0, 100),
    weight=st.floats(0, 1000),
    bytes=st.integers(0, 2**60),
    query_seconds_per_day=st.floats(0, 1e12),
    failures=st.integers(0, 1000),
    parked_until_ms=st.integers(0, 2**53),
    reason=st.sampled_from([None, WHY, WHY.plus(Reason.of(Code.NO_KEY))]),
)


@given(tasks)
def test_a_task_survives_json(task: Task) -> None:
    assert Task.from_json(task.to_json()) == task
    assert "\n" not in task.to_json()


@pytest.mark.parametrize("text", ["", "{}", '{"kind": "merge"}', '{"kind": 1, "soon": 2}'])
def test_text_that_is_not_a_task_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Task.from_json(text)


def test_a_task_is_small_however_long_its_error() -> None:
    assert len(failed(MERGE, "x" * 10**6, 0, 1).to_json()) < 2_000


def test_pauses_double_up_to_a_day() -> None:
    task, pauses = MERGE, []
    for _ in range(200):
        task = failed(task, "boom", 1_000, 60_000)
        pauses.append((task.parked_until_ms - 1_000) // 60_000)
    assert pauses[:12] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440]
    assert set(pauses[12:]) == {1440}
    assert task.is_parked(1_000 + DAY_MS - 1)
    assert not task.is_parked(1_000 + DAY_MS)


def test_a_task_that_failed_by_a_clock_ten_years_ahead_runs_again() -> None:
    began, now = 3_650 * DAY_MS, 1_000
    for times in (1, 20):
        task = MERGE
        for _ in range(times):
            task = failed(task, "OutOfMemoryError", began, 900_000)
        assert task.is_parked(began)
        assert not task.is_parked(now)
    assert failed(task, "OutOfMemoryError", now + 60_000, 900_000).is_parked(now), "a minute ahead"


def test_a_parked_task_says_in_each_pass_how_often_it_failed_and_why() -> None:
    task = failed(failed(MERGE, "boom", 0, 3_600_000), "boom", 0, 3_600_000)
    for _ in range(3):
        task = parked(renewed(MERGE, task), 3_600_000)
        assert task.reason == Reason.of(
            Code.PARKED, verb="recluster", failures=2, wait_ms=3_600_000, error="boom"
        )


@pytest.mark.parametrize("end", [done, skipped])
def test_success_or_nothing_to_do_resets_failures(end: Callable[[Task, Reason], Task]) -> None:
    ended = end(failed(MERGE, "boom", 0, 1), WHY)
    assert (ended.failures, ended.parked_until_ms, ended.reason) == (0, 0, WHY)
    assert renewed(MERGE, ended) == MERGE


def test_a_task_that_did_not_run_keeps_waiting() -> None:
    later = Task("merge", "ice.db.t", "recluster", since_ms=9_000, score=50)
    assert renewed(later, MERGE).since_ms == 5_000
    assert renewed(later, MERGE).score == 50
    assert renewed(later, failed(MERGE, "boom", 0, 1)).since_ms == 5_000
    assert renewed(later, done(MERGE, WHY)).since_ms == 9_000
    assert renewed(later, None) == later
