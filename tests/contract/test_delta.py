"""The contract of an adapter on Delta tables, with and without deletion vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Capabilities
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.optional_methods import Opening
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from lakekeeper_delta import FORMAT
from tests.contract.frames import columns, frame, sql_type
from tests.contract.links import replace_by_link
from tests.delta.scene import Scene
from tests.oracles import delta_log

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

# Delta keeps no bounds of binary columns, nor of booleans.
WITH_BOUNDS = tuple(kind for kind in SAMPLES if kind not in ("binary", "boolean"))
LACKS = {
    "tag": "Delta has no tags",
    "branch": "Delta has no branches",
    "keep_files": "no property of Delta keeps the files of a dropped table",
}


@dataclass(frozen=True)
class DeltaContractTable(Scene):
    """Typed rows instead of statements."""

    kinds: Kinds = field(default_factory=dict)

    def append(self, rows: Sequence[Row]) -> None:
        frame(self.spark, self.kinds, rows).writeTo(self.sql).append()

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.sql} WHERE {where}")

    def overwrite(self, rows: Sequence[Row]) -> None:
        frame(self.spark, self.kinds, rows).writeTo(self.sql).overwrite(F.lit(col=True))

    def rewrite_foreign(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.sql}")

    def set_property(self, name: str, value: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.sql} SET TBLPROPERTIES ('{name}' = '{value}')")

    def rows(self, version: int | None = None) -> list[Row]:
        return self.spark_records(version)

    def leftovers(self) -> set[str]:
        return {path for path in self.unreferenced() if path.endswith(".parquet")}

    def restore_version(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE {self.sql} TO VERSION AS OF {version}")

    def stream(self, rows: Sequence[Row], batch: int) -> None:
        writer = frame(self.spark, self.kinds, rows).write.format("delta").mode("append")
        writer.option("txnAppId", "5ba1").option("txnVersion", batch).save(str(self.path))

    def add_column(self, name: str, kind: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.sql} ADD COLUMNS ({name} {sql_type(kind)})")

    def drop_column(self, name: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.sql} DROP COLUMN {name}")

    def protect_file(self, path: str) -> None:
        replace_by_link(path, self.path.parent / f"beside_{self.path.name}")

    def create_inside(self) -> None:
        Scene(self.spark, self.path / "inner").create("k INT")

    def append_undescribed(self, rows: Sequence[Row]) -> None:
        self.set_property("delta.dataSkippingNumIndexedCols", "0")
        self.append(rows)
        self.set_property("delta.dataSkippingNumIndexedCols", "32")

    def opening(self) -> Opening:
        return Opening(FORMAT, self.spark, self.table_name)

    def filter_column(self, name: str) -> None:
        """Parquet's writer knows a column by its name in files."""
        schema = json.loads(delta_log.replay(self.path).metadata["schemaString"])
        [column] = [field for field in schema["fields"] if field["name"] == name]
        stored = column["metadata"]["delta.columnMapping.physicalName"]
        self.set_property(f"parquet.bloom.filter.enabled#{stored}", "true")


@dataclass
class DeltaHarness:
    spark: SparkSession
    root: Path
    properties: dict[str, str]

    def __post_init__(self) -> None:
        self.runner = SparkRunner(self.spark)
        self._count = 0

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> DeltaContractTable:
        self._count += 1
        table = DeltaContractTable(self.spark, self.root / f"t{self._count}", kinds)
        by = f"PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        table.create(columns(kinds), more=by, properties=self.properties)
        for batch in batches:
            table.append(batch)
        return table


class TestDelta(AdapterContract):
    """Also with column mapping: the name of a key column may contain characters that Parquet does not allow."""

    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=True, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS
    lacks = LACKS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {
            "delta.enableDeletionVectors": "true",
            "delta.enableRowTracking": "true",
            "delta.columnMapping.mode": "name",
        }
        return DeltaHarness(spark, tmp_path, properties)


class TestDeltaWithoutDeletionVectors(AdapterContract):
    """Parts that equal those of the other kind of Delta table run on demand only."""

    deep_parts = (
        "SnapshotContract",
        "RewriteContract",
        "StorageContract",
        "CurveContract",
        "SweepContract",
        "FileContract",
        "StatisticsContract",
    )
    capabilities = Capabilities(
        row_deletes=False, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS
    lacks = LACKS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "name"}
        return DeltaHarness(spark, tmp_path, properties)
