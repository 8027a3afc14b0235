"""How many data files Spark opens for a query, by the metrics of its scan."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm

_METRICS = ("numFiles", "resultDataFiles")
"""The metrics of Spark's own file scan, and of Iceberg's."""


def files_read(spark: SparkSession, query: str) -> int:
    """The number of files that the scans of ``query`` open; the query is run."""
    frame = spark.sql(query)
    frame.collect()
    jvm: Any = Jvm(spark)
    found = []
    for leaf in jvm.python_list(frame._jdf.queryExecution().executedPlan().collectLeaves()):
        metrics = leaf.metrics()
        found += [int(metrics.apply(name).value()) for name in _METRICS if metrics.contains(name)]
    assert found, f"no scan of {query!r} counts its files"
    return sum(found)
