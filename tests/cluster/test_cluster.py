"""A service with its lane on a real standalone cluster, over ten tables that users write; three processes are killed.

    users     append, delete and stream ────────────────────────────────► stop              check rows
    service   ── executor killed ── lane killed ── service killed, another ───► until nothing is due, then idle

``make cluster`` runs it for ten minutes of writing; ``LAKEKEEPER_CLUSTER_SECONDS`` sets another time. The users write
longer if no pass, or no table, has used up its budget by then.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.core.text.formatting import table as page
from lakekeeper.history.store import HistoryStore
from tests.cluster.service import Service, end
from tests.cluster.standalone import BOUND, HOME, Cluster, cluster, environment, processes
from tests.cluster.writers import A_DAY, fleet, iceberg_catalog
from tests.faults.processes import gone
from tests.oracles import delta_log, iceberg_log

pytestmark = pytest.mark.cluster

SECONDS = float(os.environ.get("LAKEKEEPER_CLUSTER_SECONDS", "600"))
IDLE_S = 5
BUDGET = 3_000_000
_PASSES = 200  # to finish the remaining work after the users stopped
_LANE = "lakekeeper-heavy"
_PATIENCE_S = 900.0


class Users:
    """The process of :mod:`tests.cluster.writers`."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "writers.log").open("wb")
        self._process = subprocess.Popen(
            [*BOUND, sys.executable, "-m", "tests.cluster.writers", str(folder)],
            cwd=HOME,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.hears("tables")

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)

    def hears(self, key: str) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)[key]
        raise AssertionError(f"the users ended; see {self._log.name}")

    def end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(_PATIENCE_S)
        self._log.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def standalone(folder: Path) -> Iterator[Cluster]:
    with cluster(folder / "spark") as found:
        yield found


def _conf(folder: Path, master: str) -> Path:
    small = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "1",
        "spark.executorEnv.PYTHONPATH": environment()["PYTHONPATH"],
    }
    ours = {
        "auto.tables": ",".join(["ice.db.*", *(t.name for t in fleet(folder) if t.format == "delta")]),
        "auto.verbs": "recluster,compact,merge_deletes",
        "auto.budget-bytes": str(BUDGET),
        "auto.max-concurrent-tables": "2",
        "history.path": f"{folder}/history.db",
        "queries-per-hour": "100000000",
        "commit.quiet-window-ms": "1000",
        "heavy.master": master,
        "heavy.idle": f"{IDLE_S}s",
        **{f"heavy.conf.{key}": value for key, value in small.items()},
        "heavy.conf.spark.driver.memory": "1g",
    }
    confs = iceberg_catalog(folder) | {f"spark.lakekeeper.{key}": value for key, value in ours.items()}
    confs |= {
        "spark.master": "local[1]",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        # As in the session of the tests: starting a stage costs more than processing its rows.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    path = folder / "auto.conf"
    path.write_text("\n".join(f"{key} {value}" for key, value in confs.items()))
    return path


@pytest.fixture(scope="module")
def story(folder: Path, standalone: Cluster) -> Mapping[str, Any]:
    """The events from the first write to the last pass."""
    conf, users = _conf(folder, standalone.master), Users(folder)
    passes: list[Mapping[str, Any]] = []
    failures: list[Mapping[str, Any]] = []
    users.say("start")
    until = time.monotonic() + SECONDS
    service = Service(conf, folder / "service.log")
    try:
        _kill_executor(service, standalone)
        _kill_lane(service)
        lane = _kill_service(service, standalone)
        passes += service.passes
        failures += service.failures
        service = Service(conf, folder / "service.log")
        threading.Event().wait(max(until - time.monotonic(), 0))  # the users write at least this long
        service.await_that(
            lambda: _budgets_reached([*passes, *service.passes]), "a pass over each kind of budget"
        )
        users.say("stop")
        stopped = users.hears("stopped")
        seen = len(service.passes)
        service.await_that(lambda: _settled(service.passes[seen + 1 :]), "a pass in which nothing is due")
        _await_idle(standalone)
        assert service.stop() in (0, 1, 130)
        passes += service.passes
        failures += service.failures
        users.say("verify")
        verified = users.hears("verified")
    finally:
        end(service.process.pid)
        users.end()
    ended = standalone.applications("completedapps")
    assert failures == [], "passes failed as a whole"
    _show(stopped, verified, passes)
    return {"passes": passes, "users": stopped, "tables": verified, "applications": ended, "lane": lane}


def _show(users: Any, tables: Any, passes: list[Mapping[str, Any]]) -> None:
    """The history of each table, for a reader of the full run."""
    rewritten: dict[str, int] = {}
    for each in passes:
        for table in each["tables"]:
            rewritten[table["table"]] = rewritten.get(table["table"], 0) + table["rewritten_bytes_count"]
    last = {table["table"]: table["status"] for table in passes[-1]["tables"]}
    rows = [
        [
            "/".join(user["name"].split("/")[-2:]),
            str(user["jobs"] + user["batches"]),
            str(len(user["conflicts"])),
            f"{tables[user['name']]['rows']:,}",
            str(tables[user["name"]]["files"]),
            f"{rewritten.get(user['name'], 0):,}",
            last[user["name"]],
        ]
        for user in users
    ]
    head = ["table", "jobs of users", "conflicts", "rows", "files left", "bytes rewritten", "in the end"]
    print(f"\n{len(passes)} passes\n{page([head, *rows], right=frozenset(range(1, 6)))}")


def _running_lane(cluster: Cluster) -> str:
    return next((str(app["id"]) for app in cluster.applications() if app["name"] == _LANE), "")


def _kill_executor(service: Service, cluster: Cluster) -> None:
    service.await_work()
    (executor,) = processes(
        None, "org.apache.spark.executor.CoarseGrainedExecutorBackend", _running_lane(cluster)
    )
    end(executor)
    assert gone(executor)
    seen = len(service.passes)
    service.await_that(
        lambda: any(each["done"] for each in service.passes[seen:]), "work after the executor's death"
    )


def _kill_lane(service: Service) -> None:
    """Retry until it is killed during a task: the commit may be faster."""
    for _ in range(5):
        seen = len(service.passes)
        service.await_work()
        for child in processes(service.process.pid, "lakekeeper.heavy.application"):
            end(child)
        service.await_passes(seen + 1)
        if any("signal 9" in each["reason"]["text"] for each in service.passes[seen]["tables"]):
            return
    raise AssertionError("the lane was never killed during a task")


def _kill_service(service: Service, cluster: Cluster) -> str:
    """The lane of a killed service ends by itself; return its application, as the master lists it."""
    service.await_work()
    (child,) = processes(service.process.pid, "lakekeeper.heavy.application")
    lane = _running_lane(cluster)
    service.kill()
    assert gone(child), "the lane is still running after its service"
    return lane


def _settled(passes: list[Mapping[str, Any]]) -> bool:
    assert len(passes) <= _PASSES, f"work is still due after {_PASSES} passes: {passes[-1]['tables']}"
    return any(all(map(_at_rest, each["tables"])) for each in passes)


def _at_rest(table: Mapping[str, Any]) -> bool:
    """Whether nothing is due on a table, or its daily budget is used up."""
    return table["status"] == "idle" or _over_its_day(table)


def _over_its_day(table: Mapping[str, Any]) -> bool:
    return table["status"] == "waiting" and "over budget-bytes-per-day" in table["reason"]["text"]


def _budgets_reached(passes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pass and a table's day had to wait. Slow passes merge much at once, and reach both later."""
    tables = [table for each in passes for table in each["tables"]]
    return any(map(_over_its_day, tables)) and any(map(_over_the_pass, tables))


def _over_the_pass(table: Mapping[str, Any]) -> bool:
    return "auto.budget-bytes" in table["reason"]["text"]


def _await_idle(cluster: Cluster) -> None:
    """Wait until the master has no lane: a test asserts by the master's own times that it ends in time."""
    limit = time.monotonic() + _PATIENCE_S
    while _running_lane(cluster):
        assert time.monotonic() < limit, "the lane did not end"
        time.sleep(0.5)  # not a race: the master sends no notification


def test_rows_are_those_the_users_wrote(story: Mapping[str, Any]) -> None:
    wrong = ("duplicates", "missing", "extra", "changed", "too_few_batches")
    found = {
        name: {key: table[key] for key in wrong if table[key]} for name, table in story["tables"].items()
    }
    assert {name: each for name, each in found.items() if each} == {}
    assert len(story["tables"]) == 10
    assert all(table["rows"] for table in story["tables"].values())


def test_a_reader_without_spark_finds_the_same_rows(folder: Path, story: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(folder / "ice.db")) as catalog:
        places = dict(catalog.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall())
    for table in fleet(folder):
        if table.format == "delta":
            rows = _delta_rows(Path(table.name))
        else:
            metadata = places[table.name.rpartition(".")[2]]
            current = json.loads(Path(metadata.removeprefix("file:")).read_text())["current-snapshot-id"]
            rows = iceberg_log.records(metadata, current)
        found = [zlib.crc32(f"{row['id']}|{row['k']}|{row['v']}".encode()) for row in rows]
        expected = story["tables"][table.name]
        assert (len(found), sum(found)) == (expected["rows"], expected["fingerprint"]), table.name


def _delta_rows(path: Path) -> list[dict[str, Any]]:
    state = delta_log.replay(path)
    return [row for add in state.adds.values() for row in delta_log.file_rows(path, add, state.metadata)]


def test_users_jobs_failed_only_by_conflicts_of_deletes(story: Mapping[str, Any]) -> None:
    """Conflicts with native maintenance count too (tests.cluster.writers.CONFLICTS), and a repeated job succeeds."""
    assert {table["name"]: table["errors"] for table in story["users"] if table["errors"]} == {}
    appended = [table for table in story["users"] if not table["deletes"]]
    assert {table["name"]: table["conflicts"] for table in appended if table["conflicts"]} == {}
    assert len(appended) == 6
    assert sum(table["jobs"] for table in story["users"]) > 50


def test_each_table_is_under_its_thresholds_or_over_its_budget(
    folder: Path, story: Mapping[str, Any]
) -> None:
    last = story["passes"][-1]
    limited = {table.name for table in fleet(folder) if table.a_day}
    assert {
        table["table"]: table["reason"]["text"]
        for table in last["tables"]
        if table["status"] != "idle" and not (table["table"] in limited and _over_its_day(table))
    } == {}
    assert all(table["reason"]["text"] for table in last["tables"])
    commits = {table["name"]: table["jobs"] + table["batches"] for table in story["users"]}
    files = {name: table["files"] for name, table in story["tables"].items()}
    assert sum(files.values()) < sum(commits.values()) / 2, f"maintenance merged little: {files} of {commits}"


def test_passes_stay_within_their_budget(story: Mapping[str, Any]) -> None:
    """A task may exceed the remaining budget by one group, and two tables run at once: the two largest are exempt."""
    waited = 0
    for each in story["passes"]:
        sizes = sorted(table["rewritten_bytes_count"] for table in each["tables"])
        assert sum(sizes[:-2]) <= BUDGET, each
        waited += any(map(_over_the_pass, each["tables"]))
    assert waited, "no pass reached the budget: the test proves nothing"


def test_the_daily_budget_applies_across_processes(folder: Path, story: Mapping[str, Any]) -> None:
    """The byte budget: one group may exceed the rest, and once nothing is left no group begins."""
    limited = {
        table.name.rpartition("/" if table.format == "delta" else ".")[2]: table for table in fleet(folder)
    }
    runs: dict[str, list[Any]] = {}
    for operation in HistoryStore(folder / "history.db").operations():
        if limited[operation.table.name.rpartition("/")[2]].a_day:
            runs.setdefault(operation.table.name, []).append(operation)
    assert len(runs) == 2
    waited = {table["table"] for each in story["passes"] for table in each["tables"] if _over_its_day(table)}
    assert waited, "no table reached its daily budget: the test proves nothing"
    for name, found in runs.items():
        spent, largest = 0, 0
        for operation in sorted(found, key=lambda each: each.start_ms):
            size = int(operation.operation_metrics.get("rewritten_bytes_count", 0))
            assert not size or spent < A_DAY, f"{name}: rewritten after its daily budget was used up"
            spent += size
            largest = max([largest, *(group.bytes_in for group in operation.groups)])
        assert 0 < spent <= A_DAY + largest, name


def test_the_work_of_killed_processes_is_picked_up(story: Mapping[str, Any]) -> None:
    killed = [
        (number, table["table"])
        for number, each in enumerate(story["passes"])
        for table in each["tables"]
        if "signal 9" in table["reason"]["text"]
    ]
    assert killed
    for number, name in killed:
        later = [t for each in story["passes"][number + 1 :] for t in each["tables"] if t["table"] == name]
        assert any(table["status"] == "done" or _at_rest(table) for table in later), name


def test_the_lane_ends_within_ten_seconds_of_its_idle_time(folder: Path, story: Mapping[str, Any]) -> None:
    """By the times of the master, and of the last operation in the history."""
    last_ms: dict[str, int] = {}
    for operation in HistoryStore(folder / "history.db").operations():
        last_ms[operation.application_id] = max(last_ms.get(operation.application_id, 0), operation.end_ms)
    finished = [app for app in story["applications"] if app["name"] == _LANE and app["state"] == "FINISHED"]
    waits = {
        app["id"]: (app["starttime"] + app["duration"] - last_ms[app["id"]]) / 1000
        for app in finished
        if app["id"] in last_ms and app["id"] != story["lane"]
    }
    assert waits, "no lane was idle"
    assert {name: wait for name, wait in waits.items() if wait > IDLE_S + 10} == {}
