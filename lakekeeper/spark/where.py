"""``where``: a Spark SQL predicate over a table's columns, parsed and resolved by Spark, then checked.

Only references to the table's columns and deterministic built-in functions may be in it: the same
text must select the same files when it is asked twice, and must run nobody's code.

Where rows are deleted it must also mean the same a moment later, in any session: Spark takes ``now()`` for
deterministic, since it has one value within one query, but a delete that lost a race asks again.
"""

from __future__ import annotations

import re
from typing import Any

from lakekeeper.errors import OptionError, nearest
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spi import TableName

_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."
_REFUSED = {
    "CallMethodViaReflection": "reflection",
    "PythonUDF": "a UDF",
    "ScalaUDF": "a UDF",
    "UserDefinedExpression": "a UDF",
    "ApplyFunctionExpression": "a catalog's function",
    "V2ScalarFunction": "a catalog's function",
}
_EXPECTED = "a Spark SQL predicate over the table's columns, with deterministic built-in functions only"


_MOMENTS = (
    "Now",
    "LocalTimestamp",
    "CurrentTimestamp",
    "CurrentBatchTimestamp",
    "CurrentDate",
    "CurrentTime",
)
_SESSION = ("CurrentUser", "CurrentDatabase", "CurrentCatalog", "CurrentTimeZone", "VariableReference")
_SPECIAL = r"\s*(now|today|yesterday|tomorrow)\b"
_TYPED = re.compile(rf"\b(?:date|time|timestamp(?:_ntz|_ltz)?)\s*(['\"]){_SPECIAL}[^'\"]*\1", re.IGNORECASE)
_TIMES = ("date", "timestamp", "timestamp_ntz", "time")


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
    if steady and (moment := _TYPED.search(where)):
        raise _unsteady(where, moment[0], "moment")  # the parser has made a literal of it
    for expression in jvm.python_list(analyzed.expressions()):
        _check(jvm, where, expression, steady=steady)


def _check(jvm: Jvm, where: str, expression: Any, *, steady: bool) -> None:
    name = str(expression.getClass().getName())
    simple = name.rpartition(".")[2]
    if "Subquery" in simple or simple in ("Exists", "ListQuery"):
        raise OptionError("where", where, f"{_EXPECTED}; a subquery is none")
    if simple in _REFUSED or not name.startswith(_BUILT_IN):
        raise OptionError("where", where, f"{_EXPECTED}; {_REFUSED.get(simple, simple)} is none")
    if steady and simple in _SESSION:
        raise _unsteady(where, expression.sql(), "session")
    if steady and (simple in _MOMENTS or (simple == "Cast" and _reads_clock(expression))):
        raise _unsteady(where, expression.sql(), "moment")
    children = jvm.python_list(expression.children())
    for child in children:
        _check(jvm, where, child, steady=steady)
    if not expression.deterministic():
        raise OptionError("where", where, f"{_EXPECTED}; '{expression.sql()}' is not deterministic")


def _reads_clock(cast: Any) -> bool:
    """Is it a cast of ``'now'``, ``'today'`` … to a date or time, of which the optimizer makes that moment?"""
    child = cast.child()
    if not child.foldable() or str(cast.dataType().simpleString()).partition("(")[0] not in _TIMES:
        return False
    text = "" if child.dataType().simpleString() != "string" else str(child.sql()).strip("'\"")
    return re.match(_SPECIAL, text, re.IGNORECASE) is not None


def _unsteady(where: str, what: str, on: str) -> OptionError:
    moment = "write the moment as a literal, e.g. timestamp '2026-01-31 12:00:00'"
    instead = moment if on == "moment" else "write the value as a literal"
    return OptionError(
        "where",
        where,
        f"a predicate that means the same when it is asked again; '{what}' depends on the {on}: {instead}",
    )


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
