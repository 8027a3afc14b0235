"""The history in its file: one process or two read back what they wrote, and the file does not grow without bound."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.core.scheduling.task import Task, failed
from lakekeeper.errors import HistoryError
from lakekeeper.history.operation import Operation
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.redaction import redacted
from tests.history.operations import DAY_MS, EVENTS, GROUP, LEFT, operation, traced

TASK = failed(Task("merge", "ice.db.t", "compact"), "boom", 0, 1_000)
OTHER = TableId("", "", "/data/events", "delta")


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return HistoryStore(tmp_path / "state" / "history.db")


def added(store: HistoryStore, *operations: Operation, keep_ms: int = 90 * DAY_MS) -> None:
    for each in operations:
        store.add(each, keep_ms)


def ids(operations: tuple[Operation, ...]) -> list[str]:
    return [each.operation_id for each in operations]


def test_an_operation_is_read_as_it_was_written(store: HistoryStore) -> None:
    unknown = operation("op-2", core_seconds=None, version_before=None, version_after=None, groups=())
    added(store, operation(), unknown)
    assert store.operations() == (unknown, operation())
    assert store.tables() == (EVENTS,)


def test_the_file_can_be_queried_without_lakekeeper(store: HistoryStore) -> None:
    added(store, operation())
    with sqlite3.connect(store.path) as db:
        row = db.execute(
            "SELECT operation_type, start_time, end_time, table_name, usage_unit, usage_quantity,"
            " json_extract(operation_metrics, '$.added_bytes_count'), json_extract(reason, '$.text')"
            " FROM operations WHERE end_time > datetime(0, 'unixepoch')"
        ).fetchone()
        group = db.execute(
            "SELECT group_id, bytes_in, bytes_out, rows_in, rows_out FROM merge_groups"
        ).fetchone()
    db.close()
    times = ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.500Z")
    assert row == ("compact", *times, "events", "CORE_SECONDS", 1.25, 310, "compact: 4 -> 1 file")
    assert group == ("abc", 400, 310, 40, 38)


@pytest.mark.parametrize("days", [400_000, 1_000_000, 10**15])
def test_a_retention_longer_than_the_calendar_keeps_everything(store: HistoryStore, days: int) -> None:
    """A year of three digits sorts after ours; a negative one does not exist."""
    now = 1_800_000_000_000
    added(store, operation("old", end_ms=now - 1), operation("new", end_ms=now), keep_ms=days * DAY_MS)
    assert ids(store.operations(since_ms=now - days * DAY_MS)) == ["new", "old"]


def test_operations_of_one_table_are_newest_first_and_limited(store: HistoryStore) -> None:
    added(store, *(operation(f"op-{i}", end_ms=1_000 * i) for i in (3, 1, 2)))
    added(store, operation("other", table=OTHER, end_ms=9_000))
    assert ids(store.operations(EVENTS)) == ["op-3", "op-2", "op-1"]
    assert ids(store.operations(EVENTS, limit=1)) == ["op-3"]
    assert ids(store.operations(since_ms=3_000)) == ["other", "op-3"]
    assert ids(store.operations(OTHER)) == ["other"]


def test_of_consecutive_idle_operations_the_newest_is_kept(store: HistoryStore) -> None:
    """A service that checks every 15 minutes and finds nothing must not fill the disk."""
    idle = [operation(f"idle-{i}", operation_status="idle", end_ms=10_000 + i) for i in range(50)]
    added(store, operation("work"), *idle[:40])
    added(store, operation("vacuum", operation_type="vacuum", operation_status="idle", end_ms=11_000))
    added(store, operation("more work", end_ms=12_000), *idle[40:])
    assert sorted(ids(store.operations())) == ["idle-39", "idle-49", "more work", "vacuum", "work"]


def test_operations_past_their_retention_are_deleted_with_their_groups(store: HistoryStore) -> None:
    kept = 2 * DAY_MS
    added(store, operation("old", end_ms=DAY_MS), operation("new", end_ms=4 * DAY_MS), keep_ms=kept)
    assert ids(store.operations()) == ["new", "old"]
    added(store, operation("a day later", end_ms=5 * DAY_MS), keep_ms=kept)
    assert ids(store.operations()) == ["a day later", "new"]
    with sqlite3.connect(store.path) as db:
        counts = [
            db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("merge_groups", "decisions")
        ]
    db.close()
    assert counts == [2, 2]


def test_operations_of_a_clock_that_is_ahead_delete_nothing(store: HistoryStore) -> None:
    """Each of them once deleted the history of all tables."""
    days = [operation(f"day-{day}", end_ms=day * DAY_MS) for day in range(80, 100)]
    ahead = [operation(f"ahead-{n}", end_ms=500 * DAY_MS + n, table=OTHER) for n in range(3)]
    added(store, *days, *ahead, operation("right again", end_ms=100 * DAY_MS), keep_ms=30 * DAY_MS)
    assert set(ids(store.operations())) == {each.operation_id for each in (*days, *ahead)} | {"right again"}


def test_details_are_read_by_one_query_for_all_operations_or_not_at_all(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [operation(f"op-{n}", end_ms=2_500 + n, groups=(GROUP,) * n) for n in range(4)]
    added(store, *made, operation("other", table=OTHER, end_ms=9_000))
    statements = traced(monkeypatch)
    assert store.operations(EVENTS, limit=3) == tuple(reversed(made[1:]))
    assert sum("merge_groups" in each for each in statements) == 1
    assert sum("decisions" in each for each in statements) == 1
    statements.clear()
    bare = [replace(each, groups=(), decisions=()) for each in made]
    assert store.operations(EVENTS, details=False) == tuple(reversed(bare))
    assert statements
    assert not any("merge_groups" in each or "decisions" in each for each in statements)


def test_reading_creates_no_file(store: HistoryStore) -> None:
    assert (store.operations(), store.tables()) == ((), ())
    assert not store.path.parent.exists()


def test_an_operation_that_cannot_be_written_whole_is_not_written_at_all(store: HistoryStore) -> None:
    added(store, operation("first"))
    broken = operation("second", decisions=(*operation().decisions, None))
    with pytest.raises(AttributeError):
        store.add(broken, DAY_MS)
    with pytest.raises(HistoryError, match="NOT NULL constraint failed"):
        store.add(operation("second", user=None), DAY_MS)
    assert ids(store.operations()) == ["first"]


def test_a_file_of_a_later_version_is_refused_and_left_unchanged(store: HistoryStore) -> None:
    added(store, operation())
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(HistoryError, match="version 99"):
        store.add(operation("second"), DAY_MS)
    with pytest.raises(HistoryError, match="version 99"):
        store.operations()


CALLS: dict[str, Callable[[HistoryStore], object]] = {
    "operations": lambda store: store.operations(),
    "tables": lambda store: store.tables(),
    "tasks": lambda store: store.tasks(),
    "rewritten_bytes": lambda store: store.rewritten_bytes(LastDay(0)),
    "core_seconds": lambda store: store.core_seconds("auto", LastDay(0)),
    "add": lambda store: store.add(operation(), DAY_MS),
    "keep_tasks": lambda store: store.keep_tasks([Task("merge", "a", "compact")], DAY_MS),
    "release": lambda store: store.release({"a"}),
}
OTHERS = {
    "a catalog": ("delete", 0, "CREATE TABLE iceberg_tables (catalog_name, table_namespace)"),
    "a catalog with a log": ("wal", 0, "CREATE TABLE iceberg_tables (catalog_name, table_namespace)"),
    "a table of ours": ("delete", 0, "CREATE TABLE tasks (id)"),
    "our version": ("delete", 1, "CREATE TABLE tasks (table_name, verb, task, updated)"),
    "another version": ("wal", 7, "CREATE TABLE tasks (id)"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("call", CALLS)
def test_a_database_of_another_application_is_refused_and_not_changed(
    tmp_path: Path, call: str, other: str
) -> None:
    mode, version, statement = OTHERS[other]
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as db:
        for each in (f"PRAGMA journal_mode = {mode}", f"PRAGMA user_version = {version}", statement):
            db.execute(each)
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=r"catalog\.db: another application's database, not a history"):
        CALLS[call](HistoryStore(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("call", ["operations", "tables", "tasks", "rewritten_bytes", "core_seconds"])
def test_an_empty_file_has_no_operations_and_stays_empty_until_one_is_written(
    tmp_path: Path, call: str
) -> None:
    path = tmp_path / "history.db"
    path.touch()
    assert not CALLS[call](HistoryStore(path))
    assert path.read_bytes() == b""
    added(HistoryStore(path), operation())
    assert ids(HistoryStore(path).operations()) == ["op-1"]


def test_readers_leave_only_the_file_and_read_what_another_process_just_wrote(store: HistoryStore) -> None:
    added(store, operation("first"))
    with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
        writer.execute("UPDATE operations SET operation_id = 'second'")
        assert ids(store.operations()) == ["second"]
    assert ids(store.operations()) == ["second"]
    assert [each.name for each in store.path.parent.iterdir()] == ["history.db"]


_READER = """
import sys
from lakekeeper.errors import HistoryError
from lakekeeper.history.store import HistoryStore
try:
    print(*(each.operation_id for each in HistoryStore(sys.argv[1]).operations()))
except HistoryError as error:
    print(error)
"""


def read_without_write_access(path: Path) -> str:
    """What a process prints that may read the file alone; root loses the right to ignore permissions."""
    limited = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    if limited and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere")
    modes = {each: each.stat().st_mode for each in (path, path.parent)}
    try:
        path.chmod(0o444)
        path.parent.chmod(0o555)
        command = [*limited, sys.executable, "-c", _READER, str(path)]
        root = Path(__file__).parents[2]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    finally:
        for each, mode in modes.items():
            each.chmod(mode)


def test_a_user_who_may_only_read_the_file_reads_it(store: HistoryStore) -> None:
    """As of a service's history; SQLite could not create its files beside it."""
    added(store, operation("first"))
    assert read_without_write_access(store.path) == "first"
    with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
        writer.execute("UPDATE operations SET operation_id = 'second'")
        assert read_without_write_access(store.path) == "second"


def test_what_a_writer_left_is_not_ignored_by_a_reader_who_may_not_move_it(store: HistoryStore) -> None:
    added(store, operation("first"))
    with closing(sqlite3.connect(store.path, isolation_level=None)) as writer:
        writer.execute("UPDATE operations SET operation_id = 'second'")
        log = store.path.with_name("history.db-wal")
        left = log.read_bytes()
    log.write_bytes(left)
    assert "a reader needs write access to its folder" in read_without_write_access(store.path)


def test_a_reason_of_a_later_version_is_still_read_as_text(store: HistoryStore) -> None:
    added(store, operation())
    later = json.dumps({"code": "of_tomorrow", "facts": {"n": 1}, "text": "as written"})
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE operations SET reason = ?", (later,))
    db.close()
    (found,) = store.operations()
    assert (found.reason.code, str(found.reason)) == ("of_tomorrow", "as written")


_WRITER = """
import sys
from lakekeeper.history.store import HistoryStore
from tests.history.operations import operation
store = HistoryStore(sys.argv[1])
sys.stdin.readline()
for i in range(40):
    store.add(operation(f"{sys.argv[2]}-{i}", end_ms=2_500 + i), 10**12)
    store.operations(limit=3)
"""


def test_two_processes_write_one_file_and_lose_nothing(tmp_path: Path) -> None:
    """Both begin at the same time, on a file that does not exist yet."""
    path = tmp_path / "history.db"
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), name],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=root,
            text=True,
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    ends = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], ends
    found = HistoryStore(path).operations()
    assert sorted(ids(found)) == sorted(f"{name}-{i}" for name in "ab" for i in range(40))
    assert all(each.groups and each.decisions for each in found)


def test_every_text_is_cleaned_before_it_is_written(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.db", lambda text: text.replace('s"ecret', "***"))
    secret, failure = 's"ecret', Reason.of(Code.FAILED, error='s"ecret')
    group = replace(GROUP, partition=secret, reason=failure, detail=failure)
    left = replace(LEFT, reason=failure)
    texts: dict[str, Any] = {
        "user": secret,
        "versions": {"x": secret},
        "cluster_key": secret,
        "reason": failure,
    }
    added(store, operation(**texts, groups=(group,), decisions=(left,)))
    store.keep_tasks([replace(TASK, reason=failure)], 0)
    (found,) = store.operations()
    assert (found.user, found.versions, found.cluster_key) == ("***", {"x": "***"}, "***")
    assert found.groups[0].partition == "***"
    reasons = [found.reason, found.groups[0].reason, found.groups[0].detail, found.decisions[0].reason]
    assert [*reasons, store.tasks()[0].reason] == [Reason.of(Code.FAILED, error="***")] * 5
    assert all(b"ecret" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_secret_that_is_also_a_name_hides_no_table_format_verb_or_status(tmp_path: Path) -> None:
    """``jdbc.password=iceberg``: a table whose name is hidden would be another one."""
    named = TableId("iceberg", "iceberg_db", "iceberg", "iceberg")
    one, task = operation("iceberg", table=named), replace(TASK, table="iceberg.iceberg_db.iceberg")
    for secret in ("iceberg", "compact", "done", "merge", "failed", "op-1", "auto", "2", "Z", "CORE_SECONDS"):
        store = HistoryStore(tmp_path / f"{secret}.db", lambda text, secret=secret: text.replace(secret, "*"))  # type: ignore[misc]
        added(store, replace(one, origin="auto"))
        store.keep_tasks([task], 0)
        (found,) = store.operations(named, since_ms=2_500)
        assert (found.table, found.operation_id, found.run_ids) == (named, "iceberg", one.run_ids)
        assert (found.operation_type, found.operation_status, found.origin) == ("compact", "done", "auto")
        assert (found.groups[0].id, found.groups[0].status) == ("abc", "committed")
        assert store.rewritten_bytes(LastDay(DAY_MS), origin="auto", table=named) == 400
        assert store.core_seconds("auto", LastDay(DAY_MS), named) == 1.25
        assert [(each.key, each.failures, each.state) for each in store.tasks()] == [(task.key, 1, "failed")]
        assert store.release({task.table}) == (task.table,)


PLACES = {
    "a container": ("abfss://sales@acct.dfs.core.windows.net/db/t",) * 2,
    "a user": ("s3a://key:se/cret@bucket/t", "s3a://***@bucket/t"),
}
"""The path of a table, and what the history has of it."""


@pytest.mark.parametrize("place", PLACES)
def test_a_table_is_found_by_its_path_and_by_what_is_stored_of_it(tmp_path: Path, place: str) -> None:
    store = HistoryStore(tmp_path / "history.db", redacted)
    path, stored = PLACES[place]
    table, other = (TableId("", "", f"{each}", "delta") for each in (path, f"{path}2"))
    idle = [operation(f"idle-{n}", table=table, operation_status="idle", end_ms=9_000 + n) for n in range(2)]
    added(store, operation(table=table), operation("other", table=other), *idle)
    store.keep_tasks([replace(TASK, table=path), replace(TASK, table=path + "2")], 0)
    assert all(b"cret" not in each.read_bytes() for each in tmp_path.iterdir())
    assert [str(each) for each in store.tables()] == [stored, f"{stored}2"]
    for name in (path, stored):
        wanted = TableId("", "", name, "delta")
        assert ids(store.operations(wanted)) == ["idle-1", "op-1"]
        assert store.rewritten_bytes(LastDay(DAY_MS), table=wanted) == 800
        assert store.core_seconds("call", LastDay(DAY_MS), wanted) == 2.5
    assert [task.table for task in store.tasks()] == [stored, f"{stored}2"]
    assert store.release({path}) == (stored,)
    assert [task.failures for task in store.tasks()] == [0, 1]


def test_a_task_of_an_earlier_version_has_the_name_and_verb_of_its_row(tmp_path: Path) -> None:
    """It hid the container in the task, and kept the credentials in the name of the row."""
    store = HistoryStore(tmp_path / "history.db")
    container, user = (path for path, _ in PLACES.values())
    store.keep_tasks([replace(TASK, table=name) for name in ("a", "b")], 0)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE tasks SET task = replace(task, '\"a\"', '\"***\"')")
        for before, now in (("a", container), ("b", user)):
            db.execute("UPDATE tasks SET table_name = ? WHERE table_name = ?", (now, before))
    assert [task.table for task in store.tasks()] == [container, PLACES["a user"][1]]
    assert store.release({container}) == (container,)
    assert [task.failures for task in store.tasks()] == [0, 1]
    store.keep_tasks([replace(TASK, table=user)], 0)
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("SELECT count(*) FROM tasks WHERE table_name LIKE '%cret%'").fetchone() == (0,)
    assert len(store.tasks()) == 2


def test_core_seconds_are_summed_by_origin_time_and_table(store: HistoryStore) -> None:
    other = TableId("ice", "db", "other", "iceberg")
    added(
        store,
        operation("call", end_ms=9_000),
        operation("early", origin="auto", start_ms=1_000, end_ms=4_999, core_seconds=7.0),
        operation("measured", origin="auto", start_ms=5_000, end_ms=6_000, core_seconds=30.0),
        operation("other", origin="auto", start_ms=5_000, end_ms=6_000, core_seconds=5.0, table=other),
        operation("unmeasured", origin="auto", start_ms=5_000, end_ms=8_000, core_seconds=None),
    )
    day = LastDay(4_999 + DAY_MS)
    assert store.core_seconds("auto", day) == pytest.approx(38.0, abs=0.01)
    assert store.core_seconds("auto", day, other) == 5.0
    assert store.core_seconds("auto", LastDay(8_000 + DAY_MS)) == 0.0


def test_tasks_are_replaced_by_table_and_verb_and_forgotten_after_a_month(store: HistoryStore) -> None:
    old, new = Task("merge", "a", "compact"), Task("merge", "a", "compact", score=7.0)
    store.keep_tasks([old, Task("gc", "a", "vacuum")], 0)
    store.keep_tasks([new], DAY_MS)
    assert store.tasks() == (new, Task("gc", "a", "vacuum"))
    store.keep_tasks([new], 31 * DAY_MS)
    store.keep_tasks([], 32 * DAY_MS)
    assert store.tasks() == (new,)


def test_tasks_are_forgotten_by_the_times_of_operations_too(store: HistoryStore) -> None:
    """The rows of a service that makes a pass every minute are never a day old."""
    store.keep_tasks([Task("gc", "a", "vacuum")], 0)
    for end_ms, left in ((30 * DAY_MS, 1), (30 * DAY_MS + 1, 0)):
        added(store, operation(end_ms=end_ms))
        store.keep_tasks([], end_ms + DAY_MS - 1)
        assert len(store.tasks()) == 1
        store.keep_tasks([], end_ms + DAY_MS)
        assert len(store.tasks()) == left


def test_a_pass_of_a_clock_that_is_ahead_forgets_no_task(store: HistoryStore) -> None:
    """Each of them once deleted the tasks of all other tables, and which of them were parked."""
    now = 400 * DAY_MS
    parked = [replace(TASK, table=name) for name in ("a", "b")]
    store.keep_tasks(parked, now)
    added(store, operation(end_ms=now))
    for passed in range(3):
        ahead = now + 31 * DAY_MS + passed * DAY_MS // 4
        added(store, operation("ahead", end_ms=ahead))
        store.keep_tasks([replace(TASK, table="ahead")], ahead)
    store.keep_tasks([replace(TASK, table="right again")], now + 1)
    assert [task.table for task in store.tasks()] == ["a", "ahead", "b", "right again"]


def test_rewritten_bytes_are_summed_by_origin_and_time(store: HistoryStore) -> None:
    added(store, operation("call", end_ms=5_000), operation("early", origin="auto", end_ms=4_999))
    added(store, *(operation(f"auto-{i}", origin="auto", end_ms=5_000) for i in range(3)))
    assert store.rewritten_bytes(LastDay(4_999 + DAY_MS), origin="auto") == 1_200
    assert store.rewritten_bytes(LastDay(5_000 + DAY_MS), origin="auto") == 0


def test_work_of_a_clock_that_is_ahead_counts_only_if_it_is_a_little_ahead(store: HistoryStore) -> None:
    """It would use up the budgets of all days until its time has come."""
    now = 400 * DAY_MS
    for name, ahead in (("a little", 60_000), ("a day", DAY_MS), ("ten years", 3_650 * DAY_MS)):
        added(store, operation(name, origin="auto", end_ms=now + ahead, core_seconds=3.0))
    assert store.rewritten_bytes(LastDay(now)) == 400
    assert store.core_seconds("auto", LastDay(now)) == 3.0


def test_work_that_was_not_committed_counts_where_the_file_has_it(store: HistoryStore) -> None:
    """Earlier versions recorded only what was committed."""
    metrics: tuple[dict[str, int], ...] = (
        {"rewritten_bytes_count": 400},
        {"attempted_bytes_count": 900, "rewritten_bytes_count": 400},
        {},
    )
    refused = {"attempted_bytes_count": 70}
    added(store, *(operation(f"op-{i}", operation_metrics=m) for i, m in enumerate((*metrics, refused))))
    assert store.rewritten_bytes(LastDay(DAY_MS)) == 400 + 900 + 70


def test_rewritten_bytes_of_a_table_are_summed_over_all_origins(store: HistoryStore) -> None:
    other = TableId("ice", "db", "other", "iceberg")
    added(store, operation("call", end_ms=5_000), operation("auto", origin="auto", end_ms=5_000))
    added(store, operation("else", end_ms=5_000, table=other))
    assert store.rewritten_bytes(LastDay(DAY_MS), table=other) == 400
    assert store.rewritten_bytes(LastDay(DAY_MS), table=operation("call").table) == 800
