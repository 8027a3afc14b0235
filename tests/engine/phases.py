"""Phases of a run, and an observer that acts at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

BEFORE_COMMIT = ("planned", "read", "written", "before_commit")


class At:
    """An observer that acts once, at the first occurrence of a phase."""

    def __init__(self, phase: str, act: Callable[[], object]) -> None:
        self.phase = phase
        self.act = act
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        with self._lock:
            first = phase == self.phase and phase not in self.seen
            self.seen.append(phase)
            if first:
                self.act()
