"""Lets other threads see the pass in progress, and pause tables: written by the threads of a pass."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lakekeeper.core.scheduling.live import LivePass, Progress
from lakekeeper.core.scheduling.task import Task
from lakekeeper.engine.clock import Clock
from lakekeeper.spi import Observer


class Watch:
    """The state of a pass. Of a paused table no task is started; one that runs is finished.

    A pause lasts until it is lifted or the service ends: the table property ``lakekeeper.auto.enabled=false`` is the
    lasting one.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._began_ms = 0
        self._names: tuple[str, ...] = ()
        self._tasks: dict[tuple[str, str], Task] = {}
        self._running: dict[tuple[str, str], Progress] = {}
        self._paused: frozenset[str] = frozenset()

    def begin(self, names: Sequence[str]) -> None:
        """A pass over these tables begins."""
        with self._lock:
            self._began_ms, self._names = self._clock.now_ms(), tuple(names)
            self._tasks, self._running = {}, {}

    def end(self) -> None:
        """The pass has ended; its tables and tasks stay visible."""
        with self._lock:
            self._began_ms, self._running = 0, {}

    def changed(self, *tasks: Task) -> None:
        """Tasks were planned, started, held back or ended."""
        with self._lock:
            for task in tasks:
                self._tasks[task.key] = task
                if task.state != "running":
                    self._running.pop(task.key, None)
                else:
                    self._running.setdefault(task.key, Progress(self._clock.now_ms()))

    def observing(self, task: Task, observer: Observer | None) -> Observer:
        """``observer``, with the progress of ``task`` noted before each of its calls."""

        def noted(phase: str, info: Mapping[str, Any]) -> None:
            facts = {name: value for name, value in info.items() if isinstance(value, int)}
            with self._lock:
                if task.key in self._running:
                    self._running[task.key] = self._running[task.key].after(phase, facts, task.kind)
            if observer is not None:
                observer(phase, info)

        return noted

    def pause(self, name: str) -> None:
        """Start no further task of a table."""
        with self._lock:
            self._paused |= {name}

    def resume(self, name: str) -> None:
        """Lift the pause of a table; no effect without one."""
        with self._lock:
            self._paused -= {name}

    def is_paused(self, name: str) -> bool:
        """Whether a table is paused."""
        return name in self._paused

    def now(self) -> LivePass:
        """The present state."""
        with self._lock:
            running = tuple((self._tasks[key], progress) for key, progress in self._running.items())
            return LivePass(self._began_ms, self._names, tuple(self._tasks.values()), running, self._paused)
