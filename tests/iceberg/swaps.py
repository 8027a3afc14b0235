"""The swap of a table's metadata, intercepted: a test acts before it or replaces it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.opening import open_adapter
from lakekeeper_iceberg import IcebergTable
from lakekeeper_iceberg.native import Iceberg

Act = Callable[[Any, Any, Any], None]
"""Receives the real operations, the metadata that the commit is based on, and the new metadata."""


def landed_and_lost(real: Any, base: Any, updated: Any) -> None:
    """The swap lands, and its response is lost."""
    real.commit(base, updated)
    raise ConnectionResetError("reset by peer")


class Swap:
    """A table's operations that act before the swap or replace it."""

    def __init__(self, real: Any, act: Act) -> None:
        self._real = real
        self._act = act

    def commit(self, base: Any, updated: Any) -> None:
        self._act(self._real, base, updated)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Swaps:
    """An Iceberg table object whose swaps can be intercepted."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._act: Act | None = None

    @contextmanager
    def acting(self, act: Act) -> Iterator[None]:
        """Within the block, ``act`` handles each swap."""
        self._act = act
        try:
            yield
        finally:
            self._act = None

    def operations(self) -> Any:
        real = self._table.operations()
        return real if self._act is None else Swap(real, self._act)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # py4j checks whether an argument is a list or a map
            raise AttributeError(name)
        return getattr(self._table, name)


def tampered(spark: SparkSession, text: str) -> tuple[IcebergTable, Swaps]:
    """A table's adapter whose swaps can be intercepted."""
    name, jvm = open_adapter(spark, text).name, Iceberg(spark)
    swaps = Swaps(jvm.load(name.sql))
    return IcebergTable(jvm, name, swaps), swaps
