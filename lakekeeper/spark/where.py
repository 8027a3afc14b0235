"""``where``: a Spark SQL predicate over a table's columns, parsed and resolved by Spark, then checked.

Only references to the table's columns and deterministic built-in functions may be in it: the same
text must select the same files when it is asked twice, and must run nobody's code.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.errors import OptionError, nearest
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spark.steady import refuse_unsteady
from lakekeeper.spi import TableName

_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."
_REFUSED = {
    "CallMethodViaReflection": "reflection",
    "PythonUDF": "a UDF",
    "ScalaUDF": "a UDF",
    "UserDefinedExpression": "a UDF",
    "ApplyFunctionExpression": "a catalog's function",
    "V2ScalarFunction": "a catalog's function",
    "SQLScalarFunction": "a SQL function",
}
_EXPECTED = "a Spark SQL predicate over the table's columns, with deterministic built-in functions only"


def check_where(spark: Any, table: TableName, where: str, *, steady: bool = False) -> None:
    """Raise OptionError naming what in ``where`` can not be taken; reads no data.

    ``steady``: nor may it depend on the present moment or on the session.
    """
    jvm = Jvm(spark)
    try:
        jvm.session.sessionState().sqlParser().parseExpression(where)
    except Exception as error:
        raise OptionError("where", where, f"{_EXPECTED}; it does not parse: {_first_line(error)}") from error
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    try:
        analyzed = frame.where(where)._jdf.queryExecution().analyzed()
    except Exception as error:
        said = _unknown_column(error, frame.columns) or _first_line(error)
        raise OptionError("where", where, f"{_EXPECTED}; {said}") from error
    expressions = _expressions(jvm, analyzed)
    for expression in expressions:
        _check(jvm, where, expression)
    if steady:
        refuse_unsteady(jvm, where, expressions)


def _expressions(jvm: Jvm, plan: Any) -> list[Any]:
    """Those of all nodes: for some predicates Spark puts more than a filter over the table."""
    found = jvm.python_list(plan.expressions())
    for child in jvm.python_list(plan.children()):
        found += _expressions(jvm, child)
    return found


def _check(jvm: Jvm, where: str, expression: Any) -> None:
    name = str(expression.getClass().getName())
    simple = name.rpartition(".")[2]
    if "Subquery" in simple or simple in ("Exists", "ListQuery"):
        raise OptionError("where", where, f"{_EXPECTED}; a subquery is none")
    if simple in _REFUSED or not name.startswith(_BUILT_IN):
        raise OptionError("where", where, f"{_EXPECTED}; {_REFUSED.get(simple, simple)} is none")
    for child in jvm.python_list(expression.children()):
        _check(jvm, where, child)
    if not expression.deterministic():
        raise OptionError("where", where, f"{_EXPECTED}; '{expression.sql()}' is not deterministic")


def _unknown_column(error: Exception, columns: list[str]) -> str:
    """Which column Spark could not find, with the nearest one; empty if it complains of something else."""
    told: Any = getattr(error, "getMessageParameters", dict)() or {}
    name = str(told.get("objectName", "")).strip("`")
    if not name or "UNRESOLVED_COLUMN" not in str(error):
        return ""
    return f"the table has no column '{name}'{nearest(name, columns)}"


def _first_line(error: Exception) -> str:
    told = causes(error)
    text = told[0][1] if told else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
