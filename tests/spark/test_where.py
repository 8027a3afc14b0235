"""What ``where`` accepts, and what is refused by name before any file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakekeeper.errors import OptionError
from lakekeeper.spark.identifiers import resolve
from lakekeeper.spark.where import checked_where
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
def test_accepted(spark: SparkSession, table: TableName, where: str) -> None:
    checked_where(spark, table, where)


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
        checked_where(spark, table, where)
    assert raised.value.key == "where"
    assert "\n" not in str(raised.value)


def test_a_metadata_column_is_refused(spark: SparkSession, table: TableName) -> None:
    """Loss L76: a rewrite gives rows other positions, and a delete that follows it would find other rows."""
    file, position = (
        ("_file", "_pos")
        if table.provider == "iceberg"
        else (
            "_metadata.file_path",
            "_metadata.file_size",
        )
    )
    for where in (f"{position} < 10", f"id = 1 AND upper({file}) = 'X'", f"id = 1 OR {file} IS NULL"):
        with pytest.raises(OptionError, match=r"not the metadata column '_(pos|file|metadata)'"):
            checked_where(spark, table, where)
    with pytest.raises(OptionError, match=r"not the metadata column '_(pos|metadata)'"):
        checked_where(spark, table, F.col(position) < 10)


@pytest.mark.parametrize("where", ["nmae = 'x'", "nmae='x'", "id = 1 AND nmae = 'x'", "upper(nmae) = 'X'"])
def test_an_unknown_column_names_the_nearest(spark: SparkSession, table: TableName, where: str) -> None:
    with pytest.raises(OptionError, match=r"did you mean 'name'\?"):
        checked_where(spark, table, where)


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
def test_a_deterministic_predicate_is_steady(spark: SparkSession, table: TableName, where: str) -> None:
    checked_where(spark, table, where, steady=True)


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
        "day < DATE r'today'",
        "day < DATE /* of */ -- the run\n 'today'",
        r"day < DATE 'tod\u0061y'",
        "day < 'today'",
        "at > cast('now' AS TIMESTAMP)",
        "at > try_cast(concat('to', 'day') AS TIMESTAMP)",
        "day > to_date('tomorrow')",
        "at > to_timestamp(' NOW')",
        "cast(at AS STRING) > date_format(now(), 'yyyy')",
    ],
)
def test_a_predicate_that_depends_on_the_time_is_not_steady(
    spark: SparkSession, table: TableName, where: str
) -> None:
    checked_where(spark, table, where)  # acceptable for choosing files
    with pytest.raises(
        OptionError, match=r"depends on the current time: write the time as a literal"
    ) as raised:
        checked_where(spark, table, where, steady=True)
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
def test_a_predicate_that_depends_on_the_session_is_not_steady(
    spark: SparkSession, table: TableName, where: str
) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE lakekeeper_where BIGINT DEFAULT 1")
    with pytest.raises(OptionError, match=r"depends on the session: write the value as a literal"):
        checked_where(spark, table, where, steady=True)


NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
Made = Callable[[], Column]
"""Makes a Column, which requires a session."""


@pytest.mark.parametrize(
    "made, text",
    [
        (lambda: F.col("id") == 1, "id = 1"),
        (lambda: F.col("ID") == 1, "id = 1"),
        (lambda: F.col("id").between(1, 5) | F.col("name").isNull(), "id BETWEEN 1 AND 5 OR name IS NULL"),
        (lambda: F.col("name").like("a%") & ~(F.col("id") > 3), "name LIKE 'a%' AND NOT id > 3"),
        (lambda: F.col("name").isin("it's", 'a "b"', "c\\d\n"), r"""name IN ('it\'s', 'a "b"', 'c\\d\n')"""),
        (lambda: F.col("name").startswith("a"), "startswith(name, 'a')"),
        (lambda: F.col("day") >= date(2026, 1, 1), "day >= DATE '2026-01-01'"),
        (
            lambda: F.col("day") >= F.date_sub(F.lit(date(2026, 1, 1)), 7),
            "day >= date_sub(DATE '2026-01-01', 7)",
        ),
        (
            lambda: F.col("at") < datetime(2026, 1, 1, 12, 30, tzinfo=timezone.utc),
            "at < timestamp'2026-01-01 12:30:00'",
        ),
        (lambda: F.col("place.city") == "Paris", "place.city = 'Paris'"),
        (lambda: F.col("place")["city"] == "Paris", "place.city = 'Paris'"),
        (lambda: F.col("`odd.name`") > 0, "`odd.name` > 0"),
        (lambda: F.col("`odd.name`") / 2 > 1.5, "`odd.name` / 2 > 1.5D"),
        (lambda: F.upper("name").eqNullSafe("A"), "upper(name) <=> 'A'"),
        (lambda: F.when(F.col("id") > 3, True).otherwise(False), "CASE WHEN id > 3 THEN true ELSE false END"),
        (lambda: F.expr("id % 2 = 0"), "id % 2 = 0"),
        (lambda: F.lit(True), "true"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_column_is_the_predicate_that_spark_would_apply(
    spark: SparkSession, table: TableName, made: Made, text: str
) -> None:
    """The same predicate of the same table, and text that is checked like any other."""
    found = checked_where(spark, table, made(), steady=True)
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    plans = [
        frame.where(where)._jdf.queryExecution().optimizedPlan().canonicalized() for where in (found, text)
    ]
    assert plans[0].equals(plans[1]), found
    assert checked_where(spark, table, found) == found


def test_a_column_of_any_frame_is_found_by_its_name(spark: SparkSession, table: TableName) -> None:
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    other = spark.createDataFrame([(1, "a")], "id BIGINT, name STRING")
    for source in (frame, frame.alias("x"), other):
        assert checked_where(spark, table, (source["id"] > 1) & (source.name == "a")) == checked_where(
            spark, table, (F.col("id") > 1) & (F.col("name") == "a")
        )


@pytest.mark.parametrize(
    "made, said",
    [
        (lambda: F.udf(lambda x: x == 1, "boolean")("id"), "not a UDF"),
        (lambda: F.udf(lambda _: True, "boolean").asNondeterministic()("name"), "not a UDF"),
        (lambda: F.rand() < 0.5, "not deterministic"),
        (lambda: F.col("nmae") == "x", r"did you mean 'name'\?"),
        (lambda: F.col("id"), "boolean|BOOLEAN"),
        (lambda: F.count("*") > 1, "deterministic built-in"),
        (lambda: F.expr("id IN (SELECT 1)"), "subquery"),
        (lambda: 5, "Spark SQL or a Column"),
        (lambda: F.col("at") < F.current_timestamp(), "depends on the current time"),
    ],
)
def test_a_column_without_equivalent_text_is_refused(
    spark: SparkSession, table: TableName, made: Made, said: str
) -> None:
    with pytest.raises(OptionError, match=said) as raised:
        checked_where(spark, table, made(), steady=True)
    assert raised.value.key == "where"
    assert "\n" not in str(raised.value)


def test_a_udf_named_like_a_built_in_function_is_not_mistaken_for_it(
    spark: SparkSession, table: TableName
) -> None:
    def upper(_: str) -> str:
        return "A"

    with pytest.raises(OptionError, match="not a UDF"):
        checked_where(spark, table, F.udf(upper, "string")("name") == "A")


@pytest.mark.parametrize("where", ["t.k = 1", "wheres.t.k = 1", "id > 1 AND T.K IS NULL"])
@pytest.mark.parametrize("catalog", ["spark_catalog", "ice"])
@pytest.mark.parametrize("columns", ["id INT, k INT", "id INT, k INT, t STRUCT<k: INT>"])
def test_a_column_with_the_name_of_the_table_is_refused(
    spark: SparkSession, catalog: str, columns: str, where: str
) -> None:
    """Of ``t.k``, SQL deletes by the column ``k``, and the adapters deleted by the field of a struct ``t``."""
    name = f"{catalog}.wheres.t"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.wheres")
    spark.sql(
        f"CREATE OR REPLACE TABLE {name} ({columns}) USING {'iceberg' if catalog == 'ice' else 'delta'}"
    )
    try:
        with pytest.raises(OptionError, match="without the name of the table"):
            checked_where(spark, resolve(spark, name), where)
    finally:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("catalog", ["spark_catalog", "ice"])
def test_a_field_of_a_struct_with_the_name_of_the_table_is_accepted(
    spark: SparkSession, catalog: str
) -> None:
    name = f"{catalog}.wheres.t"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.wheres")
    provider = "iceberg" if catalog == "ice" else "delta"
    spark.sql(f"CREATE OR REPLACE TABLE {name} (id INT, t STRUCT<k: INT>) USING {provider}")
    try:
        assert checked_where(spark, resolve(spark, name), "t.k = 1 AND id < 2.5") == "t.k = 1 AND id < 2.5"
    finally:
        spark.sql(f"DROP TABLE {name}")
