"""``lk.sql``: runs one statement of lakekeeper, of Spark, or of both.

ALTER TABLE t RECLUSTER [FINAL] [WHERE …]             maintenance, in the syntax of Databend
ALTER TABLE t CLUSTER BY (a, b) | CLUSTER BY NONE     store or remove the cluster key
CALL lakekeeper.system.<procedure>(table => 't', …)   every maintenance call; one result row for each result
SELECT … FROM clustering_information('t')             results as tables
DELETE, UPDATE, MERGE                                 Spark's, retried when they lose only to our rewrites
anything else                                         Spark's
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import resolve
from lakekeeper.spark.dml_target import changed_table
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.parsed import parse, substituted
from lakekeeper.spi import Observer
from lakekeeper.statements.alter_table import cluster_by, recluster, reclustered_table
from lakekeeper.statements.guarded import run_guarded
from lakekeeper.statements.procedures import called, called_in_text, run_call
from lakekeeper.statements.table_functions import with_results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(
    spark: SparkSession,
    statement: str,
    *,
    observer: Observer | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """``spark.sql`` with lakekeeper's own statements, procedures and table functions.

    ``ALTER TABLE … RECLUSTER``, ``ALTER TABLE … CLUSTER BY`` and ``CALL lakekeeper.system.…`` run at once and return
    their result as rows. A DELETE, UPDATE or MERGE that loses a race only to lakekeeper's own rewrites is retried: each
    retry is logged (a warning of the logger ``lakekeeper``) and reported to ``observer`` as ``conflict``. Retries are
    limited by ``commit.retry.num-retries`` and ``commit.retry.total-timeout-ms``; after the last one, and for every
    other failure, the statement's own error is raised. Any other statement, and any statement on a table that
    lakekeeper cannot open, is passed to Spark unchanged.

    Raises OptionError for text that does not parse, for an unknown procedure or argument, for table functions in a view
    or a cached table, and for invalid ``options``; otherwise as the call behind the statement.
    """
    resolve(options)
    statement = substituted(spark, statement)
    request = reclustered_table(spark, statement)
    if request is not None:
        return recluster(spark, request, observer, options)
    call = None if Jvm(spark).shim.parses_call else called_in_text(spark, statement)
    if call is None:
        plan = parse(spark, statement)
        call = called(plan)
    if call is not None:
        return run_call(spark, call, observer, options)
    keyed = cluster_by(spark, plan, options)
    if keyed is not None:
        return keyed
    with with_results(spark, statement, plan, observer, options) as text:
        target = changed_table(plan)
        if target is not None:
            return run_guarded(spark, text, target, observer, options)
        return spark.sql(text)  # resolved now, a command carried out: the result no longer needs the views
