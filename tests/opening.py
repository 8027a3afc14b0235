"""Tables opened as :func:`lakekeeper.table` opens them, with other parts: another adapter, another clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakekeeper.api import Table
from lakekeeper.engine.clock import Clock
from lakekeeper.opening import open_adapter
from lakekeeper.spi import Adapter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
Wrapped = Callable[[Adapter[Any]], Adapter[Any]]


def adapter_of(spark: SparkSession, name: str) -> Adapter[Any]:
    """The adapter of a table."""
    return open_adapter(spark, name).adapter


def table_with(
    spark: SparkSession, name: str, wrapped: Wrapped = lambda adapter: adapter, *, clock: Clock | None = None
) -> Table:
    """The table over the adapter that ``wrapped`` returns for its own."""
    opened = open_adapter(spark, name)
    return Table(spark, opened.name, wrapped(opened.adapter), clock=clock)


def table_later(spark: SparkSession, name: str, hours: float) -> Table:
    """The table as it would open so many hours from now."""
    return table_with(
        spark, name, clock=Clock(now_ms=lambda: time.time_ns() // 1_000_000 + round(hours * HOUR_MS))
    )
