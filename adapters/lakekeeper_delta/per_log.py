"""What is kept of a log beside it, for as long as the Log lives."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from lakekeeper_delta.native import Log

_Kept = TypeVar("_Kept")


class PerLog(Generic[_Kept]):
    """One value for each Log, made at its first use and dropped with the Log; safe to use from several threads."""

    def __init__(self, make: Callable[[Log], _Kept]) -> None:
        self._make = make
        self._of: WeakKeyDictionary[Log, _Kept] = WeakKeyDictionary()
        self._lock = Lock()

    def __call__(self, log: Log) -> _Kept:
        with self._lock:
            found = self._of.get(log)
            if found is None:
                found = self._of[log] = self._make(log)
            return found
