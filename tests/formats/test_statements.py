"""lakekeeper's statements by ``lk.sql``: each does what the Python call does, on each kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import NotFound, OptionError, RetentionError, TableError
from tests.formats.calls import CALLS, LOGGED, WRONG
from tests.formats.lakes import Lake


def twins(lake: Lake) -> tuple[str, str]:
    """Two tables with the same rows in the same files."""
    return lake.overlapping(3, 40), lake.overlapping(3, 40)


def only(lake: Lake, statement: str) -> dict[str, Any]:
    [row] = lk.sql(lake.spark, statement).collect()
    return dict(row.asDict())


def agree(row: dict[str, Any], report: Any) -> None:
    """Each column with a counterpart in the report of the Python call has the same value."""
    plain = report.to_dict()
    shared = (row.keys() & plain.keys()) - LOGGED - {"reason"}
    assert len(shared) >= 3
    # Two tables differ by a few footer bytes.
    sized = {name for name in shared if name.endswith("bytes_count")}
    assert {n: row[n] for n in shared - sized} == {n: plain[n] for n in shared - sized}
    for name in sized:
        assert row[name] == pytest.approx(plain[name], rel=0.05)


@pytest.mark.parametrize("name", CALLS)
def test_a_statement_does_what_the_python_call_does(lake: Lake, name: str) -> None:
    by_sql, by_python = twins(lake)
    statement, call = CALLS[name]
    for table in (by_sql, by_python):
        lake.table(table).cluster_by("k")
    row = only(lake, statement.format(t=by_sql))
    agree(row, call(lake.table(by_python)))
    assert lake.fingerprint(by_sql) == lake.fingerprint(by_python)
    files = "SELECT count(*) FROM lakekeeper_blocks('{}')"
    assert only(lake, files.format(by_sql)) == only(lake, files.format(by_python))


def test_a_call_that_commits_nothing_returns_the_reason(lake: Lake) -> None:
    name = lake.overlapping(1, 20)
    row = only(lake, f"CALL lakekeeper.system.recluster('{name}', 'k')")
    [left] = lake.table(name).plan("k").left
    assert (row["status"], row["reason"]) == ("idle", f"recluster is not due: {left.reason}")


def test_a_key_is_stored_and_removed(lake: Lake) -> None:
    name = lake.overlapping(1, 10)
    stored = only(lake, f"ALTER TABLE {name} CLUSTER BY (k, `id`)")
    assert (stored["key_before"], stored["status"]) == ("", "done")
    assert stored["key_after"] == "(k, id)"
    assert only(lake, f"ALTER TABLE {name} CLUSTER BY NONE")["key_after"] == ""
    call = f"CALL lakekeeper.system.cluster_by('{name}', columns => {{}}, dry_run => true)"
    assert only(lake, call.format("array('k', 'id')"))["key_after"] == "(k, id)"
    assert only(lake, call.format("'hilbert(k, id)'"))["key_after"] == "hilbert(k, id)"
    assert only(lake, call.format("NULL"))["status"] == "idle"
    with pytest.raises(OptionError, match="NULL to remove the key"):
        lk.sql(lake.spark, f"CALL lakekeeper.system.cluster_by('{name}')")


def test_results_are_tables_in_a_query(lake: Lake) -> None:
    name = lake.overlapping(3, 40)
    table = lake.table(name)
    table.cluster_by("k")
    depth = table.clustering_depth()
    statement = f"""
        WITH info AS (SELECT * FROM clustering_information('{name}'))  -- a ) in a comment
        SELECT d.average_depth, (SELECT max(depth) FROM lakekeeper_blocks(table => '{name}') AS b), total_rows
        FROM clustering_depth('{name}', columns => 'k') d CROSS JOIN info WHERE ')' <> ''
    """
    assert tuple(lk.sql(lake.spark, statement).collect()[0]) == (depth, 3, 120)
    plan = lk.sql(lake.spark, f"SELECT action, count(*) FROM lakekeeper_plan('{name}') GROUP BY 1").collect()
    assert dict(map(tuple, plan)) == {"merge": 3}
    assert lk.sql(lake.spark, f"SELECT * FROM lakekeeper_streams('{name}')").count() == 0
    assert lake.spark.sql("SHOW VIEWS LIKE 'lakekeeper_result*'").collect() == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP VIEW {v} AS SELECT * FROM lakekeeper_blocks('{t}')",
        "CREATE OR REPLACE VIEW {v} AS WITH b AS (SELECT * FROM lakekeeper_blocks('{t}')) SELECT * FROM b",
        "CACHE TABLE {v} AS SELECT * FROM lakekeeper_blocks('{t}')",
        "CACHE LAZY TABLE {v} AS SELECT * FROM lakekeeper_blocks('{t}')",
    ],
)
def test_results_are_no_part_of_a_statement_that_spark_stores(lake: Lake, statement: str) -> None:
    """The first query of the view failed; one of the rows works, as the message says."""
    name, view = lake.overlapping(3, 40), f"stored_{uuid4().hex}"
    with pytest.raises(OptionError, match="createOrReplaceTempView"):
        lk.sql(lake.spark, statement.format(v=view, t=name))
    assert not lake.spark.catalog.tableExists(view)
    lk.sql(lake.spark, f"SELECT * FROM lakekeeper_blocks('{name}')").createOrReplaceTempView(view)
    assert lake.spark.sql(f"SELECT * FROM {view}").count() == 3
    lake.spark.catalog.dropTempView(view)


def test_results_are_tables_in_a_merge(lake: Lake) -> None:
    name = lake.overlapping(3, 40)
    lk.sql(
        lake.spark,
        f"""MERGE INTO {name} t USING (SELECT count(*) AS n FROM lakekeeper_blocks('{name}')) b
        ON t.id % 3 = 0 AND b.n = 3 WHEN MATCHED THEN DELETE""",
    )
    assert only(lake, f"SELECT count(*) AS n FROM {name}") == {"n": 80}


def test_the_trash_by_sql(lake: Lake) -> None:
    name = lake.overlapping(2, 20)
    before = lake.fingerprint(name)
    dropped = only(lake, f"CALL lakekeeper.system.drop_partition('{name}', 'k < 500')")
    entry = only(lake, f"SELECT * FROM lakekeeper_trash('{name}')")
    assert (entry["kind"], entry["where"], entry["state"]) == ("partition", "k < 500", "dropped")
    assert (dropped["trash"], dropped["deleted_rows_count"]) == (entry["name"], entry["rows"])
    back = only(lake, f"CALL lakekeeper.system.restore('{name}', '{entry['name']}')")
    assert (back["status"], lake.fingerprint(name)) == ("done", before)


def test_restoring_and_emptying_the_trash_by_sql_and_by_python(lake: Lake) -> None:
    by_sql, by_python = twins(lake)
    for table in (by_sql, by_python):
        for where in ("k < 100", "k >= 900"):
            lake.table(table).drop_partition(where)
    first, last = (lake.table(by_sql).trash()[n].name for n in (0, -1))
    report = lake.table(by_python).restore(lake.table(by_python).trash()[0].name)
    row = only(lake, f"CALL lakekeeper.system.restore('{by_sql}', '{first}')")
    counted = ("kind", "rows", "files", "status")
    assert [row[n] for n in counted] == [report.kind, report.rows, report.files, report.status]
    assert lake.fingerprint(by_sql) == lake.fingerprint(by_python)
    emptied = only(lake, f"CALL lakekeeper.system.empty_trash('{by_sql}', all_entries => true)")
    [entry] = lake.table(by_python).empty_trash(all_entries=True)
    assert (emptied["name"], emptied["rows"], emptied["where"]) == (last, entry.rows, entry.where)
    assert (lake.table(by_sql).trash(), lake.table(by_python).trash()) == ((), ())


def test_history_and_cost_are_tables(lake: Lake, confs: RuntimeConfig, tmp_path: Path) -> None:
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    name = lake.overlapping(3, 40)
    done = lake.table(name).compact()
    statement = f"SELECT operation_type, operation_status FROM lakekeeper_history('{name}', limit => 1)"
    assert only(lake, statement) == {"operation_type": "compact", "operation_status": "done"}
    cost = lk.sql(lake.spark, f"SELECT * FROM lakekeeper_cost('{name}')").collect()
    assert done.changed
    assert len(cost) == 1


@pytest.mark.parametrize(
    "statement, message",
    [
        *WRONG,
        ("CALL lakekeeper.system.recluster(k)", "constants"),
        ("ALTER TABLE {t} CLUSTER BY (nope)", "nope"),
        ("SELECT * FROM clustering_depth('{t}', colums => 'k')", "a parameter of clustering_depth"),
        ("ALTER TABLE {t} RECLUSTER LIMIT 3", "ALTER TABLE .IF EXISTS. <table> RECLUSTER"),
        ("ALTER TABLE {t} RECLUSTER WHERE", "ALTER TABLE .IF EXISTS. <table> RECLUSTER"),
        ("ALTER TABLE {t} RECLUSTER FINAL WHERE k <", "(?i)where"),
    ],
)
def test_an_invalid_statement_is_refused_before_any_work(lake: Lake, statement: str, message: str) -> None:
    name = lake.overlapping(2, 20)
    before = lake.versions(name)
    with pytest.raises((OptionError, TableError, RetentionError), match=message) as raised:
        lk.sql(lake.spark, statement.format(t=name))
    assert isinstance(raised.value, OptionError) or name in str(raised.value)
    assert lake.versions(name) == before


def test_a_missing_table_is_an_error_unless_the_statement_permits_it(lake: Lake) -> None:
    name = lake.overlapping(1, 5) + "_not_there"
    assert lk.sql(lake.spark, f"ALTER TABLE IF EXISTS {name} RECLUSTER").collect() == []
    with pytest.raises(NotFound):
        lk.sql(lake.spark, f"ALTER TABLE {name} RECLUSTER")
    with pytest.raises(NotFound):
        lk.sql(lake.spark, f"CALL lakekeeper.system.compact('{name}')")


def test_procedures_of_other_catalogs_are_left_to_spark(lake: Lake) -> None:
    """``CALL ice.system.…`` is Iceberg's; on a session catalog without procedures Spark raises the error."""
    name = lake.overlapping(2, 20)
    call = f"CALL {name.split('.')[0]}.system.rewrite_manifests('{name.partition('.')[2]}')"
    if lake.iceberg:
        assert "rewritten_manifests_count" in lk.sql(lake.spark, call).columns
    else:
        with pytest.raises(Exception, match=r"(?i)procedure|not.support"):
            lk.sql(lake.spark, call)
