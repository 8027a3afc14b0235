"""Workloads from event logs: what is read, what is left out, and errors for files that are not event logs."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakekeeper.core.workload.plan_scans import FILES, Sighting, sightings
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect
from lakekeeper.engine import event_log
from lakekeeper.engine.event_log import read_workload, read_workloads
from lakekeeper.errors import OptionError
from tests.linear import assert_linear

UI = "org.apache.spark.sql.execution.ui."
DELTA = ("spark_catalog.db.t", "db.t", "file:/wh/t")


def scan(
    pushed: str,
    *,
    name: str = "spark_catalog.db.t",
    location: str = "file:/wh/t",
    index: str = "PreparedDeltaFileIndex",
) -> dict[str, Any]:
    return {
        "nodeName": f"Scan parquet {name}",
        "simpleString": "FileScan parquet …",
        "children": [],
        "metadata": {
            "Location": f"{index}(1 paths)[{location}]",
            "PushedFilters": pushed,
            "PartitionFilters": "[]",
            "ReadSchema": "struct<k:bigint,t:timestamp>",
        },
        "metrics": [
            {"name": "number of files read", "accumulatorId": 10, "metricType": "sum"},
            {"name": "size of files read", "accumulatorId": 11, "metricType": "size"},
        ],
    }


def plan(*children: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodeName": "Project",
        "simpleString": "Project",
        "children": list(children),
        "metadata": {},
        "metrics": [],
    }


def query(
    number: int, tree: dict[str, Any], *, at: int, read: int = 3, description: str = "collect"
) -> list[dict[str, Any]]:
    task = {"Input Metrics": {"Bytes Read": 250, "Records Read": 5}, "Executor CPU Time": 2_000_000_000}
    this = {"executionId": number}
    start = {"description": description, "time": at, "sparkPlanInfo": tree}
    job = {"Stage IDs": [number], "Properties": {"spark.sql.execution.id": str(number)}}
    return [
        {"Event": UI + "SparkListenerSQLExecutionStart", **this, **start},
        {"Event": UI + "SparkListenerDriverAccumUpdates", **this, "accumUpdates": [[10, read], [11, 1000]]},
        {"Event": "SparkListenerJobStart", "Job ID": number, **job},
        {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Metrics": task},
        {"Event": UI + "SparkListenerSQLExecutionEnd", **this, "time": at + 500},
    ]


def log(*events: dict[str, Any]) -> bytes:
    first = {"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"}
    return b"".join(json.dumps(event).encode() + b"\n" for event in (first, *events))


QUERIES = [
    *query(1, plan(scan("[IsNotNull(k), EqualTo(k,7)]")), at=1000),
    *query(
        2,
        plan(scan("[GreaterThan(k,3)]"), scan("[]", name="spark_catalog.db.other", location="file:/wh/o")),
        at=2000,
    ),
]


def test_scans_have_their_filters_files_and_costs(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*QUERIES))
    seen = read_workload([tmp_path / "app"], "db.t", DELTA)
    one, two = seen.scans[0], seen.scans[1]
    assert one.filters == {"k": (Span("7", "7"),)}
    assert (one.at_ms, one.files_read, one.bytes_read, one.column_share, one.core_seconds) == (
        1000,
        3,
        1000,
        0.25,
        2.0,
    )
    assert two.filters == {"k": (Span("3", None, after=True),)}
    assert (two.column_share, two.core_seconds) == (None, None)  # two scans share these tasks
    assert (seen.start_ms, seen.end_ms) == (1000, 2500)


def node(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {**plan(*children), "nodeName": name}


def test_a_scan_that_a_plan_reuses_is_one_query(tmp_path: Path) -> None:
    """A self join of a common table expression reads its files once, and counted as two queries of them."""
    one = scan("[EqualTo(k,7)]")
    reused = node("SortMergeJoin", node("Exchange", one), node("ReusedExchange", node("Exchange", one)))
    (tmp_path / "app").write_bytes(log(*query(1, plan(reused), at=1000)))
    found = read_workload([tmp_path / "app"], "db.t", DELTA)
    assert len(found) == 1
    assert found.scans[0].column_share == 0.25, "its tasks are those of the scan alone"


@pytest.mark.parametrize("name", ["InMemoryTableScan", "Scan In-memory table `cached`"])
def test_a_cached_scan_is_one_query_however_often_the_cache_is_used(tmp_path: Path, name: str) -> None:
    """The files are read once; each query on the cache counted as one on the table."""
    cached = [query(n, plan(node(name, scan("[EqualTo(k,7)]"))), at=1000 * n) for n in range(1, 6)]
    plain = query(9, plan(scan("[EqualTo(k,8)]")), at=9000)
    (tmp_path / "app").write_bytes(log(*(event for each in cached for event in each), *plain))
    found = read_workload([tmp_path / "app"], "db.t", DELTA)
    assert [(each.at_ms, next(iter(each.filters["k"])).lo) for each in found.scans] == [
        (1000, "7"),
        (9000, "8"),
    ]


def test_a_saved_workload_of_one_table_counts_for_no_other_of_a_pass(tmp_path: Path) -> None:
    """Tables that no query reads were maintained for the queries of the table that it was saved of."""
    (tmp_path / "app").write_bytes(log(*QUERIES))
    saved = tmp_path / "saved.json"
    saved.write_text(read_workload([tmp_path / "app"], "spark_catalog.db.t", DELTA).to_json())
    found = read_workloads([saved], {"db.t": DELTA, "db.cold": ("spark_catalog.db.cold", "db.cold")})
    assert {table: len(each) for table, each in found.items()} == {"db.t": 2, "db.cold": 0}
    assert len(read_workload([saved], "db.copy", ["db.copy"])) == 2, "a source that the call names"
    assert len(read_workload([saved], "db.copy", ["db.copy"], any_table=False)) == 0


def test_a_table_is_known_by_location_too_and_other_tables_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*query(1, plan(scan("[EqualTo(k,7)]", name="")), at=1000)))
    assert len(read_workload([tmp_path / "app"], "t", ["/wh/t"])) == 1
    assert len(read_workload([tmp_path / "app"], "t", ["/wh/other", "db.x"])) == 0


def test_tables_read_together_get_the_same_workloads_as_alone(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*QUERIES))
    tables = {"db.t": DELTA, "db.other": ("spark_catalog.db.other",), "db.none": ("db.none",)}
    together = read_workloads([tmp_path / "app"], tables)
    for table, names in tables.items():
        assert together[table].to_json() == read_workload([tmp_path / "app"], table, names).to_json()
    assert [len(together[table]) for table in tables] == [2, 1, 0]


def test_a_long_log_is_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest scans stay, with the weight of all and the window of all."""
    times = [5000, 1000, 4000, 4000, 2000, 9000, 3000, 8000, 7000, 6000, 1500, 2500]
    paths = [tmp_path / "one", tmp_path / "two", tmp_path / "saved.json"]
    for path, first in ((paths[0], 0), (paths[1], 6)):
        queries = [
            query(number, plan(scan(f"[EqualTo(k,{number})]")), at=times[number])
            for number in range(first, first + 6)
        ]
        path.write_bytes(log(*(event for each in queries for event in each)))
    paths[2].write_text(read_workload(paths[:1], "db.t", DELTA).to_json())
    whole = read_workload(paths, "db.t", DELTA)
    most: list[int] = []

    def collected(table: str, scans: list[Scan], **window: Any) -> Workload:
        most.append(len(scans))
        return collect(table, scans, **window)

    monkeypatch.setattr(event_log, "collect", collected)
    monkeypatch.setattr(event_log, "MOST_SCANS", 2)
    read = read_workload(paths, "db.t", DELTA)
    assert most[0] <= 4
    assert len(whole) == 18
    assert read == whole.newest(2)
    assert sum(each.weight for each in read.scans) == 18


def test_lakekeepers_own_reads_are_not_queries(tmp_path: Path) -> None:
    own = query(1, plan(scan("[]")), at=1000, description="lakekeeper db.t group 1: level 0")
    delta = query(2, plan(scan("[]", index="TahoeBatchFileIndex")), at=2000)
    (tmp_path / "app").write_bytes(log(*own, *delta))
    assert len(read_workload([tmp_path / "app"], "t", DELTA)) == 0


@pytest.mark.parametrize(
    "name", ["app", "app.inprogress", "app.zstd", "app.zst", "app.gz", "app.zstd.compact"]
)
def test_compressed_logs_are_read_as_plain_ones(tmp_path: Path, name: str) -> None:
    data = log(*QUERIES)
    if name.endswith("gz"):
        data = gzip.compress(data)
    if ".zst" in name:
        data = pa.compress(data, "zstd", asbytes=True)
    (tmp_path / name).write_bytes(data)
    assert len(read_workload([tmp_path / name], "t", DELTA)) == 2


def test_a_rolling_directory_is_read_part_by_part(tmp_path: Path) -> None:
    home = tmp_path / "eventlog_v2_app"
    home.mkdir()
    (home / "appstatus_app.inprogress").write_bytes(b"")
    (home / "events_2_app").write_bytes(log(*QUERIES[5:]))
    (home / "events_1_app").write_bytes(log(*QUERIES[:5]))
    (home / "events_²_app").write_bytes(b"")
    assert [s.at_ms for s in read_workload([tmp_path], "t", DELTA).scans] == [1000, 2000]


def test_a_query_that_continues_in_the_next_part_is_one_query(tmp_path: Path) -> None:
    home = tmp_path / "eventlog_v2_app"
    home.mkdir()
    (home / "events_1_app").write_bytes(log(*QUERIES[:2]))
    (home / "events_2_app").write_bytes(log(*QUERIES[2:5]))
    (one,) = read_workload([home], "t", DELTA).scans
    assert (one.files_read, one.core_seconds) == (3, 2.0)


def test_a_truncated_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*QUERIES)[:-80])
    assert len(read_workload([tmp_path / "app"], "t", DELTA)) == 2


def test_the_executed_plan_counts(tmp_path: Path) -> None:
    update = {
        "Event": UI + "SparkListenerSQLAdaptiveExecutionUpdate",
        "executionId": 1,
        "sparkPlanInfo": plan(scan("[EqualTo(k,8)]")),
    }
    events = [QUERIES[0], update, *QUERIES[1:5]]
    (tmp_path / "app").write_bytes(log(*events))
    (one,) = read_workload([tmp_path / "app"], "t", DELTA).scans
    assert one.filters == {"k": (Span("8", "8"),)}


def test_filters_that_cannot_be_parsed_are_counted(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*query(1, plan(scan("[Odd(k,7)]")), at=1000)))
    seen = read_workload([tmp_path / "app"], "t", DELTA)
    assert (len(seen), seen.unread, seen.scans[0].filters) == (1, 1, {})


def test_timestamps_are_printed_in_the_zone_of_the_jvm_that_logged_them(tmp_path: Path) -> None:
    zone = {
        "Event": "SparkListenerEnvironmentUpdate",
        "System Properties": {"user.timezone": "Europe/Berlin"},
    }
    pushed = "[GreaterThanOrEqual(t,2026-01-01 01:00:00.5)]"
    (tmp_path / "app").write_bytes(log(zone, *query(1, plan(scan(pushed)), at=1000)))
    (one,) = read_workload([tmp_path / "app"], "t", DELTA).scans
    assert one.filters["t"] == (Span(1_767_225_600_500_000, None),)


def test_an_iceberg_scan_is_read_from_its_text(tmp_path: Path) -> None:
    text = (
        "BatchScan ice.db.t[k#1L, g#2] IcebergScan(table=ice.db.t, schemaId=0, snapshotId=44, branch=null, "
        "filters=c IS NOT NULL, c = 'a, b=3', k >= 3, runtimeFilters=, groupedBy=) RuntimeFilters: []"
    )
    metrics = [{"name": "number of result data files", "accumulatorId": 10, "metricType": "v2Custom"}]
    node = {
        "nodeName": "BatchScan ice.db.t",
        "simpleString": text,
        "children": [],
        "metadata": {},
        "metrics": metrics,
    }
    (tmp_path / "app").write_bytes(log(*query(1, plan(node), at=1000)))
    (one,) = read_workload([tmp_path / "app"], "ice.db.t", ["ice.db.t", "db.t"]).scans
    assert one.filters == {"c": (Span("a, b=3", "a, b=3"),), "k": (Span("3", None),)}
    assert one.files_read == 3


@pytest.mark.parametrize("piece", ["a", ", filters=", "IcebergScan(table=", ", k = 'a'"])
def test_a_long_text_of_a_scan_is_read_once(piece: str) -> None:
    def text(size: int) -> str:  # cut off before its end, as Spark cuts long texts
        return "IcebergScan(table=ice.db.t, filters=" + piece * (size // len(piece))

    assert_linear(lambda found: list(sightings({"nodeName": "BatchScan t", "simpleString": found})), text)


def test_a_saved_workload_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(log(*QUERIES))
    seen = read_workload([tmp_path / "app"], "t", DELTA)
    (tmp_path / "kept.json").write_text(seen.to_json())
    again = read_workload([tmp_path / "kept.json"], "t", DELTA)
    assert again.scans == Workload.from_json(seen.to_json()).scans == seen.scans
    assert (again.start_ms, again.end_ms) == (seen.start_ms, seen.end_ms)


WRONG: list[tuple[str, bytes, str]] = [
    ("notes.txt", b"dear diary\n", "not JSON"),
    ("rows.json", b'{"k": 1}\n', "not an event"),
    ("empty", b"", "it is empty"),
    ("data.parquet", b"PAR1\x00\xff\xfe", "not JSON"),
    ("app.lz4", b"LZ4Block", "spark.eventLog.compression.codec=zstd"),
    ("app.zstd", b"not zstd at all", "app.zstd"),
    ("app.gz", b"not gzip at all", "app.gz"),
    ("cut.gz", gzip.compress(log(*QUERIES), mtime=0)[:15], "ended before"),
    ("broken.gz", gzip.compress(log(*QUERIES), mtime=0)[:10] + bytes(range(100)), "decompressing"),
]


@pytest.mark.parametrize("name, data, said", WRONG)
def test_a_file_that_is_not_an_event_log_is_named(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(OptionError, match=f"(?s){name}.*event log") as caught:
        read_workload([tmp_path / name], "t", DELTA)
    assert said in str(caught.value)


LONG = log(*QUERIES, *({"Event": "filler", "text": f"{n * 7919:x}"} for n in range(20_000)))


@pytest.mark.parametrize("broken", ["cut", "overwritten", "followed by something else"])
def test_a_compressed_log_is_read_up_to_where_it_is_broken(tmp_path: Path, broken: str) -> None:
    data = bytearray(gzip.compress(LONG))
    middle = len(data) // 2
    if broken == "cut":
        del data[middle:]
    elif broken == "overwritten":
        data[middle : middle + 100] = bytes(100)
    else:
        data += b"something else"
    (tmp_path / "app.gz").write_bytes(data)
    assert len(read_workload([tmp_path / "app.gz"], "t", DELTA)) == 2


def test_a_broken_log_in_a_directory_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(LONG)[:15])
    (tmp_path / "b.gz").write_bytes(gzip.compress(LONG))
    assert len(read_workload([tmp_path], "t", DELTA)) == 2


def at_first_query(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen while the first query of the first log is read."""
    waiting = [happens]

    def read(*given: Any) -> list[Sighting]:
        while waiting:
            waiting.pop()()
        return list(sightings(*given))

    monkeypatch.setattr(event_log, "sightings", read)


LATER = query(1, plan(scan("[EqualTo(k,9)]")), at=9000)


@pytest.mark.parametrize(
    "name",
    ["app-2.inprogress", "app-2.zstd.inprogress", "eventlog_v2_b/events_3_b.compact.inprogress"],
)
def test_a_log_that_is_renamed_while_another_is_read_counts(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that ended failed the plans of all tables: Spark renames its log."""
    running, data = tmp_path / name, log(*LATER)
    running.parent.mkdir(exist_ok=True)
    running.write_bytes(pa.compress(data, "zstd", asbytes=True) if ".zstd" in name else data)
    (tmp_path / "app-1").write_bytes(log(*QUERIES))
    at_first_query(monkeypatch, lambda: running.rename(str(running).removesuffix(".inprogress")))
    found = read_workload([tmp_path], "t", DELTA)
    assert [each.at_ms for each in found.scans] == [1000, 2000, 9000]


def test_a_log_that_is_deleted_while_another_is_read_hides_no_query_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The cleaner of the history server failed the plans of all tables."""
    (tmp_path / "app-1").write_bytes(log(*QUERIES))
    (tmp_path / "app-2").write_bytes(log(*LATER))
    at_first_query(monkeypatch, (tmp_path / "app-2").unlink)
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        found = read_workload([tmp_path], "t", DELTA)
    assert [each.at_ms for each in found.scans] == [1000, 2000]
    [message] = caplog.messages
    assert f"{tmp_path / 'app-2'}: the event log is left out of the workload" in message


@pytest.mark.parametrize("gone", ["app-2.inprogress", "eventlog_v2_b"])
def test_a_log_that_goes_while_its_directory_is_listed_hides_no_other(
    tmp_path: Path, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app-1").write_bytes(log(*QUERIES))
    (tmp_path / "app-2.inprogress").write_bytes(log(*LATER))
    (tmp_path / "eventlog_v2_b").mkdir()
    (tmp_path / "eventlog_v2_b" / "events_1_b").write_bytes(log(*LATER))
    scandir = os.scandir

    def listing(path: str) -> Any:
        if str(path) == str(tmp_path / "eventlog_v2_b"):  # after the directory that it is in
            monkeypatch.setattr(os, "scandir", scandir)
            if gone == "app-2.inprogress":
                (tmp_path / gone).rename(tmp_path / "app-2")
            else:
                shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    found = read_workload([tmp_path], "t", DELTA)
    still_there = [9000] if gone == "eventlog_v2_b" else [9000, 9000]
    assert [each.at_ms for each in found.scans] == [1000, 2000, *still_there]


def test_a_log_under_both_of_its_names_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that renames by copying has both for a while: the queries would count twice."""
    (tmp_path / "app-1").write_bytes(log(*QUERIES))
    for name in ("app-2", "app-2.inprogress"):
        (tmp_path / name).write_bytes(log(*LATER))
    at_first_query(monkeypatch, (tmp_path / "app-2.inprogress").unlink)
    found = read_workload([tmp_path], "t", DELTA)
    assert [each.at_ms for each in found.scans] == [1000, 2000, 9000]


def test_a_log_that_the_user_names_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would say that the plan ignores its queries."""
    (tmp_path / "app-1").write_bytes(log(*QUERIES))
    (tmp_path / "app-2.inprogress").write_bytes(log(*LATER))
    at_first_query(monkeypatch, lambda: (tmp_path / "app-2.inprogress").rename(tmp_path / "app-2"))
    with pytest.raises(OptionError, match=r"app-2\.inprogress.*no such file"):
        read_workload([tmp_path / "app-1", tmp_path / "app-2.inprogress"], "t", DELTA)


START = {"Event": UI + "SparkListenerSQLExecutionStart", "time": 1, "executionId": 9}
ODD: list[tuple[str, dict[str, Any] | bytes]] = [
    ("properties", {"Event": "SparkListenerEnvironmentUpdate", "System Properties": []}),
    ("plan", {**START, "sparkPlanInfo": ["x"]}),
    ("child", {**START, "sparkPlanInfo": {"children": ["x"]}}),
    ("time", {**START, "time": float("inf"), "sparkPlanInfo": {}}),
    (
        "metric",
        query(9, plan({**scan("[]"), "metrics": [{"name": FILES[0], "accumulatorId": [1]}]}), at=1)[0],
    ),
    (
        "depth",
        json.dumps({**START, "sparkPlanInfo": "PLAN"})
        .replace('"PLAN"', '{"children":[' * 10**5 + "]}" * 10**5)
        .encode(),
    ),
]


@pytest.mark.parametrize("event", [event for _, event in ODD], ids=[name for name, _ in ODD])
def test_an_odd_event_is_left_out(tmp_path: Path, event: dict[str, Any] | bytes) -> None:
    line = event if isinstance(event, bytes) else json.dumps(event).encode()
    (tmp_path / "app").write_bytes(log() + line + b"\n" + log(*QUERIES))
    assert [each.at_ms for each in read_workload([tmp_path / "app"], "t", DELTA).scans][-2:] == [1000, 2000]


def test_a_missing_path_and_an_empty_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no such file"):
        read_workload([tmp_path / "nowhere"], "t", DELTA)
    with pytest.raises(OptionError, match="empty"):
        read_workload([tmp_path], "t", DELTA)


def test_a_directory_without_a_log_names_the_file_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "readme").write_text("hello")
    with pytest.raises(OptionError, match="readme"):
        read_workload([tmp_path], "t", DELTA)
