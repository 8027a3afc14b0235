"""Makes the adapter's methods fail, one at a time: the seam between the engine and a format.

before, after              this call fails, before it took effect or although it did
crash before, crash after  every later call fails too, with an error that nothing catches: the process is dead
refused, beaten            responses to a commit: known to have failed; another writer won
lost, landed               the outcome is unknown, and it did not land, or did
contradicted               "another writer won", although it landed
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.errors import Conflict, Rejected, Unknown

MODES = ("before", "after", "crash before", "crash after")
ANSWERS = ("refused", "beaten", "lost", "landed", "contradicted")
COMMITS = ("commit", "deletes.delete")
_HAPPENED = ("after", "crash after", "landed", "contradicted")


class Fault(OSError):
    """One call failed."""


class Dead(BaseException):
    """The process has died."""


@dataclass
class Port:
    """Counts calls and fails call number ``at``."""

    at: int = -1
    mode: str = ""
    calls: list[str] = field(default_factory=list)
    hit: str = ""
    dead: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, name: str, method: Callable[..., Any], *args: Any, **given: Any) -> Any:
        with self.lock:
            if self.dead:
                raise Dead(name)
            failing = len(self.calls) == self.at
            self.calls.append(name)
        if not failing:
            return method(*args, **given)
        self.hit = name
        if self.mode in _HAPPENED:
            method(*args, **given)
        self.dead = self.mode.startswith("crash")
        raise self._error(name)

    def _error(self, name: str) -> BaseException:
        if self.dead:
            return Dead(name)
        answers = {"refused": Rejected, "lost": Unknown, "landed": Unknown, "contradicted": Conflict}
        answers["beaten"] = Conflict
        return answers.get(self.mode, Fault)(f"injected: {name}, {self.mode}")


class Faulty:
    """Wraps an adapter, or one of its halves."""

    def __init__(self, real: Any, port: Port, prefix: str = "") -> None:
        self._real = real
        self._port = port
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name in ("table", "readers"):
            return getattr(self._real, name)
        if name in ("deletes", "storage", "notes", "columnar"):
            half = getattr(self._real, name)
            return None if half is None else Faulty(half, self._port, f"{name}.")
        if name == "allowing":
            return lambda locations: Faulty(self._real.allowing(locations), self._port, self._prefix)
        if name in ("capabilities", "grounds"):
            return self._port.call(name, lambda: getattr(self._real, name))
        method = getattr(self._real, name)
        return lambda *args, **given: self._port.call(self._prefix + name, method, *args, **given)
