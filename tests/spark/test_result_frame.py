"""Results as DataFrames: the same rows and types by PySpark's Arrow path and by lists, which PySpark 3.5 needs."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.result_frame import frame
from lakekeeper.history.costs import Costs
from lakekeeper.history.history import History

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "text": pa.array(["a", None], pa.string()),
        "whole": pa.array([2**62, None], pa.int64()),
        "number": pa.array([0.5, None], pa.float64()),
        "at": pa.array([datetime(2026, 11, 30, 5, tzinfo=timezone.utc), None], pa.timestamp("ms", "UTC")),
        "texts": pa.array([["x", "y"], None], pa.list_(pa.string())),
        "metrics": pa.array([[("m", 1.5)], None], pa.map_(pa.string(), pa.float64())),
        "versions": pa.array([[("t", "7")], None], pa.map_(pa.string(), pa.string())),
        "a name": pa.array(["b", None], pa.string()),
    }
)


def of_version(spark: SparkSession, version: str) -> Any:
    return SimpleNamespace(version=version, createDataFrame=spark.createDataFrame)


def test_lists_make_the_same_frame_as_arrow(spark: SparkSession) -> None:
    """``to_frame`` failed on Spark 3.5, and with it the SQL functions of plans, history and costs."""
    by_lists = frame(of_version(spark, "3.5.8"), ROWS)
    found = frame(spark, ROWS)
    assert [(f.name, f.dataType) for f in by_lists.schema] == [(f.name, f.dataType) for f in found.schema]
    assert by_lists.collect() == found.collect()
    assert [row.whole for row in found.collect()] == [2**62, None]


@pytest.mark.parametrize(
    "empty",
    [Plan("db.t", None, "", (), (), (), 0, 0, 0.0), History(()), Costs(())],
    ids=["plan", "history", "costs"],
)
def test_each_result_has_a_frame(spark: SparkSession, empty: Any) -> None:
    assert frame(of_version(spark, "3.5.8"), empty.rows()).columns == empty.to_frame(spark).columns
