"""Tasks of a pass as calls: what the other process receives, and what its answers change here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.api import Table
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.scheduling.heavy_call import FAILED_FILES, HeavyCall
from lakekeeper.core.scheduling.task import Task, kind_of
from lakekeeper.core.workload.workload import Workload, collect
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoff, Backoffs
from lakekeeper.errors import HeavyError
from lakekeeper.heavy import application
from lakekeeper.heavy.lane import Lane, NotStarted
from lakekeeper.heavy.process import HeavyProcess
from lakekeeper.heavy.tasks import HeavyTasks, full_name
from lakekeeper.spark import confs
from lakekeeper.spi import Observer, TableName
from lakekeeper.workloads import EventLogs

NAME = TableName("t", "iceberg", "`ice`.`db`.`t`", "ice", ("db",), "t")
MERGE = Task("merge", "t", "compact")


class Opened:
    """A table of the pass, without a workload."""

    def workload(self) -> None:
        return None


@dataclass
class Recorded:
    """A lane that answers each call with the next report, or raises it."""

    answers: list[Any]
    calls: list[HeavyCall] = field(default_factory=list)

    def run(self, call: HeavyCall, _: Observer | None) -> dict[str, Any]:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer if isinstance(answer, dict) else answer.to_dict())


def tasks(lane: Any, backoffs: Backoffs | None = None, now_ms: int = 1_000) -> HeavyTasks:
    opened: Any = Opened()
    confs = {"spark.lakekeeper.budget-bytes": "1GB"}
    return HeavyTasks(lane, lambda _: (opened, NAME), lambda: confs, backoffs, Clock(lambda: now_ms))


def report(*groups: GroupResult) -> MergeReport:
    return MergeReport("t", "compact", dry_run=False, version_before=1, version_after=2, groups=groups)


def group(partition: str, status: str, replayed: int = 0) -> GroupResult:
    return GroupResult("g", status, 2, 10, partition=partition, replayed_rows=replayed)


def silent(*_: object) -> None:
    return None


def test_the_next_call_leaves_out_partitions_in_which_users_won() -> None:
    backoffs = Backoffs.between(60)
    races = [group("a", "dropped"), group("b", "committed", 3)]
    landed = [group(partition, "committed") for partition in "abc"]
    lane = Recorded([report(*races, *landed), report()])
    heavy = tasks(lane, backoffs)
    heavy.merge(MERGE, 500, silent)
    assert heavy.merge(MERGE, None, silent) == report()
    first, second = lane.calls
    assert first == HeavyCall("ice.db.t", "compact", 500, confs={"spark.lakekeeper.budget-bytes": "1GB"})
    assert second.resting == ("a", "b")
    assert second.budget_bytes is None


def test_a_partition_that_commits_without_a_race_is_no_longer_left_out() -> None:
    backoffs = Backoffs.between(60)
    lane = Recorded([report(group("a", "dropped")), report(group("a", "committed")), report()])
    for _ in range(3):
        tasks(lane, backoffs).merge(MERGE, None, silent)
    assert [call.resting for call in lane.calls] == [(), ("a",), ()]


def test_files_whose_merge_failed_there_are_left_out_by_the_next_call() -> None:
    backoffs = Backoffs.between(60)
    lane = Recorded([{**report(group("", "failed")).to_dict(), FAILED_FILES: ["f", "e"]}, report()])
    for _ in range(2):
        tasks(lane, backoffs).merge(MERGE, None, silent)
    assert [call.failing for call in lane.calls] == [(), ("e", "f")]


def test_the_other_process_answers_with_the_files_whose_merge_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: object, __: str, backoff: Backoff) -> SimpleNamespace:
        assert backoff.failing(Clock().now_ms()) == {"e"}

        def compact(**_: Any) -> MergeReport:
            backoff.failed(["f"], Clock().now_ms())
            return report()

        return SimpleNamespace(compact=compact)

    monkeypatch.setattr(application, "open_table", opened)
    answer = application.carry_out(object(), HeavyCall("t", "compact", failing=("e",)), silent)  # type: ignore[arg-type]
    assert answer[FAILED_FILES] == ["f"]


def test_a_failed_start_of_the_application_is_not_repeated_in_a_pass() -> None:
    """Otherwise a hundred tables would wait a hundred times for a cluster that is down."""
    lane = Recorded([NotStarted("ice.db.t", "no master answers"), report()])
    heavy = tasks(lane)
    for _ in range(3):
        with pytest.raises(HeavyError, match=r"^ice\.db\.t: no master answers$"):
            heavy.merge(MERGE, None, silent)
    assert len(lane.calls) == 1
    tasks(lane).merge(MERGE, None, silent)  # in the next pass


def test_a_task_that_failed_does_not_stop_the_others() -> None:
    lane = Recorded([HeavyError("ice.db.t: no space left"), report()])
    heavy = tasks(lane)
    with pytest.raises(HeavyError, match="no space left"):
        heavy.merge(MERGE, None, silent)
    assert heavy.merge(MERGE, None, silent) == report()


def test_event_logs_are_read_once_for_the_tasks_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task read all logs of the option ``workload``: hours for the tables of a large catalog."""
    read: list[Sequence[str]] = []

    def counted(paths: Sequence[str], names: Collection[str]) -> dict[str, Workload]:
        read.append(paths)
        return {name: collect(name, [], source="logs/app") for name in names}

    logs = EventLogs(lambda: {"t": ["ice.db.t"]}, counted)
    monkeypatch.setattr(confs, "lakekeeper_confs", lambda _: {"spark.lakekeeper.workload": "logs/app"})
    spark: Any = type("Session", (), {})()
    adapter: Any = SimpleNamespace(properties=dict)
    table = Table(spark, NAME, adapter, logs=logs)
    verbs = ("recluster", "compact", "merge_deletes", "build_filters")
    lane: Any = Recorded([report() for _ in verbs])
    heavy = HeavyTasks(lane, lambda _: (table, NAME), dict)
    for verb in verbs:
        heavy.merge(Task(kind_of(verb), "t", verb), None, silent)
    assert read == [("logs/app",)]
    assert [Workload.from_json(call.workload).scans for call in lane.calls] == [()] * len(verbs), (
        "nor in the other process"
    )


@pytest.mark.parametrize("verb", ["recluster", "compact", "merge_deletes", "build_filters"])
def test_the_other_process_plans_with_the_workload_of_the_service(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """It has heard no query: what the service found due was not due there, in each pass again."""
    heard = collect("t", [], source="queries of this session")
    given: list[Workload] = []

    def merged(*, workload: Workload, **_: Any) -> MergeReport:
        given.append(workload)
        return report()

    table, spark = SimpleNamespace(**{verb: merged}), object()
    monkeypatch.setattr(application, "open_table", lambda *_: table)
    call = HeavyCall("t", verb, workload=heard.to_json())
    application.carry_out(spark, call, silent)  # type: ignore[arg-type]
    assert [each.to_json() for each in given] == [heard.to_json()]


@pytest.mark.parametrize(
    "name, text",
    [
        (NAME, "ice.db.t"),
        (TableName("t", "delta", "", "spark_catalog", ("a", "b-c"), "t.1"), "spark_catalog.a.`b-c`.`t.1`"),
        (TableName("../t", "delta", "delta.`file:/data/t`", path="file:/data/t"), "file:/data/t"),
    ],
)
def test_another_process_finds_the_table_by_its_full_name(name: TableName, text: str) -> None:
    assert full_name(name) == text


def test_a_lane_with_a_real_process_does_the_same(
    lane: Callable[..., Lane], started: list[HeavyProcess]
) -> None:
    heavy = tasks(lane())
    assert heavy.merge(MERGE, None, silent).table == "ice.db.t"
    assert len(started) == 1
