"""Results as tables: procedure, table function and plain ``spark.sql`` return the rows of the Python call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.core.workload.workload import Scan, Span, Workload
from lakekeeper.statements.procedures import PROCEDURES
from lakekeeper.statements.table_functions import FUNCTIONS
from tests.formats.calls import CALLS
from tests.formats.lakes import Lake

Rows = list[dict[str, Any]]


def rows_of(frame: DataFrame) -> Rows:
    return [{name: _plain(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _plain(value: Any) -> Any:
    return (
        tuple(map(_plain, value)) if isinstance(value, list | tuple) and not isinstance(value, Row) else value
    )


def _without_table(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "table"}


def _advice(table: lk.Table, workload: str) -> Rows:
    found = table.advise(workload)
    return [
        {
            "columns": one.columns,
            "present": one.present,
            "best": one == found.best,
            "files_per_query": one.worth.after.files,
        }
        for one in found.candidates
    ]


def _streams(table: lk.Table) -> Rows:
    found = table.streams()
    return [{"sink": each.sink, "vacuum_keeps": found.holds(each)} for each in found.streams]


RESULTS: dict[str, Callable[[Lake, lk.Table, str], Rows]] = {
    "clustering_information": lambda _, t, __: [_without_table(asdict(t.clustering_information()))],
    "clustering_depth": lambda _, t, __: [{"average_depth": t.clustering_depth()}],
    "blocks": lambda _, t, __: rows_of(t.blocks()),
    "plan": lambda lake, t, __: rows_of(
        t.plan().to_frame(lake.spark).select("path", "bytes", "action", "reason", "policy", "level")
    ),
    "advise": lambda _, t, workload: _advice(t, workload),
    "streams": lambda _, t, __: _streams(t),
    "history": lambda lake, t, __: rows_of(t.history().to_frame(lake.spark)),
    "cost": lambda lake, t, __: rows_of(t.cost().to_frame(lake.spark)),
    "trash": lambda _, t, __: [{"name": e.name, "where": e.where, "rows": e.rows} for e in t.trash()],
}
"""Procedure → its result by Python, as rows with some of its columns."""
ELSEWHERE = {
    "expire_rows": "test_expire_rows",
    "undo": "test_undo",
    "restore": "test_statements",
    "empty_trash": "test_statements",
}
"""Procedures whose calls need a table of their own → the module that compares them."""


@pytest.fixture
def workload(tmp_path: Path) -> Callable[[str], str]:
    """Save a workload of queries for one id each; return its path."""

    def saved(table: str) -> str:
        now_ms = int(time.time() * 1000)
        scans = tuple(Scan(now_ms - n, {"id": (Span(n, n),)}) for n in range(1, 30))
        path = tmp_path / "workload.json"
        path.write_text(Workload(table, scans, now_ms - 3_600_000, now_ms).to_json())
        return str(path)

    return saved


@pytest.fixture
def installed(lake: Lake, confs: RuntimeConfig, tmp_path: Path) -> Iterator[None]:
    confs.set("spark.lakekeeper.sql.call.enabled", "true")
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    handle = lk.install(lake.spark)
    yield
    handle.stop()


@pytest.fixture
def used(lake: Lake, installed: None) -> str:
    """A table with a key, an operation in its history, a dropped partition, a stream that wrote, and an overlap."""
    name = lake.overlapping(3, 40)
    table = lake.table(name)
    table.cluster_by("k")
    table.compact(options={"min-input-files": 2})
    table.drop_partition("k < 100")
    more = (
        lake.spark.range(500, 540).selectExpr("id", "cast(id % 7 * 100 AS int) AS k", "'v' AS v").coalesce(1)
    )
    more.writeTo(name).option("snapshot-property.flink.job-id", "job").option(
        "snapshot-property.flink.operator-id", "sink"
    ).option("snapshot-property.flink.max-committed-checkpoint-id", "4").append()
    return name


def test_results_have_the_rows_of_the_python_calls(
    lake: Lake, used: str, workload: Callable[[str], str]
) -> None:
    path = workload(used)
    for procedure, by_python in RESULTS.items():
        more = f", '{path}'" if procedure == "advise" else ""
        expected = by_python(lake, lake.table(used), path)
        assert expected or (procedure == "streams" and not lake.iceberg), "an empty result proves nothing"
        names = expected[0].keys() if expected else set()
        [function] = [name for name, called in FUNCTIONS.items() if called == procedure]
        call = f"CALL lakekeeper.system.{procedure}('{used}'{more})"
        for statement in (call, f"SELECT * FROM {function}('{used}'{more})"):
            for found in (lk.sql(lake.spark, statement), lake.spark.sql(statement)):
                assert [{name: row[name] for name in names} for row in rows_of(found)] == expected, statement


def test_options_of_the_statement_apply_to_table_functions(lake: Lake, used: str) -> None:
    """They were checked, and then had no effect."""
    options = {"policy": "full"}
    expected = rows_of(lk.sql(lake.spark, f"CALL lakekeeper.system.plan('{used}')", options=options))
    found = rows_of(lk.sql(lake.spark, f"SELECT * FROM lakekeeper_plan('{used}')", options=options))
    assert found == expected != rows_of(lk.sql(lake.spark, f"SELECT * FROM lakekeeper_plan('{used}')"))


@pytest.mark.parametrize("value", ["x", "a value longer than its name"])
def test_variables_in_a_statement_leave_its_positions_alone(
    lake: Lake, confs: RuntimeConfig, value: str
) -> None:
    """Spark's positions are those in the text with the values, and ours were in the text as it was given."""
    name = lake.overlapping(2, 10)
    confs.set("lakekeeper_test.said", value)
    statement = (
        f"SELECT '${{lakekeeper_test.said}}' AS said, average_depth FROM clustering_depth('{name}', 'k')"
    )
    expected = lake.table(name).clustering_depth("k")
    assert [tuple(row) for row in lk.sql(lake.spark, statement).collect()] == [(value, expected)]


def test_each_procedure_and_function_is_compared_with_its_python_call() -> None:
    by_statement = {
        statement.split("system.")[1].split("(")[0]
        for statement, _ in CALLS.values()
        if statement.startswith("CALL")
    }
    assert by_statement | RESULTS.keys() | ELSEWHERE.keys() == PROCEDURES.keys()
    assert set(FUNCTIONS.values()) == RESULTS.keys()
    for name, module in ELSEWHERE.items():
        assert f"lakekeeper.system.{name}(" in Path(__file__).with_name(f"{module}.py").read_text()
