"""The order of tasks: by worth, against a plain search; no task starves, whatever arrives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.scheduling.queue import POINTS_PER_DAY, Queue, priority
from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.units import DAY_MS, HOUR_MS

NOW = 100 * DAY_MS
few = st.sampled_from


@st.composite
def queues(draw: st.DrawFn) -> list[Task]:
    """Tasks of up to four tables, each verb once for each table."""
    keys = draw(st.lists(st.tuples(few("abcd"), few(["recluster", "compact", "vacuum"])), unique=True))
    return [
        Task(
            "merge",
            table,
            verb,
            state=draw(few(["queued", "queued", "queued", "running", "done", "skipped"])),
            since_ms=NOW - draw(few([0, HOUR_MS, DAY_MS, 9 * DAY_MS])),
            score=draw(few([0.0, 1.0, 50.0, 100.0])),
            weight=draw(few([0.0, 1.0, 10.0])),
            bytes=draw(few([0, 100])),
            parked_until_ms=draw(few([0, 0, NOW, NOW + 1])),
        )
        for table, verb in keys
    ]


def queue(tasks: Iterable[Task], now_ms: int = NOW) -> Queue:
    made = Queue(now_ms)
    for table in dict.fromkeys(task.table for task in tasks):
        made.add(task for task in tasks if task.table == table)
    return made


def next_task(tasks: Iterable[Task], now_ms: int = NOW) -> Task | None:
    return queue(tasks, now_ms).take()


@given(queues(), st.booleans())
def test_the_next_task_is_the_one_that_a_search_finds(tasks: list[Task], rewrites: bool) -> None:
    may = [t for t in tasks if t.state == "queued" and t.parked_until_ms <= NOW]
    firsts = {t.table: t for t in reversed(may)}
    runnable = [t for t in may if rewrites or not firsts[t.table].bytes]
    found = queue(tasks).take(rewrites=rewrites)
    if found is None:
        assert runnable == []
        return
    assert found is firsts[found.table]
    best = max(priority(t, NOW) for t in runnable)
    assert max(priority(t, NOW) for t in runnable if t.table == found.table) == best


@given(queues())
def test_every_task_that_may_run_runs_once_and_those_of_a_table_in_order(tasks: list[Task]) -> None:
    ran: list[Task] = []
    left, waiting = list(tasks), queue(tasks)
    while (task := waiting.take()) is not None:
        ran.append(task)
        left = [replace(t, state="done") if t is task else t for t in left]
        waiting.add(t for t in left if t.table == task.table)
    may = [t for t in tasks if t.state == "queued" and t.parked_until_ms <= NOW]
    assert sorted(t.key for t in ran) == sorted(t.key for t in may)
    for table in "abcd":
        assert [t for t in ran if t.table == table] == [t for t in may if t.table == table]


@given(st.floats(0, 100), st.sampled_from([1, 2, 7]), st.sampled_from([HOUR_MS, 4 * HOUR_MS]))
def test_nothing_starves(score: float, weight: int, tick_ms: int) -> None:
    """A worthless task against a stream of valuable new ones, where only one runs at a time."""
    old = Task("gc", "old", "vacuum", since_ms=0)
    for tick in range((weight + 1) * DAY_MS // tick_ms + 1):
        now = tick * tick_ms
        new = Task("merge", f"t{tick}", "compact", since_ms=now, score=score, weight=float(weight))
        if next_task([new, old], now) is old:
            assert now <= weight * score / POINTS_PER_DAY * DAY_MS + tick_ms
            return
    raise AssertionError("it never ran")


def test_worth_per_core_second_and_weight_order_tasks_of_one_age() -> None:
    plain = Task("merge", "a", "compact", since_ms=NOW, score=60)
    heavy = Task("merge", "b", "compact", since_ms=NOW, score=40, weight=2)
    assert next_task([plain, heavy]) is heavy
    assert next_task([plain, replace(heavy, weight=1)]) is plain
    assert next_task([plain, replace(plain, table="c")]) is plain
    assert next_task([]) is None
