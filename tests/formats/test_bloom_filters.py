"""Every file that a merge writes has the Bloom filters that the table configures, on every path, with its values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect
from lakekeeper.spark.jvm import Jvm
from tests.formats.lakes import Lake


def asking(lake: Lake) -> str:
    """Four overlapping files in each of two partitions; a filter configured on ``v``; some rows deleted."""
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
    """For each row group of each live file: the columns that have a filter, and the filter of ``v``."""
    jvm = Jvm(lake.spark)
    hadoop, parquet = jvm.view.org.apache.hadoop, jvm.view.org.apache.parquet.hadoop
    conf = lake.spark._jsparkSession.sessionState().newHadoopConf()
    for block in lake.adapter(name).snapshot().blocks:
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
def test_other_merges_keep_the_filter(lake: Lake, verb: str) -> None:
    name = asking(lake)
    options = {"min-input-files": 2} if verb == "compact" else {"delete-ratio-threshold": 0.01}
    assert getattr(lake.table(name), verb)(options=options).changed
    assert all(columns == {"v"} for columns, _ in filters(lake, name))


def test_a_table_without_the_property_gets_no_filter(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    lake.table(name).recluster("k", policy="full")
    assert all(columns == set() for columns, _ in filters(lake, name))


def ask(lake: Lake, name: str, *columns: str) -> None:
    """Set the properties that configure filters."""
    prefix = "write.parquet.bloom-filter-enabled.column." if lake.iceberg else "parquet.bloom.filter.enabled#"
    listed = ", ".join(f"'{prefix}{column}' = 'true'" for column in columns)
    lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({listed})")


def plain(lake: Lake) -> str:
    """Two files in each of two partitions, written before filters were configured; some rows deleted."""
    name = lake.create("id BIGINT, k INT, v STRING, c STRING", partitioned="k")
    for number in range(2):
        ids = lake.spark.range(number * 2000, number * 2000 + 2000)
        lake.append(
            name, ids.selectExpr("id", "cast(id % 2 as int) k", "uuid() v", "cast(id % 3 as string) c")
        )
    lake.spark.sql(f"DELETE FROM {name} WHERE id < 100")
    return name


def test_columns_are_found_by_the_names_that_files_have(lake: Lake) -> None:
    """Files of before a rename, and columns that Iceberg spells otherwise in files, counted as having filters."""
    name = lake.create("id BIGINT, v STRING, `my-col` STRING")
    lake.append(name, lake.spark.range(2000).selectExpr("id", "uuid() v", "uuid() `my-col`"))
    table = lake.table(name)
    if lake.iceberg:
        lake.spark.sql(f"ALTER TABLE {name} RENAME COLUMN v TO w")
        ask(lake, name, "w")
        assert table.build_filters(all_files=True).rewritten_data_files_count == 1
    ask(lake, name, "my-col")
    assert table.build_filters(all_files=True).rewritten_data_files_count == 1
    assert table.build_filters(all_files=True).rewritten_data_files_count == 0


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_no_filter_is_built_in_which_the_zeros_differ(lake: Lake, kind: str) -> None:
    """Loss L151: after ``build_filters``, a query for 0 no longer found -0.0, which Spark takes for equal."""
    name = lake.create(f"id BIGINT, x {kind}")
    values = f"cast(IF(id = 7, -0.0D, rand(1) - 0.5D) AS {kind}) x"
    lake.append(name, lake.spark.range(0, 4000, 1, 1).selectExpr("id", values))
    ask(lake, name, "x")
    assert lake.spark.table(name).where("x = 0").count() == 1
    assert lake.table(name).build_filters(all_files=True).rewritten_data_files_count == 0
    assert lake.spark.table(name).where("x = 0").count() == 1


def test_older_files_get_their_filters_once(lake: Lake) -> None:
    name = plain(lake)
    rows, versions = lake.fingerprint(name), {v: lake.fingerprint(name, v) for v in lake.versions(name)}
    ask(lake, name, "v", "c")
    due = lake.table(name).build_filters(all_files=True, dry_run=True)
    assert due.plan is not None
    assert sum(len(task.inputs) for task in due.plan.tasks) == 4
    report = lake.table(name).build_filters(all_files=True)
    assert report.rewritten_data_files_count == 4
    # All values of `c` are in a dictionary, which readers use: the writer omits its filter.
    assert [columns for columns, _ in filters(lake, name)] == [{"v"}] * report.added_data_files_count
    assert lake.fingerprint(name) == rows
    assert {v: lake.fingerprint(name, v) for v in versions} == versions
    newest = lake.versions(name)[-1]
    before = lake.rows(name, next(reversed(versions)))
    assert lake.rows(name, newest) == before
    assert not lake.table(name).build_filters(all_files=True).changed
    adapter = lake.adapter(name)
    sizes = {block.path: block.bytes for block in adapter.snapshot().blocks}
    assert adapter.bloom_filters.columns() == ("v", "c")
    assert adapter.bloom_filters.missing(sizes) == frozenset(), "without the note, the footers show it"


def test_a_sorted_table_keeps_its_levels(lake: Lake) -> None:
    name = plain(lake)
    table = lake.table(name)
    table.cluster_by("id")
    table.recluster(policy="full")
    before = lake.adapter(name).snapshot()
    ask(lake, name, "v")
    assert table.build_filters(all_files=True).rewritten_data_files_count == len(before.blocks)
    after = lake.adapter(name).snapshot()
    assert sorted(after.blocks.level_under(after.key)) == sorted(before.blocks.level_under(before.key))
    assert all(columns == {"v"} for columns, _ in filters(lake, name))


def test_a_delete_that_commits_first_is_replayed(lake: Lake) -> None:
    name = plain(lake)
    ask(lake, name, "v")
    users: list[str] = []

    def rival(phase: str, _: Any) -> None:
        if phase == "before_commit" and not users:
            users.append("delete")
            lake.spark.sql(f"DELETE FROM {name} WHERE id % 7 = 3")

    kept = {row.id for row in lake.spark.table(name).where("id % 7 <> 3").collect()}
    assert lake.table(name).build_filters(all_files=True, observer=rival).changed
    assert {row.id for row in lake.spark.table(name).collect()} == kept
    assert users


def lookups(name: str, per_second: float) -> Workload:
    """An hour of lookups on ``v``."""
    now = int(time.time() * 1000)
    scan = Scan(now, {"v": (Span("x", "x"),)}, ("v",), weight=3600 * per_second)
    return collect(name, [scan], source="test", start_ms=now - 3_600_000, end_ms=now)


def large(lake: Lake) -> str:
    """Two files that are large enough for a filter to pay, written before filters were configured."""
    name = lake.create("id BIGINT, v STRING, w STRING")
    for number in range(2):
        ids = lake.spark.range(number * 300_000, (number + 1) * 300_000)
        lake.append(name, ids.selectExpr("id", "uuid() v", "concat(uuid(), uuid()) w"))
    ask(lake, name, "v")
    return name


def test_an_automatic_run_builds_them_once_lookups_have_paid(lake: Lake, tmp_path: Path) -> None:
    name = large(lake)
    statuses = []
    for number, per_second in enumerate((1e-9, 1e6, 1e-9)):
        saved = tmp_path / f"workload-{number}.json"
        saved.write_text(lookups(name, per_second).to_json())
        lake.spark.conf.set("spark.lakekeeper.workload", str(saved))
        try:
            [result] = lk.run(lake.spark, name, verbs=["build_filters"]).tables
        finally:
            lake.spark.conf.unset("spark.lakekeeper.workload")
        statuses.append(result.status)
        assert all(("v" in columns) == (number > 0) for columns, _ in filters(lake, name))
    assert statuses == ["idle", "done", "idle"]
