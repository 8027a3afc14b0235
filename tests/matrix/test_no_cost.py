"""Without a conflict, replay costs nothing: no additional job, read, column or file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.matrix.actions import maintain
from tests.matrix.sides import KINDS
from tests.matrix.world import World
from tests.oracles.spark_jobs import Phases, stages_of_group

COLUMNS = ["id", "p", "k", "v"]
LINEAGE = ["_row_id", "_last_updated_sequence_number"]
JOBS = {"delta-vectors": (1, 2), "delta-copies": (1, 2), "iceberg-v2": (1, 1), "iceberg-v3": (1, 1)}
"""Jobs of the rewrite, and of the whole call with planning and commit.

The driver reads a small log, and the manifests of a small table.
"""


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=getattr(pytest.mark, k.partition("-")[0])) for k in KINDS]
)
def test_a_rewrite_without_a_conflict_does_only_what_it_must(
    spark: SparkSession, merged_by: str, tmp_path: Path, kind: str
) -> None:
    """Columnar workers read the inputs by path: no stage has rows of them."""
    world = World.make(spark, kind, tmp_path)
    table, phases, before = world.table, Phases(), world.side.files()
    started = _jobs(spark)
    report = maintain(world, "recluster", table=table, observer=phases)
    jobs = _jobs(spark) - started

    stages, in_group = stages_of_group(spark, phases.run_id)
    of_rows = [s for s in stages if not 0 < s.input_rows <= 16]  # the others read log entries
    read = [s.input_rows for s in of_rows if s.input_rows]
    assert read == ([32] if merged_by == "by rows" else []), "each input is read once"
    assert sum(s.shuffle_written for s in of_rows) == 0
    assert phases.names == ["planned", "read", "written", "before_commit", "committed"]
    assert (report.added_data_files_count, report.conflicts, report.replayed_rows_count) == (1, 0, 0)
    (made,) = world.side.files() - before
    assert pq.ParquetFile(made).schema_arrow.names == COLUMNS + (LINEAGE if kind == "iceberg-v3" else [])
    assert (in_group, jobs) == JOBS[kind]
    world.note()
    world.check()


def _jobs(spark: SparkSession) -> int:
    scala: Any = spark.sparkContext._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    return int(scala.dagScheduler().numTotalJobs())
