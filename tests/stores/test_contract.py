"""The storage part of the adapter contract, and of its races and deletes, on each kind of table in each store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Capabilities
from lakekeeper.testing.race_contract import RaceContract
from lakekeeper.testing.storage_contract import StorageContract
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from tests.contract.frames import columns, frame
from tests.stores.kinds import Kind, StoreTable
from tests.stores.log_stores import CONDITIONAL, use_log_store
from tests.stores.store import Store


@dataclass(frozen=True)
class Contracted:
    """A `StoreTable` with typed rows."""

    table: StoreTable
    kinds: Kinds

    def adapter(self) -> Adapter[Any]:
        return self.table.adapter()

    def append(self, rows: Sequence[Row]) -> None:
        self._writer(rows).append()

    def delete(self, where: str) -> None:
        self.table.delete(where)

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._writer(rows).overwrite(F.expr("true"))

    def rewrite_foreign(self) -> None:
        self.table.rewrite_foreign()

    def set_property(self, name: str, value: str) -> None:
        self.table.set_property(name, value)

    def rows(self, version: int | None = None) -> list[Row]:
        return self.table.rows(version)

    def leftovers(self) -> set[str]:
        return self.table.leftovers()

    def _writer(self, rows: Sequence[Row]) -> Any:
        writer = frame(self.table.spark, self.kinds, rows).writeTo(self.table.sql)
        return writer.option("distribution-mode", "none").option("fanout-enabled", "true")


@dataclass
class StoreHarness:
    spark: SparkSession
    store: Store
    kind: Kind

    def __post_init__(self) -> None:
        self.runner = SparkRunner(self.spark)

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> Contracted:
        table = self.kind.table(self.spark, self.store, f"t{uuid.uuid4().hex[:10]}")
        by = f"PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        table.create(columns(kinds), more=by)
        made = Contracted(table, kinds)
        for batch in batches:
            made.append(batch)
        return made


@pytest.fixture
def harness(spark: SparkSession, store: Store, kind: Kind) -> Iterator[StoreHarness]:
    """Concurrent writers commit to Delta tables, so the log store on S3 has to exclude them."""
    use_log_store(spark, CONDITIONAL if kind.delta else "")
    yield StoreHarness(spark, store, kind)
    use_log_store(spark, "")


class TestStores(StorageContract, RaceContract):
    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = ("int", "string")
