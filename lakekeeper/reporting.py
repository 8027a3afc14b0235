"""The report on several tables: one page, even if some of them cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.api import table
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import OptionError, reason
from lakekeeper.page.report import HtmlReport, combined
from lakekeeper.redaction import without_user
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
    """A report on tables as one HTML page, with their plans, history and maintenance debt; ``.save("report.html")``.

    ``tables`` are names, paths and patterns (``ice.db.*``), as a list or separated by commas. The other arguments are
    those of :meth:`Table.report`. If one of several tables cannot be read, the report lists it with the reason; if a
    single table was named, its error is raised. Raises OptionError without tables.
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
    failures += [(without_user(name), part) for name, part in made.items() if isinstance(part, str)]
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
    """The report on one of several tables, or the reason why it cannot be read."""
    try:
        return table(spark, name).report(columns, workload=workload, options=options)
    except Exception as error:
        return reason(error)
