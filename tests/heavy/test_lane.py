"""The process of heavy tasks is started for a task, shared, ended when idle, and replaced when it dies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.scheduling.heavy_call import HeavyCall
from lakekeeper.errors import HeavyError
from lakekeeper.heavy import lane as module
from lakekeeper.heavy.lane import Lane
from lakekeeper.heavy.process import HeavyProcess
from tests.faults.processes import gone

Lanes = Callable[..., Lane]


def pid(process: HeavyProcess) -> int:
    return int(process.info["application"].removeprefix("app-"))


def test_nothing_is_started_before_the_first_task(lane: Lanes, started: list[HeavyProcess]) -> None:
    with lane():
        pass
    assert started == []


def test_a_task_returns_its_report_and_reports_its_phases(lane: Lanes) -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []
    opened = lane()
    report = MergeReport.from_dict(
        opened.run(HeavyCall("ice.db.t", "compact"), lambda phase, info: seen.append((phase, info)))
    )
    assert (report.table, report.verb, report.version_after) == ("ice.db.t", "compact", 2)
    assert seen == [("planned", {"table": "ice.db.t", "run_id": "run-1", "tasks": 1})]
    assert opened.core_seconds({"run-1", "another"}) == 1.5
    assert opened.core_seconds({"another"}) is None, "an unknown time is not zero"
    assert opened.cores == 4


def test_tasks_of_several_threads_share_one_process(lane: Lanes, started: list[HeavyProcess]) -> None:
    opened = lane()
    names = [f"t{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda name: opened.run(HeavyCall(name, "compact"), None), names))
    assert [report["table"] for report in reports] == names
    assert {report["rounds"] for report in reports} == {pid(started[0])}
    assert len(started) == 1


def test_an_idle_process_ends_and_the_next_task_starts_another(
    lane: Lanes, started: list[HeavyProcess]
) -> None:
    opened = lane(idle_seconds=0.01)
    first = opened.run(HeavyCall("t", "compact"), None)["rounds"]
    assert gone(first)
    assert opened.run(HeavyCall("t", "compact"), None)["rounds"] != first
    assert gone(pid(started[1]))


def test_an_idle_process_has_ended_when_the_lane_is_closed(lane: Lanes, started: list[HeavyProcess]) -> None:
    with lane(idle_seconds=0.0) as opened:
        opened.run(HeavyCall("t", "compact"), None)
    assert not started[0].running


def test_a_process_with_a_task_is_not_idle(lane: Lanes, started: list[HeavyProcess]) -> None:
    """Two tasks, and the shorter ones end first: the idle time (here 0) starts only when the longer one ends."""
    opened, planned = lane(idle_seconds=0.0), Event()
    with ThreadPoolExecutor(1) as pool:
        longer = pool.submit(opened.run, HeavyCall("longer", "hang"), lambda *_: planned.set())
        assert planned.wait(60)
        for _ in range(3):
            opened.run(HeavyCall("shorter", "compact"), None)
        assert len(started) == 1
        assert not longer.done()
        opened.close()
        with pytest.raises(HeavyError, match=r"longer: .* is gone: it ended with exit code 0"):
            longer.result()


def test_a_process_that_dies_fails_its_tasks_and_the_next_task_starts_another(
    lane: Lanes, started: list[HeavyProcess]
) -> None:
    opened = lane()
    with pytest.raises(HeavyError) as error:
        opened.run(HeavyCall("ice.db.t", "die"), None)
    said = str(error.value)
    assert said.startswith("ice.db.t: ")
    assert "spark.lakekeeper.heavy.master=spark://m:7077" in said
    assert "ended with signal 9; what die had committed stays in the table" in said
    assert opened.run(HeavyCall("ice.db.t", "compact"), None)["table"] == "ice.db.t"
    assert len(started) == 2


def test_a_process_that_died_between_two_tasks_is_replaced(lane: Lanes, started: list[HeavyProcess]) -> None:
    opened = lane()
    opened.run(HeavyCall("t", "compact"), None)
    started[0].end(0)
    assert opened.run(HeavyCall("t", "compact"), None)["rounds"] == pid(started[1])


def test_an_error_of_the_task_is_the_error_of_the_call(lane: Lanes, started: list[HeavyProcess]) -> None:
    opened = lane()
    with pytest.raises(HeavyError, match=r"^ice\.db\.t: SparkException: no space left$"):
        opened.run(HeavyCall("ice.db.t", "fail"), None)
    opened.run(HeavyCall("ice.db.u", "compact"), None)
    assert len(started) == 1, "the process is still usable"


def test_an_application_whose_spark_died_is_replaced(lane: Lanes, started: list[HeavyProcess]) -> None:
    opened = lane()
    with pytest.raises(HeavyError, match=r"^ice\.db\.t: Py4JNetworkError: Java is gone$"):
        opened.run(HeavyCall("ice.db.t", "lose"), None)
    opened.run(HeavyCall("ice.db.u", "compact"), None)
    assert len(started) == 2


@pytest.mark.parametrize(
    "start, said",
    [
        ("refuse", "did not start: no master answers at spark://m:7077"),
        ("die", "did not start: it ended with exit code 3 before it was ready; its stderr says why"),
        ("hang", r"did not start: it had no executor within 1 s \(spark.lakekeeper.heavy.start-timeout\)"),
    ],
)
def test_a_process_that_does_not_start_says_why(lane: Lanes, start: str, said: str) -> None:
    with pytest.raises(HeavyError, match=f"^ice.db.t: .*{said}"):
        lane(start, start_seconds=1.0 if start == "hang" else 60.0).run(
            HeavyCall("ice.db.t", "compact"), None
        )


def test_an_observer_that_raises_ends_the_task_and_its_process(
    lane: Lanes, started: list[HeavyProcess]
) -> None:
    def halt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lane().run(HeavyCall("t", "hang"), halt)
    assert not started[0].running or gone(pid(started[0]))


@pytest.mark.parametrize(
    "start, call, said",
    [
        ("ready", HeavyCall("t", "hang"), "ended with signal 9: it gave no sign of life for "),
        # More than a pipe holds: not even the task can be sent.
        ("deaf", HeavyCall("t", "compact", workload="x" * (1 << 20)), "it gave no sign of life for "),
        ("ready", HeavyCall("t", "garble"), "ended with signal 9: what it said cannot be read: "),
    ],
)
def test_a_process_that_no_answer_can_come_from_is_replaced(
    lane: Lanes, started: list[HeavyProcess], start: str, call: HeavyCall, said: str
) -> None:
    opened = lane(start, silent_seconds=0.2 if "garble" not in call.verb else 600.0)
    with pytest.raises(HeavyError, match=f"^t: .* is gone: .*{said}"):
        opened.run(call, None)
    assert gone(pid(started[0]))


class Starting:
    """Holds up the start of an application until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.let = Event(), Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.let.wait(60)


def test_an_application_that_is_starting_holds_up_no_light_task(
    lane: Lanes, started: list[HeavyProcess]
) -> None:
    """A pass asks for the core-seconds of each task; it waited for up to heavy.start-timeout."""
    starting = Starting()
    opened = lane(before=starting)
    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(opened.run, HeavyCall(f"t{number}", "compact"), None) for number in range(2)]
        try:
            assert starting.begun.wait(60)
            assert pool.submit(opened.core_seconds, {"run-1"}).result(30) is None
        finally:
            starting.let.set()
        assert {task.result()["rounds"] for task in tasks} == {pid(started[0])}
    assert len(started) == 1


def test_an_application_that_is_starting_when_the_lane_is_closed_ends(
    lane: Lanes, started: list[HeavyProcess]
) -> None:
    starting = Starting()
    opened = lane(before=starting)
    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(opened.run, HeavyCall(f"t{number}", "compact"), None) for number in range(2)]
        try:
            assert starting.begun.wait(60)
            pool.submit(opened.close).result(30)
        finally:
            starting.let.set()
        for number, task in enumerate(tasks):
            with pytest.raises(HeavyError, match=f"^t{number}: .* did not start: the service has stopped$"):
                task.result()
    assert [gone(pid(each)) for each in started] == [True], "the second task starts none"


def test_tasks_that_wait_for_a_start_that_fails_start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no executor came, each of eight threads waited for ``heavy.start-timeout``, one after the other."""
    came: set[int] = set()
    all_wait, starts = Event(), []

    class Watched:
        """A lock that notes which threads have come to it."""

        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            came.add(threading.get_ident())
            if len(came) == 8:
                all_wait.set()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    def start() -> HeavyProcess:
        starts.append(threading.get_ident())
        assert all_wait.wait(60)
        raise HeavyError("no executor came")

    monkeypatch.setattr(module, "threading", SimpleNamespace(Lock=Watched))
    opened = Lane("spark://m:7077", start, 600.0)
    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(opened.run, HeavyCall(f"t{number}", "compact"), None) for number in range(8)]
        for number, task in enumerate(tasks):
            with pytest.raises(HeavyError, match=f"^t{number}: .* did not start: no executor came$"):
                task.result()
    assert len(starts) == 1
    with pytest.raises(HeavyError, match="no executor came"):
        opened.run(HeavyCall("t", "compact"), None)
    assert len(starts) == 2, "a task that comes later attempts it again"


def test_a_process_that_reads_nothing_is_ended_too(started: list[HeavyProcess], lane: Lanes) -> None:
    opened = lane("deaf")
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(opened.run, HeavyCall("t", "compact", workload="x" * (1 << 20)), None)
        while not started and not pending.done():
            Event().wait(0.01)
        started[0].end(0.1)
        with pytest.raises(HeavyError, match=r"t: .* is gone"):
            pending.result()


def test_a_log_handler_that_raises_costs_no_task(lane: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no space left on the log's disk")

    monkeypatch.setattr(logging.getLogger("lakekeeper.events"), "handle", refuse)
    assert lane().run(HeavyCall("ice.db.t", "log"), None)["table"] == "ice.db.t"


def test_its_log_goes_to_the_log_of_the_service(lane: Lanes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakekeeper"):
        lane().run(HeavyCall("ice.db.t", "log"), None)
    (record,) = [each for each in caplog.records if each.name == "lakekeeper.events"]
    assert (record.levelname, record.getMessage()) == ("WARNING", "lost a race")
    assert (record.__dict__["table"], record.__dict__["application"]) == ("ice.db.t", "app-1")
