"""Failed reads of the log, the catalog and the notes are repeated for a bounded time.

In the hours that a large run takes, some call fails once: a catalog throttles, a store answers 503. Such an error says
nothing about the table, so it causes a pause and never costs the run or its finished groups.

Only idempotent reads and writes are repeated here, and commits that are known not to have reached the log. Those that
lost or whose outcome is unknown are not: see ``engine/commit_loop.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lakekeeper.engine.clock import Clock
from lakekeeper.errors import (
    CommitError,
    NotSent,
    OptionError,
    Rejected,
    RetentionError,
    UndoError,
    Unknown,
    Unsupported,
    reason,
)

T = TypeVar("T")

SHORT_PAUSES = (0.2, 1.0)
"""Pauses in seconds as long as a failed run would lose nothing: a lasting error is raised soon."""
LONG_PAUSES = (0.2, 1.0, 4.0, 10.0, 20.0)
"""Pauses in seconds once there are finished groups to lose."""
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)
"""Errors of the code itself: a further call ends as the first did."""
_FINAL = (CommitError, OptionError, RetentionError, UndoError, Unsupported, *_FAULTS)


NOT_COMMITTED = (OptionError, Rejected, Unsupported)
"""Errors of a commit that prove that nothing was committed: a catalog may apply one and report that it lost."""


def retried(
    call: Callable[[], T],
    clock: Clock,
    pauses: Sequence[float] = LONG_PAUSES,
    hopeless: Callable[[], object] = lambda: None,
) -> T:
    """The result of ``call``, which is called again after each pause while it fails.

    Raises the error of the last call. A definite error (a conflict, a bad option, an unsupported feature), or a fault
    of the code, is raised at once, as is any error once ``hopeless()`` is true.
    """
    for pause in pauses:
        try:
            return call()
        except Exception as error:  # noqa: PERF203  # each pass waits: the block costs nothing beside that
            if isinstance(error, _FINAL) or hopeless():
                raise
            clock.wait(pause)
    return call()


def sent(send: Callable[[], T], table: str, clock: Clock, ready: Callable[[], None]) -> T:
    """The result of ``send``, one attempt to commit, which is made again if it is known not to have reached the log.

    The files of the attempt are still there, so it costs nothing but time. A refusal is tried twice more, an error
    before the commit was sent as long as a failed read. An error that says neither is raised as Unknown. ``ready``
    checks before each attempt that it may still be made; what it raises is final.
    """
    tries = 0
    while True:
        ready()
        try:
            return send()
        except Rejected as error:
            pauses = LONG_PAUSES if isinstance(error, NotSent) else SHORT_PAUSES
            if tries >= len(pauses):
                raise
            clock.wait(pauses[tries])
            tries += 1
        except (CommitError, OptionError, Unsupported):
            raise
        except Exception as error:
            why = reason(error)
            raise Unknown(f"{table}: the commit ended in an error and may have succeeded ({why})") from error
