"""A process that runs heavy tasks, and the lines of JSON that it exchanges with the service.

to it      {"confs": …, "log_level": …}, once;  {"id": 7, "call": …} for each task;  the end of its stdin ends it
from it    {"ready": …} or {"failed": …}, once;  {"id": 7, "phase": …, "info": …};  {"log": …}
           {"id": 7, "report": …, "core_seconds": …} or {"id": 7, "error": …, "over": …}, once for each task; after
               an error with ``over``, the process ends
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from lakekeeper.errors import HeavyError

_Message = Mapping[str, Any]


class HeavyProcess:
    """A running process; starting it blocks until it is ready.

    ``info`` is its ``ready`` message. Raises HeavyError if it does not start within ``start_seconds``.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], first: _Message, start_seconds: float
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
        self._ended = False
        self._numbers = 0
        self._answers: dict[int, SimpleQueue[_Message | None]] = {}
        self._started: SimpleQueue[_Message | None] = SimpleQueue()
        threading.Thread(target=self._read, name="lakekeeper-heavy", daemon=True).start()
        self.info = self._start(first, start_seconds)

    @property
    def running(self) -> bool:
        """Whether the process is running and has not closed its output."""
        return not self._ended and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

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
        answers: SimpleQueue[_Message | None] = SimpleQueue()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            if self._ended:
                answers.put(None)
            self._answers[number] = answers
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
        with self._writing, suppress(OSError):  # a process that has ended accepts no buffered text
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def exit_text(self) -> str:
        """How the process ended, for a message; waits for its end."""
        code = self._process.wait()
        return f"with signal {-code}" if code < 0 else f"with exit code {code}"

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
        with self._process.stdout as lines:
            for line in lines:
                self._take(json.loads(line))
        with self._lock:
            self._ended = True
            waiting = list(self._answers.values())
        for answers in (self._started, *waiting):
            answers.put(None)
        self._process.wait()

    def _take(self, message: _Message) -> None:
        if "log" in message:
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

    def __init__(self, process: HeavyProcess, number: int, answers: SimpleQueue[_Message | None]) -> None:
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
