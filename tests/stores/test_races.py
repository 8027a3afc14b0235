"""Races and crashes in each store: a DELETE while we work, a driver that dies before its commit, two drivers."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import Unsupported
from tests.opening import table_later
from tests.stores import dynamodb
from tests.stores.bucket import Bucket
from tests.stores.driver import Errand, second_driver
from tests.stores.faulty_s3 import FaultyS3
from tests.stores.kinds import ON_AZURE, ON_HDFS, ON_S3, Kind, StoreTable, of_kinds
from tests.stores.log_stores import CONDITIONAL, use_log_store
from tests.stores.outcomes import Outcomes
from tests.stores.racing import calling, dying_at, meeting_at, next_version, with_users
from tests.stores.rows import NOW, append, same_rows
from tests.stores.session import Places

RENAMING = ON_HDFS | ON_AZURE
"""Where a commit is a rename that the store refuses if the target exists, so that nothing has to be declared."""
DELTA_ON_S3 = {"delta": ON_S3["delta"]}
DEFAULT = "io.delta.storage.S3SingleDriverLogStore"
needs_dynamodb = pytest.mark.skipif(bool(dynamodb.missing()), reason=dynamodb.missing())
EXCLUDING = (
    pytest.param("conditional", CONDITIONAL, "", id="conditional"),
    pytest.param("DynamoDB", dynamodb.LOG_STORE, ".tmp/", id="DynamoDB", marks=needs_dynamodb),
)
"""Log stores by title and class, and the folder of the object that two drivers put at the same time."""


@pytest.fixture
def meeting(s3: FaultyS3) -> Iterator[Any]:
    """Arms a meeting."""

    with ExitStack() as held:
        yield lambda verb, part: held.enter_context(meeting_at(s3, verb, part))


def test_a_delete_commits_while_we_work(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows = table.spark_rows()

    def race(phase: str, _: Any) -> None:
        if phase == "before_commit":
            table.delete("id IN (14, 59)")

    report = table.table().recluster("k", observer=race)
    assert (report.commits, report.replayed_rows_count) == (1, 2)
    left = Counter({row: n for row, n in rows.items() if "'v14'" not in row and "'v59'" not in row})
    assert left.total() == rows.total() - 2
    outcomes[kind.name, "recluster, raced by a DELETE"] = same_rows(table, left)


def test_a_driver_dies_before_its_commit(
    table: StoreTable, kind: Kind, outcomes: Outcomes, places: Places
) -> None:
    rows, before = table.spark_rows(), table.store.keys(table.prefix)
    errand = Errand(places, table.sql, "recluster", phase="before_commit")
    with second_driver(errand) as driver:
        driver.go()
        assert driver.ended() == -signal.SIGKILL
    assert table.leftovers(), "the driver died before it wrote anything"
    assert same_rows(table, rows)
    report = table_later(table.spark, table.sql, hours=200).vacuum(**NOW)
    assert report.settled_runs, report
    assert table.leftovers() == set()
    assert not before - table.store.keys(table.prefix) or report.deleted_files_count
    outcomes[kind.name, "driver killed, then vacuum"] = same_rows(table, rows)


@of_kinds(DELTA_ON_S3)
def test_two_drivers_lose_a_delta_commit_where_the_operator_declared_one(
    table: StoreTable, meeting: Any, places: Places
) -> None:
    """Why commits are refused: both drivers see that the commit does not exist, and both put it."""
    rows, version = table.spark_rows(), next_version(table)
    with second_driver(Errand(places, table.sql, "append")) as users:
        met = meeting("put", f"_delta_log/{version:020d}.json")
        assert table.table().recluster("k", policy="full", observer=calling(users)).commits == 1
        users.wait_for("done")
    assert met.happened
    assert next_version(table) == version + 1, "two commits, and one of them is gone"
    table.forget()
    left = table.log_rows(), len(table.adapter().snapshot().blocks)
    assert left in ((rows, 1), (with_users(rows), 7)), "neither the rows of the users nor the rewrite is lost"


@of_kinds(DELTA_ON_S3)
def test_two_drivers_are_refused_by_the_default_log_store(
    spark: SparkSession, table: StoreTable, outcomes: Outcomes
) -> None:
    spark.conf.unset("spark.lakekeeper.single-driver")
    before = table.store.entries(table.prefix)
    with pytest.raises(Unsupported, match=rf"{DEFAULT}.*nothing was written.*single-driver"):
        table.table().recluster("k")
    assert table.store.entries(table.prefix) == before
    outcomes["delta", "two drivers, default log store"] = "refused"


@of_kinds(DELTA_ON_S3)
@pytest.mark.parametrize("title, log_store, folder", EXCLUDING)
@pytest.mark.parametrize("again", range(2))
def test_two_drivers_lose_nothing_with_a_log_store_that_excludes(
    spark: SparkSession,
    table: StoreTable,
    meeting: Any,
    outcomes: Outcomes,
    places: Places,
    title: str,
    log_store: str,
    folder: str,
    again: int,
) -> None:
    """Conditional puts meet at the commit; with DynamoDB each driver first puts a file of its own, and then an item."""
    spark.conf.unset("spark.lakekeeper.single-driver")
    use_log_store(spark, log_store)
    try:
        rows, version = table.spark_rows(), next_version(table)
        errand = Errand(places, table.sql, "append", log_store=log_store)
        with second_driver(errand) as users:
            met = meeting("put", f"_delta_log/{folder}{version:020d}.json")
            report = table.table().recluster("k", policy="full", observer=calling(users))
            users.wait_for("done")
        assert met.happened
        assert report.commits == 1
        assert next_version(table) == version + 2
        outcomes["delta", f"two drivers, {title} log store"] = same_rows(table, with_users(rows))
    finally:
        use_log_store(spark, "")


@needs_dynamodb
@of_kinds(DELTA_ON_S3)
@pytest.mark.parametrize("first", ["recluster", "vacuum"])
def test_a_commit_whose_driver_died_before_its_file_is_there_is_kept(
    spark: SparkSession, table: StoreTable, s3: FaultyS3, outcomes: Outcomes, places: Places, first: str
) -> None:
    """With DynamoDB a commit is an item that names a file in ``.tmp``; the next listing of the log copies the file."""
    use_log_store(spark, dynamodb.LOG_STORE)
    try:
        rows, version = table.spark_rows(), next_version(table)
        with (
            second_driver(Errand(places, table.sql, "append", log_store=dynamodb.LOG_STORE)) as users,
            dying_at(s3, users, "put", f"_delta_log/{version:020d}.json"),
        ):
            users.go()
            assert users.ended() == -signal.SIGKILL
        assert next_version(table) == version
        later = table_later(table.spark, table.sql, hours=200)
        if first == "vacuum":
            later.vacuum(orphans=True, **NOW)
        assert later.recluster("k").commits == 1
        later.vacuum(orphans=True, **NOW)
        assert next_version(table) >= version + 2
        outcomes["delta", "driver killed within a DynamoDB commit"] = same_rows(table, with_users(rows))
    finally:
        use_log_store(spark, "")


@of_kinds({name: kind for name, kind in ON_S3.items() if not kind.delta})
def test_two_drivers_lose_nothing_of_iceberg(
    table: StoreTable,
    kind: Kind,
    meeting: Any,
    outcomes: Outcomes,
    places: Places,
) -> None:
    """Each writes its own next metadata file, and the catalog swaps in one of them."""
    rows = table.spark_rows()
    with second_driver(Errand(places, table.sql, "append")) as users:
        met = meeting("put", "/metadata/snap-")
        report = table.table().recluster("k", policy="full", observer=calling(users))
        users.wait_for("done")
    assert met.happened
    assert report.commits == 1
    outcomes[kind.name, "two drivers at a barrier"] = same_rows(table, with_users(rows))


@of_kinds(RENAMING)
def test_two_drivers_commit_the_same_version(
    table: StoreTable, kind: Kind, outcomes: Outcomes, places: Places
) -> None:
    """The second driver commits between our read and our commit: the store refuses a second file of that name."""
    rows = table.spark_rows()
    with second_driver(Errand(places, table.sql, "append")) as second:
        waiting = [second]

        def commit_first(phase: str, _: Mapping[str, Any]) -> None:
            if phase == "before_commit" and waiting:
                waiting[0].go()
                waiting.pop().wait_for("done")

        report = table.table().recluster("k", policy="full", observer=commit_first)
    assert report.commits == 1
    outcomes[kind.name, "two drivers, one version"] = same_rows(table, with_users(rows))


@of_kinds(RENAMING)
def test_two_drivers_commit_again_and_again(
    table: StoreTable, kind: Kind, outcomes: Outcomes, places: Places
) -> None:
    """Ten appends of one driver, and deletes of ours beside them: nothing is lost and nothing returns."""
    rows, deleted = table.spark_rows(), 0
    with second_driver(Errand(places, table.sql, "append", times=10)) as second:
        second.go()
        while second.running():
            deleted += table.table().delete(f"id = {10 + deleted}").deleted_rows_count
        second.wait_for("done")
    assert deleted >= 2
    gone = {f"'v{i}'" for i in range(10, 10 + deleted)}
    left = Counter({row: n for row, n in rows.items() if not any(v in row for v in gone)})
    assert left.total() == rows.total() - deleted
    outcomes[kind.name, "two drivers, ten commits"] = same_rows(table, with_users(left, times=10))


@pytest.mark.parametrize("catalog", ["hdp", "hdpp"])
def test_a_hadoop_catalog_on_s3_is_refused(
    spark: SparkSession, name: str, bucket: Bucket, catalog: str
) -> None:
    """Also by a plain path, where S3 is the catalog's default file system."""
    table = Kind("iceberg-hadoop", catalog, 2).table(spark, bucket, name)
    table.create("id BIGINT, k INT, v STRING")
    append(table, 0, 10, files=2)
    prefix = f"{catalog}/db/{name}"
    before = bucket.entries(prefix)
    assert before
    with pytest.raises(Unsupported, match="a Hadoop catalog on S3"):
        table.table().recluster("k")
    assert bucket.entries(prefix) == before
