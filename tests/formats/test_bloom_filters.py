"""Bloom filters that a table asks for are in each file that a merge writes, on every path, and hold its values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lakekeeper.core.model.reason_code import Code
from lakekeeper.spark.jvm import Jvm
from tests.formats.lakes import Lake

pytestmark = pytest.mark.usefixtures("on_local_disk")


def asking(lake: Lake) -> str:
    """Four overlapping files in each of two partitions; the table asks for a filter on ``v``; some rows are deleted."""
    properties = (
        {"write.parquet.bloom-filter-enabled.column.v": "true"}
        if lake.iceberg
        else {"parquet.bloom.filter.enabled#v": "true", "parquet.bloom.filter.expected.ndv#v": "10000"}
    )
    name = lake.create("id BIGINT, k INT, v STRING", partitioned="k", properties=properties)
    for number in range(4):
        ids = lake.spark.range(number * 2000, number * 2000 + 2000)
        lake.append(name, ids.selectExpr("id", "cast(id % 2 as int) k", "concat('v', id) v"))
    lake.spark.sql(f"DELETE FROM {name} WHERE id < 100")
    return name


def filters(lake: Lake, name: str) -> Iterator[tuple[set[str], Any]]:
    """Of each row group of each live file: the columns that have a filter, and the filter of ``v``."""
    jvm = Jvm(lake.spark)
    hadoop, parquet = jvm.view.org.apache.hadoop, jvm.view.org.apache.parquet.hadoop
    conf = lake.spark._jsparkSession.sessionState().newHadoopConf()
    for block in lake.adapter(name).snapshot(["k"]).blocks:
        place = hadoop.fs.Path(block.path if lake.iceberg else str(lake.home(name) / block.path))
        with closing(
            parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(place, conf))
        ) as reader:
            for group in jvm.items(reader.getFooter().getBlocks()):
                columns = {str(c.getPath().toDotString()): c for c in jvm.items(group.getColumns())}
                has = {each for each, column in columns.items() if column.getBloomFilterOffset() >= 0}
                yield has, reader.readBloomFilter(columns["v"])


def holds(lake: Lake, found: Any, text: str) -> bool:
    binary = Jvm(lake.spark).view.org.apache.parquet.io.api.Binary
    return bool(found.findHash(found.hash(binary.fromString(text))))


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_each_output_has_the_filter(lake: Lake, engine: str) -> None:
    name = asking(lake)
    report = lake.table(name).recluster("id", policy="full", options={"merge-engine": engine})
    assert report.added_data_files_count == 2
    found = list(filters(lake, name))
    assert len(found) == 2
    assert all(columns == {"v"} for columns, _ in found)
    for number in (100, 777, 7999):
        assert any(holds(lake, each, f"v{number}") for _, each in found)
    absent = [any(holds(lake, each, f"w{number}") for _, each in found) for number in range(20)]
    assert absent.count(True) < 10
    if engine == "auto":
        assert {group.detail["cause"] for group in report.groups if group.detail} <= {
            "the table sets parquet.bloom.filter.enabled#v",
            "the table sets write.parquet.bloom-filter-enabled.column.v",
            "rows have ids",
        }
        assert all(group.detail and group.detail.code == Code.MERGED_BY_ROWS for group in report.groups)


@pytest.mark.parametrize("verb", ["compact", "merge_deletes"])
def test_other_merges_keep_it_too(lake: Lake, verb: str) -> None:
    name = asking(lake)
    options = {"min-input-files": 2} if verb == "compact" else {"delete-ratio-threshold": 0.01}
    assert getattr(lake.table(name), verb)(options=options).changed
    assert all(columns == {"v"} for columns, _ in filters(lake, name))


def test_a_table_that_asks_for_none_gets_none(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    lake.table(name).recluster("k", policy="full")
    assert all(columns == set() for columns, _ in filters(lake, name))
