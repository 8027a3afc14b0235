"""SIGINT and SIGTERM in a program that calls Java through py4j.

py4j reads Java's response in Python. A signal handler that raises during the read leaves half a response behind, and a
handler that calls Java, as PySpark's does, receives the response of the interrupted call: calls then fail with "… does
not exist in the JVM". A signal during a call of the main thread is therefore raised after the call has returned:

    main thread    ──[ call ··················]✕ KeyboardInterrupt ─► outputs are discarded, one line, exit
    signal                ▲ recorded
    other thread          └─► logging off, jobs cancelled: the call returns soon

A call may never return, for example from a storage that hangs. After ``GRACE_SECONDS``, and at a second signal, the
process ends immediately: uncommitted work is not in the table, and a vacuum deletes the files written for it.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from lakekeeper.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self  # in typing from Python 3.11 on

INTERRUPTED = 130
"""The exit code after either signal, so that a script has a single case to handle."""
GRACE_SECONDS = 15.0
"""Seconds for an interrupted Java call to return and for outputs to be discarded."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FINALIZER = "m\n"  # py4j releases a Java object during garbage collection, where nothing may be raised

_current: Interrupts | None = None


class Draining:
    """Like ``threading.Event``, but a signal handler may set it while the same thread waits.

    An event's lock is not reentrant: the handler would wait for the lock that the thread it interrupted holds.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._unset = threading.Lock()  # held until it is set
        self._unset.acquire()

    def is_set(self) -> bool:
        """Whether it is set; from then on, no wait takes time."""
        return self._is_set

    def set(self) -> None:
        """Set it, and end a wait; safe in a signal handler."""
        self._is_set = True
        with contextlib.suppress(
            RuntimeError
        ):  # released already: a second signal arrived within the handler
            self._unset.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, for at most this long; whether it is set. For one thread."""
        # Not queue.SimpleQueue.get: on CPython 3.11, it waits forever if its thread pauses for the whole timeout at the
        # start of the wait.
        return self._is_set or self._unset.acquire(timeout=seconds) or self._is_set


class Interrupts:
    """A context in which SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, between two Java calls.

    ``signal`` is the first signal received, 0 before; ``drained`` is true if a signal was only recorded, see
    :meth:`draining`. ``last_words`` is called before the process ends immediately, with a descriptor of the stderr from
    the start of the context. Only the main thread may set handlers: in another thread (a test, an embedding program)
    nothing changes.
    """

    def __init__(self, last_words: Callable[[int], object] = lambda _: None) -> None:
        self.signal = 0
        self.drained = False
        self._ending = threading.Lock()  # held by the thread that ends the process
        self._last_words = last_words
        self._stderr = 2
        self._draining: Draining | None = None
        self._main = threading.main_thread().ident
        self.calling = self.due = False
        self._over = threading.Event()
        self._spark: SparkSession | None = None
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        global _current  # noqa: PLW0603 - signal handlers belong to the process, so one instance exists
        with contextlib.suppress(OSError):  # it may be closed
            self._stderr = os.dup(2)  # starting Spark replaces it temporarily
        if threading.get_ident() == self._main:
            self._former = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        _current = self
        return self

    def __exit__(self, *_: object) -> None:
        global _current  # noqa: PLW0603 - one per process, see __enter__
        _current = None
        self._over.set()
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._unguard()
        if self.signal:
            logging.disable(logging.NOTSET)
        if self._stderr != 2:
            os.close(self._stderr)

    def settle(self) -> None:
        """From now on, neither a signal nor the grace period ends the process; waits if the end has already begun."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()
        self._over.set()
        self._unguard()  # the last message may be a call of Java too: under spark-submit, stderr is the JVM's

    def ignore(self) -> None:
        """Ignore further signals, also after the end of this context."""
        self._former = dict.fromkeys(self._former, signal.SIG_IGN)
        for number in self._former:
            signal.signal(number, signal.SIG_IGN)

    def guard(self, spark: SparkSession) -> None:
        """Deliver signals between two Java calls of this session; raises KeyboardInterrupt for an earlier signal."""
        if self._spark is None and self._former:
            self._spark = spark
            client = _client(spark)
            client.send_command = self._between(client.send_command)
            for number in self._former:  # a new SparkContext has set its own handler for SIGINT
                signal.signal(number, self._signalled)
        if self.signal:
            raise KeyboardInterrupt

    def _unguard(self) -> None:
        spark, self._spark = self._spark, None
        if spark is not None:
            del _client(spark).send_command

    @contextlib.contextmanager
    def draining(self) -> Iterator[Draining]:
        """A context in which the first signal only sets what it yields, and the second one interrupts."""
        self._draining = Draining()
        try:
            yield self._draining
        finally:
            self._draining = None

    def _between(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(command: str, *args: Any, **given: Any) -> Any:
            if threading.get_ident() != self._main or command.startswith(_FINALIZER):
                return send(command, *args, **given)
            within, self.calling = self.calling, True
            try:
                return send(command, *args, **given)
            finally:
                self.calling = within
                if self._ending.locked():  # the JVM ended during the call: the process is ending too
                    threading.Event().wait()
                if self.due and not within:
                    self.due = False
                    raise KeyboardInterrupt

        return guarded

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._draining is not None and not self._draining.is_set():
            self.drained = True
            self._draining.set()
            return
        if self.signal:
            self.end()
            return
        self.signal = number
        session.mute()
        logging.disable(logging.CRITICAL)  # py4j logs each aborted call with a stack trace
        # Not threading.Thread: its start takes a lock that the main thread may hold at this point.
        for work in (self._cancel, self.watch):
            _thread.start_new_thread(work, ())
        if self.calling:
            self.due = True
            return
        raise KeyboardInterrupt

    def _cancel(self) -> None:
        spark = self._spark
        if spark is None:
            return
        with contextlib.suppress(Exception):  # the JVM may have ended already
            spark.sparkContext.setLogLevel("OFF")
            spark.sparkContext.cancelAllJobs()

    def watch(self) -> None:
        """End the process once the grace period is over, unless this context ends first."""
        if not self._over.wait(GRACE_SECONDS):
            self.end()

    def end(self) -> None:
        """End the process and its JVM immediately; only the first call has an effect."""
        if not self._ending.acquire(blocking=False):
            return
        try:
            self._last_words(self._stderr)
            session.end_java()
        finally:
            os._exit(INTERRUPTED)


def guard(spark: SparkSession) -> None:
    """See :meth:`Interrupts.guard`; without an active context, does nothing."""
    if _current is not None:
        _current.guard(spark)


def current() -> Interrupts:
    """The active context; outside of one, a new instance that no signal reaches."""
    return _current or Interrupts()


def _client(spark: SparkSession) -> Any:
    gateway: Any = spark.sparkContext._gateway
    return gateway._gateway_client
