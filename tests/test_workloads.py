"""Event logs are parsed once in a pass, whatever the number of its tables and verbs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from lakekeeper import workloads
from lakekeeper.core.workload.workload import Workload, collect
from lakekeeper.errors import OptionError
from lakekeeper.workloads import EventLogs, listener_of

NAMES = {"db.a": ("db.a", "/wh/a"), "db.b": ("db.b", "/wh/b"), "db.c": ("db.c", "/wh/c")}


def test_a_workload_is_parsed_once_for_all_tables_of_a_pass() -> None:
    parsed: list[tuple[str, ...]] = []

    def read(paths: Sequence[str], tables: Mapping[str, Collection[str]]) -> Mapping[str, Workload]:
        parsed.append(tuple(paths))
        assert tables == NAMES
        return {table: collect(table, [], source="") for table in tables}

    logs = EventLogs(lambda: NAMES, read)
    for _verb in range(4):
        for table in NAMES:
            found = logs.of(["logs/app"], table)
            assert found is not None
            assert found.table == table
    assert parsed == [("logs/app",)]
    assert logs.of(["logs/other"], "db.a") is not None
    assert parsed == [("logs/app",), ("logs/other",)]
    assert logs.of(["logs/app"], "db.unknown") is None


def test_logs_that_cannot_be_read_fail_each_table_and_are_parsed_once() -> None:
    """A pass over thousands of tables parsed gigabytes of logs for each of them, up to the one that is broken."""
    parsed: list[tuple[str, ...]] = []

    def read(paths: Sequence[str], _: Mapping[str, Collection[str]]) -> Mapping[str, Workload]:
        parsed.append(tuple(paths))
        raise OptionError("workload", paths[0], "a Spark event log")

    logs = EventLogs(lambda: NAMES, read)
    for table in NAMES:
        with pytest.raises(OptionError, match="logs/app"):
            logs.of(["logs/app"], table)
    assert parsed == [("logs/app",)]


class Session:
    """A session that can be forgotten."""


class Listener:
    """A listener, which refers to its session."""

    def __init__(self, spark: Any, *, most: int) -> None:
        self.spark, self.most = spark, most


def test_a_session_with_a_listener_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a session for each request kept all of them, with their scans."""
    monkeypatch.setattr(workloads, "require_classic", lambda _: None)
    monkeypatch.setattr(workloads, "Listening", Listener)
    spark: Any = Session()
    first = listener_of(spark, 5)
    assert listener_of(spark, 9) is first
    gone = weakref.ref(spark)
    del spark, first
    gc.collect()
    assert gone() is None
