"""Which task is next: by what it is worth for each core-second, and by how long it has been waiting.

    priority = weight × score + 100 × days waited

The score of a task is its gain for each core-second of work on a scale from 0 to 100. Without new work a waiting task
gains a hundred points a day, so one without any predicted gain precedes the most valuable new task of weight 1 after a
day at most, and of weight w after w days: nothing starves.
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
    """The task to start now; None if there is none for a table that is not ``busy``.

    The tasks of one table run one after the other, in the order given: a merge may make a later one superfluous. The
    first queued one of each table has the priority of the highest that waits behind it.
    """
    first: dict[str, Task] = {}
    highest: dict[str, float] = {}
    for task in tasks:
        if task.state == "queued" and task.table not in busy and not task.is_parked(now_ms):
            first.setdefault(task.table, task)
            highest[task.table] = max(highest.get(task.table, 0.0), priority(task, now_ms))
    if not first:
        return None
    return first[max(first, key=highest.__getitem__)]  # of equal ones, the table that was given first
