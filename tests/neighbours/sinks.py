"""The four kinds of Flink sinks in one job, the rows that they must write, and their readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.neighbours import flink_jobs
from tests.neighbours.flink_jobs import Job

KEYS, GROUPS = 1_000, 100
_MIX = 7_919  # spreads the keys of consecutive rows
Rows = Counter[tuple[int, ...]]


@dataclass(frozen=True)
class Sink:
    """A sink's table: its columns and properties, the query that feeds it, and its expected rows."""

    name: str
    version: int
    columns: str
    query: str
    expected: Callable[[int], Rows]
    upserts: bool = False

    def statement(self, database: str) -> str:
        upserts = ", 'write.upsert.enabled'='true'" if self.upserts else ""
        properties = f"'format-version'='{self.version}'{upserts}"
        return f"CREATE TABLE IF NOT EXISTS {database}.{self.name} ({self.columns}) WITH ({properties})"


def _upserted(rows: int) -> Rows:
    return Counter({k: v for v in range(rows) for k in [v * _MIX % KEYS]}.items())


def _grouped(rows: int) -> Rows:
    groups = (range(k, rows, GROUPS) for k in range(GROUPS))
    return Counter((group[0], len(group), group[-1]) for group in groups if group)


def _appended(rows: int) -> Rows:
    return Counter((v % GROUPS, v) for v in range(rows))


_KEY = "PRIMARY KEY (k) NOT ENFORCED"
_UPSERT = f"SELECT MOD(id * {_MIX}, {KEYS}), id FROM source"
_CHANGES = f"SELECT MOD(id, {GROUPS}), COUNT(*), MAX(id) FROM source GROUP BY MOD(id, {GROUPS})"
SINKS = (
    Sink("upserts_v2", 2, f"k BIGINT, v BIGINT, {_KEY}", _UPSERT, _upserted, upserts=True),
    Sink("upserts_v3", 3, f"k BIGINT, v BIGINT, {_KEY}", _UPSERT, _upserted, upserts=True),
    Sink("changelog", 2, f"k BIGINT, n BIGINT, v BIGINT, {_KEY}", _CHANGES, _grouped),
    Sink("appends", 2, "k BIGINT, v BIGINT", f"SELECT MOD(id, {GROUPS}), id FROM source", _appended),
)


def job(folder: Path, sqlite: Path, warehouse: Path, database: str, rows: int, per_second: int) -> Job:
    """All sinks in one job, each with its table ``ice.<database>.<sink>``."""
    full = f"ice.{database}"
    prepare = [
        flink_jobs.catalog(sqlite, warehouse),
        f"CREATE DATABASE IF NOT EXISTS {full}",
        flink_jobs.sequence(rows, per_second),
        *(sink.statement(full) for sink in SINKS),
    ]
    return Job(folder, prepare, [f"INSERT INTO {full}.{sink.name} {sink.query}" for sink in SINKS])


def by_spark(spark: SparkSession, name: str) -> Rows:
    spark.catalog.refreshTable(name)  # Spark's catalog caches tables for a while
    return Counter(tuple(row) for row in spark.table(name).collect())


def by_pyiceberg(spark: SparkSession, name: str) -> Rows:
    """Rows without Spark; its error if equality deletes remain."""
    newest = spark.sql(
        f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC"
    ).first()
    assert newest is not None
    rows = StaticTable.from_metadata(newest[0]).scan().to_arrow()
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def difference(found: Rows, wanted: Rows) -> str:
    """Empty if equal, else the numbers of missing and additional rows, with an example of each."""
    missing, more = wanted - found, found - wanted
    if not missing and not more:
        return ""
    example, other = next(iter(missing), None), next(iter(more), None)
    return f"{missing.total()} missing, as {example}; {more.total()} too many, as {other}"


def wrong(spark: SparkSession, database: str, rows: int, *, also_pyiceberg: bool) -> Sequence[str]:
    """Every difference between the sinks' tables and their expected rows."""
    found = []
    for sink in SINKS:
        name, wanted = f"ice.{database}.{sink.name}", sink.expected(rows)
        readers = {"Spark": by_spark, **({"pyiceberg": by_pyiceberg} if also_pyiceberg else {})}
        for reader, read in readers.items():
            text = difference(read(spark, name), wanted)
            found += [f"{sink.name} by {reader}: {text}"] * bool(text)
    return found


def merge_all(spark: SparkSession, names: list[str]) -> None:
    """Merge all remaining deletes, so that a reader without equality deletes can read."""
    for name in names:
        lk.table(spark, name).merge_deletes(options={"delete-ratio-threshold": 0.000001})
