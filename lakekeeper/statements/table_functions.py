"""Results as tables in a query: ``SELECT … FROM clustering_information('t')``.

Spark runs table functions on executors, which have no session. So each of ours is evaluated on the driver, before the
query: its rows become a temporary view, and the query reads the view in the place of the function::

    SELECT depth FROM lakekeeper_blocks('t') AS b   ─►   SELECT depth FROM lakekeeper_result_5f… AS b
"""

from __future__ import annotations

import re
import textwrap
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.errors import OptionError
from lakekeeper.spark.parsed import Node, arguments, evaluated
from lakekeeper.spi import Observer
from lakekeeper.statements.procedures import Call, run_call
from lakekeeper.statements.sql_text import tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTIONS: Mapping[str, str] = {
    "clustering_information": "clustering_information",
    "clustering_depth": "clustering_depth",
    "lakekeeper_advise": "advise",
    "lakekeeper_blocks": "blocks",
    "lakekeeper_cost": "cost",
    "lakekeeper_history": "history",
    "lakekeeper_plan": "plan",
    "lakekeeper_streams": "streams",
    "lakekeeper_trash": "trash",
}
"""Table function → procedure with the same arguments; only those that change nothing."""

_STORED = frozenset({"AlterViewAs", "CacheTableAsSelect", "CreateView", "CreateViewCommand"})
_NAMED = re.compile(rf"\b({'|'.join(FUNCTIONS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Use:
    """A table function in a statement: from ``start`` to before ``end``."""

    start: int
    end: int
    call: Call


@contextmanager
def with_results(
    spark: SparkSession,
    statement: str,
    plan: Node,
    observer: Observer | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """The statement with our table functions evaluated; Spark must read the text before the block ends.

    Raises OptionError for a statement whose own text Spark stores: it would name what no longer exists.
    """
    uses = _uses(statement, plan) if _NAMED.search(statement) else []
    if uses and plan.kind in _STORED:
        advice = (
            'a SELECT: lk.sql(spark, "SELECT …").createOrReplaceTempView("name") makes a view of its rows'
        )
        raise OptionError("statement", textwrap.shorten(statement, 60, placeholder=" …"), advice)
    views: dict[str, _Use] = {f"lakekeeper_result_{uuid.uuid4().hex}": use for use in uses}
    try:
        for view, use in views.items():
            run_call(spark, use.call, observer, options).createOrReplaceTempView(view)
        text = statement
        for view, use in sorted(views.items(), key=lambda item: -item[1].start):
            text = text[: use.start] + view + text[use.end :]
        yield text
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def _uses(statement: str, plan: Node) -> list[_Use]:
    found = []
    for node in plan.walk():
        if node.kind != "UnresolvedTableValuedFunction":
            continue
        name = ".".join(node.strings("name")).lower()
        if name in FUNCTIONS:
            start = int(node.plan.origin().startIndex().get())
            call = Call(FUNCTIONS[name], evaluated(plan.jvm.spark, arguments(node, "functionArgs")))
            found.append(_Use(start, _closing(statement, start), call))
    return found


def _closing(statement: str, start: int) -> int:
    """The end of the call that begins at ``start``: after its closing parenthesis."""
    depth = 0
    for token in tokens(statement, start):
        depth += token.is_sign("(") - token.is_sign(")")
        if token.is_sign(")") and not depth:
            return token.end
    raise OptionError("statement", statement[start : start + 60], "a closing parenthesis")
