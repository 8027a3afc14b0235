"""Failed reads are repeated for a bounded time; errors that another call cannot change are raised at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.retries import LONG_PAUSES, SHORT_PAUSES, retried, sent
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    NotFound,
    NotSent,
    OptionError,
    Rejected,
    RetentionError,
    Unknown,
    Unsupported,
)


class Store:
    """Gives these answers, one after the other; a clock that counts its pauses."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers: Iterator[Exception | str] = iter(answers)
        self.pauses: list[float] = []
        self.clock = Clock(now_ms=lambda: 0, wait=self.pauses.append)

    def read(self) -> str:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    "error",
    [AdapterError("503"), OSError("reset"), NotFound("t", "an error page"), RuntimeError("o42.load")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("failures", [0, 1, 5])
def test_an_error_of_the_store_costs_a_pause(error: Exception, failures: int) -> None:
    store = Store(*[error] * failures, "rows")
    assert retried(store.read, store.clock) == "rows"
    assert store.pauses == list(LONG_PAUSES[:failures])


def test_a_lasting_error_is_raised_sooner_where_no_work_would_be_lost() -> None:
    for pauses in (SHORT_PAUSES, LONG_PAUSES):
        store = Store(*[OSError(f"{n}") for n in range(10)])
        with pytest.raises(OSError, match=str(len(pauses))):
            retried(store.read, store.clock, pauses)
        assert store.pauses == list(pauses)
    assert sum(SHORT_PAUSES) < 2
    assert sum(LONG_PAUSES) < 60


@pytest.mark.parametrize(
    "error",
    [
        Conflict("lost"),
        Unknown("no answer"),
        OptionError("where", "x", "y"),
        RetentionError("no"),
        Unsupported("t", "f"),
        KeyError("a bug"),
        AssertionError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_another_call_cannot_change_is_raised_at_once(error: Exception) -> None:
    store = Store(error, "rows")
    with pytest.raises(type(error)):
        retried(store.read, store.clock)
    assert store.pauses == []


def test_a_read_of_what_is_gone_is_not_repeated() -> None:
    """The log shows it after the second error."""
    looks = iter([None, "the inputs were removed"])
    store = Store(OSError("reset"), OSError("no such file"), "rows")
    with pytest.raises(OSError, match="no such file"):
        retried(store.read, store.clock, hopeless=lambda: next(looks))
    assert store.pauses == list(LONG_PAUSES[:1])


def test_an_interrupt_is_not_an_error_of_the_store() -> None:
    store = Store("rows")

    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retried(interrupted, store.clock)
    assert store.pauses == []


@pytest.mark.parametrize(
    "error, pauses", [(Rejected("429"), SHORT_PAUSES), (NotSent("the note cannot be written"), LONG_PAUSES)]
)
def test_a_commit_that_did_not_reach_the_log_is_made_again(
    error: Exception, pauses: tuple[float, ...]
) -> None:
    for failures in range(len(pauses) + 1):
        store, checks = Store(*[error] * failures, "done"), list[int]()
        assert sent(store.read, "t", store.clock, partial(checks.append, 1)) == "done"
        assert store.pauses == list(pauses[:failures])
        assert len(checks) == failures + 1
    store = Store(*[error] * (len(pauses) + 1), "done")
    with pytest.raises(type(error)):
        sent(store.read, "t", store.clock, lambda: None)


@pytest.mark.parametrize("error", [Conflict("lost"), Unknown("no answer"), Unsupported("t", "f")])
def test_an_attempt_that_was_sent_is_not_made_again(error: Exception) -> None:
    store = Store(error, "done")
    with pytest.raises(type(error)):
        sent(store.read, "t", store.clock, lambda: None)
    assert store.pauses == []


@pytest.mark.parametrize("error", [AdapterError("503"), OSError("reset"), RuntimeError("o42.commit")])
def test_an_attempt_of_which_nothing_is_known_may_have_landed(error: Exception) -> None:
    store = Store(error, "done")
    with pytest.raises(Unknown, match="may have succeeded"):
        sent(store.read, "t", store.clock, lambda: None)
    assert store.pauses == []


def test_a_check_that_fails_ends_the_attempts() -> None:
    store = Store("done")

    def dead() -> None:
        raise Rejected("the registration is gone")

    with pytest.raises(Rejected, match="registration"):
        sent(store.read, "t", store.clock, dead)
    assert store.pauses == []
