"""A background thread that repeats passes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.errors import reason

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

_LOG = logging.getLogger("lakekeeper")


class Service:
    """Repeats a pass on a daemon thread. A pass that raises is kept in ``error`` and the next one still runs."""

    def __init__(self, one_pass: Callable[[], AutoReport], pause_seconds: float) -> None:
        self._pass = one_pass
        self._pause = pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lakekeeper-auto", daemon=True)
        self._passes = threading.Condition()
        self.reports: list[AutoReport] = []
        self.error: Exception | None = None
        self.passes = 0

    def start(self) -> Service:
        """Begin with a pass at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let the present pass finish and start no other; returns when the thread has ended."""
        self._stop.set()
        if self._thread.ident is not None:  # else it never started
            self._thread.join()

    def wait(self, passes: int = 1, timeout: float | None = None) -> bool:
        """Block until that many passes are over; False after ``timeout`` seconds."""
        with self._passes:
            return self._passes.wait_for(lambda: self.passes >= passes, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                report = self._pass()
                self.reports = [*self.reports[-99:], report]
                self.error = None
            except Exception as error:  # a catalog that is down now may be up at the next pass
                self.error = error
                _LOG.warning("automatic run: the pass failed: %s", reason(error))
            with self._passes:
                self.passes += 1
                self._passes.notify_all()
            self._stop.wait(self._pause)
