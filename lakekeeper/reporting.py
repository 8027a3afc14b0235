"""The report of many tables: one page for all of them, whatever becomes of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.api import table
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import OptionError, reason
from lakekeeper.page.report import HtmlReport, combined
from lakekeeper.spark.identifiers import expand
from lakekeeper.spark.jvm import require_classic
from lakekeeper.workloads import Queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def report(
    spark: SparkSession,
    tables: str | Sequence[str],
    columns: Sequence[str] | str | None = None,
    *,
    workload: Queries | None = None,
    options: Mapping[str, Any] | None = None,
) -> HtmlReport:
    """Tables, their plans, their history and the debt of all as one page: ``.save("report.html")``.

    ``tables`` are names, paths and patterns (``ice.db.*``), as a list or with commas in between; other arguments as for
    :meth:`Table.report`. Of several tables, one that cannot be read is listed with the reason; a single one raises its
    error. Raises OptionError without tables.
    """
    require_classic(spark)
    given = tables.split(",") if isinstance(tables, str) else tables
    named = tuple(name.strip() for name in given if name.strip())
    if not named:
        raise OptionError("tables", tables, "names, paths or patterns of tables")
    found = expand(spark, named)
    failures = [(each.pattern, each.error) for each in found if each.error]
    failures += [(each.pattern, "no table matches") for each in found if not each.names and not each.error]
    names = [*dict.fromkeys(name for each in found for name in each.names)]
    if len(named) == 1 and named == tuple(names):
        return table(spark, named[0]).report(columns, workload=workload, options=options)
    made = {name: _of(spark, name, columns, workload, options) for name in names}
    failures += [(name, part) for name, part in made.items() if isinstance(part, str)]
    return combined(
        [part for part in made.values() if isinstance(part, HtmlReport)], failures, Clock().now_ms()
    )


def _of(
    spark: SparkSession,
    name: str,
    columns: Sequence[str] | str | None,
    workload: Queries | None,
    options: Mapping[str, Any] | None,
) -> HtmlReport | str:
    """The report of one of several tables, or why there is none: the others have their place on the page."""
    try:
        return table(spark, name).report(columns, workload=workload, options=options)
    except Exception as error:
        return reason(error)
