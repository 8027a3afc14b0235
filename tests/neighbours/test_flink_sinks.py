"""Flink's upsert, changelog and append sinks commit every five seconds beside maintenance every twenty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.neighbours import installation, maintenance, sinks
from tests.neighbours.flink_jobs import Job
from tests.neighbours.maintenance import Maintenance, Step
from tests.neighbours.outcomes import Outcomes

pytestmark = [pytest.mark.neighbours, pytest.mark.iceberg, pytest.mark.slow]

PER_SECOND = 200
FLINK = f"Flink {installation.FLINK}"


@pytest.mark.parametrize(
    "by, steps",
    [("lakekeeper", maintenance.by_lakekeeper), ("Iceberg's procedures", maintenance.by_iceberg)],
    ids=["lakekeeper", "native"],
)
def test_sinks_beside_maintenance(
    spark: SparkSession,
    sqlite: Path,
    warehouse: Path,
    tmp_path: Path,
    seconds: int,
    beside: Outcomes,
    jobs: list[Job],
    by: str,
    steps: Callable[[SparkSession, str], dict[str, Step]],
) -> None:
    """Every row exists once, by two readers, and Flink raises no error (the job has no restarts)."""
    ours = by == "lakekeeper"
    database, rows = f"sinks_{'ours' if ours else 'native'}", seconds * PER_SECOND
    what = f"upserts (v2, v3), changelog and appends, beside maintenance by {by} every 20 s that keeps 1 min"
    with beside.tried(FLINK, "Iceberg", what) as row:
        job = sinks.job(tmp_path / "flink", sqlite, warehouse, database, rows, PER_SECOND)
        jobs.append(job.start())
        job.until(lambda: len(job.checkpoints()) >= 2, 120)
        names = [f"ice.{database}.{sink.name}" for sink in sinks.SINKS]
        with Maintenance([steps(spark, name) for name in names]).running() as kept:
            failed = _outcome(job, seconds + 240)
        assert kept.done.total() >= 8
        if ours:
            assert not failed
            assert kept.failed == []
            assert sinks.wrong(spark, database, rows, also_pyiceberg=False) == []
            sinks.merge_all(spark, names)
            assert sinks.wrong(spark, database, rows, also_pyiceberg=True) == []
            row.outcome = f"rows exact by Spark and pyiceberg, no exception in Flink in {seconds} s ({kept})"
        else:
            row.outcome = _native(spark, database, rows, failed, kept)


def _outcome(job: Job, seconds: float) -> str:
    try:
        job.finish(seconds)
    except AssertionError as failure:
        return str(failure)
    return ""


def _native(spark: SparkSession, database: str, rows: int, failed: str, kept: Maintenance) -> str:
    """What happened with the native calls, for comparison; this test does not judge it."""
    if failed:
        causes = [line for line in failed.splitlines() if line.startswith("Caused by")]
        return f"Flink ended: {(causes or [failed])[-1].removeprefix('Caused by: ')[:160]}".replace("|", "/")
    wrong = sinks.wrong(spark, database, rows, also_pyiceberg=False)
    errors = f"; {len(kept.failed)} calls failed: {kept.failed[0][:120]}" if kept.failed else ""
    return f"{'; '.join(wrong) or 'rows exact by Spark, no exception in Flink'} ({kept}{errors})".replace(
        "|", "/"
    )
