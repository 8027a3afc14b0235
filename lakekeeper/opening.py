"""Open a table's adapter from the text the caller gave: resolve the name in Spark's catalogs, then find the format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.engine.plugins import find_format, installed_formats
from lakekeeper.errors import AdapterError, LakekeeperError, NotFound, Unsupported
from lakekeeper.spark.identifiers import resolve
from lakekeeper.spi import Adapter, Format, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Opened:
    """A table's name as Spark resolved it, with its format and its adapter."""

    name: TableName
    format: Format
    adapter: Adapter[Any]


def _refusal(text: str, error: LakekeeperError) -> Unsupported | None:
    """The Unsupported error if a format's own library rejected the table that the catalog tried to load, else None."""
    if error.__cause__ is None:
        return None
    refusals = (form.refused(text, error.__cause__) for form in installed_formats())
    return next((refusal for refusal in refusals if refusal is not None), None)


def open_adapter(spark: SparkSession, text: str) -> Opened:
    """Open the table that ``text`` names. Raises NotFound, AdapterError or Unsupported."""
    try:
        name = resolve(spark, text)
    except (NotFound, AdapterError) as error:
        raise _refusal(text, error) or error from error.__cause__
    found = find_format(name.provider, text)
    return Opened(name, found, found.open(spark, name))
