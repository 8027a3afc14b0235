"""The contract of an adapter, for Delta tables: with deletion vectors, and without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Capabilities, TableName
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from tests.contract.frames import columns, frame, rows_of

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

# Delta keeps no bounds of text as raw bytes, nor of booleans.
WITH_BOUNDS = tuple(kind for kind in SAMPLES if kind not in ("binary", "boolean"))


@dataclass(frozen=True)
class DeltaContractTable:
    spark: SparkSession
    path: Path
    kinds: Kinds

    @property
    def sql(self) -> str:
        return f"delta.`{self.path}`"

    def adapter(self) -> Adapter[Any]:
        from lakekeeper_delta import FORMAT

        return FORMAT.open(self.spark, TableName(str(self.path), "delta", self.sql, path=str(self.path)))

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
        reader = self.spark.read.format("delta")
        at = reader if version is None else reader.option("versionAsOf", version)
        return rows_of(at.load(str(self.path)))

    def leftovers(self) -> set[str]:
        named = set()
        for log in (self.path / "_delta_log").glob("*.json"):
            for line in log.read_text().splitlines():
                action = json.loads(line)
                if "add" in action:
                    named.add(unquote(action["add"]["path"]))
        found = {str(file.relative_to(self.path)) for file in self.path.rglob("*.parquet")}
        return {file for file in found if not file.startswith("_delta_log")} - named


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
        given = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        self.spark.sql(
            f"CREATE TABLE {table.sql} ({columns(kinds)}) USING delta {by} TBLPROPERTIES ({given})"
        )
        for batch in batches:
            table.append(batch)
        return table


class TestDelta(AdapterContract):
    """Column mapping too: a key's name may hold what a Parquet name may not."""

    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=True, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {
            "delta.enableDeletionVectors": "true",
            "delta.enableRowTracking": "true",
            "delta.columnMapping.mode": "name",
        }
        return DeltaHarness(spark, tmp_path, properties)


class TestDeltaWithoutDeletionVectors(AdapterContract):
    """What another kind of Delta table reads and keeps in the same way is asked of it on demand only."""

    deep_parts = ("SnapshotContract", "RewriteContract", "StorageContract", "CurveContract")
    capabilities = Capabilities(
        row_deletes=False, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "name"}
        return DeltaHarness(spark, tmp_path, properties)
