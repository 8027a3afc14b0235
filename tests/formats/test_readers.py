"""Readers without a JVM return the rows of maintained tables, or refuse; none returns a wrong row.

DuckDB's package does not contain its extensions for the formats: ``tests/neighbours`` runs it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.formats.lakes import Lake

Read = Callable[[str], pa.Table]


def delta_rs(place: str) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("t", DeltaTable(place)).execute("SELECT * FROM t").read_all())


def delta_rs_pyarrow(place: str) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(place).to_pyarrow_table()


def polars_delta(place: str) -> pa.Table:
    return pytest.importorskip("polars").scan_delta(place).collect().to_arrow()


def daft_delta(place: str) -> pa.Table:
    return pytest.importorskip("daft").read_deltalake(place).to_arrow()


def pyiceberg(place: str) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(place).scan().to_arrow()


def polars_iceberg(place: str) -> pa.Table:
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # otherwise it warns that its own package plans faster
    return pytest.importorskip("polars").scan_iceberg(place).collect().to_arrow()


def daft_iceberg(place: str) -> pa.Table:
    from pyiceberg.table import StaticTable

    return pytest.importorskip("daft").read_iceberg(StaticTable.from_metadata(place)).to_arrow()


READERS: Mapping[str, tuple[Read, ...]] = {
    "delta": (delta_rs, delta_rs_pyarrow, polars_delta, daft_delta),
    "iceberg": (pyiceberg, polars_iceberg, daft_iceberg),
}
REFUSE = {("delta_rs_pyarrow", "delta"), ("daft_delta", "delta"), ("daft_iceberg", "iceberg-v3")}
"""(reader, kind of table) that cannot read deletion vectors, whichever engine writes them, and reports it."""


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in ("id", "k", "v")), strict=True))


def place_of(lake: Lake, name: str) -> str:
    """The path that readers open: the folder of a Delta table, the newest metadata file of an Iceberg table."""
    if not lake.iceberg:
        return str(lake.home(name))
    log = lake.spark.sql(f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC")
    [newest] = log.limit(1).collect()
    return str(newest[0])


CASES = [
    pytest.param(kind, read, marks=getattr(pytest.mark, kind.partition("-")[0]), id=f"{kind}-{read.__name__}")
    for kind in ("delta", "iceberg-v2", "iceberg-v3")
    for read in READERS[kind.partition("-")[0]]
]


@pytest.mark.parametrize("kind, read", CASES)
def test_a_maintained_table(spark: SparkSession, tmp_path: Path, kind: str, read: Read) -> None:
    lake = Lake(spark, kind)
    name = lake.overlapping(3, 200)
    table = lake.table(name)
    table.cluster_by("k")
    assert table.recluster(policy="full", options={"target-file-size-bytes": 8_000}).changed
    assert table.delete("id % 10 = 3").deleted_rows_count == 60
    wanted = Counter(tuple(row) for row in spark.table(name).collect())
    assert wanted.total() == 540
    if (read.__name__, kind) in REFUSE:
        with pytest.raises(Exception, match=r"(?i)deletion ?vector|puffin|delet"):
            read(place_of(lake, name))
    else:
        assert rows(read(place_of(lake, name))) == wanted
    assert table.merge_deletes(options={"delete-ratio-threshold": 0.001}).changed
    if kind != "delta" or read.__name__ not in {"delta_rs_pyarrow", "daft_delta"}:
        assert rows(read(place_of(lake, name))) == wanted
