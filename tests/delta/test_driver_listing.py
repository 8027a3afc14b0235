"""What the driver reads from the log equals what Delta and Spark read, value for value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakekeeper_delta import live_adds as replay
from lakekeeper_delta import log_files
from lakekeeper_delta.blocks import listed_by_spark
from lakekeeper_delta.columns import resolve
from lakekeeper_delta.driver_listing import can_list, listed
from lakekeeper_delta.live_adds import live_adds
from tests.delta.scene import Scene
from tests.rewrites import recluster

pytestmark = pytest.mark.delta

_VALUES = {
    "SMALLINT": "CAST(id - 3 AS SMALLINT)",
    "BIGINT": "id * 9007199254740993",
    "DOUBLE": "id / 3",
    "DATE": "date_add(DATE'1969-12-30', CAST(id AS INT))",
    "TIMESTAMP": "timestamp_micros(id * 1234567891234 - 5000000000000)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros(id * 1234567891234) AS TIMESTAMP_NTZ)",
    "STRING": "IF(id % 3 = 0, repeat('é', CAST(id AS INT) * 8), concat('x', id))",
}
_SPARK_READS = {"FLOAT": "CAST(id / 3 AS FLOAT)", "DECIMAL(9,2)": "CAST(id AS DECIMAL(9,2))"}


def _append(scene: Scene, value: str, first: int) -> None:
    null = f"IF(id % 4 = 1, NULL, {value})"
    for start in range(first, first + 6, 2):
        rows = f"/*+ COALESCE(1) */ id, {null}, concat('p', id % 2) FROM range({start}, {start + 2})"
        scene.run(f"INSERT INTO {{t}} SELECT {rows}")


def _both(scene: Scene, column: str) -> tuple[pa.Table | None, pa.Table]:
    log = scene.log()
    state = log.latest()
    _, found = resolve(state, [column], "linear", case_sensitive=False)
    adds = live_adds(log, state) if can_list(found) else None
    ours = None if adds is None else listed(adds, state, found)
    return ours, listed_by_spark(log, state, found)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["path"], row["delete_id"]))


def _same(scene: Scene, column: str = "k") -> int:
    ours, theirs = _both(scene, column)
    assert ours is not None, "the driver did not read the log"
    assert _rows(ours) == _rows(theirs)
    kinds = {field.name: field.type for field in theirs.schema}
    assert {field.name: field.type for field in ours.schema} == kinds
    return len(theirs)


@pytest.mark.parametrize("kind", list(_VALUES))
def test_every_kind_of_key(scene: Scene, kind: str) -> None:
    scene.create(f"id BIGINT, k {kind}, p STRING")
    _append(scene, _VALUES[kind], 0)
    assert _same(scene) == 3


@pytest.mark.parametrize("kind", list(_SPARK_READS))
def test_types_whose_text_only_spark_parses(scene: Scene, kind: str) -> None:
    scene.create(f"id BIGINT, k {kind}, p STRING")
    _append(scene, _SPARK_READS[kind], 0)
    assert _both(scene, "k")[0] is None
    assert len(scene.adapter().snapshot(["k"]).blocks) == 3


@pytest.mark.usefixtures("files_by_path")
def test_a_table_with_a_checkpoint_partitions_vectors_and_our_files(scene: Scene) -> None:
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    scene.create("id BIGINT, k BIGINT, p STRING", more="PARTITIONED BY (p)", properties=properties)
    _append(scene, "id", 0)
    recluster(scene, "k", target_rows=2)
    scene.run(
        "DELETE FROM {t} WHERE id = 2", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval'='3')"
    )
    before = _same(scene)
    _append(scene, "id", 10)
    assert list((scene.path / "_delta_log").glob("*.checkpoint.parquet"))
    scene.run("DELETE FROM {t} WHERE id IN (3, 11)")
    assert _same(scene) > before
    snapshot = scene.adapter().snapshot(["k"])
    assert {block.level for block in snapshot.blocks} == {0, 1}
    assert any(block.deleted_rows for block in snapshot.blocks)


def test_commits_after_a_state_are_not_read(scene: Scene) -> None:
    scene.create("id BIGINT, k BIGINT, p STRING")
    _append(scene, "id", 0)
    log = scene.log()
    state = log.latest()
    _append(scene, "id", 10)
    adds = live_adds(log, state)
    assert adds is not None
    assert len(adds) == 3


def test_live_bytes_of_a_log_without_checksums_start_no_job(scene: Scene, spark: SparkSession) -> None:
    scene.create("id BIGINT, k BIGINT, p STRING")
    _append(scene, "id", 0)
    for checksum in (scene.path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    storage = scene.adapter().storage
    detail = spark.sql(f"DESCRIBE DETAIL {scene.sql}").first()
    assert detail is not None
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    before = int(scheduler.numTotalJobs())
    assert storage.versions().live_bytes == detail["sizeInBytes"] > 0
    assert int(scheduler.numTotalJobs()) == before


def test_a_log_too_large_for_the_driver_is_left_to_delta(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.create("id BIGINT, k BIGINT, p STRING")
    _append(scene, "id", 0)
    bytes_, commits, files = ("LOCAL_BYTES", "REMOTE_BYTES"), ("MOST_COMMITS",), ("MOST_FILES",)
    for place, limits in ((log_files, bytes_), (log_files, commits), (replay, files)):
        with monkeypatch.context() as patched:
            for limit in limits:
                patched.setattr(place, limit, 2)
            assert _both(scene, "k")[0] is None
            assert len(scene.adapter().snapshot(["k"]).blocks) == 3


@pytest.mark.usefixtures("files_by_path")
def test_a_checkpoint_in_parts(scene: Scene, spark: SparkSession) -> None:
    scene.create("id BIGINT, k BIGINT, p STRING", properties={"delta.checkpointInterval": "4"})
    part = "spark.databricks.delta.checkpoint.partSize"
    spark.conf.set(part, "2")
    try:
        for start in range(0, 18, 6):
            _append(scene, "id", start)
    finally:
        spark.conf.unset(part)
    assert len(list((scene.path / "_delta_log").glob("*.checkpoint.*.parquet"))) > 1
    scene.run("DELETE FROM {t} WHERE id < 3")
    _same(scene)


def test_planning_a_small_table_starts_one_job_at_most(scene: Scene, spark: SparkSession) -> None:
    """Delta's own job, for the metadata of a log without a checksum."""
    scene.create("id BIGINT, k BIGINT, p STRING")
    _append(scene, "id", 0)
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    before = int(scheduler.numTotalJobs())
    assert len(scene.adapter().snapshot(["k"]).blocks) == 3
    assert int(scheduler.numTotalJobs()) - before <= 1
