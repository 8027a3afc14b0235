"""Detect predicates whose result depends on the current time or the session, and so can change between evaluations.

Spark considers ``now()`` deterministic, since it has one value within a query. A delete that lost a race evaluates its
predicate again in another query; with ``now()`` it would delete other rows than intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm

_TIME_FUNCTIONS = (
    "Now",
    "LocalTimestamp",
    "CurrentTimestamp",
    "CurrentBatchTimestamp",
    "CurrentDate",
    "CurrentTime",
)
_SESSION = ("CurrentUser", "CurrentDatabase", "CurrentCatalog", "CurrentTimeZone", "VariableReference")
_TIMES = ("date", "time", "timestamp", "timestamp_ntz")
_SPECIAL = re.compile(r"\s*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)
_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*"  # between the words of a literal
_TYPED = re.compile(
    rf"\b(?:date|time|timestamp(?:_ntz|_ltz)?){_GAP}r?(['\"])(?:{_SPECIAL.pattern}|[^'\"]*\\)[^'\"]*\1",
    re.IGNORECASE | re.DOTALL,
)
"""A literal of a special time, or with an escape, which may spell one."""


def refuse_unsteady(jvm: Jvm, where: str, expressions: Iterable[Any]) -> None:
    """Raise OptionError naming the part of ``where`` that depends on the current time or the session.

    ``expressions`` are the expressions of the analyzed plan (Java objects).
    """
    literal = _TYPED.search(where)
    if literal:  # ``DATE 'today'``: the parser has already replaced it by today's date
        raise _unsteady(where, " ".join(literal[0].split()), "current time")
    for expression in expressions:
        _look(jvm, where, expression)


def _look(jvm: Jvm, where: str, expression: Any) -> None:
    name = str(expression.getClass().getSimpleName())
    if name in _SESSION:
        raise _unsteady(where, expression.sql(), "session")
    children = jvm.python_list(expression.children())
    if name in _TIME_FUNCTIONS or (_is_time(expression) and any(map(_names_a_time, children))):
        raise _unsteady(where, expression.sql(), "current time")
    for child in children:
        _look(jvm, where, child)


def _is_time(expression: Any) -> bool:
    return str(expression.dataType().simpleString()).partition("(")[0] in _TIMES


def _names_a_time(text: Any) -> bool:
    """Whether it is a constant such as ``'now'`` or ``'today'``, which a cast to a date or time resolves."""
    if str(text.dataType().typeName()) != "string" or not text.foldable():
        return False
    try:
        return _SPECIAL.match(str(text.eval(None))) is not None
    except Exception:  # expressions that Spark replaces later have no value yet; their parts are checked
        return False


def _unsteady(where: str, what: str, on: str) -> OptionError:
    time = "write the time as a literal with a zone, e.g. timestamp '2026-01-31 12:00:00Z'"
    instead = time if on == "current time" else "write the value as a literal"
    return OptionError(
        "where",
        where,
        f"a predicate that gives the same result when it is evaluated again; '{what}' depends on the {on}: {instead}",
    )
