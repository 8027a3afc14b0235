"""What Spark ran: the stages of a job group, from Spark's own status store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm


@dataclass(frozen=True)
class Stage:
    """One stage: rows and bytes read from files, rows written to and read from a shuffle, rows written."""

    tasks: int
    input_rows: int
    input_bytes: int
    shuffle_written: int
    output_rows: int


@contextmanager
def no_job(spark: SparkSession, group: str) -> Iterator[None]:
    """Assert that the block starts no Spark job; ``group`` is a job group of its own."""
    context = spark.sparkContext
    context.setJobGroup(group, group)
    try:
        yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears it
    assert list(context.statusTracker().getJobIdsForGroup(group)) == []


def stages_of_group(spark: SparkSession, group: str) -> tuple[list[Stage], int]:
    """(stages that ran, number of jobs) of a job group."""
    scala: Any = spark.sparkContext._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    jobs = list(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    wanted: set[int] = set()
    for job in jobs:
        info = spark.sparkContext.statusTracker().getJobInfo(job)
        wanted |= set(info.stageIds) if info is not None else set()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm: Any = gateway.jvm
    none = gateway.new_array(jvm.double, 0)
    listed = scala.statusStore().stageList(None, False, False, none, jvm.java.util.ArrayList())
    found = [
        Stage(
            stage.numTasks(),
            stage.inputRecords(),
            stage.inputBytes(),
            stage.shuffleWriteRecords(),
            stage.outputRecords(),
        )
        for stage in Jvm(spark).python_list(listed)
        if stage.stageId() in wanted and stage.status().toString() == "COMPLETE"
    ]
    return found, len(jobs)


class Phases:
    """An observer that records its notifications."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Mapping[str, Any]]] = []

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        self.seen.append((phase, info))

    @property
    def names(self) -> list[str]:
        return [phase for phase, _ in self.seen]

    @property
    def run_id(self) -> str:
        return str(self.seen[0][1]["run_id"])
