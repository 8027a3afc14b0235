"""The table that a SQL statement changes, according to Spark's own parser."""

from __future__ import annotations

from lakekeeper.spark.parsed import Node

_TARGETS = {"DeleteFromTable": "table", "UpdateTable": "table", "MergeIntoTable": "targetTable"}


def changed_table(statement: Node) -> str | None:
    """The quoted name of the table that a DELETE, UPDATE or MERGE changes; None for other statements.

    A SQL script that contains one is another statement: its other statements must not run twice.
    """
    node = statement
    while node.kind == "UnresolvedWith":
        node = node.child("child")
    member = _TARGETS.get(node.kind)
    return None if member is None else node.child(member).relation()
