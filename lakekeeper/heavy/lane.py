"""The lane of heavy tasks: their Spark application starts when a task is due, and ends when it has been idle.

    task ─► is it running? ─┬─ no ─► start ─┐
                            └─ yes ─────────┴─► the task ─► its report ─► idle for ``idle_seconds``: end it

If the application dies, its uncommitted work is discarded: the task fails, and the service attempts it again after a
pause, in a new application.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.core.scheduling.heavy_call import HeavyCall
from lakekeeper.errors import HeavyError
from lakekeeper.heavy.process import HeavyProcess
from lakekeeper.spi import Observer

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

_LOG = logging.getLogger("lakekeeper")
_IDLE_GRACE_S = 5.0
_BUSY_GRACE_S = 20.0  # jobs are cancelled, and the files that they have written are deleted
_MOST_RUNS = 10_000


class NotStarted(HeavyError):
    """The application did not start."""

    def __init__(self, table: str, why: str) -> None:
        super().__init__(f"{table}: {why}")
        self._why = why

    def for_table(self, table: str) -> NotStarted:
        """The same error for another table."""
        return NotStarted(table, self._why)


@dataclass(frozen=True, slots=True)
class _Used:
    """The executor time that the runs of a task have used."""

    runs: frozenset[str]
    core_seconds: float | None


class Lane:
    """The single application that runs the tasks of several threads.

    ``master`` names it in messages. ``start`` starts it, and raises HeavyError.
    """

    def __init__(self, master: str, start: Callable[[], HeavyProcess], idle_seconds: float) -> None:
        self._named = f"the Spark application of heavy tasks (spark.lakekeeper.heavy.master={master})"
        self._start, self._idle = start, idle_seconds
        self._lock = threading.Lock()
        self._starting = threading.Lock()  # held during a start, which takes minutes; taken before the other
        self._closed = False
        self._process: HeavyProcess | None = None
        self._not_started: NotStarted | None = None  # the last start that failed
        self._leaving: HeavyProcess | None = None
        self._busy = 0
        self._timer: threading.Timer | None = None
        self._used: list[_Used] = []
        self._cores = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cores(self) -> int:
        """The executor cores of the last application; 1 before the first."""
        return self._cores

    def run(self, call: HeavyCall, observer: Observer | None) -> dict[str, Any]:
        """Carry out a task; its report as plain data. Raises HeavyError if the task or the application fails."""
        process = self._begin(call)
        try:
            return self._converse(process, call, observer)
        except HeavyError:
            raise
        except BaseException:  # of the observer, or an interrupt: a task must not outlive its caller
            process.end(_BUSY_GRACE_S)
            raise
        finally:
            self._done(process)

    def core_seconds(self, runs: Collection[str]) -> float | None:
        """The executor time of the tasks of these runs; None if one was not measured, or the lane knows none."""
        with self._lock:
            known = [used.core_seconds for used in self._used if used.runs & set(runs)]
        return None if not known or None in known else sum(filter(None, known))

    def close(self) -> None:
        """End the application; a task that runs in it is cancelled. One that is starting ends once it has started."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            grace = _BUSY_GRACE_S if self._busy else _IDLE_GRACE_S
            self._stop_timer()
            leaving = self._leaving
        if process is not None:
            process.end(grace)
        if leaving is not None:  # the timer is ending this process
            leaving.end(_IDLE_GRACE_S)

    def _begin(self, call: HeavyCall) -> HeavyProcess:
        """The application, busy with one more task; it is started if none runs.

        A start that fails while this task waits for it fails the task too: the next attempt would fail alike.
        """
        failed_before = self._not_started
        with self._starting:
            with self._lock:
                self._stop_timer()
                if self._process is not None and self._process.running:
                    self._busy += 1
                    return self._process
            if self._not_started is not None and self._not_started is not failed_before:
                raise self._not_started.for_table(call.table)
            started = self._started(call)
            with self._lock:
                if not self._closed:
                    self._process, self._cores = started, int(started.info.get("cores", 1))
                    self._busy += 1
                    return started
        started.end(_IDLE_GRACE_S)
        raise self._closed_for(call)

    def _started(self, call: HeavyCall) -> HeavyProcess:
        if self._closed:
            raise self._closed_for(call)
        try:
            started = self._start()
        except HeavyError as error:
            self._not_started = NotStarted(call.table, f"{self._named} did not start: {error}")
            raise self._not_started from error
        _LOG.info("started the application of heavy tasks %s", started.info.get("application"))
        return started

    def _closed_for(self, call: HeavyCall) -> NotStarted:
        return NotStarted(call.table, f"{self._named} did not start: the service has stopped")

    def _converse(self, process: HeavyProcess, call: HeavyCall, observer: Observer | None) -> dict[str, Any]:
        talk, runs = process.ask(call.to_dict()), set()
        while True:
            try:
                said = talk.next()
            except HeavyError as error:
                left = f"what {call.verb} had committed stays in the table, its other work does not"
                raise HeavyError(f"{call.table}: {self._named} is gone: {error}; {left}") from error
            if "phase" in said:
                info = dict(said["info"])
                runs.add(str(info["run_id"]))
                if observer is not None:
                    observer(str(said["phase"]), info)
                continue
            with self._lock:
                self._used = [*self._used[-_MOST_RUNS:], _Used(frozenset(runs), said.get("core_seconds"))]
            if said.get("over"):
                process.end(_IDLE_GRACE_S)
            if "error" in said:
                raise HeavyError(f"{call.table}: {said['error']}")
            return dict(said["report"])

    def _done(self, process: HeavyProcess) -> None:
        with self._lock:
            self._busy -= 1
            if self._process is process and not process.running:
                self._process = None
            if self._process is not None and not self._busy:
                self._timer = threading.Timer(self._idle, self._release, (self._process,))
                self._timer.daemon = True
                self._timer.start()

    def _release(self, process: HeavyProcess) -> None:
        with self._lock:
            if self._process is not process or self._busy:
                return
            self._process, self._leaving = None, process
        _LOG.info("ended the application of heavy tasks %s, idle", process.info.get("application"))
        process.end(_IDLE_GRACE_S)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
