"""Tables in Nessie for tests: on branches, on tags, and what their readers see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.catalogs.kinds import ICEBERG
from tests.iceberg.scene import Scene


def filled(table: Scene, properties: Mapping[str, str] | None = None) -> Scene:
    """Six files of ten rows that overlap in ``k``, and one deleted row."""
    table.create("id BIGINT, k INT, v STRING", properties=properties)
    append(table, 0, 60, files=6)
    return table.run("DELETE FROM {t} WHERE id = 3")


def append(table: Scene, start: int, stop: int, *, files: int = 1) -> None:
    rows = table.spark.range(start, stop, 1, numPartitions=files)
    made = rows.selectExpr("id", "cast(pmod(id * 37, 101) AS int) AS k", "concat('v', id) AS v")
    made.writeTo(table.sql).append()


def ids(*numbers: int) -> Counter[int]:
    return Counter(numbers)


ALL = Counter(i for i in range(60) if i != 3)


def read(spark: SparkSession, name: str) -> Counter[int]:
    """The ids of a table, whose values are right, as a reader without caches sees it."""
    spark.sql(f"REFRESH TABLE {name}")
    rows = spark.sql(f"SELECT id, k, v FROM {name}").collect()
    assert all(row.k == row.id * 37 % 101 and row.v == f"v{row.id}" for row in rows)
    return Counter(row.id for row in rows)


def at(table: Scene, ref: str) -> str:
    """The table's name on a branch, tag or commit."""
    return f"{table.catalog}.{ICEBERG}.`{table.name}@{ref}`"


def stored(table: Scene) -> set[str]:
    """All files below the table's location."""
    root = Path(str(table.java().location()).removeprefix("file:"))
    return {str(path) for path in root.rglob("*") if path.is_file() and "_lakekeeper" not in str(path)}


WRITES: dict[str, Callable[[lk.Table], object]] = {
    "recluster": lambda t: t.recluster("k", policy="full"),
    "compact": lambda t: t.compact(options={"min-input-files": 2}),
    "delete": lambda t: t.delete("id = 5"),
    "drop_partition": lambda t: t.drop_partition("id = 6"),
    "compact_metadata": lk.Table.compact_metadata,
    "compute_statistics": lk.Table.compute_statistics,
    "cluster_by": lambda t: t.cluster_by("k"),
}
"""What changes a table."""
