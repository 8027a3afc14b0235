"""Statements as Spark parses them: an argument has the value that Spark reads in the statement."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from lakekeeper.errors import OptionError
from lakekeeper.spark.parsed import arguments, evaluated, parse

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
