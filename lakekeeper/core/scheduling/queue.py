"""Which task is next: by its score, and by the time that it has been waiting.

    priority = weight × score + 100 × days waited

The score of a task weighs its gain against its work, from 0 to 100. A waiting task gains a hundred points a day. So a
task without any predicted gain precedes the most valuable new task of weight 1 after a day at most, and one of weight w
after w days: nothing starves.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.units import DAY_MS

POINTS_PER_DAY = 100.0


def priority(task: Task, now_ms: int) -> float:
    """The rank of a task among all that are queued; higher runs earlier."""
    waited_days = max(now_ms - task.since_ms, 0) / DAY_MS
    return task.weight * task.score + POINTS_PER_DAY * waited_days


class Queue:
    """The tables that have tasks to start, by priority: each step takes the logarithm of their number.

    The tasks of one table run one after the other, in their order: a merge may make a later task superfluous. The first
    one has the highest priority of all tasks that wait behind it. All tasks gain by waiting alike, so their order is
    the one at ``now_ms``; of equal priority, the table that was first added is first.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._places: dict[str, int] = {}
        # By whether the first task of the table rewrites files.
        self._heaps: dict[bool, list[tuple[float, int, Task]]] = {False: [], True: []}

    def add(self, tasks: Iterable[Task]) -> None:
        """Add the tasks of a table that is not in the queue; of those, the ones that are queued and not parked."""
        waiting = [task for task in tasks if task.state == "queued" and not task.is_parked(self._now_ms)]
        if waiting:
            first = waiting[0]
            place = self._places.setdefault(first.table, len(self._places))
            highest = max(priority(task, self._now_ms) for task in waiting)
            heappush(self._heaps[first.bytes > 0], (-highest, place, first))

    def take(self, *, rewrites: bool = True) -> Task | None:
        """Remove the first table, and return the first of its tasks; None without such a table.

        Without ``rewrites``, only of the tables whose first task rewrites nothing.
        """
        heaps = [heap for rewrite, heap in self._heaps.items() if heap and (rewrites or not rewrite)]
        return heappop(min(heaps, key=lambda heap: heap[0]))[2] if heaps else None
