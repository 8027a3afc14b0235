"""A statement as Spark's own parser sees it: unresolved nodes, read through py4j."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import quote
from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spark.row_values import row_values


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an unresolved plan, with the session's JVM."""

    jvm: Jvm
    plan: Any

    @property
    def kind(self) -> str:
        """The name of its class, such as ``UnresolvedRelation``."""
        return str(self.plan.getClass().getSimpleName())

    def walk(self) -> Iterator[Node]:
        """This node and its descendants, outermost first, with subqueries and common table expressions."""
        yield self
        for members in (self.plan.children(), self.plan.innerChildren()):
            for child in self.jvm.python_list(members):
                yield from Node(self.jvm, child).walk()

    def child(self, member: str) -> Node:
        """The plan under a member of the node's class."""
        return Node(self.jvm, getattr(self.plan, member)())

    def strings(self, member: str) -> tuple[str, ...]:
        """A member that is a Scala sequence of strings."""
        return tuple(map(str, self.jvm.python_list(getattr(self.plan, member)())))

    def relation(self) -> str | None:
        """The quoted name of the first table below the node; None without one."""
        for node in self.walk():
            if node.kind in ("UnresolvedRelation", "UnresolvedTable"):
                return dotted(node.strings("multipartIdentifier"))
        return None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: its name (empty for a positional one), and its expression as Spark parsed it."""

    name: str
    expression: Any


def parse(spark: Any, statement: str) -> Node:
    """The unresolved plan of a statement. Raises OptionError for text that does not parse."""
    jvm = Jvm(spark)
    try:
        with jvm.parser() as parser:
            plan = parser.parsePlan(statement)
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip()
        shown = textwrap.shorten(statement, 60, placeholder=" …")
        raise OptionError("statement", shown, f"one SQL statement; {text.splitlines()[0]}") from error
    return Node(jvm, plan)


def substituted(spark: Any, statement: str) -> str:
    """A statement with the values of its variables (``${…}``), to which Spark's positions in it refer."""
    if "${" not in statement:
        return statement
    jvm = Jvm(spark)
    with jvm.active():  # whose confs are among the variables
        return str(jvm.view.org.apache.spark.sql.internal.VariableSubstitution().substitute(statement))


def table_parts(spark: Any, name: str) -> tuple[str, ...]:
    """The parts of a table's name. Raises OptionError for text that is not one."""
    jvm = Jvm(spark)
    try:
        with jvm.parser() as parser:
            parts = parser.parseMultipartIdentifier(name)
    except Exception as error:
        raise OptionError("table", name, "a table name, such as catalog.namespace.table") from error
    return tuple(map(str, jvm.python_list(parts)))


def dotted(parts: Sequence[str]) -> str:
    """A table's name in quotes, part by part."""
    return ".".join(map(quote, parts))


def arguments(node: Node, member: str) -> list[Argument]:
    """The arguments of a call or a table function, in order."""
    return arguments_of(node.jvm, getattr(node.plan, member)())


def arguments_of(jvm: Jvm, expressions: Any) -> list[Argument]:
    """The arguments in a Scala sequence of expressions, in order."""
    found = []
    for expression in jvm.python_list(expressions):
        named = str(expression.getClass().getSimpleName()) == "NamedArgumentExpression"
        name = str(expression.key()).lower() if named else ""
        found.append(Argument(name, expression.value() if named else expression))
    return found


def evaluated(spark: Any, given: Sequence[Argument]) -> list[tuple[str, Any]]:
    """The names of arguments with their values as Python objects. Raises OptionError for what is not constant.

    Expressions are evaluated as they were parsed: how Spark would read them as text depends on the session's confs.
    """
    if not given:
        return []
    jvm = Jvm(spark)
    columns = [jvm.shim.column(jvm, each.expression).alias(str(i)) for i, each in enumerate(given)]
    nothing = jvm.view.org.apache.spark.sql.catalyst.plans.logical.OneRowRelation()
    try:
        row = row_values(jvm.dataframe(jvm.rows_of_plan(nothing).select(jvm.seq(columns))))
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip().splitlines()[0]
        shown = ", ".join(str(each.expression.sql()) for each in given)
        raise OptionError("arguments", shown, f"constants; {text}") from error
    return [(each.name, value) for each, value in zip(given, row, strict=True)]
