"""Transaction ids of streaming writers in Delta's log survive everything that lakekeeper does to a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.api import table
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta

APP, BATCH = "job-5ba1", 7


def write_once(scene: Scene) -> None:
    """An idempotent write: Delta skips it if the log already has this batch of the application."""
    rows = scene.spark.range(100, 110).selectExpr("cast(id AS int) AS k", "'s' AS v")
    named = rows.write.format("delta").option("txnAppId", APP).option("txnVersion", BATCH)
    named.mode("append").save(str(scene.path))


def test_a_transaction_id_survives_vacuum_and_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path / "t")
    scene.run("CREATE TABLE {t} (k INT, v STRING) USING delta")
    write_once(scene)
    for k in range(12):
        scene.run(f"INSERT INTO {{t}} VALUES ({k}, 'v')")
    opened = table(spark, scene.sql)
    assert opened.recluster("k", policy="full").changed
    opened.compact_metadata()
    opened.vacuum(retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1})
    (stream,) = opened.streams().streams
    assert (stream.sink, stream.position) == (f"Delta application {APP}", f"transaction {BATCH}")
    assert stream.at_ms is not None
    assert "nothing: the log keeps the position itself" in str(opened.streams())
    before = spark.table(scene.sql).count()
    write_once(scene)
    assert spark.table(scene.sql).count() == before == 22


def test_a_restore_of_dropped_rows_is_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Its transaction, by which it is committed once, ended the grace of orphans that were written later."""
    scene = Scene(spark, tmp_path / "t")
    scene.run("CREATE TABLE {t} (k INT, v STRING) USING delta", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    opened = table(spark, scene.sql)
    opened.drop_partition("k = 1")
    (entry,) = opened.trash()
    opened.restore(entry.name)
    assert opened.streams().streams == ()
    write_once(scene)
    assert [stream.sink for stream in opened.streams().streams] == [f"Delta application {APP}"]
