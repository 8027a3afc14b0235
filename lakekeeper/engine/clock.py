"""The clock of the engine; tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """``now_ms`` gives ms since the epoch, ``wait`` pauses for seconds."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    wait: Callable[[float], None] = time.sleep
