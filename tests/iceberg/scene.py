"""Tables for the tests of the Iceberg adapter, and what their storage holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def files_on_disk(spark: SparkSession, name: str) -> set[str]:
    """Data and delete files below the table's location, whether a version names them or not."""
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    data = Path(str(table.location()).removeprefix("file:")) / "data"
    return {str(p) for p in data.rglob("*") if p.is_file() and not p.name.startswith(".")}
