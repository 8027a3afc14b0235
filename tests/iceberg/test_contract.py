"""The contract of an adapter, for Iceberg tables of format 2 and 3."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Capabilities, TableName
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from lakekeeper_iceberg import FORMAT
from tests.iceberg.scene import files_on_disk

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]

_SQL = {"int": "BIGINT", "float": "DOUBLE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ"}
_ARROW = {
    "int": pa.int64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}


def _sql_type(kind: str | Kinds) -> str:
    if isinstance(kind, Mapping):
        return "STRUCT<" + ", ".join(f"{quote(n)}: {_sql_type(k)}" for n, k in kind.items()) + ">"
    return _SQL.get(kind, kind.upper())


def _arrow_type(kind: str | Kinds) -> pa.DataType:
    if isinstance(kind, Mapping):
        return pa.struct([(n, _arrow_type(k)) for n, k in kind.items()])
    if kind.startswith("decimal("):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[kind]


@dataclass(frozen=True)
class IcebergContractTable:
    spark: SparkSession
    name: str
    kinds: Kinds

    def adapter(self) -> Adapter[Any]:
        catalog, namespace, name = self.name.split(".")
        return FORMAT.open(
            self.spark, TableName(self.name, "iceberg", self.name, catalog, (namespace,), name)
        )

    def _frame(self, rows: Sequence[Row]) -> DataFrame:
        schema = pa.schema([(n, _arrow_type(k)) for n, k in self.kinds.items()])
        return self.spark.createDataFrame(pa.Table.from_pylist(list(rows), schema)).coalesce(1)

    def _write(self, rows: Sequence[Row]) -> Any:
        writer = self._frame(rows).writeTo(self.name)
        return writer.option("distribution-mode", "none").option("fanout-enabled", "true")

    def append(self, rows: Sequence[Row]) -> None:
        self._write(rows).append()

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._write(rows).overwrite(F.expr("true"))

    def rewrite_foreign(self) -> None:
        catalog, _, table = self.name.partition(".")
        call = f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
        self.spark.sql(call).collect()

    def set_property(self, name: str, value: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{name}' = '{value}')")

    def rows(self, version: int | None = None) -> list[Row]:
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        rows: list[Row] = reader.table(self.name).toArrow().to_pylist()
        return rows

    def leftovers(self) -> set[str]:
        named = {r[0] for r in self.spark.table(f"{self.name}.all_files").select("file_path").collect()}
        return files_on_disk(self.spark, self.name) - {path.removeprefix("file:") for path in named}


class IcebergHarness:
    def __init__(self, spark: SparkSession, version: int) -> None:
        self._spark = spark
        self._version = version
        self.runner = SparkRunner(spark)

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> IcebergContractTable:
        table = IcebergContractTable(self._spark, f"ice.db.contract_{uuid.uuid4().hex[:12]}", kinds)
        columns = ", ".join(f"{quote(n)} {_sql_type(k)}" for n, k in kinds.items())
        by = f"PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        properties = f"'format-version'='{self._version}', 'write.delete.mode'='merge-on-read'"
        self._spark.sql(
            f"CREATE TABLE {table.name} ({columns}) USING iceberg {by} TBLPROPERTIES ({properties})"
        )
        for batch in batches:
            table.append(batch)
        return table


_COARSE = {
    "test_outputs_are_sorted_cut_and_disjoint": "Iceberg's writer looks at its targets every 1,000 rows"
}
_EVERY = Capabilities(
    row_deletes=True, stores_level=True, row_lineage=True, time_travel=True, native_key=True
)


class TestFormat3(AdapterContract):
    capabilities = _EVERY
    kinds = tuple(SAMPLES)
    notyet: ClassVar[Mapping[str, str]] = _COARSE

    @pytest.fixture
    def harness(self, spark: SparkSession) -> IcebergHarness:
        return IcebergHarness(spark, 3)


class TestFormat2(AdapterContract):
    """What it reads and keeps as format 3 does is asked of it on demand only."""

    deep_parts = ("SnapshotContract", "RewriteContract", "StorageContract", "CurveContract")
    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = tuple(SAMPLES)
    notyet: ClassVar[Mapping[str, str]] = _COARSE

    @pytest.fixture
    def harness(self, spark: SparkSession) -> IcebergHarness:
        return IcebergHarness(spark, 2)
