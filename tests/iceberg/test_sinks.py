"""Positions of Flink, Spark and Kafka Connect in snapshot summaries, written and read with Iceberg's own API."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakekeeper.api import table
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg

CHECKPOINT = "flink.max-committed-checkpoint-id"
NONE_KEPT = {"retention_hours": 0, "allow_unsafe_retention": True}


def one_row(key: int) -> str:
    return f"INSERT INTO {{t}} VALUES ({key}, 'v{key}')"


def flink(checkpoint: int, job: str = "5ba1", operator: str = "3f2a") -> dict[str, str]:
    return {"flink.job-id": job, "flink.operator-id": operator, CHECKPOINT: str(checkpoint)}


def append(scene: Scene, key: int, summary: dict[str, str]) -> int:
    """Commit one row with a summary, as a sink does; return the snapshot's id."""
    scene.run(one_row(key))
    table = scene.java()
    (file,) = list(table.currentSnapshot().addedDataFiles(table.io()))
    copy = Iceberg(scene.spark).api.DataFiles.builder(table.spec()).copy(file).build()
    table.newDelete().deleteFile(file).commit()
    pending = table.newAppend().appendFile(copy)
    for name, value in summary.items():
        pending = pending.set(name, value)
    pending.commit()
    return int(table.currentSnapshot().snapshotId())


def committed_checkpoint(scene: Scene, job: str = "5ba1", operator: str = "3f2a") -> int:
    """The checkpoint that a restarted Flink job takes for committed: ``SinkUtil.getMaxCommittedCheckpointId``."""
    table = scene.java()
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        summary = dict(snapshot.summary())
        own = summary.get("flink.job-id") == job and summary.get("flink.operator-id") in (None, operator)
        if own and CHECKPOINT in summary:
            return int(summary[CHECKPOINT])
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(int(parent))
    return -1


def delete_by_vector(scene: Scene, key: int, summary: dict[str, str]) -> None:
    """Commit a deletion vector without a starting snapshot, as Flink's committer does for format 3."""
    jvm, table = Iceberg(scene.spark), scene.java()
    (file,) = [f for f in scene.data_files(table) if int(f.recordCount()) > 0 and _holds(scene, f, key)]
    out = jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(jvm.api.FileFormat.PUFFIN).build()
    writer = jvm.api.deletes.BaseDVFileWriter(out, jvm.lookup({}))
    writer.delete(str(file.location()), 0, table.spec(), file.partition())
    writer.close()
    pending = table.newRowDelta()
    for written in list(writer.result().deleteFiles()):
        pending = pending.addDeletes(written)
    for name, value in summary.items():
        pending = pending.set(name, value)
    pending.commit()


def _holds(scene: Scene, file: object, key: int) -> bool:
    path = str(file.location())  # type: ignore[attr-defined]  # a Java object
    return scene.spark.read.parquet(path).where(f"k = {key}").count() == 1


def vacuum(scene: Scene, **options: object) -> VacuumReport:
    return table(scene.spark, scene.sql).vacuum(**NONE_KEPT, options={"vacuum.max-share": 1, **options})  # type: ignore[arg-type]  # as a user calls it


def _stream(scene: Scene, folder: Path) -> None:
    """Run a Spark stream that reads all files of ``folder/in`` into the table."""
    source = scene.spark.readStream.schema("k INT, v STRING").json(str(folder / "in"))
    writer = source.coalesce(1).writeStream.format("iceberg").option("checkpointLocation", str(folder / "at"))
    writer.trigger(availableNow=True).toTable(scene.sql).awaitTermination()


def test_a_spark_stream_that_crashed_after_its_commit_adds_no_row_twice(scene: Scene, tmp_path: Path) -> None:
    scene.create("k INT, v STRING").run(one_row(1))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 2, "v": "s"}')
    _stream(scene, tmp_path)
    scene.run(one_row(3), one_row(4))
    rows = scene.spark_rows()
    vacuum(scene)
    # The state after a crash: the batch is in the table, but not in the checkpoint.
    for file in (tmp_path / "at" / "commits").iterdir():
        file.unlink()
    _stream(scene, tmp_path)
    assert scene.spark_rows() == rows


@pytest.mark.parametrize("version", [2, 3])
def test_a_flink_job_finds_its_checkpoint_after_a_vacuum(scene: Scene, version: int) -> None:
    """Findings on engines, 2.1: the job is down for longer than the retention while maintenance keeps committing."""
    scene.create("k INT, v STRING", version).run(one_row(1))
    last = append(scene, 2, flink(7))
    scene.run(one_row(3))
    recluster(scene)
    scene.run(one_row(4))
    rows = scene.spark_rows()
    report = vacuum(scene)
    assert committed_checkpoint(scene) == 7
    assert scene.versions()[0] == last
    assert report.plan is not None
    assert report.plan.kept[last] == Reason.of(Code.SINK_POSITION, sink="Flink job 5ba1 (operator 3f2a)")
    assert "Flink job 5ba1" in str(report)
    assert report.expired_snapshots_count == 3
    assert scene.spark_rows() == rows
    assert scene.spark_rows(last) == scene.log_rows(last)
    # After the sink retention the job's position expires.
    vacuum(scene, **{"vacuum.sink-retention-hours": 0})
    assert committed_checkpoint(scene) == -1
    assert len(scene.versions()) == 1
    assert scene.spark_rows() == rows


def test_a_tag_would_not_have_helped(scene: Scene) -> None:
    """The search ends at the first expired snapshot: the snapshots after the commit must be kept too."""
    scene.create("k INT, v STRING")
    last = append(scene, 2, flink(7))
    scene.run(f"ALTER TABLE {{t}} CREATE TAG flink AS OF VERSION {last}", one_row(3), one_row(4))
    vacuum(scene, **{"vacuum.sink-retention-hours": 0})
    assert last in scene.versions()
    assert committed_checkpoint(scene) == -1


def test_the_streams_of_a_table_are_listed(scene: Scene) -> None:
    scene.create("k INT, v STRING")
    append(scene, 1, flink(6))
    append(scene, 2, {"spark.sql.streaming.queryId": "q-1", "spark.sql.streaming.epochId": "12"})
    append(scene, 3, {"kafka.connect.offsets.control-iceberg.cg": '{"0":42}', "kafka.connect.commit-id": "c"})
    append(scene, 4, flink(7))
    found = scene.adapter().storage.sinks()
    assert {(each.sink, each.position) for each in found} == {
        ("Flink job 5ba1 (operator 3f2a)", "checkpoint 7"),
        ("Spark query q-1", "epoch 12"),
        ("Kafka Connect sink control-iceberg.cg", 'offsets {"0":42}'),
    }
    assert {each.version for each in found} < set(scene.versions())


def test_a_job_that_writes_deletion_vectors_keeps_committing_after_a_vacuum(scene: Scene) -> None:
    """Findings on engines, 2.1: once the first snapshot has expired, every commit of the job fails permanently."""
    scene.create("k INT, v STRING", 3).run(one_row(1), one_row(2), one_row(3))
    delete_by_vector(scene, 1, flink(1))
    report = vacuum(scene)
    assert report.expired_snapshots_count == 0
    assert "checks deletes against all of main" in str(report)
    delete_by_vector(scene, 2, flink(2))
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).count() == 1
    # Without this protection, which the option disables:
    vacuum(scene, **{"vacuum.sink-retention-hours": 0})
    with pytest.raises(Exception, match="Cannot determine history between starting snapshot null"):
        delete_by_vector(scene, 3, flink(3))


def test_a_job_that_only_appends_keeps_no_first_snapshot(scene: Scene) -> None:
    scene.create("k INT, v STRING", 3).run(one_row(1), "DELETE FROM {t} WHERE k = 1")
    append(scene, 2, flink(1))
    assert vacuum(scene).expired_snapshots_count > 0
    assert committed_checkpoint(scene) == 1
