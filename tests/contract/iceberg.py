"""Iceberg tables for the contract suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from tests.contract.frames import columns, frame
from tests.iceberg.scene import Scene


@dataclass(frozen=True)
class IcebergContractTable(Scene):
    """Typed rows instead of statements."""

    kinds: Kinds = field(default_factory=dict)

    def _write(self, rows: Sequence[Row]) -> Any:
        writer = frame(self.spark, self.kinds, rows).writeTo(self.sql)
        return writer.option("distribution-mode", "none").option("fanout-enabled", "true")

    def append(self, rows: Sequence[Row]) -> None:
        self._write(rows).append()

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.sql} WHERE {where}")

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._write(rows).overwrite(F.expr("true"))

    def rewrite_foreign(self) -> None:
        self.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")

    def set_property(self, name: str, value: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.sql} SET TBLPROPERTIES ('{name}' = '{value}')")

    def rows(self, version: int | None = None) -> list[Row]:
        return self.spark_records(version)


class IcebergHarness:
    def __init__(self, spark: SparkSession, version: int) -> None:
        self._spark = spark
        self._version = version
        self.runner = SparkRunner(spark)

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> IcebergContractTable:
        table = IcebergContractTable(self._spark, format_version=self._version, kinds=kinds)
        by = f"PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        table.create(columns(kinds), more=by)
        for batch in batches:
            table.append(batch)
        return table
