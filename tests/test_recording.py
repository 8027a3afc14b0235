"""What automatic runs remember: in memory, or shared through the history, and never at the cost of a pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.core.scheduling.task import State, Task, failed
from lakekeeper.core.units import DAY_MS
from lakekeeper.errors import HistoryError
from lakekeeper.history.store import HistoryStore
from lakekeeper.recording import FleetMemory, table_id
from lakekeeper.redaction import redacted
from lakekeeper.spi import TableName

TASK = failed(Task("merge", "a", "compact"), "boom", 0, 1_000)


def report(rewritten: int = 0, *tasks: Task) -> AutoReport:
    result = TableResult("a", "done", Reason.of(Code.DONE), rewritten_bytes_count=rewritten, tasks=tasks)
    return AutoReport((result,), 1)


def test_a_service_remembers_tasks_and_the_bytes_of_a_day() -> None:
    memory = FleetMemory()
    memory.keep(report(100, TASK), DAY_MS)
    memory.keep(report(50), 2 * DAY_MS - 1)
    assert memory.tasks() == {("a", "compact"): TASK}
    assert memory.rewritten_bytes(2 * DAY_MS - 1) == 150
    assert memory.rewritten_bytes(2 * DAY_MS) == 50
    assert FleetMemory().tasks() == {}


def test_a_service_remembers_the_core_seconds_of_a_day_by_table() -> None:
    memory = FleetMemory()
    for at, name, used in ((DAY_MS, "a", 10.0), (2 * DAY_MS - 1, "b", 5.0), (2 * DAY_MS - 1, "a", 1.0)):
        result = TableResult(name, "done", Reason.of(Code.DONE), core_seconds=used)
        memory.keep(AutoReport((result,), 1), at)
    assert memory.core_seconds(2 * DAY_MS - 1) == 16.0
    assert memory.core_seconds(2 * DAY_MS - 1, "a") == 11.0
    assert memory.core_seconds(2 * DAY_MS, "a") == 1.0


def test_a_clock_that_is_set_back_frees_the_budget_of_a_service() -> None:
    memory = FleetMemory()
    used = TableResult("a", "done", Reason.of(Code.DONE), rewritten_bytes_count=100, core_seconds=7.0)
    memory.keep(AutoReport((used,), 1), 3_650 * DAY_MS)
    assert (memory.rewritten_bytes(400 * DAY_MS), memory.core_seconds(400 * DAY_MS)) == (0, 0.0)
    memory.keep(report(50), 400 * DAY_MS)
    assert memory.rewritten_bytes(400 * DAY_MS) == 50


def test_passes_of_different_processes_share_their_memory_through_the_history(tmp_path: Path) -> None:
    FleetMemory(HistoryStore(tmp_path / "history.db")).keep(report(100, TASK), 0)
    assert FleetMemory(HistoryStore(tmp_path / "history.db")).tasks() == {("a", "compact"): TASK}


CREDENTIALS = "s3a://AKIA123:very/secret@bucket/t"
"""Where a table is, with the user and the password of a URL."""
HIDDEN = "s3a://***@bucket/t"


@pytest.mark.parametrize(
    "name, known",
    [
        ("abfss://sales@acct.dfs.core.windows.net/db/t",) * 2,
        (CREDENTIALS, HIDDEN),
        (f"delta.`{CREDENTIALS}`", f"delta.`{HIDDEN}`"),
    ],
)
def test_a_new_process_finds_its_parked_tasks_whatever_the_table_is_called(
    tmp_path: Path, name: str, known: str
) -> None:
    path = tmp_path / "history.db"
    parked = replace(TASK, table=name)
    first = FleetMemory(HistoryStore(path, redacted))
    first.keep(report(100, parked), 0)
    assert b"secret" not in path.read_bytes()
    assert FleetMemory(HistoryStore(path)).tasks()[parked.key] == replace(parked, table=known)
    assert HistoryStore(path).release({name}) == (known,)
    assert first.tasks()[parked.key].failures == 0, "the service itself sees the release too"
    assert len(first.tasks()) == 1


def test_an_unavailable_history_only_causes_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    memory = FleetMemory(HistoryStore(tmp_path / "file" / "history.db"))
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        memory.keep(report(100, TASK), 0)
        assert (memory.tasks(), memory.rewritten_bytes(1)) == ({("a", "compact"): TASK}, 100)
    assert "the history of automatic runs is not available" in caplog.text


class Full(HistoryStore):
    """A file that can be read, and written only while its disk has room."""

    full = True

    def keep_tasks(
        self, tasks: Iterable[Task], now_ms: int, before: Mapping[tuple[str, str], Task] | None = None
    ) -> None:
        if self.full:
            raise HistoryError("database or disk is full")
        super().keep_tasks(tasks, now_ms, before)


def test_a_history_that_cannot_be_written_overrides_nothing_newer(tmp_path: Path) -> None:
    """Failures that it lacks keep counting, until it changes: by another process, or by this one."""
    others, full = HistoryStore(tmp_path / "history.db"), Full(tmp_path / "history.db")
    others.keep_tasks([Task("merge", "a", "compact", state="done")], 0)
    memory, again = FleetMemory(full), failed(TASK, "boom", 0, 1_000)
    for task in (TASK, again):
        memory.tasks()
        memory.keep(report(0, task), 0)
        assert memory.tasks() == {TASK.key: task}
    theirs = replace(TASK, failures=7)
    others.keep_tasks([theirs], 0)
    assert memory.tasks() == {TASK.key: theirs}
    memory.keep(report(0, again), 0)
    assert memory.tasks() == {TASK.key: again}
    others.release({"a"})
    assert memory.tasks()[TASK.key].failures == 0, "released by a user"
    full.full = False
    memory.keep(report(0, again), 0)
    assert memory.tasks() == {TASK.key: again} == {task.key: task for task in others.tasks()}


def test_services_have_different_names() -> None:
    assert FleetMemory().owner != FleetMemory().owner


@pytest.mark.parametrize(
    "name, expected",
    [
        (TableName("t", "iceberg", "t", "ice", ("a", "b"), "t"), "ice.a.b.t"),
        (TableName("/x/t/", "delta", "", path="file:/x/t/"), "/x/t"),
        (TableName("s3a://b/t", "delta", "", path="s3a://b/t"), "s3a://b/t"),
        (TableName(CREDENTIALS, "delta", "", path=CREDENTIALS), HIDDEN),
    ],
)
def test_the_name_of_a_table_in_the_history(name: TableName, expected: str) -> None:
    assert str(table_id(name)) == expected


@pytest.mark.parametrize("ran", [False, True], ids=["still parked", "failed again"])
def test_a_release_during_a_pass_holds_unless_the_task_fails_again(tmp_path: Path, ran: bool) -> None:
    """The pass wrote the tasks as it had read them at its start: `release` reported success, to no effect."""
    store = HistoryStore(tmp_path / "history.db")
    parked = failed(TASK, "boom", 0, 1_000)
    store.keep_tasks([parked], 0)
    memory = FleetMemory(store)
    assert memory.tasks()[TASK.key].failures == parked.failures > 0
    assert store.release({"a"}) == ("a",)
    memory.keep(report(0, failed(parked, "boom", 1, 1_000) if ran else replace(parked, state="queued")), 1)
    [left] = FleetMemory(store).tasks().values()
    assert (left.failures, left.is_parked(2)) == ((parked.failures + 1, True) if ran else (0, False))


@pytest.mark.parametrize("state", ["queued", "skipped"])
def test_a_pass_that_did_not_run_a_task_keeps_what_another_wrote_of_it(tmp_path: Path, state: State) -> None:
    """It wrote the task as it had read it: the failure of another service was forgotten, and the pause with it."""
    ours, theirs = (FleetMemory(HistoryStore(tmp_path / "history.db")) for _ in range(2))
    theirs.keep(report(0, TASK), 0)
    assert ours.tasks() == theirs.tasks() == {TASK.key: TASK}
    broken = failed(TASK, "boom", 1, 1_000)
    theirs.keep(report(0, broken), 1)
    ours.keep(report(0, replace(TASK, state=state, score=7.0)), 2)
    assert ours.tasks() == theirs.tasks() == {TASK.key: broken}
    waiting = replace(broken, state="queued", score=7.0)
    ours.keep(report(0, waiting), 3)
    assert theirs.tasks() == {TASK.key: waiting}, "nothing has changed since it was read"


def test_two_passes_that_find_a_new_task_leave_the_first(tmp_path: Path) -> None:
    ours, theirs = (FleetMemory(HistoryStore(tmp_path / "history.db")) for _ in range(2))
    assert ours.tasks() == theirs.tasks() == {}
    new = Task("merge", "a", "compact")
    theirs.keep(report(0, TASK), 1)
    ours.keep(report(0, new), 2)
    assert ours.tasks() == {TASK.key: TASK}
    ours.keep(report(0, replace(new, state="done")), 3)
    assert [task.state for task in theirs.tasks().values()] == ["done"], "it ran"
