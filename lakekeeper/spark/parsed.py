"""A statement as Spark's own parser sees it: unresolved nodes, read through py4j."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import quote
from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm, causes


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
    """An argument of a call: its name (empty for a positional one) and its text as SQL."""

    name: str
    text: str


def parse(spark: Any, statement: str) -> Node:
    """The unresolved plan of a statement. Raises OptionError for text that does not parse."""
    jvm = Jvm(spark)
    try:
        plan = jvm.session.sessionState().sqlParser().parsePlan(statement)
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip()
        shown = textwrap.shorten(statement, 60, placeholder=" …")
        raise OptionError("statement", shown, f"one SQL statement; {text.splitlines()[0]}") from error
    return Node(jvm, plan)


def table_parts(spark: Any, name: str) -> tuple[str, ...]:
    """The parts of a table's name. Raises OptionError for text that is not one."""
    jvm = Jvm(spark)
    try:
        parts = jvm.session.sessionState().sqlParser().parseMultipartIdentifier(name)
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
        value = expression.value() if named else expression
        found.append(Argument(str(expression.key()).lower() if named else "", str(value.sql())))
    return found


def evaluated(spark: Any, given: Sequence[Argument]) -> list[tuple[str, Any]]:
    """Arguments with their values in the place of their texts. Raises OptionError for what is not constant."""
    values = constants(spark, [argument.text for argument in given])
    return [(argument.name, value) for argument, value in zip(given, values, strict=True)]


def constants(spark: Any, texts: Sequence[str]) -> list[Any]:
    """The values of constant SQL expressions, as Python objects. Raises OptionError for what is not constant."""
    if not texts:
        return []
    try:
        row = spark.sql("SELECT " + ", ".join(f"{text} AS `{i}`" for i, text in enumerate(texts))).first()
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip().splitlines()[0]
        raise OptionError("arguments", ", ".join(texts), f"constants; {text}") from error
    return list(row)
