"""The kinds of tables in a race: Delta with and without deletion vectors, Iceberg of format 2 and 3."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.delta.scene import Scene as DeltaScene
from tests.iceberg.scene import Scene as IcebergScene

KINDS = ("delta-vectors", "delta-copies", "iceberg-v2", "iceberg-v3")
Side = DeltaScene | IcebergScene


def side_of(spark: SparkSession, kind: str, folder: Path) -> Side:
    """A table of the given kind, not yet created: Delta in a folder, Iceberg in the SQLite catalog."""
    if kind.startswith("delta"):
        return DeltaScene(spark, folder / "table")
    return IcebergScene(spark, format_version=int(kind[-1]))


def listed(properties: dict[str, str]) -> str:
    """A TBLPROPERTIES clause."""
    given = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
    return f"TBLPROPERTIES ({given})" if given else ""
