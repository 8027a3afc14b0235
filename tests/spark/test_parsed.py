"""Statements as Spark parses them: an argument has the value that Spark reads in the statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.conf import RuntimeConfig

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.parsed import arguments, evaluated, parse, substituted
from lakekeeper.spark.predicates import text_of_column

pytestmark = pytest.mark.spark

_ARGUMENTS = (
    r"""'c LIKE "a\_b"'""",
    r"""'path = "C:\\new"'""",
    r"""array('a\_b', 'c\nd')""",
    r"""map('like', 'a\_b')""",
    r"""named_struct('like', 'a\_b', 'n', 1)""",
    r"""'a\_b' || 'c'""",
    """DATE '2026-01-02'""",
    """NULL""",
    """-1.50""",
)


@pytest.mark.parametrize("escaped", ["false", "true"])
def test_an_argument_has_the_value_that_spark_reads(
    spark: SparkSession, confs: RuntimeConfig, escaped: str
) -> None:
    """Loss L91: a text with a backslash was parsed twice, and a delete matched by another predicate."""
    confs.set("spark.sql.parser.escapedStringLiterals", escaped)
    listed = ", ".join(f"p{number} => {text}" for number, text in enumerate(_ARGUMENTS))
    expected = spark.sql(f"SELECT {', '.join(_ARGUMENTS)}").first()
    assert expected is not None
    for statement, member in (
        (f"CALL lakekeeper.system.delete({listed})", "args"),
        (f"SELECT * FROM lakekeeper_plan({listed})", "functionArgs"),
    ):
        plan = parse(spark, statement)
        [node] = [node for node in plan.walk() if node.kind in ("Call", "UnresolvedTableValuedFunction")]
        found = evaluated(spark, arguments(node, member))
        assert found == [(f"p{number}", value) for number, value in enumerate(expected)]


@pytest.mark.parametrize("text", ["id", "*", "no_such_function(1)", "count(*) OVER (PARTITION BY id)"])
def test_an_argument_that_is_not_constant_is_refused(spark: SparkSession, text: str) -> None:
    plan = parse(spark, f"CALL lakekeeper.system.delete({text}, 'a')")
    with pytest.raises(OptionError, match="constants; "):
        evaluated(spark, arguments(plan, "args"))


@pytest.mark.parametrize("where", ["beside an active session", "in a new thread"])
def test_literals_are_read_by_the_confs_of_the_given_session(spark: SparkSession, where: str) -> None:
    """Loss L145: a vacuum ``older_than`` a time of the session's zone deleted the versions of nine more hours."""
    other = spark.newSession()
    for key, value in (("session.timeZone", "Asia/Tokyo"), ("parser.escapedStringLiterals", "true")):
        other.conf.set(f"spark.sql.{key}", value)
    call = r"CALL lakekeeper.system.vacuum('C:\\new', older_than => TIMESTAMP '2026-01-31 09:00:00')"

    def values() -> list[tuple[str, Any]]:
        return evaluated(other, arguments(parse(other, call), "args"))

    if where == "in a new thread":
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(values).result()
    else:
        found = values()
    assert found[0] == ("", r"C:\\new")
    name, at = found[1]
    assert (name, at.astimezone(timezone.utc).hour) == ("older_than", 0)
    assert substituted(other, "${spark.sql.session.timeZone}") == "Asia/Tokyo"


def test_a_column_is_compared_by_the_confs_of_the_given_session(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    frame = other.sql("SELECT TIMESTAMP '2026-01-31 09:00:00' AS at")
    day = F.col("at") == F.lit("2026-01-31 09:00:00").cast("timestamp")
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(lambda: text_of_column(Jvm(other), frame, day)).result()
    assert frame.where(text).count() == 1
