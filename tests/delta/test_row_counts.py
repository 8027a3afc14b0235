"""Files whose log entry lacks the row count: the rows are counted, or the call fails; no file is taken for empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.api import Table
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import LakekeeperError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spi import TableName
from lakekeeper_delta import FORMAT
from lakekeeper_delta.known_state import inputs_of
from lakekeeper_delta.rewrite import Written
from lakekeeper_delta.row_positions import below, spelled
from lakekeeper_delta.table import DeltaTable
from tests.delta.by_hand import ByHand, by_hand, changed
from tests.delta.scene import Scene
from tests.oracles import delta_log

pytestmark = pytest.mark.delta

ROOTS = ("plain", "a%20b", "a b", "name=x", "name%3Dx", "ä+#", "100%")
STATISTICS = "spark.databricks.delta.stats.collect"


@pytest.fixture
def no_statistics(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(STATISTICS, "false")
    yield
    spark.conf.unset(STATISTICS)


def filled(spark: SparkSession, path: Path, *, by: str = "", more: str = "") -> Scene:
    """Three files of ten rows each, without row counts."""
    scene = Scene(spark, path)
    scene.run(f"CREATE TABLE {{t}} (k BIGINT, p STRING) USING delta {by} {more}")
    for n in range(3):
        spark.conf.set(STATISTICS, "false")
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, 'a b%20=x' FROM range({n * 10}, {n * 10 + 10})"
        )
    assert not any(
        "numRecords" in (a["add"].get("stats") or "")
        for v in (1, 2, 3)
        for a in scene.actions(v)
        if "add" in a
    )
    return scene


def unharmed(scene: Scene, act: Any) -> Any:
    """Return what ``act`` returns; each version and the newest state read the same before and after, by two readers."""
    before = {v: (scene.spark_rows(v), scene.log_rows(v)) for v in delta_log.versions(scene.path)}
    newest = scene.spark_rows()
    done = act()
    assert scene.spark_rows() == newest == scene.log_rows()
    assert {v: (scene.spark_rows(v), scene.log_rows(v)) for v in before} == before
    return done


@pytest.mark.usefixtures("no_statistics")
@pytest.mark.parametrize("root", ROOTS)
def test_a_compaction_keeps_every_row(spark: SparkSession, tmp_path: Path, root: str) -> None:
    scene = filled(spark, tmp_path / root / "t")
    table = lk.table(spark, str(scene.path))
    assert sum(row.rows for row in table.blocks().collect()) == 30
    report = unharmed(scene, table.compact)
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (3, 1)


class ByText(DeltaTable):
    """The adapter before the fix: it compares file addresses as text, and takes a file without a match for empty."""

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        seen = super().snapshot(columns, where)
        spark = SparkSession.active()
        rows = spark.read.format("delta").load(self.table).groupBy("_metadata.file_path").count().collect()
        counted = {row["file_path"].removeprefix("file:").lstrip("/"): row["count"] for row in rows}
        root = self.table.lstrip("/")
        known = [counted.get(f"{root}/{path}", 0) for path in seen.blocks.path.to_pylist()]
        return replace(seen, blocks=replace(seen.blocks, rows=np.array(known, np.int64)))

    def write(self, rows: Any, task: MergeTask, run_id: str) -> Rewrite:
        if task.live_rows:
            return super().write(rows, task, run_id)
        state = self._log.at(task.read_version, task.table_uuid)
        inputs = inputs_of(self._log, state, task.id, task.inputs)
        return Rewrite(task, (), rows_in=0, native=Written((), inputs), run_id=run_id)


@pytest.mark.usefixtures("no_statistics")
@pytest.mark.parametrize("root, left", [("plain", 30), ("a%20b", 0)])
def test_the_loss_is_detected_without_the_fix(
    spark: SparkSession, tmp_path: Path, root: str, left: int
) -> None:
    """A commit of removes only dropped all rows without an error; :func:`unharmed` must detect it."""
    scene = filled(spark, tmp_path / root / "t")
    place = str(scene.path)
    name = TableName(place, "delta", scene.sql, path=place)
    opened = FORMAT.open(spark, name)
    assert isinstance(opened, DeltaTable)
    table = Table(spark, name, ByText(scene.log(), name))
    with nullcontext() if left else pytest.raises(AssertionError):
        unharmed(scene, table.compact)
    assert sum(scene.spark_rows().values()) == left


@pytest.mark.usefixtures("no_statistics")
def test_partitions_with_encoded_names(spark: SparkSession, tmp_path: Path) -> None:
    scene = filled(spark, tmp_path / "x%25y" / "t", by="PARTITIONED BY (p)")
    assert unharmed(scene, lk.table(spark, str(scene.path)).compact).added_data_files_count == 1


@pytest.mark.usefixtures("no_statistics")
def test_rows_deleted_from_such_files(spark: SparkSession, tmp_path: Path) -> None:
    scene = filled(spark, tmp_path / "a%20b", more="TBLPROPERTIES ('delta.enableDeletionVectors'='true')")
    table = lk.table(spark, str(scene.path))
    assert table.delete("k < 12").deleted_rows_count == 12
    assert sum(scene.spark_rows().values()) == sum(scene.log_rows().values()) == 18
    assert unharmed(scene, lambda: table.merge_deletes(options={"delete-ratio-threshold": 0.1})).changed


@pytest.mark.usefixtures("no_statistics")
def test_an_empty_file_counts_zero_rows_and_loses_none(spark: SparkSession, tmp_path: Path) -> None:
    """A scan shows no row of it, which is also how a file looks whose path the scan spells differently."""
    scene = filled(spark, tmp_path / "t")
    empty = spark.range(0).selectExpr("id AS k", "'x' AS p").coalesce(1)
    empty.write.parquet(str(tmp_path / "empty"))
    (made,) = (tmp_path / "empty").glob("*.parquet")
    adopted(scene, made, "empty.parquet")
    table = lk.table(spark, str(scene.path))
    assert sorted(row.rows for row in table.blocks().collect()) == [0, 10, 10, 10]
    unharmed(scene, table.compact)
    assert sum(scene.spark_rows().values()) == 30


@pytest.mark.usefixtures("no_statistics")
@pytest.mark.parametrize("lenient", ["false", "true"])
def test_a_missing_file_is_an_error(spark: SparkSession, tmp_path: Path, lenient: str) -> None:
    scene = filled(spark, tmp_path / "t")
    gone = next(iter(sorted(scene.data_files())))
    (scene.path / gone).unlink()
    version = scene.version
    spark.conf.set("spark.sql.files.ignoreMissingFiles", lenient)
    try:
        with pytest.raises(LakekeeperError, match="rows"):
            lk.table(spark, str(scene.path)).compact()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert scene.version == version


def adopted(scene: Scene, file: Path, name: str) -> None:
    """Add a file as a foreign writer does, without statistics."""
    (scene.path / name).write_bytes(file.read_bytes())
    add = {
        "path": name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
    }
    log = scene.path / "_delta_log" / f"{scene.version + 1:020d}.json"
    import json

    log.write_text(json.dumps({"add": add}) + "\n")


@pytest.mark.parametrize("root", ["s3a://events/events", "s3a://lake/a%2520b/t", "file:/a%20b/a"])
def test_paths_below_a_root(spark: SparkSession, root: str) -> None:
    """A bucket named like its first folder; percent signs in folders. No file system is accessed."""
    jvm = Jvm(spark)
    data_path = jvm.view.org.apache.hadoop.fs.Path(jvm.view.java.net.URI(root))
    log: Any = SimpleNamespace(
        jvm=jvm,
        log=SimpleNamespace(dataPath=lambda: data_path),
        singleton=lambda name: jvm.object(f"org.apache.spark.sql.delta.{name}"),
    )
    names = ["part-1.parquet", "p=a%20b/part-2.parquet", "p=%2525/x.parquet"]
    to_path = jvm.view.org.apache.hadoop.fs.Path
    absolute = [to_path(data_path, to_path(jvm.view.java.net.URI(name))) for name in names]
    spark_path = jvm.object("org.apache.spark.paths.SparkPath")
    found = [(str(spark_path.fromPath(path).urlEncoded()),) for path in absolute]
    frame = spark.createDataFrame(found, "address string")
    shown = [row[0] for row in frame.select(below(log, frame["address"])).collect()]
    known = spelled(log, names)
    assert shown == [known[name] for name in names]


def test_statistics_of_a_file_without_rows_are_computed_once(scene: Scene) -> None:
    """It has no NULL counts, and counted as one without statistics: each call committed a version, forever."""
    table = ByHand(scene)
    empty = table.add("empty.parquet", [])
    del empty["add"]["stats"]
    table.commit(empty, table.add("a.parquet", [1, 2]))
    opened = lk.table(scene.spark, str(scene.path))
    assert opened.compute_statistics(["k"]).changed
    assert not opened.compute_statistics(["k"]).changed


def miscounted(spark: SparkSession, path: Path) -> ByHand:
    """A file of four rows of which two are deleted; the log says that it has two rows, as Trino's ANALYZE writes it."""
    table = by_hand(spark, path)
    whole, (_, (vector,)) = table.add("a.parquet", [1, 2, 3, 4]), table.vectors([0, 1])
    table.commit(changed(whole, deletionVector=vector, stats='{"numRecords":2}'))
    assert keys(table) == [3, 4]
    return table


def keys(table: ByHand) -> list[int]:
    return sorted(row.k for row in table.scene.spark.table(table.scene.sql).collect())


@pytest.mark.parametrize("verb", ["compact", "merge_deletes", "recluster"])
def test_a_count_of_live_rows_in_place_of_all_rows_loses_none(
    spark: SparkSession, tmp_path: Path, verb: str
) -> None:
    """Loss L139: as many rows deleted as the log records were all rows of the file, and its live rows were dropped."""
    table = miscounted(spark, tmp_path / "t")
    table.commit(table.add("b.parquet", [5]))
    opened = lk.table(spark, str(table.path))
    opened.recluster("k", policy="full") if verb == "recluster" else getattr(opened, verb)()
    assert keys(table) == [3, 4, 5]


@pytest.mark.parametrize("masks", ["true", "false"])
def test_a_delete_counts_the_rows_of_a_file_that_it_would_remove(
    spark: SparkSession, tmp_path: Path, masks: str
) -> None:
    """The neighbour: a delete of further rows, with vectors and by copies."""
    table = by_hand(spark, tmp_path / "t", properties={"delta.enableDeletionVectors": masks})
    whole, (_, (vector,)) = table.add("a.parquet", [1, 2, 3, 4, 5]), table.vectors([3])
    table.commit(changed(whole, deletionVector=vector, stats='{"numRecords":3}'))
    lk.table(spark, str(table.path)).delete("k <= 2")
    assert keys(table) == [3, 5]
