"""Heavy tasks in a real Spark application on ``local[1]``, on tables of both formats; the test kills it once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.fleet import heavy_lane, one_pass, service_settings
from lakekeeper.heavy.lane import Lane
from lakekeeper.history.store import HistoryStore
from tests.cluster.standalone import processes
from tests.faults.processes import free_port

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg, pytest.mark.slow]

_VERBS = ["recluster", "compute_statistics", "vacuum"]


@pytest.fixture
def names(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path, table_name: str) -> list[str]:
    """A Delta and an Iceberg table with six overlapping files each; confs of the lane."""
    iceberg, path = f"ice.db.{table_name}", str(tmp_path / "t")
    for table, kind in ((iceberg, "iceberg"), (f"delta.`{path}`", "delta")):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {kind}")
        for at in range(6):
            rows = spark.range(at * 50, at * 50 + 50).selectExpr(
                "id", "cast(pmod(hash(id), 100) AS INT) AS k"
            )
            rows.coalesce(1).writeTo(table).append()
    confs.set("spark.lakekeeper.cluster-by", "k")
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    confs.set("spark.lakekeeper.heavy.master", "local[1]")
    confs.set("spark.lakekeeper.heavy.conf.spark.driver.memory", "1g")
    return [iceberg, path]


class Killing:
    """An observer that kills the application in its first merge, once that is planned."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.phases: list[tuple[str, str]] = []

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        self.phases.append((str(info["table"]), phase))
        if phase == "planned" and not self.killed:
            self.killed = processes(os.getpid(), "lakekeeper.heavy.application")
            for each in self.killed:
                os.kill(each, signal.SIGKILL)


def _contents(spark: SparkSession, name: str) -> Any:
    table = f"delta.`{name}`" if "/" in name else name
    return tuple(spark.sql(f"SELECT count(*), sum(id), count(DISTINCT id) FROM {table}").first() or ())


@pytest.mark.sampled("maintenance in processes of their own")
def test_a_killed_application_loses_nothing_and_the_next_pass_does_its_work(
    spark: SparkSession, names: list[str], tmp_path: Path
) -> None:
    # A failed task waits a second, and a pass takes longer.
    settings = service_settings(spark, names, _VERBS, "1s")
    killing = Killing()
    with heavy_lane(spark, settings) as lane:
        assert isinstance(lane, Lane)
        first = {each.table: each for each in one_pass(spark, settings, observer=killing, lane=lane).tables}
        assert len(killing.killed) == 1
        (failed,) = [each for each in first.values() if each.status == "failed"]
        (other,) = [each for each in first.values() if each is not failed]
        assert f"{settings.heavy.master}) is gone: it ended with signal 9" in str(failed.reason)
        assert other.status == "done", "it ran in a new application"
        assert lk.table(spark, failed.table).clustering_depth("k") == 6.0, (
            "the killed merge changed nothing in the table"
        )

        second = {each.table: each for each in one_pass(spark, settings, lane=lane).tables}
        assert second[failed.table].status == "done", str(second[failed.table].reason)
        assert (second[failed.table].core_seconds or 0) > 0
    assert processes(os.getpid(), "lakekeeper.heavy.application") == [], (
        "the application ends with the block of the lane"
    )
    for name in names:
        assert lk.table(spark, name).clustering_depth("k") == 1.0
        assert _contents(spark, name) == (300, 44_850, 300)
    here = spark.sparkContext.applicationId
    ran = {op.operation_type: op.application_id for op in HistoryStore(tmp_path / "history.db").operations()}
    assert ran["vacuum"] == here
    assert ran["recluster"] != here
    assert ran["compute_statistics"] not in ("", here)


def test_a_master_that_does_not_answer_is_named_and_stops_no_light_task(
    spark: SparkSession, confs: RuntimeConfig, names: list[str]
) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    confs.set("spark.lakekeeper.heavy.master", master)
    for table in lk.run(spark, names, verbs=["recluster", "vacuum"]).tables:
        assert table.status == "failed"
        said = str(table.reason)
        assert (
            f"(spark.lakekeeper.heavy.master={master}) did not start: HeavyError: no master answers" in said
        )
        assert "Connection refused" in said
        assert "vacuum deleted nothing" in said
