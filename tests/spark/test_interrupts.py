"""When a signal is raised: between two calls into Java, never within one. Without a JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.spark import interrupts, session
from lakekeeper.spark.interrupts import Interrupts


class Client:
    """A fake of py4j's client: the commands it received, and what happens while Java runs."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def send_command(self, command: str) -> str:
        self.commands.append(command)
        self.meanwhile()
        return "!yes"


class Context:
    """A fake SparkContext."""

    def __init__(self, client: Client) -> None:
        self._gateway = SimpleNamespace(_gateway_client=client)
        self.effects: list[str] = []
        self.cancelled = threading.Event()

    def setLogLevel(self, level: str) -> None:  # noqa: N802 - Spark's name
        self.effects.append(level)

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        self.effects.append("cancelled")
        self.cancelled.set()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def context(client: Client) -> Context:
    return Context(client)


@pytest.fixture
def words() -> list[int]:
    """Final messages: the descriptors of stderr they went to."""
    return []


@pytest.fixture
def guarded(context: Context, words: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Interrupts]:
    """Interrupts around a session, whose process does not end."""
    monkeypatch.setattr(session, "mute", lambda: None)
    spark: Any = SimpleNamespace(sparkContext=context)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Interrupts(words.append) as made:
        made.guard(spark)
        yield made
    assert {number: signal.getsignal(number) for number in before} == before
    assert "send_command" not in vars(context._gateway._gateway_client)


def signals(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_within_a_call_a_signal_waits_until_the_call_returns(guarded: Interrupts, client: Client) -> None:
    done: list[str] = []

    def work() -> None:
        signal.raise_signal(signal.SIGTERM)
        done.append("the call went on")

    client.meanwhile = work
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c\nplan\n")
    assert done == ["the call went on"]
    assert guarded.signal == signal.SIGTERM
    client.meanwhile = lambda: None
    assert client.send_command("c\nclean up\n") == "!yes"


def test_jobs_are_cancelled_meanwhile_by_another_thread(
    guarded: Interrupts, client: Client, context: Context
) -> None:
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        assert context.cancelled.wait(30)

    client.meanwhile = work
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c\nplan\n")
    assert context.effects == ["OFF", "cancelled"]


def test_between_calls_a_signal_is_raised_at_once(guarded: Interrupts, client: Client) -> None:
    client.send_command("c\nplan\n")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert guarded.signal == signal.SIGINT


def test_a_call_that_fails_meanwhile_is_interrupted_too(guarded: Interrupts, client: Client) -> None:
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        raise OSError("cut off")

    client.meanwhile = work
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c\nplan\n")


def test_a_call_within_a_call_waits_for_the_outer_one(guarded: Interrupts, client: Client) -> None:
    """As when Java calls back into Python, which calls Java again."""
    order: list[str] = []

    def inner() -> None:
        client.meanwhile = signals(signal.SIGINT)
        client.send_command("c\ninner\n")
        order.append("the inner call returned")

    client.meanwhile = inner
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c\nouter\n")
    assert order == ["the inner call returned"]


def test_nothing_is_raised_when_an_object_is_released(guarded: Interrupts, client: Client) -> None:
    """By the garbage collector: the exception would only be printed, and lost."""
    guarded.calling = guarded.due = True
    assert client.send_command("m\nd\no12\n") == "!yes"
    guarded.calling = guarded.due = False


def test_other_threads_are_not_interrupted(guarded: Interrupts, client: Client) -> None:
    answers: list[str] = []
    guarded.due = True
    thread = threading.Thread(target=lambda: answers.append(client.send_command("c\nwrite\n")))
    thread.start()
    thread.join()
    guarded.due = False
    assert answers == ["!yes"]


def test_a_signal_during_the_start_of_spark_is_raised_after_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "mute", lambda: None)
    spark: Any = SimpleNamespace(sparkContext=context)
    with Interrupts() as made:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            made.guard(spark)


def test_the_second_signal_or_the_end_of_the_grace_period_ends_the_process(
    guarded: Interrupts, words: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    class Ended(BaseException):
        """Replaces the end of the process."""

    def end(code: int) -> None:
        ended.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(session, "end_java", lambda: None)
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.0)
    with pytest.raises(Ended):
        guarded.watch()
    with Interrupts(words.append) as again:  # a process ends once; only here does it continue
        again.signal = signal.SIGTERM
        with pytest.raises(Ended):
            signal.raise_signal(signal.SIGINT)
    assert ended == [130, 130]
    assert len(words) == 2


def test_the_last_message_may_be_a_call_of_java(guarded: Interrupts, client: Client) -> None:
    """Under spark-submit, stderr is that of the JVM: an interrupted command hung in its own message."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    guarded.settle()
    said = threading.Event()

    def late() -> None:  # the guard would wait forever
        if not said.wait(30):
            os._exit(3)

    threading.Thread(target=late, daemon=True).start()
    assert client.send_command("c\ninterrupted\n") == "!yes"
    said.set()


def test_a_process_that_ends_by_itself_is_not_ended_again(
    guarded: Interrupts, words: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its message would be printed twice."""
    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("ended"))
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.0)
    guarded.signal = signal.SIGINT
    guarded.settle()
    guarded.watch()
    guarded.end()  # the grace period ended just before
    signal.raise_signal(signal.SIGTERM)
    assert words == []


def test_while_draining_the_first_signal_is_only_recorded(guarded: Interrupts) -> None:
    with guarded.draining() as stopped:
        signal.raise_signal(signal.SIGTERM)
        assert stopped.is_set()
        assert guarded.signal == 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert guarded.signal == signal.SIGINT


WAITS = """
import random, signal, sys
from lakekeeper.spark.interrupts import Interrupts

for n in range(20000):
    with Interrupts() as made, made.draining() as stopped:
        # Between 1 and 100 microseconds, so that signals also arrive while the wait begins and while it ends.
        signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-4))
        while not stopped.wait(random.choice((1e-6, 2e-5))):
            pass
        assert stopped.is_set() and stopped.wait(60) and made.signal == 0
print("done")
"""


def test_a_signal_at_any_point_of_a_wait_ends_it() -> None:
    """The lock of an Event is not reentrant: its set() in a handler could wait forever for the wait().

    ``queue.SimpleQueue.get`` of CPython 3.11 waits forever if its timeout ends before the wait begins, hence 1 us.
    """
    done = subprocess.run(
        [sys.executable, "-c", WAITS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_wait_ends_by_itself(guarded: Interrupts) -> None:
    with guarded.draining() as stopped:
        assert not stopped.wait(0.01)
        assert not stopped.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stopped.wait(60)


def test_another_thread_than_the_main_one_sets_no_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def work() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
