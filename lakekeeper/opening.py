"""From what a caller writes to the table's adapter: the name by Spark's catalogs, the format by entry point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.engine.registry import find_format
from lakekeeper.spark.names import resolve
from lakekeeper.spi import Adapter, Format, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Opened:
    """A table's name as Spark resolved it, its format, and its adapter."""

    name: TableName
    format: Format
    adapter: Adapter[Any]


def open_adapter(spark: SparkSession, text: str) -> Opened:
    """The table that ``text`` names. Raises NotFound, AdapterError or Unsupported."""
    name = resolve(spark, text)
    found = find_format(name.provider, text)
    return Opened(name, found, found.open(spark, name))
