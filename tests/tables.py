"""A table under test, whatever its format: written by Spark alone, read by Spark and by a reader without Spark.

``tests.delta.scene.Scene`` and ``tests.iceberg.scene.Scene`` are such tables; the tests of the adapters, the contract
suite and the matrix of races use them. Other test helpers that look alike have other purposes:

    lakekeeper.testing.harness.ContractTable   what the author of an adapter provides: typed rows, no SQL
    tests.engine.scene.Scene                   a table in memory with the engine that maintains it
    tests.formats.lakes.Lake                   a kind of table, of which a test creates as many as it needs, by name
    tests.faults.ground.Ground                 one table that is broken, and restored file by file for the next case
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lakekeeper.spi import Adapter
from lakekeeper.testing.values import Row


class TableUnderTest(Protocol):
    """One table; statements name it ``{t}``. ``version`` None: the current one."""

    @property
    def sql(self) -> str:
        """The table's name in a statement."""
        ...

    def create(
        self, columns: str, *, more: str = "", properties: Mapping[str, str] | None = None
    ) -> TableUnderTest:
        """An empty table; ``more`` follows the columns (PARTITIONED BY …)."""
        ...

    def run(self, *statements: str) -> TableUnderTest:
        """Runs Spark's own statements, one after the other."""
        ...

    def adapter(self) -> Adapter[Any]:
        """The table's adapter, newly opened."""
        ...

    @property
    def version(self) -> int:
        """The current version; after a rollback, not the newest."""
        ...

    def versions(self) -> list[int]:
        """All versions that can be read, oldest first."""
        ...

    def spark_records(self, version: int | None = None) -> list[Row]:
        """The rows as Spark reads them."""
        ...

    def log_records(self, version: int | None = None) -> list[Row]:
        """The rows according to a reader of the log and the files alone."""
        ...

    def files(self) -> set[str]:
        """Full paths of all data and delete files on the disk, whether a version references them or not."""
        ...

    def unreferenced(self) -> set[str]:
        """Full paths of files on the disk, with Iceberg's manifests, that no version references."""
        ...
