"""The table that a SQL statement changes, according to Spark's own parser."""

from __future__ import annotations

from lakekeeper.spark.parsed import Node

_TARGETS = {"DeleteFromTable": "table", "UpdateTable": "table", "MergeIntoTable": "targetTable"}


def changed_table(statement: Node) -> str | None:
    """The quoted name of the table that a DELETE, UPDATE or MERGE changes; None for other statements."""
    for node in statement.walk():  # a statement can be nested below WITH
        member = _TARGETS.get(node.kind)
        if member is not None:
            return node.child(member).relation()
    return None
