"""``ALTER TABLE … RECLUSTER``, which Spark does not know, and ``ALTER TABLE … CLUSTER BY``, which it parses for us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.api import table
from lakekeeper.errors import NotFound, OptionError
from lakekeeper.spark.parsed import Node, dotted, table_parts
from lakekeeper.spi import Observer
from lakekeeper.statements.result_rows import KEY, MERGE, as_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SYNTAX = "ALTER TABLE [IF EXISTS] <table> RECLUSTER [FINAL] [WHERE <predicate>]"
_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:.|\n)*?\*/)"
_NAME = r"(?:`(?:[^`]|``)+`|[\w\-]+)"
_RECLUSTER = re.compile(
    rf"{_BLANK}*ALTER{_BLANK}+TABLE{_BLANK}+(?P<if_exists>IF{_BLANK}+EXISTS{_BLANK}+)?"
    rf"(?P<table>{_NAME}(?:{_BLANK}*\.{_BLANK}*{_NAME})*){_BLANK}+RECLUSTER\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_REST = re.compile(
    rf"{_BLANK}*(?P<final>FINAL\b)?{_BLANK}*(?:WHERE\b(?P<where>.*?\S.*?))?{_BLANK}*;?{_BLANK}*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Recluster:
    """An ``ALTER TABLE … RECLUSTER``."""

    table: str
    where: str | None
    final: bool
    if_exists: bool


def reclustered_table(spark: SparkSession, statement: str) -> Recluster | None:
    """The statement as a request; None for another statement. Raises OptionError for invalid clauses."""
    found = _RECLUSTER.fullmatch(statement)
    if found is None:
        return None
    rest = _REST.fullmatch(found["rest"])
    if rest is None:
        raise OptionError("statement", found["rest"].strip(), f"{_SYNTAX}; found after RECLUSTER")
    where = rest["where"].strip() if rest["where"] else None
    name = dotted(table_parts(spark, found["table"]))
    return Recluster(name, where, rest["final"] is not None, found["if_exists"] is not None)


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
