"""Tables on S3 in Nessie's Iceberg REST endpoint: each verb, and nothing deletes what a branch or a tag needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError, RetentionError, UndoError, Unknown
from tests.catalogs.nessie import Nessie, nessie_server
from tests.opening import table_later
from tests.stores.bucket import KEYS, LAKE, REGION, Bucket
from tests.stores.kinds import Kind, StoreTable
from tests.stores.rows import NOW, filled
from tests.stores.session import configured, rest_catalog_confs

S3 = "nessie.catalog.service.s3.default-options."
REFUSED = r"Nessie.*branch.*nothing was deleted"


@pytest.fixture(scope="module")
def nessie(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nessie]:
    """A server whose warehouse is in the bucket."""
    settings = {
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{LAKE}/nessie",
        "keys.name": KEYS["access"],
        "keys.secret": KEYS["secret"],
        f"{S3}access-key": "urn:nessie-secret:quarkus:keys",
        f"{S3}auth-type": "STATIC",
        f"{S3}endpoint": bucket.address,
        f"{S3}path-style-access": "true",
        f"{S3}region": REGION,
        f"{S3}request-signing-enabled": "false",
    }
    with nessie_server(tmp_path_factory.mktemp("nessie"), **settings) as server:
        yield server


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, nessie: Nessie, bucket: Bucket) -> Iterator[str]:
    """A REST catalog on the branch main."""
    confs = rest_catalog_confs("nessie_rest", f"{nessie.iceberg_rest}/main", bucket.address)
    with configured(
        spark, "nessie_rest", confs | {"spark.sql.catalog.nessie_rest.warehouse": "lake"}
    ) as name:
        spark.sql(f"CREATE NAMESPACE {name}.db")
        yield name


@pytest.fixture
def table(spark: SparkSession, catalog: str, bucket: Bucket, name: str) -> StoreTable:
    return filled(Kind("iceberg-nessie", catalog, 2).table(spark, bucket, name))


def on(table: StoreTable, ref: str) -> str:
    """The table's name on a branch or a tag."""
    return table.sql.replace(table.name, f"`{table.name}@{ref}`")


def count(table: StoreTable, ref: str) -> int:
    """The number of rows on a branch or a tag, all of them read."""
    table.spark.sql(f"REFRESH TABLE {on(table, ref)}")
    return len(table.spark.sql(f"SELECT * FROM {on(table, ref)}").collect())


def test_each_verb(table: StoreTable, spark: SparkSession) -> None:
    rows = table.spark_rows()
    assert table.table().recluster("k", policy="full").commits == 1
    table.delete("id = 14")
    left = Counter({row: n for row, n in rows.items() if "'v14'" not in row})
    assert table.spark_rows() == left
    assert table.table().delete("id = 15").deleted_rows_count == 1
    assert table.table().merge_deletes().rewritten_data_files_count == 1
    assert table.table().compact(dry_run=True).table == table.sql
    left = Counter({row: n for row, n in left.items() if "'v15'" not in row})
    assert table.spark_rows() == left == table.log_rows()
    lk.drop_table(spark, table.sql)
    lk.restore_table(spark, table.sql)
    assert table.spark_rows() == left


def test_a_run_that_another_commit_overtakes_is_dropped(table: StoreTable) -> None:
    """The endpoint shows the newest snapshot only, so what happened since the run began is not known."""
    rows = table.spark_rows()

    def race(phase: str, _: Any) -> None:
        if phase == "before_commit":
            table.delete("id = 14")

    report = table.table().recluster("k", policy="full", observer=race)
    assert (report.commits, [group.status for group in report.groups]) == (0, ["dropped"])
    assert table.spark_rows() == Counter({row: n for row, n in rows.items() if "'v14'" not in row})


def test_what_needs_an_earlier_snapshot_is_refused(table: StoreTable) -> None:
    rows = table.spark_rows()
    [run] = table.table().recluster("k", policy="full").run_ids
    with pytest.raises(UndoError, match="the snapshot before run"):
        table.table().undo(run, allow_rollback=True)
    assert table.spark_rows() == rows
    table.table().drop_partition("id < 20")
    left = table.spark_rows()
    with pytest.raises(LakekeeperError, match="snapshot"):
        table.table().restore(table.table().trash()[-1].name)
    assert table.spark_rows() == left


@pytest.mark.parametrize("gc", [None, "true"])
def test_nothing_deletes_what_a_branch_or_a_tag_needs(
    table: StoreTable, spark: SparkSession, nessie: Nessie, bucket: Bucket, gc: str | None
) -> None:
    if gc:
        table.set_property("gc.enabled", gc)
    dev, tag = nessie.branch(f"dev_{table.name}"), nessie.branch(f"v1_{table.name}", kind="TAG")
    rows = table.spark_rows().total()
    table.table().recluster("k", policy="full")
    table.delete("id < 30")
    keys = bucket.keys(table.prefix)
    later = table_later(spark, table.sql, hours=24 * 60)
    for orphans in (False, True):
        with pytest.raises(RetentionError, match=REFUSED):
            later.vacuum(orphans=orphans, **NOW)
    lk.drop_table(spark, table.sql, force=True)
    [gone] = lk.empty_dropped(spark, f"{table.sql.split('.')[0]}.db")
    assert "Nessie" in gone.files_stay
    assert keys - bucket.keys("") == set()
    assert (count(table, dev), count(table, tag)) == (rows, rows)


def test_a_tag_is_not_changed(table: StoreTable, nessie: Nessie) -> None:
    tag = nessie.branch(f"v1_{table.name}", kind="TAG")
    rows = table.spark_rows().total()
    opened = lk.table(table.spark, on(table, tag))
    with pytest.raises(Unknown, match="Can only commit to a branch"):
        opened.recluster("k", policy="full")
    assert count(table, tag) == rows
