"""Yield to concurrent user transactions: commit in the gaps between them, and abort hopeless rewrites early.

Without row-level concurrency, the first commit makes the other statement fail. A replay repairs our own loss; a user's
loss is only avoided by waiting, for a bounded time, until the user's statement is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.core.planning.rebase import why
from lakekeeper.engine.clock import Clock
from lakekeeper.spi import Adapter

_LONGEST_WINDOWS = 2  # most quiet windows that one commit waits for
_GONE = 3  # periods without a commit that end a stream: one statement may fail, or write a checkpoint
_STEADY = 3  # commits that make a stream, whose period then shows how long a gap lasts
_LOOKS = 32  # looks at the log per period of a stream
_SHORTEST_MS, _LONGEST_MS = 20, 250  # pause between two looks at the log
_CLOSE = 4  # commits closer than this part of the usual time between them are not those of one thread
_MISSED = 6  # gaps of a stream that may be missed


WATCH_MS = 10_000
"""Between two looks for groups that can no longer land."""


@dataclass(slots=True)
class QuietWindow:
    """Finds a gap between the statements of users, for at most ``longest_ms`` from the first call, replays included.

    A user who changed rows may do so again at any time. The best time is right after such a commit: the next
    statement has hardly begun, if it has begun at all. So if a writer changed rows within the last ``window_ms``, wait
    for its next commit, or until the window has passed without one:

        user     ──[stmt]c─────[stmt]c─────[stmt]c          c  its commit, as the log says
        ours       ┄┄┄┄┄┄rk┄┄┄┄┄┄┄┄┄┄┄rk                    r  look and replay   k  commit, if r was quick enough

    If the replay was too slow for the gap, wait for the next one, at most ``_MISSED`` times. An append of the same
    writer is such a commit too, if it writes one statement after another.

    A stream that was writing when the rewrite ``began`` and has not committed since may be waiting for the cores that
    the rewrite took. Its time starts when the rewrite is done:

        user     ──[stmt]c─[stmt]c─[stmt · · · · · · · · · · ]c
        ours                     ┄[rewrite ················]┄┄rk
    """

    clock: Clock
    window_ms: int
    longest_ms: int
    began_ms: int | None = None
    _first_ms: int = -1  # when the first look began
    _until_ms: int = -1
    _missed: int = 0
    _met: int | None = None  # the version of the newest statement at the last look, -1 where there was none
    _looked_ms: int = -1  # when the last look began
    _before_ms: int = -1  # and the one before it

    @classmethod
    def of(cls, options: Options, clock: Clock, began_ms: int | None = None) -> QuietWindow:
        window = options.commit.quiet_window_ms
        return cls(clock, window, _LONGEST_WINDOWS * window, began_ms)

    def look(self, changes: Callable[[], Changes]) -> Changes:
        """Look at the log, by this function."""
        self._before_ms, self._looked_ms = self._looked_ms, self.clock.now_ms()
        if self._first_ms < 0:
            self._first_ms = self._looked_ms
        return changes()

    def passed(self, changes: Changes) -> bool:
        """Whether to commit now, upon what the last look saw.

        If not, it has paused: look again, and replay what was deleted since.
        """
        if self.window_ms <= 0 or changes.obstacle:
            return True
        now = self.clock.now_ms()
        latest = now + self.longest_ms  # the clock may be set back meanwhile
        self._until_ms = latest if self._until_ms < 0 else min(self._until_ms, latest)
        who = _serial((*changes.earlier, *changes.winners))
        winners = [*self._stream(changes.earlier, who), *_statements(changes.winners, who)]
        pause = min(self._pause_ms(winners, now), self._until_ms - now)
        if pause <= 0:
            return True
        self.clock.wait(pause / 1000)
        return False

    def _stream(self, earlier: Sequence[Winner], who: Collection[str]) -> list[Winner]:
        """The commits of a stream that was writing when the rewrite began, which may have met none of them."""
        began = self._first_ms if self.began_ms is None else self.began_ms
        rows = _statements(earlier, who)
        if len(rows) < _STEADY:
            return []
        period, longest = _period_ms(sorted(w.at_ms for w in rows))
        alive = began - max(w.at_ms for w in rows) < self._quiet_ms(period, longest, len(rows))
        return rows if alive else []

    def _pause_ms(self, winners: Sequence[Winner], now: int) -> int:
        newest, known = (winners[-1].version if winners else -1), self._met
        # A commit that counted no longer does where its writer turns out to have several threads.
        ended = known is not None and newest != known and known in (-1, *(w.version for w in winners))
        self._met = newest
        if not winners:
            return 0
        # A commit in the future was timed by another machine's clock: it counts as new.
        last = max(w.at_ms for w in winners)
        since = max(last, self._first_ms) if len(winners) >= _STEADY else last
        age = max(self._looked_ms - since, 0)
        period, longest = _period_ms(sorted(w.at_ms for w in winners))
        # Of a statement that ended since the look before, our own clock says how long ago that was at most.
        if ended and 2 * (now - self._before_ms) <= (period or self.window_ms // 2):
            return 0
        self._missed += ended
        if self._missed > _MISSED:
            return 0
        left = self._quiet_ms(period, longest, len(winners)) - age
        if left <= 0:  # no writer is expected; but a look from before a long replay is stale
            return 0 if newest == known or now - self._looked_ms <= _LONGEST_MS else _SHORTEST_MS
        step = min(period // _LOOKS or left, _LONGEST_MS) - (now - self._looked_ms)
        return min(max(step, _SHORTEST_MS), left)

    def _quiet_ms(self, period: int, longest: int, commits: int) -> int:
        """How long after its last commit a user is taken to have gone: a stream also appends now and then."""
        usual = max(_GONE * period, min(3 * longest // 2, self.window_ms))
        return usual if commits >= _STEADY else max(self.window_ms, usual)


def _statements(commits: Sequence[Winner], who: Collection[str]) -> list[Winner]:
    """The statements that change rows, and the appends of the writers in ``who``."""
    return [w for w in commits if w.is_statement or (w.appends and not w.run_id and w.writer in who)]


def _serial(commits: Sequence[Winner]) -> set[str]:
    """The writers that change rows and also append, one statement after another: after an append, none is running.

    If they wrote from several threads, some of their commits would be close to each other.
    """
    found = set()
    for name in {w.writer for w in commits if w.is_statement and w.writer}:
        own = _statements([w for w in commits if w.writer == name], {name})
        period, _ = _period_ms(times := sorted(w.at_ms for w in own))
        if len(own) >= _STEADY and _CLOSE * min(b - a for a, b in pairwise(times)) >= period:
            found.add(name)
    return found


def _period_ms(times: Sequence[int]) -> tuple[int, int]:
    """The usual and the longest time between the last commits; 0 where there is only one."""
    steps = sorted(late - early for early, late in pairwise(times[-2 * _STEADY :]))
    return (steps[len(steps) // 2], steps[-1]) if steps else (0, 0)


@dataclass(slots=True)
class Watch:
    """Checks the log from time to time for groups that can no longer win; shared by the threads of a run."""

    adapter: Adapter[Any]
    snapshot: Snapshot
    clock: Clock
    every_ms: int = WATCH_MS
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next_ms: int = -1
    _seen: Changes | None = None

    def lost(self, task: MergeTask, *, at_once: bool = False) -> Reason | None:
        """Why ``task`` can no longer land; None as long as it may.

        Looks every ``every_ms`` at most, or ``at_once``. A failed look changes nothing: looks only save work.
        """
        with self._lock:
            now = self.clock.now_ms()
            due = at_once or 0 <= self._next_ms <= now
            if due or self._next_ms < 0:
                self._next_ms = now + self.every_ms
        if due:
            self._look()
        with self._lock:
            changes = self._seen
        if changes is None:
            return None
        if changes.obstacle:
            return changes.obstacle
        gone = [path for path in task.inputs if path in changes.removed]
        if 2 * len(gone) <= len(task.inputs):
            return None
        return why(gone, (), changes)

    def _look(self) -> None:
        """Read the log without the lock: a slow look delays only the thread that makes it."""
        with suppress(Exception):
            changes = self.adapter.changes_since(self.snapshot)
            with self._lock:
                if self._seen is None or changes.obstacle or changes.version >= self._seen.version:
                    self._seen = changes
        with self._lock:
            self._next_ms = self.clock.now_ms() + self.every_ms
