"""SIGINT and SIGTERM in a program that works through Java.

py4j reads an answer of Java in Python. A handler that raises meanwhile leaves half an answer behind, and one that calls
Java, as PySpark's does, takes the answer of the call that it interrupts: calls then fail with "… does not exist in the
JVM". So a signal within a call of the main thread is raised once the call has returned:

    main thread    ──[ call ··················]✕ KeyboardInterrupt ─► outputs are discarded, one line, exit
    signal                ▲ noted
    other thread          └─► log off, jobs cancelled: the call returns soon

A call may not return, to a store that hangs for instance. After ``GRACE_SECONDS``, and at a second signal, the process
ends where it stands: what was not committed is not in the table, and a vacuum deletes what was written for it.
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
"""The exit code after either signal, so that a script has one case to handle."""
GRACE_SECONDS = 15.0
"""How long an interrupted call of Java may take to return, and outputs to be discarded."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FINALIZER = "m\n"  # py4j drops a Java object: from the garbage collector, where nothing may be raised

_current: Interrupts | None = None


class Interrupts:
    """Within it SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, between two calls of Java.

    ``signal`` is the first that came, 0 before; ``drained`` says that one was only noted, see :meth:`draining`.
    ``last_words`` are for a process that ends at once: it is given a descriptor of the stderr of the start.
    Only the main thread may set handlers: in another one (a test, an embedding program) nothing changes.
    """

    def __init__(self, last_words: Callable[[int], object] = lambda _: None) -> None:
        self.signal = 0
        self.drained = False
        self._ending = threading.Lock()  # held by what ends the process
        self._last_words = last_words
        self._stderr = 2
        self._draining: threading.Event | None = None
        self._main = threading.main_thread().ident
        self._calling = self._due = False
        self._over = threading.Event()
        self._spark: SparkSession | None = None
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        global _current  # noqa: PLW0603 - signal handlers are the process's own, so there is one of these
        with contextlib.suppress(OSError):  # it may be closed
            self._stderr = os.dup(2)  # a start of Spark puts another one in its place for a while
        if threading.get_ident() == self._main:
            self._former = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        _current = self
        return self

    def __exit__(self, *_: object) -> None:
        global _current  # noqa: PLW0603 - the process has one, see __enter__
        _current = None
        self._over.set()
        for number, handler in self._former.items():
            signal.signal(number, handler)
        if self._spark is not None:
            del _client(self._spark).send_command
        if self.signal:
            logging.disable(logging.NOTSET)
        if self._stderr != 2:
            os.close(self._stderr)

    def settle(self) -> None:
        """Let neither a signal nor the end of the grace end the process from now on; wait for an end that has begun."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()
        self._over.set()

    def ignore(self) -> None:
        """Ignore further signals, after the end of this too."""
        self._former = dict.fromkeys(self._former, signal.SIG_IGN)
        for number in self._former:
            signal.signal(number, signal.SIG_IGN)

    def guard(self, spark: SparkSession) -> None:
        """Deliver signals between two calls of this session; raises KeyboardInterrupt for one that came before."""
        if self._spark is None and self._former:
            self._spark = spark
            client = _client(spark)
            client.send_command = self._between(client.send_command)
            for number in self._former:  # a new SparkContext has set its own for SIGINT
                signal.signal(number, self._signalled)
        if self.signal:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def draining(self) -> Iterator[threading.Event]:
        """Within it the first signal only sets the event, and the second one interrupts."""
        self._draining = threading.Event()
        try:
            yield self._draining
        finally:
            self._draining = None

    def _between(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(command: str, *args: Any, **given: Any) -> Any:
            if threading.get_ident() != self._main or command.startswith(_FINALIZER):
                return send(command, *args, **given)
            within, self._calling = self._calling, True
            try:
                return send(command, *args, **given)
            finally:
                self._calling = within
                if self._ending.locked():  # the JVM went away under the call: the process ends too
                    threading.Event().wait()
                if self._due and not within:
                    self._due = False
                    raise KeyboardInterrupt

        return guarded

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._draining is not None and not self._draining.is_set():
            self.drained = True
            self._draining.set()
            return
        if self.signal:
            self._end()
            return
        self.signal = number
        session.mute()
        logging.disable(logging.CRITICAL)  # py4j logs each call that is cut off, with a stack trace
        # Not threading.Thread: its start takes a lock that the main thread may hold just now.
        for work in (self._cancel, self._watch):
            _thread.start_new_thread(work, ())
        if self._calling:
            self._due = True
            return
        raise KeyboardInterrupt

    def _cancel(self) -> None:
        if self._spark is None:
            return
        with contextlib.suppress(Exception):  # the JVM may be gone by now
            self._spark.sparkContext.setLogLevel("OFF")
            self._spark.sparkContext.cancelAllJobs()

    def _watch(self) -> None:
        if not self._over.wait(GRACE_SECONDS):
            self._end()

    def _end(self) -> None:
        """End the process and its JVM, whatever they are in the middle of; once."""
        if not self._ending.acquire(blocking=False):
            return
        try:
            self._last_words(self._stderr)
            session.end_java()
        finally:
            os._exit(INTERRUPTED)


def guard(spark: SparkSession) -> None:
    """See :meth:`Interrupts.guard`; nothing outside of one."""
    if _current is not None:
        _current.guard(spark)


def current() -> Interrupts:
    """The interrupts of the running command; fresh ones, which no signal reaches, where there are none."""
    return _current or Interrupts()


def _client(spark: SparkSession) -> Any:
    gateway: Any = spark.sparkContext._gateway
    return gateway._gateway_client
