"""DuckDB reads the rows of maintained tables of both formats, deletes included."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.formats.lakes import Lake
from tests.neighbours import installation
from tests.neighbours.outcomes import Outcomes

pytestmark = [pytest.mark.neighbours, pytest.mark.delta, pytest.mark.iceberg, pytest.mark.slow]

NAMES = {"delta": "Delta, deletion vectors", "iceberg-v2": "Iceberg v2", "iceberg-v3": "Iceberg v3"}


def by_duckdb(lake: Lake, name: str) -> list[list[object]]:
    if lake.iceberg:
        log = lake.spark.sql(
            f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC"
        )
        [newest] = log.limit(1).collect()
        source = f"iceberg_scan('{newest[0].removeprefix('file:')}')"
    else:
        source = f"delta_scan('{lake.home(name)}')"
    program = Path(__file__).with_name("duckdb_program.py")
    query = f"SELECT id, k, v FROM {source} ORDER BY id"
    command = [
        str(installation.duckdb_python()),
        str(program),
        ",".join(installation.DUCKDB_EXTENSIONS),
        query,
    ]
    done = subprocess.run(command, env=installation.outside(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", NAMES)
def test_duckdb_reads_maintained_tables(spark: SparkSession, beside: Outcomes, kind: str) -> None:
    what = "reads after recluster, after deletes, after merge_deletes"
    with beside.tried(f"DuckDB {installation.DUCKDB}", NAMES[kind], what) as row:
        lake = Lake(spark, kind)
        name = lake.overlapping(3, 2_000)
        table = lake.table(name)
        table.cluster_by("k")
        steps: tuple[Callable[[], bool], ...] = (
            lambda: table.recluster(policy="full", options={"target-file-size-bytes": 60_000}).changed,
            lambda: table.delete("id % 10 = 3").deleted_rows_count == 600,
            lambda: table.merge_deletes(options={"delete-ratio-threshold": 0.001}).changed,
        )
        for step in steps:
            assert step()
            wanted = [list(each) for each in spark.table(name).select("id", "k", "v").orderBy("id").collect()]
            assert by_duckdb(lake, name) == wanted
        row.outcome = "rows exact"
