"""Flink is killed between a checkpoint and its commits, and restored after its snapshots would have expired."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.api import Table
from tests.neighbours import installation, sinks
from tests.neighbours.flink_jobs import Job
from tests.neighbours.maintenance import by_iceberg
from tests.neighbours.outcomes import Outcomes
from tests.opening import table_later

pytestmark = [pytest.mark.neighbours, pytest.mark.iceberg, pytest.mark.slow]

ROWS, PER_SECOND = 16_000, 200
DAYS_DOWN = 9
"""Longer than the default retention, shorter than ``vacuum.sink-retention-hours``."""


def number(checkpoint: Path) -> int:
    return int(checkpoint.name.partition("-")[2])


def killed_before_it_commits(job: Job, sqlite: Path, committed: Callable[[], int]) -> Path:
    """Kill a job whose newest checkpoint is complete and not committed to any table; return that checkpoint.

    The catalog is locked once the previous checkpoint is in all tables: a commit waits for it, a checkpoint does not.
    """
    job.until(lambda: len(job.checkpoints()) >= 3, 180)
    job.until(lambda: committed() == number(job.checkpoints()[-1]), 120)
    with sqlite3.connect(sqlite, isolation_level=None, timeout=60) as database:
        database.execute("BEGIN IMMEDIATE")
        newest = job.checkpoints()[-1]
        job.until(lambda: job.checkpoints()[-1] != newest, 60)
        newest = job.checkpoints()[-1]
        job.kill()
        database.execute("ROLLBACK")
    return newest


def committed_checkpoint(spark: SparkSession, name: str) -> int:
    """The last checkpoint in the history of main, as Flink searches for it: 0 if none is left."""
    spark.catalog.refreshTable(name)
    row = spark.sql(
        f"SELECT max(cast(summary['flink.max-committed-checkpoint-id'] AS int)) FROM {name}.snapshots"
    ).first()
    return int(row[0] or 0) if row is not None else 0


def maintained(spark: SparkSession, name: str) -> str:
    """lakekeeper runs while the job is down, and vacuums days later with the defaults; return the report's text."""
    table: Table = table_later(spark, name, 24 * DAYS_DOWN)
    table.merge_deletes(options={"delete-ratio-threshold": 0.01})
    table.compact(options={"min-input-files": 2})
    table.recluster("k", policy="full")
    return str(table.vacuum(options={"vacuum.max-share": 1}))


def expired_natively(spark: SparkSession, name: str) -> str:
    """The same with Iceberg's procedures, for comparison; their clock cannot be set, so they keep nothing."""
    steps: Mapping[str, Callable[[], Any]] = by_iceberg(spark, name)
    for verb in ("merge_deletes", "compact", "recluster"):
        steps[verb]()
    spark.sql(
        f"CALL ice.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)"
    ).collect()
    return ""


@pytest.mark.parametrize("ours", [True, False], ids=["lakekeeper", "native"])
def test_a_killed_job_is_restored(
    spark: SparkSession,
    sqlite: Path,
    warehouse: Path,
    tmp_path: Path,
    beside: Outcomes,
    jobs: list[Job],
    ours: bool,
) -> None:
    database = f"restored_{'ours' if ours else 'native'}"
    by = f"lakekeeper's work and a vacuum {DAYS_DOWN} days later" if ours else "Iceberg's procedures"
    what = f"all four sinks killed between checkpoint and commit, {by}, restored"
    with beside.tried(f"Flink {installation.FLINK}", "Iceberg", what) as row:
        job = sinks.job(tmp_path / "flink", sqlite, warehouse, database, ROWS, PER_SECOND)
        # The catalog is locked between two checkpoints.
        job.settings = {"execution.checkpointing.interval": "10 s"}
        jobs.append(job.start())
        names = [f"ice.{database}.{sink.name}" for sink in sinks.SINKS]
        newest = killed_before_it_commits(
            job, sqlite, lambda: min(committed_checkpoint(spark, name) for name in names)
        )
        last = {name: committed_checkpoint(spark, name) for name in names}
        assert all(0 < checkpoint < number(newest) for checkpoint in last.values()), (last, newest)
        for name in names:
            report = (maintained if ours else expired_natively)(spark, name)
            if ours:
                assert "Flink job" in report
                assert committed_checkpoint(spark, name) == last[name]
        try:
            job.start(restored_from=newest)
            job.finish(240)
        except AssertionError as failure:
            if ours:
                raise
            causes = [line for line in str(failure).splitlines() if line.startswith("Caused by: ")]
            row.outcome = f"Flink ended: {causes[-1][11:170] if causes else failure}".replace("|", "/")
            return
        wrong = sinks.wrong(spark, database, ROWS, also_pyiceberg=False)
        if not ours:
            row.outcome = f"{'; '.join(wrong) or 'rows exact'}".replace("|", "/")
            return
        assert wrong == []
        sinks.merge_all(spark, names)
        assert sinks.wrong(spark, database, ROWS, also_pyiceberg=True) == []
        row.outcome = "rows exact by Spark and pyiceberg"
