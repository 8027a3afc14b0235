"""Delta tables for the contract suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from tests.contract.frames import columns, frame
from tests.delta.scene import Scene


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
