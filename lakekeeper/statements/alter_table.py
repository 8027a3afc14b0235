"""``ALTER TABLE … RECLUSTER``, which Spark does not know, and ``ALTER TABLE … CLUSTER BY``, which it parses for us."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.api import table
from lakekeeper.errors import NotFound, OptionError
from lakekeeper.spark.parsed import Node, dotted, table_parts
from lakekeeper.spi import Observer
from lakekeeper.statements.result_rows import KEY, MERGE, as_frame
from lakekeeper.statements.sql_text import Token, text_of, tokens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SYNTAX = "ALTER TABLE [IF EXISTS] <table> RECLUSTER [FINAL] [WHERE <predicate>]"
_MENTIONED = re.compile(r"\bRECLUSTER\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recluster:
    """An ``ALTER TABLE … RECLUSTER``."""

    table: str
    where: str | None
    final: bool
    if_exists: bool


def reclustered_table(spark: SparkSession, statement: str) -> Recluster | None:
    """The statement as a request; None for another statement. Raises OptionError for invalid clauses."""
    if _MENTIONED.search(statement) is None:
        return None
    words = list(tokens(statement))
    named = _named(words)
    if named is None:
        return None
    name, rest, if_exists = named
    final = bool(rest) and rest[0].says("FINAL")
    where = _predicate(statement, rest[1:] if final else rest)
    return Recluster(dotted(table_parts(spark, text_of(statement, name))), where, final, if_exists)


def _named(words: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token], bool] | None:
    """(the table's name, what follows RECLUSTER, whether IF EXISTS is given); None for another statement."""
    if [token.text.upper() for token in words[:2]] != ["ALTER", "TABLE"]:
        return None
    if_exists = len(words) > 3 and words[2].says("IF") and words[3].says("EXISTS")
    first = 4 if if_exists else 2
    after = _name_end(words, first)
    if after == first or after >= len(words) or not words[after].says("RECLUSTER"):
        return None
    return words[first:after], words[after + 1 :], if_exists


def _name_end(words: Sequence[Token], at: int) -> int:
    """The index after the table's name that begins at ``at``: parts with dots between them; a part may have hyphens."""
    wanted = True  # a part, not a dot
    while at < len(words):
        token, before = words[at], words[at - 1]
        joined = token.start == before.end and (before.kind == "word" or before.is_sign("-"))
        part = token.kind in ("word", "quoted") or token.is_sign("-")
        if part and (wanted or (joined and token.kind != "quoted")):
            wanted = False
        elif token.is_sign(".") and not wanted:
            wanted = True
        else:
            break
        at += 1
    return at


def _predicate(statement: str, rest: Sequence[Token]) -> str | None:
    """The predicate of the WHERE that may end the statement. Raises OptionError for another clause."""
    clause = rest[:-1] if rest and rest[-1].is_sign(";") else rest
    if not clause:
        return None
    if len(clause) == 1 or not clause[0].says("WHERE"):
        raise OptionError("statement", text_of(statement, rest), f"{_SYNTAX}; found after RECLUSTER")
    return text_of(statement, clause[1:])


def recluster(
    spark: SparkSession, request: Recluster, observer: Observer | None, options: Mapping[str, Any] | None
) -> DataFrame:
    """Recluster the table; one row, or none if the table does not exist and ``IF EXISTS`` is given."""
    try:
        opened = table(spark, request.table)
    except NotFound:
        if not request.if_exists:
            raise
        return as_frame(spark, MERGE, [])
    report = opened.recluster(where=request.where, final=request.final, observer=observer, options=options)
    return as_frame(spark, MERGE, [report])


def cluster_by(spark: SparkSession, plan: Node, options: Mapping[str, Any] | None) -> DataFrame | None:
    """Store or remove the key, as ``ALTER TABLE … CLUSTER BY`` requests; None for another statement."""
    if plan.kind != "AlterTableClusterBy":
        return None
    name = plan.relation()
    spec = plan.plan.clusterBySpec()
    named = plan.jvm.python_list(spec.get().columnNames()) if spec.isDefined() else []
    columns = [dotted(list(column.fieldNames())) for column in named]
    return as_frame(spark, KEY, [table(spark, str(name)).cluster_by(*columns, options=options)])
