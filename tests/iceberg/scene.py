"""Tables for the tests of the Iceberg adapter, and both readers of them."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit, TableName
from lakekeeper.testing.harness import merged, task_for
from lakekeeper_iceberg import FORMAT, IcebergTable
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import Mask, by_file, write_masks
from tests.oracles import iceberg_log


def files_on_disk(spark: SparkSession, name: str) -> set[str]:
    """Data and delete files below the table's location, whether a version names them or not."""
    data = Path(str(Iceberg(spark).load(name).location()).removeprefix("file:")) / "data"
    return {str(p) for p in data.rglob("*") if p.is_file() and not p.name.startswith(".")}


@dataclass(frozen=True)
class Scene:
    """One Iceberg table; ``{t}`` stands for it in statements."""

    spark: SparkSession
    catalog: str = "ice"
    name: str = field(default_factory=lambda: f"t_{uuid.uuid4().hex[:12]}")

    @property
    def sql(self) -> str:
        return f"{self.catalog}.db.{self.name}"

    def create(
        self, columns: str, version: int = 2, *, more: str = "", properties: Mapping[str, str] | None = None
    ) -> Scene:
        """An empty table that masks deleted rows; ``more`` follows the columns (PARTITIONED BY …)."""
        given = {"format-version": str(version)}
        if version > 1:
            given |= {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
        given |= dict(properties or {})
        listed = ", ".join(f"'{k}'='{v}'" for k, v in given.items())
        return self.run(f"CREATE TABLE {{t}} ({columns}) USING iceberg {more} TBLPROPERTIES ({listed})")

    def run(self, *statements: str) -> Scene:
        for statement in statements:
            self.spark.sql(statement.replace("{t}", self.sql)).collect()
        return self

    def call(self, procedure: str, arguments: str = "") -> Scene:
        """One of Iceberg's own procedures on this table."""
        return self.run(f"CALL {self.catalog}.system.{procedure}(table => 'db.{self.name}'{arguments})")

    def adapter(self) -> IcebergTable:
        opened = FORMAT.open(
            self.spark, TableName(self.sql, "iceberg", self.sql, self.catalog, ("db",), self.name)
        )
        assert isinstance(opened, IcebergTable)
        return opened

    def java(self) -> Any:
        """Iceberg's own table object, at the newest version."""
        table = Iceberg(self.spark).load(self.sql)
        table.refresh()
        return table

    def data_files(self, table: Any) -> list[Any]:
        """DataFiles of the newest version of a table object."""
        planned = Iceberg(self.spark).collect.Lists.newArrayList(table.newScan().planFiles())
        return [task.file() for task in planned]

    def versions(self) -> list[int]:
        frame = self.spark.table(f"{self.sql}.snapshots").orderBy("committed_at")
        return [row[0] for row in frame.select("snapshot_id").collect()]

    def spark_rows(self, version: int | None = None, columns: Sequence[str] = ("*",)) -> Counter[str]:
        """All rows as canonical texts, as Spark reads them."""
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return iceberg_log.canonical(reader.table(self.sql).select(*columns).toArrow())

    def log_rows(self, version: int | None = None) -> Counter[str]:
        """All rows as canonical texts, as the reader without Spark sees them."""
        metadata = self.java().operations().current()
        at = metadata.currentSnapshot().snapshotId() if version is None else version
        return iceberg_log.rows(str(metadata.metadataFileLocation()), at)

    def every_version(self) -> dict[int, tuple[Counter[str], Counter[str]]]:
        """Rows of each version by both readers."""
        return {v: (self.spark_rows(v), self.log_rows(v)) for v in self.versions()}

    def leftovers(self) -> set[str]:
        """Files under the data folder that no version names."""
        named = {r[0] for r in self.spark.table(f"{self.sql}.all_files").select("file_path").collect()}
        return files_on_disk(self.spark, self.sql) - {re.sub("^file:/+", "/", path) for path in named}

    def metadata_leftovers(self) -> set[str]:
        """Manifests and manifest lists on disk that no version names."""
        table, io = self.java(), self.java().io()
        named = set()
        for snapshot in list(table.snapshots()):
            named |= {str(m.path()) for m in snapshot.allManifests(io)} | {
                str(snapshot.manifestListLocation())
            }
        place = Path(str(table.location()).removeprefix("file:")) / "metadata"
        return {str(p) for p in place.glob("*.avro")} - {path.removeprefix("file:") for path in named}


def tasks_of(snapshot: Snapshot, *, level: int = 1, **changed: Any) -> list[MergeTask]:
    """One task for each partition and spec, over all its blocks."""
    places: dict[tuple[str, int], list[str]] = {}
    for block in snapshot.blocks:
        places.setdefault((block.partition, block.spec), []).append(block.path)
    tasks = [task_for(snapshot, paths, level=level) for paths in places.values()]
    return [replace(task, **changed) for task in tasks]


def rewritten(
    adapter: IcebergTable, task: MergeTask, run_id: str = "run-1", *, columnar: bool = True
) -> Rewrite:
    """The task's rows in new files: written by columnar workers where the adapter admits it, else by rows in Spark."""
    return merged(SparkRunner(SparkSession.active()), adapter, task, run_id, columnar=columnar)


def recluster(
    scene: Scene,
    columns: Sequence[str] | None = ("k",),
    *,
    level: int = 1,
    run_id: str = "run-1",
    columnar: bool = True,
    **changed: Any,
) -> Commit:
    """Rewrite and commit all blocks."""
    adapter = scene.adapter()
    snapshot = adapter.snapshot(columns)
    done = [
        rewritten(adapter, task, run_id, columnar=columnar)
        for task in tasks_of(snapshot, level=level, **changed)
    ]
    return adapter.commit(done, snapshot, run_id)


def delete_equal(scene: Scene, column: str, values: Sequence[Any]) -> None:
    """Commit an equality delete on an unpartitioned table, as a streaming writer does: without reading a row."""
    jvm = Iceberg(scene.spark)
    table = scene.java()
    schema = table.schema().select(jvm.array_list([column]))
    ids = scene.spark.sparkContext._gateway.new_array(jvm.java_class("int"), 1)  # type: ignore[union-attr]  # it runs
    ids[0] = table.schema().findField(column).fieldId()
    parquet = jvm.api.FileFormat.PARQUET
    files = jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(parquet).suffix("deletes").build()
    builder = jvm.static("org.apache.iceberg.data.GenericFileWriterFactory", "builderFor")(table)
    builder = builder.deleteFileFormat(parquet).equalityDeleteRowSchema(schema).equalityFieldIds(ids)
    writer = builder.build().newEqualityDeleteWriter(files.newOutputFile(), table.spec(), None)
    for value in values:
        record = jvm.static("org.apache.iceberg.data.GenericRecord", "create")(schema)
        record.setField(column, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def file_of(scene: Scene, v: str) -> str:
    row = scene.spark.table(scene.sql).where(f"v = '{v}'").select("_file").first()
    assert row is not None
    return str(row[0])


def add_position_delete(scene: Scene, path: str, position: int) -> None:
    """One more file of positions for a data file, as other engines write it: none is merged."""
    jvm, table = Iceberg(scene.spark), scene.java()
    task = jvm.chosen(table.newScan(), [path]).get(path)
    hits = scene.spark.range(position, position + 1).selectExpr(f"'{path}' AS file", "id AS position")
    (positions,) = by_file(jvm, hits).values()
    made = write_masks(jvm, table, [Mask(task.file(), positions)], "elsewhere")
    table.newRowDelta().addDeletes(made.added[0]).commit()
