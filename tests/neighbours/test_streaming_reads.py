"""Streaming reads of a table that is reclustered three times meanwhile return each row once."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakekeeper as lk
from tests.formats.lakes import KINDS, Lake
from tests.neighbours import flink_jobs, installation
from tests.neighbours.flink_jobs import Job
from tests.neighbours.outcomes import Outcomes

pytestmark = [pytest.mark.neighbours, pytest.mark.iceberg, pytest.mark.slow]

BATCH = 5_000
ROUNDS = 3


def written_and_reclustered(lake: Lake, name: str, taken: Callable[[int], None]) -> int:
    """Four appends, a recluster after each of the first three; return the number of rows.

    ``taken`` waits for the reader. Each recluster rewrites all rows: some before the reader saw them, most after.
    """
    ids = "id", "cast(pmod(hash(id), 1000) AS int) AS k", "md5(cast(id AS string)) AS v"
    spark, table = lake.spark, lk.table(lake.spark, name)
    for number in range(ROUNDS + 1):
        new = spark.range(number * BATCH, (number + 1) * BATCH).selectExpr(*ids)
        lake.append(name, new)
        if number % 2:
            taken((number + 1) * BATCH)
        if number < ROUNDS:
            assert table.recluster("k", policy="full").changed
    rows = (ROUNDS + 1) * BATCH
    taken(rows)
    return rows


@pytest.mark.parametrize("kind", ["iceberg-v2", "iceberg-v3"])
def test_flink_reads_each_row_once(
    spark: SparkSession,
    sqlite: Path,
    warehouse: Path,
    tmp_path: Path,
    beside: Outcomes,
    jobs: list[Job],
    kind: str,
) -> None:
    what = f"streaming read ({kind[-2:]}), the table reclustered {ROUNDS} times meanwhile"
    with beside.tried(f"Flink {installation.FLINK}", "Iceberg", what) as row:
        lake = Lake(spark, kind)
        name = lake.create("id bigint, k int, v string")
        hint = "/*+ OPTIONS('streaming'='true', 'monitor-interval'='1s') */"
        job = Job(
            tmp_path / "flink",
            [
                flink_jobs.catalog(sqlite, warehouse),
                _csv_sink("seen", tmp_path / "seen"),
            ],
            [f"INSERT INTO seen SELECT id, k FROM {name} {hint}"],
            {"execution.checkpointing.interval": "2 s"},
        )
        jobs.append(job.start())
        rows = written_and_reclustered(
            lake, name, lambda count: job.until(lambda: _seen(tmp_path / "seen").total() >= count, 120)
        )
        before = len(job.checkpoints()) and job.checkpoints()[-1]
        job.until(lambda: job.checkpoints()[-1] != before, 60)  # a duplicate would be in the next one
        assert _seen(tmp_path / "seen") == Counter(range(rows))
        row.outcome = f"{rows:,} rows, each once"


def _csv_sink(name: str, folder: Path) -> str:
    options = f"'connector'='filesystem', 'format'='csv', 'path'='file://{folder}'"
    return f"CREATE TEMPORARY TABLE {name} (id BIGINT, k INT) WITH ({options})"


def _seen(folder: Path) -> Counter[int]:
    """Ids in the files that Flink has committed: names of uncommitted files begin with a dot."""
    found: Counter[int] = Counter()
    for file in folder.glob("part-*"):
        with file.open() as lines:
            found.update(int(line[0]) for line in csv.reader(lines))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_spark_reads_each_row_once(spark: SparkSession, tmp_path: Path, beside: Outcomes, kind: str) -> None:
    given = "Delta" if kind == "delta" else "Iceberg"
    which = "" if kind == "delta" else f" ({kind[-2:]})"
    what = f"streaming read{which}, the table reclustered {ROUNDS} times meanwhile"
    with beside.tried(f"Spark {spark.version}", given, what) as row:
        lake = Lake(spark, kind)
        name = lake.create("id bigint, k int, v string")
        found: Counter[int] = Counter()

        def take(batch: DataFrame, _number: int) -> None:
            found.update(line[0] for line in batch.select("id").collect())

        stream = spark.readStream.table(name).writeStream.foreachBatch(take)
        query = stream.option("checkpointLocation", str(tmp_path / "at")).start()
        try:
            rows = written_and_reclustered(lake, name, lambda _count: query.processAllAvailable())
        finally:
            query.stop()
        assert found == Counter(range(rows))
        row.outcome = f"{rows:,} rows, each once"
