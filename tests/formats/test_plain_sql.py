"""``CALL``, table functions and views in plain ``spark.sql``: the rows of ``lk.sql``, and the same errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import OptionError
from lakekeeper.spark.callbacks import thrown
from lakekeeper.spark.jvm import Jvm
from lakekeeper.statements.procedures import PROCEDURES
from lakekeeper.statements.table_functions import FUNCTIONS
from tests.formats.calls import CALLS, LOGGED, WRONG
from tests.formats.lakes import Lake

_ENABLED = "spark.lakekeeper.sql.call.enabled"


@pytest.fixture
def installed(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path) -> Iterator[lk.Installed]:
    """Statements of lakekeeper installed in the session, which has a history."""
    confs.set(_ENABLED, "true")
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    handle = lk.install(spark)
    yield handle
    handle.stop()


def only(spark: SparkSession, statement: str) -> dict[str, Any]:
    [row] = spark.sql(statement).collect()
    return dict(row.asDict())


_STATEMENTS = {name: statement for name, (statement, _) in CALLS.items() if statement.startswith("CALL")}


@pytest.mark.parametrize("name", _STATEMENTS)
def test_a_call_has_the_rows_of_lk_sql(lake: Lake, installed: lk.Installed, name: str) -> None:
    plain, ours = lake.overlapping(3, 40), lake.overlapping(3, 40)
    for table in (plain, ours):
        lake.table(table).cluster_by("k")
    statement = _STATEMENTS[name]
    found = lake.spark.sql(statement.format(t=plain))
    expected = lk.sql(lake.spark, statement.format(t=ours))
    assert found.schema.simpleString() == expected.schema.simpleString()
    [row], [twin] = found.collect(), expected.collect()
    # The footers of the two tables differ by a few bytes.
    known = [n for n in found.columns if n not in LOGGED | {"reason"} and not n.endswith("bytes_count")]
    assert [row[n] for n in known] == [twin[n] for n in known]
    assert lake.fingerprint(plain) == lake.fingerprint(ours)


def test_arguments_are_those_of_lk_sql(lake: Lake, installed: lk.Installed) -> None:
    name = lake.overlapping(2, 20)
    call = f"CALL lakekeeper.system.cluster_by('{name}', columns => {{}}, dry_run => true)"
    assert only(lake.spark, call.format("array('k', 'id')"))["key_after"] == "(k, id)"
    assert only(lake.spark, call.format("'hilbert(k, id)'"))["key_after"] == "hilbert(k, id)"
    assert only(lake.spark, call.format("NULL"))["status"] == "idle"
    weighed = f"CALL lakekeeper.system.vacuum('{name}', retention_hours => 0.5 + 199.5, dry_run => 1 = 1)"
    assert only(lake.spark, weighed)["deleted_files_count"] == 0


def test_explain_starts_no_maintenance(lake: Lake, installed: lk.Installed) -> None:
    name = lake.overlapping(3, 20)
    before = lake.versions(name)
    plan = only(lake.spark, f"EXPLAIN CALL lakekeeper.system.recluster('{name}', 'k')")["plan"]
    assert "recluster" in plan
    assert lake.versions(name) == before


def test_table_functions_work_in_any_query(lake: Lake, installed: lk.Installed) -> None:
    name = lake.overlapping(3, 40)
    table = lake.table(name)
    table.cluster_by("k")
    statement = f"""
        WITH info AS (SELECT * FROM clustering_information('{name}'))
        SELECT d.average_depth, (SELECT max(depth) FROM lakekeeper_blocks(table => '{name}') AS b), total_rows
        FROM clustering_depth('{name}', columns => 'k') d CROSS JOIN info
    """
    assert tuple(lake.spark.sql(statement).collect()[0]) == (table.clustering_depth(), 3, 120)
    plan = f"SELECT action, count(*) FROM lakekeeper_plan('{name}', options => map('min-input-files', '2')) GROUP BY 1"
    assert dict(map(tuple, lake.spark.sql(plan).collect())) == {"merge": 3}
    both = f"SELECT l.path FROM lakekeeper_blocks('{name}') l JOIN lakekeeper_blocks('{name}') r USING (path)"
    assert lake.spark.sql(both).count() == 3


def test_views_show_later_operations(lake: Lake, installed: lk.Installed) -> None:
    """Each query reads a view again, and a view has the operations of all tables."""
    first, second = lake.overlapping(3, 20), lake.overlapping(3, 20)
    count = "SELECT count(DISTINCT table_name) n FROM lakekeeper_history WHERE operation_type = 'compact'"
    assert only(lake.spark, count)["n"] == 0
    for name in (first, second):
        lake.spark.sql(f"CALL lakekeeper.system.compact('{name}')")
    assert only(lake.spark, count)["n"] == 2
    assert lake.spark.sql("SELECT * FROM lakekeeper_cost").count() == 2
    assert lake.spark.sql(f"SELECT * FROM lakekeeper_history('{first}')").count() == 1
    assert lake.spark.sql("SELECT * FROM lakekeeper_history(limit => 1)").count() == 1


@pytest.mark.parametrize(
    "statement, message",
    [
        *WRONG,
        ("CALL lakekeeper.other.recluster('{t}')", r"got 'lakekeeper\.other\.recluster'"),
        ("CALL lakekeeper.system.compact('{t}_not_there')", "NotFound"),
        ("SELECT * FROM lakekeeper_blocks('{t}_not_there')", "NotFound"),
    ],
)
def test_an_error_is_the_message_alone(
    lake: Lake, installed: lk.Installed, statement: str, message: str
) -> None:
    from pyspark.errors import IllegalArgumentException

    name = lake.overlapping(1, 5)
    before = lake.versions(name)
    with pytest.raises(IllegalArgumentException, match=message) as raised:
        lake.spark.sql(statement.format(t=name)).collect()
    assert "Traceback" not in str(raised.value)
    assert "\tat " not in str(raised.value)
    assert lake.versions(name) == before


@pytest.mark.delta
def test_statements_are_removed_with_the_handle(spark: SparkSession, installed: lk.Installed) -> None:
    listed = [row["procedure_name"] for row in spark.sql("SHOW PROCEDURES IN lakekeeper.system").collect()]
    assert listed == list(PROCEDURES)
    lk.install(spark).stop()
    with pytest.raises(Exception, match="does not support procedures"):
        spark.sql("CALL lakekeeper.system.compact('t')")
    for name in FUNCTIONS:
        with pytest.raises(Exception, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
            spark.sql(f"SELECT * FROM {name}('t')")
    assert spark.sql("SHOW VIEWS LIKE 'lakekeeper*'").collect() == []
    lk.install(spark)
    assert spark.sql("SELECT * FROM lakekeeper_history").count() == 0


@pytest.mark.delta
def test_a_catalog_of_the_user_keeps_its_name(spark: SparkSession, confs: RuntimeConfig) -> None:
    confs.set(_ENABLED, "true")
    confs.set("spark.sql.catalog.lakekeeper", "org.example.Catalog")
    with pytest.raises(OptionError, match=r"spark\.sql\.catalog\.lakekeeper is set"):
        lk.install(spark)
    # Spark's own error: the procedure may be the catalog's.
    with pytest.raises(Exception, match=r"org\.example\.Catalog"):
        lk.sql(spark, "CALL lakekeeper.system.rewrite_data_files('t')")


@pytest.mark.delta
def test_without_the_conf_nothing_is_added(spark: SparkSession, confs: RuntimeConfig) -> None:
    lk.install(spark)
    assert "lakekeeper" not in [row[0] for row in spark.sql("SHOW CATALOGS").collect()]
    confs.set(_ENABLED, "perhaps")
    with pytest.raises(OptionError, match=r"sql\.call\.enabled"):
        lk.install(spark)


@pytest.mark.delta
def test_a_java_error_becomes_a_one_line_message(spark: SparkSession) -> None:
    jvm = Jvm(spark)
    with pytest.raises(Py4JJavaError) as raised:
        jvm.view.java.util.Optional.empty().get()
    assert "\tat " in str(raised.value)
    assert thrown(jvm, raised.value).getMessage() == "NoSuchElementException: No value present"
