"""The adapter contract's races, file deletes and undos, on tables of each kind of catalog (make deep)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakekeeper.core.model.keys import quote
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Capabilities
from lakekeeper.testing.optional_methods import METHODS
from lakekeeper.testing.race_contract import RaceContract
from lakekeeper.testing.storage_contract import StorageContract
from lakekeeper.testing.sweep_contract import SweepContract
from lakekeeper.testing.undo_contract import UndoContract
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds
from tests.catalogs.kinds import Catalog, activate
from tests.contract.frames import columns, frame
from tests.tables import TableUnderTest

pytestmark = [pytest.mark.iceberg, pytest.mark.delta]


@dataclass(frozen=True)
class Contracted:
    """A table of a catalog, with typed rows."""

    catalog: Catalog
    table: TableUnderTest
    kinds: Kinds

    def adapter(self) -> Adapter[Any]:
        return self.table.adapter()

    def append(self, rows: Sequence[Row]) -> None:
        self._writer(rows).append()

    def delete(self, where: str) -> None:
        self.table.run(f"DELETE FROM {{t}} WHERE {where}")

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._writer(rows).overwrite(F.expr("true"))

    def rewrite_foreign(self) -> None:
        if self.catalog.delta:
            self.table.run("OPTIMIZE {t}")
        else:
            name = self.table.sql.partition(".")[2]
            options = "map('rewrite-all', 'true')"
            self.table.run(
                f"CALL {self.catalog.name}.system.rewrite_data_files(table => '{name}', options => {options})"
            )

    def set_property(self, name: str, value: str) -> None:
        self.table.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")

    def rows(self, version: int | None = None) -> list[Row]:
        return self.table.spark_records(version)

    def leftovers(self) -> set[str]:
        return {path for path in self.table.unreferenced() if path.endswith((".parquet", ".puffin"))}

    def restore_version(self, version: int) -> None:
        if self.catalog.delta:
            self.table.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        else:
            name = self.table.sql.partition(".")[2]
            self.table.run(
                f"CALL {self.catalog.name}.system.rollback_to_snapshot(table => '{name}', snapshot_id => {version})"
            )

    def _writer(self, rows: Sequence[Row]) -> Any:
        writer = frame(self.catalog.spark, self.kinds, rows).writeTo(self.table.sql)
        return writer.option("distribution-mode", "none").option("fanout-enabled", "true")


@dataclass
class CatalogHarness:
    catalog: Catalog

    def __post_init__(self) -> None:
        self.runner = SparkRunner(self.catalog.spark)

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> Contracted:
        table = self.catalog.table(f"t_{uuid.uuid4().hex[:12]}")
        by = f"PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
        properties = {"delta.enableDeletionVectors": "true"} if self.catalog.delta else {}
        table.create(columns(kinds), more=by, properties=properties)
        made = Contracted(self.catalog, table, kinds)
        for batch in batches:
            made.append(batch)
        return made


CAPABILITIES = Capabilities(
    row_deletes=True, stores_level=True, row_lineage=False, time_travel=True, native_key=True
)

LACKS = {name: "the contracts of the formats cover it" for name in METHODS if name != "restore_version"}


class TestCatalogs(StorageContract, RaceContract, UndoContract, SweepContract):
    deep_parts = ("StorageContract", "RaceContract", "UndoContract", "SweepContract")
    capabilities = CAPABILITIES
    lacks = LACKS
    kinds = ("int", "string")

    @pytest.fixture(params=("hadoop", "rest", "hive", "session-iceberg", "session-delta"))
    def harness(
        self, request: pytest.FixtureRequest, spark: SparkSession, catalogs: Callable[[str], Catalog]
    ) -> Iterator[CatalogHarness]:
        """SQLite, and Delta in memory, are covered by `tests.iceberg.test_contract` and `tests.contract.test_delta`."""
        found = catalogs(request.param)
        activate(found.spark)
        yield CatalogHarness(found)
        activate(spark)


@pytest.mark.stores
class TestNessie(RaceContract, UndoContract):
    """Without the part of the storage: no file is deleted there, see `tests.catalogs.test_nessie`."""

    capabilities = CAPABILITIES
    kinds = ("int", "string")

    @pytest.fixture
    def harness(self, spark: SparkSession, catalogs: Callable[[str], Catalog]) -> CatalogHarness:
        return CatalogHarness(catalogs("nessie"))
