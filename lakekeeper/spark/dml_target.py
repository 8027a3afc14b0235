"""The table that a SQL statement changes, according to Spark's own parser."""

from __future__ import annotations

import textwrap
from typing import Any

from lakekeeper.core.model.keys import quote
from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm, causes

_TARGETS = {"DeleteFromTable": "table", "UpdateTable": "table", "MergeIntoTable": "targetTable"}


def changed_table(spark: Any, statement: str) -> str | None:
    """The quoted name of the table that a DELETE, UPDATE or MERGE changes; None for other statements.

    Raises OptionError for text that does not parse.
    """
    jvm = Jvm(spark)
    try:
        plan = jvm.session.sessionState().sqlParser().parsePlan(statement)
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip()
        shown = textwrap.shorten(statement, 60, placeholder=" …")
        raise OptionError("statement", shown, f"one SQL statement; {text.splitlines()[0]}") from error
    for node in _nodes(jvm, plan):
        member = _TARGETS.get(str(node.getClass().getSimpleName()))
        if member is not None:
            return _relation(jvm, getattr(node, member)())
    return None


def _nodes(jvm: Jvm, plan: Any) -> list[Any]:
    """A plan and its descendants, outermost first: a statement can be nested below WITH."""
    found = [plan]
    for child in jvm.python_list(plan.children()):
        found += _nodes(jvm, child)
    return found


def _relation(jvm: Jvm, target: Any) -> str | None:
    for node in _nodes(jvm, target):
        if str(node.getClass().getSimpleName()) == "UnresolvedRelation":
            return ".".join(quote(str(part)) for part in jvm.python_list(node.multipartIdentifier()))
    return None
