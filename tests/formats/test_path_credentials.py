"""A Delta table named by a path with credentials: nothing that lakekeeper shows, logs or returns has them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from tests.object_store import object_store

SECRET = "s3cr3t"  # noqa: S105 - no real one
NAMED, SHOWN = f"s3a://key:{SECRET}@lake/events", "s3a://***@lake/events"
COMPACT = {"min-input-files": 2}

pytestmark = pytest.mark.delta


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path, confs: RuntimeConfig) -> Iterator[str]:
    """A table of three files of ten rows."""
    confs.set("spark.lakekeeper.single-driver", "true")
    with object_store(spark, tmp_path / "store"):
        for first in (0, 10, 20):
            spark.range(first, first + 10, 1, 1).write.format("delta").mode("append").save(NAMED)
        yield NAMED


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "lakekeeper")
    return caplog


def test_calls_show_the_path_without_them(
    spark: SparkSession, named: str, logged: pytest.LogCaptureFixture
) -> None:
    table = lk.table(spark, named)
    plan = table.plan("id", options=COMPACT)
    page = table.report("id").html()
    report = table.compact(options=COMPACT)
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (3, 1)
    shown = [
        repr(table),
        str(plan),
        json.dumps(plan.to_dict()),
        str(table.clustering_information("id")),
        page,
        str(report),
    ]
    shown += [json.dumps(report.to_dict()), str(table.vacuum(dry_run=True)), logged.text]
    assert all(SHOWN in text for text in shown)
    assert not [text for text in shown if SECRET in text]


def test_an_automatic_pass_maintains_the_table_and_shows_the_path_without_them(
    spark: SparkSession, named: str, confs: RuntimeConfig, logged: pytest.LogCaptureFixture
) -> None:
    confs.set("spark.lakekeeper.min-input-files", "2")
    report = lk.run(spark, tables=[named], verbs=["compact"])
    (one,) = report.tables
    assert (one.table, one.status, one.rewritten_data_files_count) == (SHOWN, "done", 3)
    shown = [str(report), json.dumps(report.to_dict()), logged.text]
    assert all(SHOWN in text for text in shown)
    assert not [text for text in shown if SECRET in text]
