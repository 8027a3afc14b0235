"""``SparkRunner`` restores the state of the thread that called it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.spark.merge import POOL, SparkRunner

MARKS = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    "spark.scheduler.pool",
)


def marks(spark: SparkSession) -> list[str | None]:
    return [spark.sparkContext.getLocalProperty(name) for name in MARKS]


def task() -> MergeTask:
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    paths = ("a", "b")
    why = Reason.of(Code.FULL_SORT, files=2)
    return MergeTask(
        "t1", "ranges", "db.t", "uuid", 1, paths, ("", ""), "", 0, key, 0, 1, 100, 10, 200, 50, 5, 5, 1.0, why
    )  # fmt: skip


@pytest.mark.parametrize("given", [True, False])
def test_the_callers_job_group_and_pool_are_restored(spark: SparkSession, given: bool) -> None:
    context = spark.sparkContext
    if given:
        context.setJobGroup("mine", "my report", interruptOnCancel=False)
        context.setLocalProperty("spark.scheduler.pool", "urgent")
    before = marks(spark)
    assert given == (before[0] == "mine")
    try:
        with SparkRunner(spark).working("run-1", task().label):
            assert marks(spark)[0] == "run-1"
            assert marks(spark)[3] == POOL
        assert marks(spark) == before
        with pytest.raises(ValueError, match="broken"), SparkRunner(spark).working("run-1", task().label):
            raise ValueError("broken")
        assert marks(spark) == before
    finally:
        for name in MARKS:
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # None clears it
