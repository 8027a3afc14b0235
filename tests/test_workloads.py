"""Event logs are parsed once in a pass, whatever the number of its tables and verbs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lakekeeper.core.workload.workload import Workload, collect
from lakekeeper.workloads import EventLogs

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
