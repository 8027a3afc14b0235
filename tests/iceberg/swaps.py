"""The swap of a table's metadata, tampered with: something happens before it, or instead of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.opening import open_adapter
from lakekeeper_iceberg import IcebergTable
from lakekeeper_iceberg.native import Iceberg

Act = Callable[[Any, Any, Any], None]
"""Takes the real operations, the metadata that the commit is based on, and the new metadata."""


class Swap:
    """Stands for a table's operations: does something before or instead of the swap."""

    def __init__(self, real: Any, act: Act) -> None:
        self._real = real
        self._act = act

    def commit(self, base: Any, updated: Any) -> None:
        self._act(self._real, base, updated)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Swaps:
    """A table object of Iceberg's whose swaps can be tampered with."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._act: Act | None = None

    @contextmanager
    def acting(self, act: Act) -> Iterator[None]:
        """Meanwhile each swap is what ``act`` makes of it."""
        self._act = act
        try:
            yield
        finally:
            self._act = None

    def operations(self) -> Any:
        real = self._table.operations()
        return real if self._act is None else Swap(real, self._act)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # py4j tries whether an argument is a list or a map
            raise AttributeError(name)
        return getattr(self._table, name)


def tampered(spark: SparkSession, text: str) -> tuple[IcebergTable, Swaps]:
    """A table's adapter over swaps that can be tampered with."""
    name, jvm = open_adapter(spark, text).name, Iceberg(spark)
    swaps = Swaps(jvm.load(name.sql))
    return IcebergTable(jvm, name, swaps), swaps
