"""A process that runs heavy tasks, and the lines of JSON that it exchanges with the service.

to it      {"confs": …, "log_level": …}, once;  {"id": 7, "call": …} for each task;  the end of its stdin ends it
from it    {"ready": …} or {"failed": …}, once;  {"id": 7, "phase": …, "info": …};  {"log": …}
           {"alive": true} again and again, whatever its tasks do
           {"id": 7, "report": …, "core_seconds": …} or {"id": 7, "error": …, "over": …}, once for each task; after
               an error with ``over``, the process ends
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, Queue
from typing import Any

from lakekeeper.errors import HeavyError, reason

_LOG = logging.getLogger("lakekeeper")
_Message = Mapping[str, Any]
ALIVE_S = 15.0
_SILENT_S = 600.0  # far more than a machine that swaps or collects garbage needs for a sign of life
_LEAVING_S = 20.0


class HeavyProcess:
    """A running process; starting it blocks until it is ready.

    ``info`` is its ``ready`` message. Raises HeavyError if it does not start within ``start_seconds``. A task may take
    any time, but a process that has a task and gives no sign of life for ``silent_seconds`` is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        first: _Message,
        start_seconds: float,
        silent_seconds: float = _SILENT_S,
    ) -> None:
        # A session of its own: a Ctrl-C at the terminal ends the service, which then ends this process.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            encoding="utf-8",
            start_new_session=True,
        )
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._ended, self._over = False, threading.Event()
        self._last_sign_at, self._silent_seconds, self._why = time.monotonic(), silent_seconds, ""
        self._numbers = 0
        self._answers: dict[int, Queue[_Message | None]] = {}
        self._started: Queue[_Message | None] = Queue()
        threading.Thread(target=self._read, name="lakekeeper-heavy", daemon=True).start()
        self.info = self._start(first, start_seconds)
        threading.Thread(target=self._watch, name="lakekeeper-heavy-watch", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether the process is running and has not closed its output."""
        return not self._ended and self._process.poll() is None

    def _start(self, first: _Message, start_seconds: float) -> _Message:
        try:
            self._write(first)
            said = self._started.get(timeout=start_seconds)
        except Empty:
            self.end(0)
            raise HeavyError(
                f"it had no executor within {start_seconds:.0f} s (spark.lakekeeper.heavy.start-timeout)"
            ) from None
        except BaseException:
            self.end(0)
            raise
        if said is None:
            raise HeavyError(f"it ended {self.exit_text()} before it was ready; its stderr says why")
        if "failed" in said:
            self.end(5)
            raise HeavyError(str(said["failed"]))
        return dict(said["ready"])

    def ask(self, call: _Message) -> Conversation:
        """Send the process a task. Raises HeavyError if it has ended."""
        answers: Queue[_Message | None] = Queue()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            if self._ended:
                answers.put(None)
            self._answers[number] = answers
            self._last_sign_at = time.monotonic()
        try:
            self._write({"id": number, "call": call})
        except OSError:  # the process has ended: the reader reports it
            answers.put(None)
        return Conversation(self, number, answers)

    def forget(self, number: int) -> None:
        """Discard further answers to this task."""
        with self._lock:
            self._answers.pop(number, None)

    def end(self, grace_seconds: float) -> None:
        """End the process, and kill it if it takes longer than the grace period; returns when it has ended."""
        if self._writing.acquire(timeout=grace_seconds):  # else it reads nothing, and a writer waits for it
            try:
                with suppress(OSError):  # a process that has ended accepts no buffered text
                    if self._process.stdin is not None:
                        self._process.stdin.close()
            finally:
                self._writing.release()
        else:
            self._process.kill()
        self._wait(grace_seconds)

    def exit_text(self) -> str:
        """How the process ended, for a message; waits for its end."""
        code = self._wait(_LEAVING_S)
        text = f"with signal {-code}" if code < 0 else f"with exit code {code}"
        return f"{text}: {self._why}" if self._why else text

    def _wait(self, seconds: float) -> int:
        """The exit code of the process, which is killed if it takes longer."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _write(self, message: _Message) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise AssertionError("it is started with a pipe")
        with self._writing:
            if stdin.closed:
                raise BrokenPipeError
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()

    def _read(self) -> None:
        if self._process.stdout is None:
            raise AssertionError("it is started with a pipe")
        try:
            with self._process.stdout as lines:
                for line in lines:
                    self._last_sign_at = time.monotonic()
                    self._take(json.loads(line))
        except Exception as error:  # it speaks another language: no answer can be expected
            self._kill(f"what it said cannot be read: {reason(error)}")
        finally:
            self._over.set()
            with self._lock:
                self._ended = True
                waiting = list(self._answers.values())
            for answers in (self._started, *waiting):
                answers.put(None)
        self._process.wait()

    def _watch(self) -> None:
        """Kill a process that has a task and is silent: it is frozen, and its tasks would wait forever."""
        step, woke = min(self._silent_seconds / 4, ALIVE_S), time.monotonic()
        while not self._over.wait(step):
            now = time.monotonic()
            if now - woke > 2 * step:  # this process was paused, and perhaps the other one with it
                self._last_sign_at = now
            woke, silent = now, now - self._last_sign_at
            if self._answers and silent > self._silent_seconds:
                self._kill(f"it gave no sign of life for {silent:.0f} s")
                return

    def _kill(self, why: str) -> None:
        self._why = self._why or why
        _LOG.warning("killing the application of heavy tasks: %s", why)
        self._process.kill()

    def _take(self, message: _Message) -> None:
        if "alive" in message:
            return
        if "log" in message:
            with suppress(Exception):  # of a handler: the tasks have nothing to do with it
                record = logging.makeLogRecord(dict(message["log"]))
                logger = logging.getLogger(record.name)
                if logger.isEnabledFor(record.levelno):
                    logger.handle(record)
        elif "id" in message:
            with self._lock:
                answers = self._answers.get(message["id"])
            if answers is not None:
                answers.put(message)
        else:
            self._started.put(message)


class Conversation:
    """The messages of the process on one task."""

    def __init__(self, process: HeavyProcess, number: int, answers: Queue[_Message | None]) -> None:
        self._process, self._number, self._answers = process, number, answers

    def next(self) -> _Message:
        """The next phase, or the last message: a report or an error. Raises HeavyError if the process has ended."""
        message = self._answers.get()
        if message is None:
            self._process.forget(self._number)
            raise HeavyError(f"it ended {self._process.exit_text()}")
        if "phase" not in message:
            self._process.forget(self._number)
        return message
