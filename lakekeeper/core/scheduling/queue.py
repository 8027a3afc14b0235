"""Which task is next: by its score, and by the time that it has been waiting.

    priority = weight × score + 100 × days waited

The score of a task weighs its gain against its work, from 0 to 100. A waiting task gains a hundred points a day. So a
task without any predicted gain precedes the most valuable new task of weight 1 after a day at most, and one of weight w
after w days: nothing starves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.units import DAY_MS

POINTS_PER_DAY = 100.0


def priority(task: Task, now_ms: int) -> float:
    """The rank of a task among all that are queued; higher runs earlier."""
    waited_days = max(now_ms - task.since_ms, 0) / DAY_MS
    return task.weight * task.score + POINTS_PER_DAY * waited_days


def next_task(tasks: Sequence[Task], now_ms: int, busy: Collection[str] = ()) -> Task | None:
    """The task to start now: queued, not parked, and of a table that is not ``busy``; None without such a task.

    The tasks of one table run one after the other, in the given order: a merge may make a later task superfluous. The
    first queued task of a table has the highest priority of all tasks that wait behind it.
    """
    first: dict[str, Task] = {}
    highest: dict[str, float] = {}
    for task in tasks:
        if task.state == "queued" and task.table not in busy and not task.is_parked(now_ms):
            first.setdefault(task.table, task)
            highest[task.table] = max(highest.get(task.table, 0.0), priority(task, now_ms))
    if not first:
        return None
    return first[max(first, key=highest.__getitem__)]  # of equal priority, the first table given
