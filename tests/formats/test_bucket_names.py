"""A bucket named like its first folder: ``s3a://events/events`` contains that name twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.spark.session_confs import catalog_conf
from tests.formats.lakes import Lake
from tests.formats.neighbours import ALL, COMPACT, fill, later
from tests.object_store import object_store

PLACE = "s3a://events/events"


@pytest.fixture
def folder(lake: Lake, tmp_path: Path) -> Iterator[Path]:
    """The local folder behind the bucket."""
    with object_store(lake.spark, tmp_path / "store"):
        yield tmp_path / "store" / "events"


@pytest.fixture
def name(lake: Lake, folder: Path, tmp_path: Path, confs: RuntimeConfig) -> str:
    """A table of three files of ten rows; on Delta they have no statistics."""
    confs.set("spark.lakekeeper.single-driver", "true")
    confs.set("spark.databricks.delta.stats.collect", "false")
    columns = "id bigint, k int, v string"
    if not lake.iceberg:
        lake.spark.sql(f"CREATE TABLE delta.`{PLACE}` ({columns}) USING delta")
        return fill(lake, f"delta.`{PLACE}`", 3, 10)
    catalog = f"events{lake.kind[-1]}"
    for key, value in catalog_conf(catalog, f"jdbc:sqlite:{tmp_path}/c.db", tmp_path).items():
        confs.set(key, value)
    lake.spark.sql(f"CREATE NAMESPACE {catalog}.db")
    version = f"TBLPROPERTIES ('format-version'='{lake.kind[-1]}')"
    lake.spark.sql(f"CREATE TABLE {catalog}.db.t ({columns}) USING iceberg LOCATION '{PLACE}' {version}")
    return fill(lake, f"{catalog}.db.t", 3, 10)


def test_a_bucket_with_the_name_of_its_first_folder(lake: Lake, name: str, folder: Path) -> None:
    """Loss L3: Delta cut the file's address at the bucket, found no rows for it, and committed its removal."""
    rows = lake.fingerprint(name)
    assert rows[0] == 30
    assert sum(row.rows for row in lk.table(lake.spark, name).blocks().collect()) == 30
    report = lk.table(lake.spark, name).compact(options=COMPACT)
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (3, 1)
    assert lake.fingerprint(name) == rows
    swept = later(lake.spark, name).vacuum(orphans=True, options=ALL)
    assert swept.deleted_by_kind["data"][0] == 3
    assert lake.fingerprint(name) == rows
    assert len([path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts]) == 1
