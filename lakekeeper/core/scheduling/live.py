"""The pass in progress, as a value: queued tasks, running tasks, and their progress."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakekeeper.core.scheduling.queue import priority
from lakekeeper.core.scheduling.task import Kind, Task

_STEPS: dict[Kind, str] = {"gc": "deleting", "statistics": "describing"}


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running task.

    step      ``planning``, ``rewriting``, ``committing``, ``deleting`` or ``describing``
    finished  groups that are written, or files that are deleted or described; of ``total``
    bytes     written so far
    """

    began_ms: int
    step: str = "planning"
    finished: int = 0
    total: int = 0
    bytes: int = 0

    @property
    def share(self) -> float:
        """The finished share of the work, 0 to 1; 0 while the total is unknown."""
        return min(self.finished / self.total, 1.0) if self.total else 0.0

    def after(self, phase: str, facts: dict[str, int], kind: Kind = "merge") -> Progress:
        """The progress of a task of this kind after one more phase, with the counts that the phase reports."""
        if phase == "planned":
            counts = facts.get("tasks", facts.get("files", 0))
            return replace(self, step=_STEPS.get(kind, "rewriting"), finished=0, total=counts)
        if phase == "written":
            done = self.finished + facts.get("files", 1)
            return replace(self, finished=done, bytes=self.bytes + facts.get("bytes", 0))
        if phase == "before_commit":
            return replace(self, step="committing")
        if phase == "deleted":
            return replace(self, finished=self.finished + facts.get("files", 0))
        return self


@dataclass(frozen=True, slots=True)
class LivePass:
    """A pass in progress, or between two passes the state after the last one.

    began_ms   of the pass in progress; 0 between two passes
    names      tables of the pass
    tasks      those that are planned so far, by table and verb
    running    progress of the tasks that run
    paused     tables whose tasks are not started
    """

    began_ms: int = 0
    names: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    running: tuple[tuple[Task, Progress], ...] = ()
    paused: frozenset[str] = frozenset()

    def queue(self, now_ms: int) -> list[Task]:
        """The waiting tasks, highest priority first; tasks that were held back in this pass come last."""
        waiting = [task for task in self.tasks if task.state == "queued"]
        return sorted(waiting, key=lambda task: (task.reason is not None, -priority(task, now_ms)))
