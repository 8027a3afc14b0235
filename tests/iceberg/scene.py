"""Tables for the tests of the Iceberg adapter, and the two readers of them."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.spark.shims import shim
from lakekeeper.spi import TableName
from lakekeeper.testing.values import Row, text
from lakekeeper_iceberg import FORMAT, IcebergTable
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import Mask, by_file, write_masks
from tests.oracles import iceberg_log


def files_on_disk(spark: SparkSession, name: str) -> set[str]:
    """Data and delete files below the table's location, referenced by a version or not."""
    data = Path(str(Iceberg(spark).load(name).location()).removeprefix("file:")) / "data"
    return {str(p) for p in data.rglob("*") if p.is_file() and not p.name.startswith(".")}


@dataclass(frozen=True)
class Scene:
    """One Iceberg table, see ``tests.tables``; ``format_version`` applies if ``create`` sets none."""

    spark: SparkSession
    catalog: str = "ice"
    name: str = field(default_factory=lambda: f"t_{uuid.uuid4().hex[:12]}")
    format_version: int = 2

    @property
    def sql(self) -> str:
        return f"{self.catalog}.db.{self.name}"

    def create(
        self,
        columns: str,
        version: int | None = None,
        *,
        more: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> Scene:
        """An empty merge-on-read table; ``more`` follows the columns (PARTITIONED BY …)."""
        version = version or self.format_version
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
        """All snapshots, in commit order."""
        jvm = Iceberg(self.spark)
        known = jvm.items(jvm.collect.Lists.newArrayList(self.java().snapshots()))
        return [
            int(each.snapshotId()) for each in sorted(known, key=lambda each: int(each.timestampMillis()))
        ]

    @property
    def version(self) -> int:
        """The current snapshot."""
        return int(self.java().currentSnapshot().snapshotId())

    def spark_rows(self, version: int | None = None, columns: Sequence[str] = ("*",)) -> Counter[str]:
        """All rows as canonical texts, read by Spark."""
        return Counter(map(text, self.spark_records(version, columns)))

    def spark_records(self, version: int | None = None, columns: Sequence[str] = ("*",)) -> list[Row]:
        """All rows, read by Spark."""
        # Spark 3.5 ignores a reader's option versionAsOf.
        at = "" if version is None else f" VERSION AS OF {version}"
        found = self.spark.sql(f"SELECT {', '.join(columns)} FROM {self.sql}{at}")
        rows: list[Row] = shim().to_arrow(found).to_pylist()
        return rows

    def log_rows(self, version: int | None = None) -> Counter[str]:
        """All rows as canonical texts, read without Spark."""
        return Counter(map(text, self.log_records(version)))

    def log_records(self, version: int | None = None) -> list[Row]:
        """All rows, read without Spark."""
        metadata = self.java().operations().current()
        at = int(metadata.currentSnapshot().snapshotId()) if version is None else version
        return iceberg_log.records(str(metadata.metadataFileLocation()), at)

    def every_version(self) -> dict[int, tuple[Counter[str], Counter[str]]]:
        """Rows of each version by both readers."""
        return {v: (self.spark_rows(v), self.log_rows(v)) for v in self.versions()}

    def files(self) -> set[str]:
        """Full paths of data and delete files, referenced by a version or not."""
        return files_on_disk(self.spark, self.sql)

    def unreferenced(self) -> set[str]:
        """Data files, delete files, manifests and their lists that no version references, read without Spark."""
        metadata = self.java().operations().current()
        lists = Path(str(metadata.location()).removeprefix("file:")) / "metadata"
        found = self.files() | {str(p) for p in lists.glob("*.avro")}
        return found - iceberg_log.named_files(str(metadata.metadataFileLocation()))

    def leftovers(self) -> set[str]:
        """Files under the data folder that no version references, by Iceberg's own metadata tables."""
        named = {r[0] for r in self.spark.table(f"{self.sql}.all_files").select("file_path").collect()}
        return files_on_disk(self.spark, self.sql) - {re.sub("^file:/+", "/", path) for path in named}

    def metadata_leftovers(self) -> set[str]:
        """Manifests and manifest lists on disk that no version references."""
        table, io = self.java(), self.java().io()
        named = set()
        for snapshot in list(table.snapshots()):
            named |= {str(m.path()) for m in snapshot.allManifests(io)} | {
                str(snapshot.manifestListLocation())
            }
        place = Path(str(table.location()).removeprefix("file:")) / "metadata"
        return {str(p) for p in place.glob("*.avro")} - {path.removeprefix("file:") for path in named}


def delete_equal(scene: Scene, column: str, values: Sequence[Any], beside: Any = None) -> None:
    """Commit an equality delete as a streaming writer does: without reading a row.

    ``beside``: a DataFile, whose partition spec and partition the delete has. Without it, the table is unpartitioned.
    """
    jvm = Iceberg(scene.spark)
    table = scene.java()
    schema = table.schema().select(jvm.array_list([column]))
    ids = scene.spark.sparkContext._gateway.new_array(jvm.java_class("int"), 1)  # type: ignore[union-attr]  # it runs
    ids[0] = table.schema().findField(column).fieldId()
    parquet = jvm.api.FileFormat.PARQUET
    files = jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(parquet).suffix("deletes").build()
    builder = jvm.static("org.apache.iceberg.data.GenericFileWriterFactory", "builderFor")(table)
    builder = builder.deleteFileFormat(parquet).equalityDeleteRowSchema(schema).equalityFieldIds(ids)
    spec, partition = table.spec(), None
    if beside is not None:
        spec, partition = table.specs().get(beside.specId()), beside.partition()
    place = files.newOutputFile(spec, partition) if spec.isPartitioned() else files.newOutputFile()
    writer = builder.build().newEqualityDeleteWriter(place, spec, partition)
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
    """One more file of position deletes for a data file, as other engines write it: none is merged."""
    jvm, table = Iceberg(scene.spark), scene.java()
    task = jvm.chosen(table.newScan(), [path]).get(path)
    hits = scene.spark.range(position, position + 1).selectExpr(f"'{path}' AS file", "id AS position")
    (positions,) = by_file(jvm, hits).values()
    made = write_masks(jvm, table, [Mask(task.file(), positions)], "elsewhere")
    table.newRowDelta().addDeletes(made.added[0]).commit()


def add_positions(scene: Scene, path: str, positions: Sequence[int], *more: str) -> None:
    """A position delete file of format version 2 with these positions, as they are given, of one data file or several.

    Engines write one twice, e.g. a MERGE that matches a row twice; Iceberg's merge of delete files keeps both.
    """
    jvm, table = Iceberg(scene.spark), scene.java()
    file = jvm.chosen(table.newScan(), [path]).get(path).file()
    spec = table.specs().get(file.specId())
    parquet = jvm.api.FileFormat.PARQUET
    files = jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(parquet).suffix("deletes").build()
    builder = jvm.static("org.apache.iceberg.data.GenericFileWriterFactory", "builderFor")(table)
    place = files.newOutputFile(spec, file.partition()) if spec.isPartitioned() else files.newOutputFile()
    writer = builder.deleteFileFormat(parquet).build().newPositionDeleteWriter(place, spec, file.partition())
    for named in sorted((path, *more)):
        for position in positions:
            writer.write(jvm.api.deletes.PositionDelete.create().set(named, position))
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
