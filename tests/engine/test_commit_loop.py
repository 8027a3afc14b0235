"""The loop that every commit runs in: how often and how long it retries, and which answers it trusts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, pause_seconds
from lakekeeper.engine.events import Events
from lakekeeper.errors import Conflict, Rejected, Unknown


@dataclass
class Commit:
    """A commit with one outcome after another, on a clock that only waits advance."""

    outcomes: Iterator[Exception | str]
    options: Mapping[str, Any] = field(default_factory=dict)
    now_ms: float = 0
    pauses: list[float] = field(default_factory=list)
    reported: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        events = Events("t", "run-1", lambda phase, facts: self.reported.append({"phase": phase, **facts}))
        clock = Clock(now_ms=lambda: int(self.now_ms), wait=self.wait)
        options = resolve(self.options)
        self.loop = CommitLoop(events, options, clock, "the commit", "nothing was written")

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_ms += seconds * 1000

    def attempt(self) -> str:
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run(self, after: Callable[[Conflict], str | Retry] = lambda _: Retry(), **more: Any) -> str:
        return self.loop.run(self.attempt, after, **more)


def lost(times: int, *then: Exception | str) -> Iterator[Exception | str]:
    yield from (Conflict(f"lost {n}", winner=f"v{n}") for n in range(times))
    yield from then


def test_the_first_attempt_that_lands_is_the_result() -> None:
    commit = Commit(lost(3, "landed"))
    assert commit.run() == "landed"
    assert commit.pauses == [0.1, 0.2, 0.4]
    reported = [(e["phase"], e["attempt"], e["reason"], e["dropped"], e["replayed"]) for e in commit.reported]
    why = [Reason.of(Code.CONFLICT, error=f"lost {n}", winner=f"v{n}") for n in range(3)]
    assert reported == [("conflict", n, why[n], 0, 0) for n in range(3)]


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_the_attempts_are_bounded_by_number(retries: int) -> None:
    commit = Commit(lost(99), {"commit.retry.num-retries": retries})
    with pytest.raises(
        Conflict, match=f"t: the commit gave up after {retries + 1} attempts, the last"
    ) as gave_up:
        commit.run()
    assert gave_up.value.winner == f"v{retries}"
    assert "nothing was written" in str(gave_up.value)
    assert len(commit.pauses) == retries
    assert len(commit.reported) == retries + 1


@pytest.mark.parametrize("started, attempts", [(False, 5), (True, 1)])
def test_the_attempts_are_bounded_by_time_from_the_first_loss_or_the_start(
    started: bool, attempts: int
) -> None:
    commit = Commit(lost(99), {"commit.retry.num-retries": 100, "commit.retry.total-timeout-ms": 1_000})
    if started:
        commit.loop.start()
    commit.now_ms = 5_000_000
    with pytest.raises(Conflict, match=f"gave up after {attempts} attempts"):
        commit.run()
    assert commit.pauses == [0.1, 0.2, 0.4, 0.8][: attempts - 1]


def test_attempts_that_do_not_count_are_bounded_by_time_alone() -> None:
    options = {"commit.retry.num-retries": 0, "commit.retry.total-timeout-ms": 1_000}
    commit = Commit(lost(99), options)

    def resume() -> None:
        commit.now_ms += 300

    with pytest.raises(Conflict, match="gave up after 5 attempts"):
        commit.run(lambda _: Retry(counts=False, wait=False, resume=resume))
    assert commit.pauses == []


def test_a_clock_that_is_set_back_adds_no_more_than_the_whole_time() -> None:
    options = {"commit.retry.num-retries": 0, "commit.retry.total-timeout-ms": 1_000}
    commit, back = Commit(lost(99), options, now_ms=10**9), [86_400_000]

    def resume() -> None:
        commit.now_ms -= back.pop() if back else 0

    with pytest.raises(Conflict, match="gave up"):
        commit.run(lambda _: Retry(counts=False, resume=resume))
    assert sum(commit.pauses) <= 2


def test_the_work_is_refreshed_after_the_wait() -> None:
    commit = Commit(lost(2, "landed"))
    seen: list[int] = []
    assert commit.run(lambda _: Retry(resume=lambda: seen.append(len(commit.pauses)))) == "landed"
    assert seen == [1, 2]


def test_a_commit_that_landed_and_was_reported_lost_is_the_result() -> None:
    commit = Commit(lost(1))
    assert commit.run(lambda _: "it landed") == "it landed"
    assert (commit.reported, commit.pauses) == ([], [])


def test_a_commit_that_landed_at_the_last_attempt_is_the_result() -> None:
    commit = Commit(lost(1), {"commit.retry.num-retries": 0})
    assert commit.run(lambda _: "it landed") == "it landed"


def test_an_unknown_outcome_is_settled_and_never_retried() -> None:
    commit = Commit(lost(0, Unknown("no answer"), "twice"))
    assert commit.run(settle=lambda doubt: f"settled: {doubt}") == "settled: no answer"
    with pytest.raises(Unknown, match="no answer"):
        Commit(lost(0, Unknown("no answer"), "twice")).run()


@pytest.mark.parametrize("error", [Rejected("no"), ValueError("a fault")])
def test_any_other_error_ends_the_loop(error: Exception) -> None:
    commit = Commit(lost(1, error, "landed"))
    with pytest.raises(type(error)):
        commit.run()
    assert next(commit.outcomes) == "landed"


def test_pauses_double_between_their_bounds() -> None:
    assert [pause_seconds(n) for n in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
