"""Queries on real tables: heard by a listener, read from a plan, and turned into advice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.workload.workload import Scan, Span
from lakekeeper.errors import OptionError
from lakekeeper.spark import query_listener
from lakekeeper.spark.query_listener import Listening
from tests.formats.lakes import Lake


@pytest.fixture
def recording(spark: SparkSession) -> Iterator[Listening]:
    listening = lk.listen(spark)
    yield listening
    listening.stop()


def settle(spark: SparkSession) -> None:
    """Wait until all listener events are delivered."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def make(lake: Lake, *, files: int = 6, rows: int = 60) -> str:
    """A table with a file for each day; every file holds every user."""
    name = lake.create("day INT, user INT, note STRING")
    for f in range(files):
        made = f"{f} AS day", "CAST(id AS INT) AS user", "CONCAT('n, ', id) AS note"
        lake.append(name, lake.spark.range(rows).selectExpr(*made))
    return name


def test_the_queries_of_a_session_are_recorded_with_the_files_they_read(
    spark: SparkSession, lake: Lake, recording: Listening
) -> None:
    name = make(lake)
    spark.sql(f"SELECT * FROM {name} WHERE day >= 2 AND day < 4").collect()
    spark.sql(f"SELECT count(*) FROM {name} WHERE note = 'n, 3'").collect()
    settle(spark)
    seen = lk.table(spark, name).workload()
    assert seen is not None
    one, two = seen.scans[-2:]
    assert one.filters == {"day": (Span("2", "4", before=True),)}
    assert one.files_read == 2
    assert two.filters == {"note": (Span("n, 3", "n, 3"),)}


@pytest.mark.parametrize("partitioned", ["day", "month"])
def test_filters_on_dates_select_the_partitions_that_queries_read(
    spark: SparkSession, lake: Lake, recording: Listening, partitioned: str
) -> None:
    """Iceberg prints dates as numbers of days: no partition matched, and no merge of such a table ever paid back."""
    by = "months(day)" if partitioned == "month" and lake.iceberg else "day"
    name = lake.create("day DATE, user INT", partitioned=by)
    for f in range(3):
        days = (
            "CAST(CONCAT('2026-0', 1 + id % 3, '-02') AS DATE) AS day",
            f"CAST(id * 7 % 30 + {f} AS INT) AS user",
        )
        lake.append(name, spark.range(30).selectExpr(*days))
    for _ in range(5):
        spark.sql(f"SELECT * FROM {name} WHERE day = DATE '2026-02-02' AND user >= 3").collect()
    settle(spark)
    table = lk.table(spark, name)
    seen = table.workload()
    assert seen is not None
    assert {scan.files_read for scan in seen.scans} == {3}
    prediction = table.plan("user").prediction
    assert prediction is not None
    assert prediction.worth.before.files == pytest.approx(3)


def test_a_stopped_listener_hears_nothing(spark: SparkSession, lake: Lake) -> None:
    before = len(spark._jsparkSession.listenerManager().listListeners())
    listening = lk.listen(spark)
    listening.stop()
    assert len(spark._jsparkSession.listenerManager().listListeners()) == before
    name = make(lake, files=1)
    seen = listening.seen
    spark.sql(f"SELECT * FROM {name} WHERE day = 0").collect()
    settle(spark)
    assert listening.seen == seen


def test_our_own_reads_are_not_queries(spark: SparkSession, lake: Lake, recording: Listening) -> None:
    name = make(lake, files=3)
    table = lk.table(spark, name)
    table.recluster("user", options={"depth-threshold": 1, "policy": "full"})
    settle(spark)
    assert table.workload() is None


def test_a_failing_listener_fails_no_query(
    spark: SparkSession, lake: Lake, recording: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    name = make(lake, files=2)
    monkeypatch.setattr(query_listener, "sightings", broken)
    before = recording.failed
    assert spark.sql(f"SELECT * FROM {name} WHERE day = 1").count() == 60
    settle(spark)
    assert recording.failed > before


def test_a_plans_frame_has_every_block_once(spark: SparkSession, lake: Lake) -> None:
    name = make(lake, files=3)
    table = lk.table(spark, name)
    table.cluster_by("user")
    plan = table.plan(options={"depth-threshold": 1, "policy": "ranges"})
    by_path = {row.path: row for row in plan.to_frame(spark).collect()}
    assert sorted(by_path) == sorted(row.path for row in table.blocks().collect())
    assert {row.action for row in by_path.values()} == {"merge"}
    assert "a query reads 3.00 files" in str(plan)


def test_advice_for_queries_that_filter_another_column_than_the_key(
    spark: SparkSession, lake: Lake, recording: Listening
) -> None:
    name = make(lake)
    table = lk.table(spark, name)
    table.cluster_by("day")
    for user in range(0, 60, 4):
        spark.sql(f"SELECT * FROM {name} WHERE user = {user}").collect()
    settle(spark)
    advice = table.advise(options={"max-rows-per-file": 60})
    assert advice.now.files == 6.0
    assert advice.best is not None
    assert advice.best.columns == ("user",)
    assert advice.best.worth.after.files < 1.5


def test_a_key_that_the_table_has_is_weighed_with_columns_that_no_query_filters(
    spark: SparkSession, lake: Lake
) -> None:
    """Once the table is reclustered, its key serves queries as well as the first column alone."""
    name = make(lake)
    table = lk.table(spark, name)
    table.cluster_by("user", "day")
    now_ms = int(time.time() * 1000)
    scans = tuple(Scan(now_ms - n, {"user": (Span(n, n),)}) for n in range(1, 30))
    queries = lk.Workload(name, scans, now_ms - 3_600_000, now_ms)
    advice = table.advise(queries, options={"max-rows-per-file": 60})
    assert advice.candidates[0].worth.before.files > advice.candidates[0].worth.after.files > 0
    assert [one.columns for one in advice.candidates if one.present] == [("user", "day")]
    assert advice.best is None


def test_advice_reports_invalid_arguments(spark: SparkSession, lake: Lake) -> None:
    name = make(lake, files=2)
    table = lk.table(spark, name)
    with pytest.raises(OptionError, match="listen"):
        table.advise()
    queries = lk.Workload("t", (), 0, 0, "nowhere")
    with pytest.raises(OptionError, match="contains none of it"):
        table.advise(queries)
    queries = lk.Workload("t", (Scan(0, {"user": (Span(1, 1),)}),), 0, 0, "here")
    with pytest.raises(OptionError, match="usr"):
        table.advise(queries, columns="usr")
