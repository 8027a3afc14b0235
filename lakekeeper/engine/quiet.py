"""Manners towards users' statements: do not commit into the middle of them, and stop early when it is in vain.

Whoever commits first makes the other's statement fail, where the format has no row-level concurrency. Our own
loss is mended by a replay; theirs is only avoided by waiting until they are done, for a bounded time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.options import Options
from lakekeeper.core.plan import MergeTask
from lakekeeper.core.rebase import Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.spi import Adapter

_STEADY = 3  # commits that make a stream
_LOOKS = 16  # looks at the log in a stream's period


@dataclass(slots=True)
class QuietWindow:
    """Finds a moment between the statements of users, waiting ``commit.quiet-max-wait-ms`` all in all at most.

    Somebody who changed rows within the last ``commit.quiet-window-ms`` may do so again at once: that is waited out.
    Who does it again and again is met in the gap after a commit, while the next statement has hardly begun:

        user     ──[stmt]c─────[stmt]c─────[stmt]c          c  its commit, told by the log
        ours              ▲▲▲  ┄wait┄ ▲▲▲  ┄wait┄ ▲▲▲       ▲  the first half of the time to the next one
    """

    clock: Clock
    window_ms: int
    left_ms: int

    @classmethod
    def of(cls, options: Options, clock: Clock) -> QuietWindow:
        window = options.integer("commit.quiet-window-ms")
        return cls(clock, window, options.integer("commit.quiet-max-wait-ms"))

    def passed(self, changes: Changes) -> bool:
        """May the commit go now? If not, it has waited a while: look again, somebody may have come."""
        pause = min(self._pause_ms(changes), self.left_ms)
        if pause <= 0:
            return True
        self.left_ms -= pause
        self.clock.wait(pause / 1000)
        return False

    def _pause_ms(self, changes: Changes) -> int:
        if self.window_ms <= 0 or changes.obstacle:
            return 0
        moments = sorted(w.at_ms for w in changes.winners if w.changes_rows)
        # A commit from the future is another machine's clock: it is as old as it is going to be.
        age = max(self.clock.now_ms() - moments[-1], 0) if moments else self.window_ms
        period = _period_ms(moments)
        if period and age < 2 * period:
            return 0 if 2 * age <= period else max(period // _LOOKS, 1)
        return max(self.window_ms - age, 0)


def _period_ms(moments: Sequence[int]) -> int:
    """The usual time between the last commits of a stream; 0 where there are too few to tell."""
    steps = sorted(late - early for early, late in pairwise(moments[-2 * _STEADY :]))
    return steps[len(steps) // 2] if len(moments) >= _STEADY else 0


@dataclass(slots=True)
class Watch:
    """A cheap look at the log, now and then, for groups that can no longer win; shared by the threads of a run."""

    adapter: Adapter[Any]
    snapshot: Snapshot
    clock: Clock
    every_ms: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next_ms: int = -1
    _seen: Changes | None = None

    def lost(self, task: MergeTask, *, at_once: bool = False) -> str:
        """Why the work on ``task`` is in vain; empty as long as it may land.

        Looks every ``every_ms`` at most, or ``at_once``.
        """
        with self._lock:
            now = self.clock.now_ms()
            if self._next_ms < 0:
                self._next_ms = now + self.every_ms
            if at_once or now >= self._next_ms:
                self._seen = self.adapter.changes_since(self.snapshot)
                self._next_ms = self.clock.now_ms() + self.every_ms
            changes = self._seen
        if changes is None:
            return ""
        if changes.obstacle:
            return changes.obstacle
        gone = [path for path in task.inputs if path in changes.removed]
        if 2 * len(gone) <= len(task.inputs):
            return ""
        by = ", ".join(str(w) for w in changes.winners)
        return f"{len(gone)} of its {len(task.inputs)} inputs removed meanwhile, by {by}"
