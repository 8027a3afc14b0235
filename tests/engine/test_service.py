"""The thread of a service: it repeats passes, keeps their errors, and stops without waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.engine.service import Service


def _service(one_pass: Callable[[], AutoReport]) -> Service:
    # The pause is far longer than a test: only stop() ends it, so no test waits for one.
    return Service(one_pass, 86_400)


def test_a_service_runs_at_once_and_stops_in_the_middle_of_its_pause() -> None:
    result = AutoReport((), 1)
    with _service(lambda: result).start() as service:
        assert service.wait(1, timeout=30)
    assert (service.reports, service.passes, service.error) == ([result], 1, None)


def _in_a_pass() -> tuple[Service, threading.Event]:
    """A service in the middle of a pass, which ends once the event is set."""
    begun, go_on = threading.Event(), threading.Event()

    def one_pass() -> AutoReport:
        begun.set()
        assert go_on.wait(30)
        return AutoReport((), 1)

    service = _service(one_pass).start()
    assert begun.wait(30)
    return service, go_on


def test_a_service_stopped_during_a_pass_lets_it_finish() -> None:
    service, go_on = _in_a_pass()
    stopper = threading.Thread(target=service.stop)
    stopper.start()
    go_on.set()
    stopper.join(30)
    assert not stopper.is_alive()
    assert (len(service.reports), service.passes) == (1, 1)


def test_a_stop_waits_no_longer_than_its_caller_allows() -> None:
    service, go_on = _in_a_pass()
    assert not service.stop(0.01)
    go_on.set()
    assert service.stop(30)
    assert service.passes == 1


def test_the_error_of_a_pass_is_kept_and_the_next_one_runs() -> None:
    answers = iter([RuntimeError("catalog is down"), AutoReport((), 1)])
    service = Service(lambda: _next(answers), 0.001).start()
    assert service.wait(2, timeout=30)
    service.stop()
    assert len(service.reports) >= 1


def _next(answers: Any) -> AutoReport:
    answer = next(answers, AutoReport((), 1))
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_service_keeps_the_error_of_its_last_pass() -> None:
    def down() -> AutoReport:
        raise RuntimeError("catalog is down")

    with _service(down).start() as service:
        assert service.wait(1, timeout=30)
    assert str(service.error) == "catalog is down"


def test_a_service_that_never_started_stops() -> None:
    _service(lambda: AutoReport((), 1)).stop()


def test_written_data_is_seen_before_the_pause_is_over() -> None:
    """An early pass follows the last one after a fifteenth of the pause, and does not delay the next whole pass."""
    made: list[str] = []

    def a_pass(kind: str) -> AutoReport:
        made.append(kind)
        return AutoReport((), 1)

    with Service(partial(a_pass, "whole"), 3, early=partial(a_pass, "early")).start() as service:
        assert service.wait(1, timeout=30)
        service.sooner()
        assert service.wait(3, timeout=30)
    assert made[:3] == ["whole", "early", "whole"]


def test_a_pass_broken_off_by_the_end_of_the_session_does_not_count() -> None:
    over = threading.Event()

    def one_pass() -> AutoReport:
        over.set()
        raise RuntimeError("the Spark context was stopped")

    service = Service(one_pass, 86_400, over=over.is_set).start()
    service.stop()
    assert over.is_set()
    assert (service.reports, service.passes, service.error, service.running) == ([], 0, None, False)


@pytest.mark.parametrize("by", ["the end of the session", "a stop"])
def test_a_wait_ends_with_the_thread(by: str) -> None:
    """It blocked forever, since no pass ends any more."""
    over = threading.Event()
    service = Service(lambda: AutoReport((), 1), 86_400, over=over.is_set).start()
    assert service.wait(1, timeout=30)
    waits = threading.Thread(target=service.wait, args=(2,), daemon=True)
    waits.start()
    if by == "a stop":
        assert service.stop(30)
    over.set()
    waits.join(30)
    assert not waits.is_alive()
    assert not service.wait(2)
