"""A background thread that repeats passes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.errors import reason

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

_LOG = logging.getLogger("lakekeeper")
_SOONER = 15
"""An early pass is due after this fraction of the pause, so that a steady writer does not cause constant planning."""
_TICK_S = 1.0


class Service:
    """Repeats a pass on a daemon thread. A pass that raises is kept in ``error`` and the next one still runs.

    early   a pass over what :meth:`sooner` announced, before the pause is over; None if that concerns no table
    ended   called on the thread after its last pass
    over    true once passes are no longer possible: the thread then ends by itself, and the pass in progress is dropped
    """

    def __init__(
        self,
        one_pass: Callable[[], AutoReport],
        pause_seconds: float,
        *,
        early: Callable[[], AutoReport | None] | None = None,
        over: Callable[[], bool] = lambda: False,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._pass, self._early, self._over, self._ended = one_pass, early, over, ended
        self._pause = pause_seconds
        self._sooner = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lakekeeper-auto", daemon=True)
        self._passes = threading.Condition()
        self._has_ended = False
        self.reports: list[AutoReport] = []
        self.error: Exception | None = None
        self.passes = 0

    def start(self) -> Service:
        """Start the thread, which begins with a pass."""
        self._thread.start()
        return self

    @property
    def running(self) -> bool:
        """Whether the thread repeats passes."""
        return self._thread.is_alive() and not self._stop.is_set()

    def sooner(self) -> None:
        """Request an early pass within a fifteenth of the pause."""
        self._sooner.set()

    def stop(self, timeout: float | None = None) -> bool:
        """Let the present pass finish and start no other; False if it has not ended after ``timeout`` seconds."""
        self._stop.set()
        if self._thread.ident is not None:  # else it never started
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait(self, passes: int = 1, timeout: float | None = None) -> bool:
        """Block until that many passes have ended; False after ``timeout`` seconds, or if the thread ended before."""
        with self._passes:
            self._passes.wait_for(lambda: self.passes >= passes or self._has_ended, timeout)
            return self.passes >= passes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        try:
            self._repeat()
        finally:
            with self._passes:
                self._has_ended = True
                self._passes.notify_all()
            self._ended()

    def _repeat(self) -> None:
        whole_at = ended_at = time.monotonic()
        while not self._stop.is_set() and not self._over():
            now = time.monotonic()
            early = self._early if self._sooner.is_set() else None
            due_at = whole_at if early is None else min(whole_at, ended_at + self._pause / _SOONER)
            if now < due_at:
                self._stop.wait(min(due_at - now, _TICK_S))
                continue
            self._sooner.clear()
            whole = early is None or now >= whole_at
            self._run(self._pass if whole or early is None else early)
            ended_at = time.monotonic()
            whole_at = ended_at + self._pause if whole else whole_at

    def _run(self, one_pass: Callable[[], AutoReport | None]) -> None:
        try:
            report = one_pass()
            if report is None or self._over():
                return
            self.reports = [*self.reports[-99:], report]
            self.error = None
        except Exception as error:  # a catalog that is down now may be up at the next pass
            if self._over():
                return
            self.error = error
            _LOG.warning("automatic run: the pass failed: %s", reason(error))
        with self._passes:
            self.passes += 1
            self._passes.notify_all()
