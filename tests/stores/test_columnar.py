"""Columnar merges on S3: workers reach the objects as S3A and S3FileIO do; the rows and statistics are Spark's."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.model.file_merge import FileMerge
from tests.rewrites import tasks_of
from tests.stores.bucket import KEYS, LAKE, REGION, Bucket
from tests.stores.kinds import ON_S3, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, filled, same_rows

FILTERS = (
    "k = 5", "k IS NULL", "d > 30", "isnan(d)", "v = 'ä 41'", "n > 10", "at > timestamp_micros(90000000)", "p = 'a b'",
)  # fmt: skip
COLUMNS = (
    "id BIGINT, k INT, v STRING, d DOUBLE, n DECIMAL(20, 3), at TIMESTAMP, day DATE, raw BINARY, p STRING"
)


def rich(table: StoreTable) -> StoreTable:
    """A table of several types in partitions whose names are encoded in URLs, with deleted rows."""
    table.create(COLUMNS, more="PARTITIONED BY (p)")
    for start in (0, 40, 80):
        rows = table.spark.range(start, start + 40, 1, 2).selectExpr(
            "id", "IF(id % 13 = 0, NULL, cast(pmod(id * 37, 101) AS int)) AS k", "concat('ä ', id) AS v",
            "IF(id % 7 = 0, double('NaN'), id / 3) AS d", "cast(id AS decimal(20, 3)) / 7 AS n",
            "timestamp_micros(id * 1000003) AS at", "date_from_unix_date(cast(id AS int)) AS day",
            "cast(cast(id AS string) AS binary) AS raw", "IF(id % 2 = 0, 'a b', 'c%2Fd=é') AS p",
        ).selectExpr("id", "k", "v", "d", "cast(n AS decimal(20, 3)) AS n", "at", "day", "raw", "p")  # fmt: skip
        rows.writeTo(table.sql).append()
    table.delete("id IN (3, 44, 90)")
    return table


def planned(table: StoreTable) -> object:
    """What the adapter plans for the first task of a rewrite of the whole table."""
    adapter = table.adapter()
    assert adapter.columnar is not None
    return adapter.columnar.plan(tasks_of(adapter.snapshot(("k",)))[0], "run-1")


def writers(table: StoreTable) -> Counter[str]:
    """The data files in the bucket by the library that wrote them."""
    found = Counter[str]()
    for key in table.store.keys(table.prefix):
        if key.endswith(".parquet") and "/metadata/" not in key:
            footer = pq.read_metadata(io.BytesIO(table.store.get(key)))
            found[str(footer.created_by).partition(" ")[0]] += 1
    return found


@of_kinds(ON_S3)
@pytest.mark.usefixtures("alone")
def test_a_merge_by_columns_on_s3(
    spark: SparkSession, bucket: Bucket, kind: Kind, name: str, outcomes: Outcomes
) -> None:
    table = rich(kind.table(spark, bucket, name))
    rows = table.spark_rows()
    report = table.table().recluster("k", policy="full")
    assert [group.detail for group in report.groups] == [None, None]
    assert writers(table)["parquet-cpp-arrow"] == report.added_data_files_count == 2
    outcomes[kind.name, "merge by columns"] = same_rows(table, rows)
    for where in FILTERS:
        read = table.spark.table(table.sql)
        [expected] = read.selectExpr(f"count_if({where}) AS n").collect()
        assert read.where(where).count() == expected.n, f"{where} by the statistics of the outputs"
    assert table.table().vacuum(**NOW).failed_files_count == 0
    assert table.leftovers() == set()
    same_rows(table, rows)


@of_kinds(ON_S3)
@pytest.mark.usefixtures("alone")
def test_rows_that_a_race_deletes_are_found_in_the_bucket_without_a_scan(
    spark: SparkSession,
    bucket: Bucket,
    kind: Kind,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = filled(kind.table(spark, bucket, name))
    rows = table.spark_rows()

    def delete(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and info["attempt"] == 0:
            table.delete("id = 14")

    def through_the_jvm(*_: object) -> None:
        raise AssertionError("a file was read through the JVM")

    for adapter in ("delta", "iceberg"):
        monkeypatch.setattr(f"lakekeeper_{adapter}.data_files.JavaFile", through_the_jvm)
    with caplog.at_level("DEBUG", "lakekeeper"):
        report = table.table().recluster("k", policy="full", observer=delete)
    assert report.replayed_rows_count == 1
    assert "searched for by a scan" not in caplog.text
    same_rows(table, Counter({row: n for row, n in rows.items() if "v14'" not in row}))


@of_kinds(ON_S3)
@pytest.mark.usefixtures("alone")
def test_credentials_travel_to_workers_only(
    spark: SparkSession, bucket: Bucket, kind: Kind, name: str
) -> None:
    merge = planned(filled(kind.table(spark, bucket, name)))
    assert isinstance(merge, FileMerge), merge
    store = merge.store
    assert store is not None
    assert (store.access_key, store.secret_key, store.session_token) == (KEYS["access"], KEYS["secret"], "")
    assert (store.region, store.encrypted, store.path_style) == (REGION, False, True)
    assert KEYS["secret"] not in repr(store)
    assert all(each.path.startswith(f"{LAKE}/") for each in merge.inputs)
