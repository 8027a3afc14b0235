"""Predicates as analyzed by Spark: rejection of unsupported expressions, and the rows for which one is not true.

Adapters may use this module besides ``lakekeeper.spark.jvm``: it works on DataFrames and is independent of formats.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from lakekeeper.errors import OptionError, nearest
from lakekeeper.spark.determinism import refuse_unsteady
from lakekeeper.spark.jvm import Jvm, causes

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
_METADATA_COLUMN = "__metadata_col"  # key in the metadata of columns that no table schema has
_COMPARISONS = (
    "EqualTo",
    "LessThan",
    "LessThanOrEqual",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "Like",
    "StartsWith",
)
_NEVER_NULL = ("EqualNullSafe", "IsNull", "IsNotNull")
EXPECTED = "a Spark SQL predicate over the table's columns, with deterministic built-in functions only"


def check(jvm: Jvm, frame: Any, where: str, *, steady: bool = False) -> None:
    """Raise OptionError naming what in ``where`` is not allowed over the columns of ``frame``; reads no data.

    ``steady``: also reject what depends on the current time or on the session.
    """
    try:
        with jvm.parser() as parser:
            parser.parseExpression(where)
    except Exception as error:
        raise OptionError("where", where, f"{EXPECTED}; it cannot be parsed: {_first_line(error)}") from error
    try:
        analyzed = frame.where(where)._jdf.queryExecution().analyzed()
    except Exception as error:
        problem = _unknown_column(error, frame.columns) or _first_line(error)
        raise OptionError("where", where, f"{EXPECTED}; {problem}") from error
    expressions = _expressions(jvm, analyzed)
    for expression in expressions:
        _check(jvm, where, expression)
    if steady:
        refuse_unsteady(jvm, where, expressions)


def refuse_qualified(jvm: Jvm, frame: Any, where: str) -> None:
    """Raise OptionError if ``where`` has another meaning, or none, without the name of the table of ``frame``.

    Adapters evaluate it over rows that have no such name. For a table ``t`` with the columns ``k`` and ``t STRUCT<k>``,
    SQL reads ``t.k`` as the column, and they as the field.
    """
    other = frame.alias("__lakekeeper_rows")
    try:
        same = _text(jvm, other, where) == _text(jvm, frame, where)
    except Exception:  # Spark finds no such column
        same = False
    if not same:
        expected = f"{EXPECTED}; write columns without the name of the table"
        raise OptionError("where", where, expected)


def _text(jvm: Jvm, frame: Any, where: str) -> str:
    return str(_by_name(jvm, _filter(jvm, frame, where).condition()).sql())


def text_of_column(jvm: Jvm, frame: Any, where: Any) -> str:
    """A ``Column`` as Spark SQL, with the types that Spark resolved over the columns of ``frame``; reads no data.

    Columns are found by name, whichever DataFrame they were taken from. Raises OptionError for what is not allowed in
    a predicate, and if Spark reads the text as another expression.
    """
    with jvm.active():  # whose confs decide which type a literal has, and how it is written
        return _text_of_column(jvm, frame, where)


def _text_of_column(jvm: Jvm, frame: Any, where: Any) -> str:
    by_name = jvm.shim.column(jvm, _by_name(jvm, jvm.shim.expression(jvm, where._jc)))
    try:
        analyzed = frame._jdf.where(by_name).queryExecution().analyzed()
    except Exception as error:
        problem = _unknown_column(error, frame.columns) or _first_line(error)
        raise OptionError("where", where, f"{EXPECTED}; {problem}") from error
    for expression in _expressions(jvm, analyzed):
        _check(jvm, str(where), expression)
    text = str(_by_name(jvm, analyzed.condition()).sql())
    try:
        again = frame.where(text)._jdf.queryExecution().analyzed()
        same = bool(again.canonicalized().equals(analyzed.canonicalized()))
    except Exception:  # whatever Spark finds in the text, it is not the Column
        same = False
    if not same:
        raise OptionError("where", where, f"a Column that SQL can express; as SQL, this one would be: {text}")
    return text


def _by_name(jvm: Jvm, expression: Any) -> Any:
    """The expression with its columns as plain names, to be resolved again."""
    if _kind(expression) == "AttributeReference":
        unresolved = jvm.view.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
        return unresolved(jvm.seq([expression.name()]))
    children = jvm.python_list(expression.children())
    if not children:
        return expression
    return expression.withNewChildren(jvm.seq([_by_name(jvm, child) for child in children]))


def referenced(jvm: Jvm, frame: Any, where: str) -> dict[str, str]:
    """Top-level columns that a predicate refers to: name → type as JSON text."""
    found = jvm.python_list(_filter(jvm, frame, where).condition().references().toSeq())
    return {str(attribute.name()): str(attribute.dataType().json()) for attribute in found}


def unmatched(jvm: Jvm, frame: Any, where: str) -> Any:
    """The rows of ``frame`` for which ``where`` is not true: false, or NULL.

    If a file can contain none of these rows, every row of it matches. The negation is pushed down to the comparisons,
    so that a format's own file skipping understands them::

        a = 1 AND b < 2        (NOT a = 1 OR a IS NULL) OR (NOT b < 2 OR b IS NULL)
    """
    plan = _filter(jvm, frame, where)
    logical = jvm.view.org.apache.spark.sql.catalyst.plans.logical
    contrary = logical.Filter(_not_true(jvm, plan.condition()), plan.child())
    return jvm.dataframe(jvm.rows_of_plan(contrary))


def split_conjunction(jvm: Jvm, frame: Any, where: str) -> list[Any]:
    """The conditions of a predicate that must all be true, resolved against the columns of ``frame``."""
    left, found = [_filter(jvm, frame, where).condition()], []
    while left:
        expression = left.pop()
        if _kind(expression) == "And":
            left += [expression.right(), expression.left()]
        else:
            found.append(expression)
    return found


def condition_of(frame: Any) -> Any:
    """The condition of the only filter in the optimized plan of a frame; None if every row passes.

    Raises LookupError if the optimizer proved that no row passes, ValueError if the plan is more than a filter.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    kind = _kind(plan)
    if kind == "LocalRelation":
        raise LookupError("nothing matches")
    if plan.children().size() == 0:
        return None
    if kind != "Filter":
        raise ValueError(f"{kind}: Spark plans more than a filter")
    return plan.condition()


def _filter(jvm: Jvm, frame: Any, where: str) -> Any:
    """The analyzed filter, with placeholder expressions (such as BETWEEN) replaced by their definition."""
    plan = frame.where(where)._jdf.queryExecution().analyzed()
    for rule in jvm.shim.placeholder_rules:
        plan = jvm.object(f"org.apache.spark.sql.catalyst.optimizer.{rule}").apply(plan)
    if _kind(plan) != "Filter":
        raise ValueError(f"{where}: Spark plans more than a filter for it")
    return plan


def _not_true(jvm: Jvm, expression: Any) -> Any:
    """An expression that is true where this one is false or NULL, and false where it is true."""
    made = jvm.view.org.apache.spark.sql.catalyst.expressions
    kind = _kind(expression)
    if kind == "And":
        return made.Or(_not_true(jvm, expression.left()), _not_true(jvm, expression.right()))
    if kind == "Or":
        return made.And(_not_true(jvm, expression.left()), _not_true(jvm, expression.right()))
    if kind == "Not":
        return _not_false(jvm, expression.child())
    return made.Or(made.Not(expression), _null(jvm, expression))


def _not_false(jvm: Jvm, expression: Any) -> Any:
    """An expression that is true where this one is true or NULL, and false where it is false."""
    made = jvm.view.org.apache.spark.sql.catalyst.expressions
    kind = _kind(expression)
    if kind == "And":
        return made.And(_not_false(jvm, expression.left()), _not_false(jvm, expression.right()))
    if kind == "Or":
        return made.Or(_not_false(jvm, expression.left()), _not_false(jvm, expression.right()))
    if kind == "Not":
        return _not_true(jvm, expression.child())
    return made.Or(expression, _null(jvm, expression))


def _null(jvm: Jvm, expression: Any) -> Any:
    """An expression that is true where this one is NULL: for a comparison, where one of its columns is NULL."""
    made = jvm.view.org.apache.spark.sql.catalyst.expressions
    kind = _kind(expression)
    if kind in _NEVER_NULL:
        return made.Literal.FalseLiteral()
    columns = [_column(jvm, child) for child in jvm.python_list(expression.children())]
    if kind not in _COMPARISONS or None in columns:
        return made.IsNull(expression)
    found = [made.IsNull(column) for column in columns if column != ""]
    return reduce(made.Or, found) if found else made.Literal.FalseLiteral()


def _column(jvm: Jvm, operand: Any) -> Any:
    """The column that decides whether an operand is NULL; empty for a non-NULL value, None if undecidable."""
    if operand.foldable():
        return None if operand.eval(None) is None else ""
    if _kind(operand) == "AttributeReference":
        return operand
    if _kind(operand) == "Cast" and _kind(operand.child()) == "AttributeReference":
        cast = jvm.object("org.apache.spark.sql.catalyst.expressions.Cast")
        widens = cast.canUpCast(operand.child().dataType(), operand.dataType())
        return operand.child() if widens else None
    return None


def _kind(item: Any) -> str:
    return str(item.getClass().getSimpleName())


def _expressions(jvm: Jvm, plan: Any) -> list[Any]:
    """The expressions of all nodes: for some predicates Spark plans more than a filter over the table."""
    found = jvm.python_list(plan.expressions())
    for child in jvm.python_list(plan.children()):
        found += _expressions(jvm, child)
    return found


def _check(jvm: Jvm, where: str, expression: Any) -> None:
    name = str(expression.getClass().getName())
    simple = name.rpartition(".")[2]
    if "Subquery" in simple or simple in ("Exists", "ListQuery"):
        raise OptionError("where", where, f"{EXPECTED}, not a subquery")
    if simple == "AttributeReference" and expression.metadata().contains(_METADATA_COLUMN):
        # A rewrite moves rows to other files and positions: the same text would then mean other rows.
        raise OptionError("where", where, f"{EXPECTED}, not the metadata column '{expression.name()}'")
    if simple in _REFUSED or not name.startswith(_BUILT_IN):
        raise OptionError("where", where, f"{EXPECTED}, not {_REFUSED.get(simple, simple)}")
    for child in jvm.python_list(expression.children()):
        _check(jvm, where, child)
    if not expression.deterministic():
        raise OptionError("where", where, f"{EXPECTED}; '{expression.sql()}' is not deterministic")


def _unknown_column(error: Exception, columns: list[str]) -> str:
    """Message naming the column that Spark could not find, with the nearest match; empty for any other error."""
    parameters: Any = getattr(error, "getMessageParameters", dict)() or {}
    name = str(parameters.get("objectName", "")).strip("`")
    if not name or "UNRESOLVED_COLUMN" not in str(error):
        return ""
    return f"the table has no column '{name}'{nearest(name, columns)}"


def _first_line(error: Exception) -> str:
    chain = causes(error)
    text = chain[0][1] if chain else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
