"""The service under test: ``lakekeeper auto --every …`` as a process, with its passes and its log as they arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.standalone import BOUND, HOME, environment

_PATIENCE_S = 600.0


class Service:
    """A running service. ``passes`` are the reports of its passes, ``failures`` those that failed as a whole."""

    def __init__(self, conf: Path, log: Path) -> None:
        self.passes: list[Mapping[str, Any]] = []
        self.failures: list[Mapping[str, Any]] = []
        self.records: list[Mapping[str, Any]] = []
        self._changed = threading.Condition()
        self._log = log
        command = [sys.executable, "-m", "lakekeeper", "auto", "--every", "3s", "--log-json"]
        self.process = subprocess.Popen(
            [*BOUND, *command, "--properties-file", str(conf)],
            cwd=HOME,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.passes), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.records), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def await_that(self, found: Callable[[], Any], what: str) -> Any:
        """The first true result of ``found``, evaluated at each line that the service prints."""
        end = time.monotonic() + _PATIENCE_S
        with self._changed:
            while not (result := found()):
                left = end - time.monotonic()
                assert left > 0, f"not within {_PATIENCE_S} s: {what}; see {self._log}"
                assert self.process.poll() is None, f"the service ended before {what}; see {self._log}"
                self._changed.wait(min(left, 1.0))
        return result

    def await_passes(self, number: int) -> None:
        """Wait until that many passes have ended."""
        self.await_that(lambda: len(self.passes) >= number, "the end of the pass")

    def await_work(self) -> Mapping[str, Any]:
        """Wait until the lane begins a merge; return the record of its plan, which names the application."""
        seen = len(self.records)

        def begun() -> Mapping[str, Any] | None:
            for record in self.records[seen:]:
                planned = record.get("phase") == "planned" and record["facts"].get("tasks")
                if planned and record.get("application"):
                    return record
            return None

        found: Mapping[str, Any] = self.await_that(begun, "a merge")
        return found

    def kill(self) -> None:
        """SIGKILL; its child processes must end by themselves."""
        self.process.kill()
        self._wait()

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(_PATIENCE_S)
        for reader in self._readers:
            reader.join(_PATIENCE_S)
        return code

    def _read(self, lines: Any, to: list[Mapping[str, Any]]) -> None:
        with self._log.open("a") as log:
            for line in lines:
                log.write(line)
                log.flush()
                try:
                    found = json.loads(line)
                except ValueError:  # a line from Java
                    continue
                with self._changed:
                    (self.failures if "error" in found else to).append(found)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def end(process: int) -> None:
    """Send SIGKILL to a process of the test, which may have ended."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
