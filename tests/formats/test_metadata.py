"""Compaction of metadata: planning opens fewer files, and every version has the same rows."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.formats.lakes import Lake


def test_metadata_is_compacted_where_it_pays(spark: SparkSession, lake: Lake) -> None:
    properties = (
        {"commit.manifest-merge.enabled": "false"} if lake.iceberg else {"delta.checkpointInterval": "100"}
    )
    name = lake.create("id BIGINT", properties=properties)
    table = lk.table(spark, name)
    first = table.compact_metadata()
    assert not first.changed
    assert first.ended.code in ("no_versions", "checkpoint_not_due")
    for i in range(11):
        lake.append(name, spark.range(i, i + 1))
    before = lake.fingerprint(name)
    ids = lake.row_ids(name) if lake.iceberg else []
    preview = table.compact_metadata(dry_run=True)
    assert preview.files_before >= 11
    assert preview.files_after == 1
    assert not preview.changed
    done = table.compact_metadata()
    assert (done.files_before, done.files_after, done.changed) == (preview.files_before, 1, True)
    assert lake.fingerprint(name) == before
    assert (lake.row_ids(name) if lake.iceberg else []) == ids
    again = table.compact_metadata()
    assert not again.changed
    assert again.ended.code in ("manifests_not_due", "checkpoint_not_due")
    assert again.to_dict()["ended"]["code"] == again.ended.code
    assert again.files_before <= 2
    assert "metadata files" in str(again)


def test_a_table_is_maintained_after_its_old_commits_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """With the checkpoint, Delta deletes commits that are past their retention: no call may read them any more."""
    name = f"delta.`{tmp_path / 't'}`"
    days = {"delta.logRetentionDuration": "1 day", "delta.deletedFileRetentionDuration": "1 hour"}
    properties = ", ".join(f"'{key}' = 'interval {value}'" for key, value in days.items())
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT) USING delta TBLPROPERTIES ({properties}, 'delta.checkpointInterval' = '100')"
    )
    for number in range(11):
        spark.range(number, number + 1).write.format("delta").mode("append").save(str(tmp_path / "t"))
    log = tmp_path / "t" / "_delta_log"
    for commit in log.glob("*.json"):
        os.utime(commit, (0, 0))
    table = lk.table(spark, name)
    assert not table.recluster("id").changed
    assert table.compact_metadata().changed
    assert [commit.name for commit in log.glob("*.json")] == [f"{11:020}.json"]
    assert table.recluster("id", policy="full", options={"merge-engine": "spark"}).changed
    assert str(table.delete("id = 3")).count("1 row") == 1
    assert spark.table(name).count() == 10


def test_manifests_of_every_partition_spec_are_compacted(spark: SparkSession, lake: Lake) -> None:
    if not lake.iceberg:
        return  # a Delta table has one partitioning
    name = lake.create("id BIGINT, d INT", properties={"commit.manifest-merge.enabled": "false"})
    table = lk.table(spark, name)
    for i in range(6):
        lake.append(name, spark.range(i, i + 1).selectExpr("id", "1 AS d"))
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD d")
    for i in range(5):
        lake.append(name, spark.range(i, i + 1).selectExpr("id", "1 AS d"))
    before = lake.fingerprint(name)
    done = table.compact_metadata()
    assert (done.files_before, done.files_after, done.changed) == (11, 2, True)
    assert "11 manifests became 2" in str(done)
    assert lake.fingerprint(name) == before
    again = table.compact_metadata()
    assert (again.changed, again.files_before, again.ended.code) == (False, 2, "manifests_not_due")


def test_manifests_of_an_older_partition_spec_alone_are_compacted(spark: SparkSession, lake: Lake) -> None:
    if not lake.iceberg:
        return
    name = lake.create("id BIGINT, d INT", properties={"commit.manifest-merge.enabled": "false"})
    table = lk.table(spark, name)
    for i in range(6):
        lake.append(name, spark.range(i, i + 1).selectExpr("id", "1 AS d"))
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD d")
    lake.append(name, spark.range(1).selectExpr("id", "1 AS d"))
    done = table.compact_metadata()
    assert (done.files_before, done.files_after, done.changed) == (7, 2, True)
    assert not table.compact_metadata().changed
