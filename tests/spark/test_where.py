"""What may stand in ``where``, and what is refused by name before any file is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import OptionError
from lakekeeper.spark.identifiers import resolve
from lakekeeper.spark.where import check_where
from lakekeeper.spi import TableName

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg]


@pytest.fixture(scope="module", params=["spark_catalog.wheres.t", "ice.wheres.t", "path"])
def table(request: pytest.FixtureRequest, spark: SparkSession, warehouse: object) -> Iterator[TableName]:
    """A small table: Delta by name, Iceberg, Delta by path."""
    columns = "id BIGINT, name STRING, day DATE, at TIMESTAMP, place STRUCT<city: STRING>, `odd.name` INT"
    if request.param == "path":
        path = f"{warehouse}/wheres_by_path"
        spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
        yield resolve(spark, path)
        return
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {request.param.rpartition('.')[0]}")
    provider = "iceberg" if request.param.startswith("ice") else "delta"
    spark.sql(f"CREATE TABLE {request.param} ({columns}) USING {provider}")
    yield resolve(spark, request.param)
    spark.sql(f"DROP TABLE {request.param}")


@pytest.mark.parametrize(
    "where",
    [
        "id = 1",
        "id BETWEEN 1 AND 5 OR name IS NULL",
        "name LIKE 'a%' AND NOT (id > 3)",
        "day >= DATE '2026-01-01'",
        "day >= date_sub(DATE '2026-01-01', 7)",
        "at < timestamp'2026-01-01 00:00:00'",
        "upper(name) IN ('A', 'B')",
        "place.city = 'Paris'",
        "`odd.name` > 0",
        "ID = 1",
        "true",
    ],
)
def test_taken(spark: SparkSession, table: TableName, where: str) -> None:
    check_where(spark, table, where)


@pytest.mark.parametrize(
    "where, said",
    [
        ("id IN (SELECT 1)", "subquery"),
        ("id = (SELECT max(x) FROM VALUES (1) AS v(x))", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("rand() < 0.5", r"'rand\(.*' is not deterministic"),
        ("id > 1 AND uuid() = name", "not deterministic"),
        ("input_file_name() = 'x'", "not deterministic"),
        ("monotonically_increasing_id() > 3", "not deterministic"),
        ("double_it(id) = 2", "not a UDF"),
        ("id = 1 OR where_now() > at", "not a SQL function"),
        ("reflect('java.lang.System', 'currentTimeMillis') = name", "not reflection"),
        ("id = ", "it cannot be parsed"),
        ("", "it cannot be parsed"),
        ("id = 1; DROP TABLE x", "it cannot be parsed"),
        ("id", "boolean|BOOLEAN"),
        ("count(*) > 1", "deterministic built-in"),
        ("no_such_function(id) = 1", "no_such_function"),
    ],
)
def test_refused(spark: SparkSession, table: TableName, where: str, said: str) -> None:
    spark.udf.register("double_it", lambda x: 2 * x, "bigint")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION where_now() RETURNS TIMESTAMP RETURN now()")
    with pytest.raises(OptionError, match=said) as raised:
        check_where(spark, table, where)
    assert raised.value.key == "where"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("where", ["nmae = 'x'", "nmae='x'", "id = 1 AND nmae = 'x'", "upper(nmae) = 'X'"])
def test_an_unknown_column_names_the_nearest(spark: SparkSession, table: TableName, where: str) -> None:
    with pytest.raises(OptionError, match=r"did you mean 'name'\?"):
        check_where(spark, table, where)


@pytest.mark.parametrize(
    "where",
    [
        "at < timestamp'2026-01-01 00:00:00'",
        "day >= date_sub(DATE '2026-01-01', 7)",
        "name = 'now' OR name LIKE 'today%'",
        "name = 'date ' AND id = 1",
        "cast(name AS DATE) = day",
        "at > '2026-01-01'",
        "true",
    ],
)
def test_what_means_the_same_twice_is_steady(spark: SparkSession, table: TableName, where: str) -> None:
    check_where(spark, table, where, steady=True)


@pytest.mark.parametrize(
    "where",
    [
        "at < now()",
        "at < current_timestamp",
        "at < localtimestamp()",
        "day < current_date() - INTERVAL 7 DAYS",
        "day < curdate()",
        "unix_timestamp() > id",
        "id = 1 OR year(current_date) = 2026",
        "day < DATE 'today'",
        'at < TIMESTAMP "now"',
        "at < timestamp_ntz' Yesterday '",
        "day < 'today'",
        "at > cast('now' AS TIMESTAMP)",
        "at > try_cast(concat('to', 'day') AS TIMESTAMP)",
        "day > to_date('tomorrow')",
        "at > to_timestamp(' NOW')",
        "cast(at AS STRING) > date_format(now(), 'yyyy')",
    ],
)
def test_what_depends_on_the_moment_is_not(spark: SparkSession, table: TableName, where: str) -> None:
    check_where(spark, table, where)  # good enough for choosing files
    with pytest.raises(
        OptionError, match=r"depends on the current time: write the time as a literal"
    ) as raised:
        check_where(spark, table, where, steady=True)
    assert raised.value.key == "where"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "where",
    [
        "name = current_user()",
        "name = user()",
        "name = session_user()",
        "name = current_catalog()",
        "name = current_schema()",
        "name = current_timezone()",
        "id = lakekeeper_where",
    ],
)
def test_what_depends_on_the_session_is_not(spark: SparkSession, table: TableName, where: str) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE lakekeeper_where BIGINT DEFAULT 1")
    with pytest.raises(OptionError, match=r"depends on the session: write the value as a literal"):
        check_where(spark, table, where, steady=True)
