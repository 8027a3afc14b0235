"""What holds on Google Cloud Storage alone: it refuses to create an object that exists, and has no folders."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import Unsupported
from tests.opening import table_later
from tests.stores.driver import Errand, second_driver
from tests.stores.faulty_s3 import Call
from tests.stores.gcs import Objects
from tests.stores.gcs_relay import GcsRelay
from tests.stores.kinds import ON_GCS, Kind, StoreTable
from tests.stores.outcomes import Outcomes
from tests.stores.racing import calling, meeting_at, next_version, with_users
from tests.stores.rows import NOW, append, filled, same_rows
from tests.stores.session import Places

NAMES = ("a b", "ü", "50%", "%20", "x/y", "c+d", "h#k", "q?", "e=f", "s:t", "[x]*", "{n}", "'")
"""Partitions whose folders are encoded, by the format, by Hadoop's paths, or by the store."""


@pytest.fixture(params=list(ON_GCS.values()), ids=list(ON_GCS))
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def meeting(gcs: GcsRelay) -> Iterator[Any]:
    """Arms a meeting."""

    with ExitStack() as held:
        yield lambda verb, part: held.enter_context(meeting_at(gcs, verb, part))


@pytest.mark.parametrize("again", range(2))
def test_two_drivers_commit_at_the_same_time(
    table: StoreTable, kind: Kind, meeting: Any, outcomes: Outcomes, places: Places, again: int
) -> None:
    """Of two Delta commits of one number the store refuses one; Iceberg's catalog swaps in one metadata file."""
    rows = table.spark_rows()
    version = next_version(table) if kind.delta else 0
    with second_driver(Errand(places, table.sql, "append")) as users:
        met = meeting("put", f"_delta_log/{version:020d}.json" if kind.delta else "/metadata/snap-")
        report = table.table().recluster("k", policy="full", observer=calling(users))
        users.wait_for("done")
    assert met.happened
    assert report.commits == 1
    if kind.delta:
        assert next_version(table) == version + 2
    outcomes[kind.name, "two drivers at a barrier"] = same_rows(table, with_users(rows))


def test_of_two_notes_of_one_name_the_first_is_kept(table: StoreTable, meeting: Any) -> None:
    """Two runs register in one slot at the same time: the later one finds the other's note, and does not fail."""
    met = meeting("put", "_lakekeeper/slot.json")
    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(lambda text: table.adapter().notes.keep("slot.json", text), ("one", "two")))
    assert met.happened
    assert kept[0] == kept[1]
    assert table.store.get(f"{table.prefix}/_lakekeeper/slot.json").decode() == kept[0]


def test_of_two_replacements_of_a_note_neither_fails(table: StoreTable, meeting: Any) -> None:
    """The connector replaces only the version of an object that it has seen."""
    table.adapter().notes.replace("clock.json", "zero")
    met = meeting("put", "_lakekeeper/clock.json")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: table.adapter().notes.replace("clock.json", text), ("one", "two")))
    assert met.happened
    assert table.adapter().notes.read("clock.json") in ("one", "two")


def test_a_note_that_is_replaced_while_it_is_read_is_there(
    table: StoreTable, gcs: GcsRelay, objects: Objects
) -> None:
    """The connector reads the version that it found. If that is gone, a vacuum must not take the run for dead."""
    notes, key = table.adapter().notes, f"{table.prefix}/_lakekeeper/slot.json"
    notes.replace("slot.json", "one")
    replaced: list[Call] = []

    def replace(call: Call) -> None:
        if (call.verb, call.key) == ("get", key) and not replaced:
            replaced.append(call)
            objects.put(key, b"two")

    gcs.held = replace
    try:
        assert notes.read("slot.json") == "two"
    finally:
        gcs.held = lambda _: None
    assert replaced


def test_partitions_with_any_name(
    spark: SparkSession, objects: Objects, kind: Kind, name: str, outcomes: Outcomes
) -> None:
    table = kind.table(spark, objects, name)
    table.create("id BIGINT, k INT, v STRING, p STRING", more="PARTITIONED BY (p)")
    for start in (0, 100):
        made = spark.createDataFrame(
            [(start + i, (start + i) % 7, f"v{i}", text) for i, text in enumerate(NAMES)],
            "id BIGINT, k INT, v STRING, p STRING",
        )
        made.repartition(1).sortWithinPartitions("p").writeTo(table.sql).append()
    table.delete("id = 103")
    rows = table.spark_rows()
    assert rows.total() == 2 * len(NAMES) - 1
    report = table.table().recluster("k", policy="full")
    assert report.rewritten_data_files_count >= 2 * (len(NAMES) - 1)
    before = table.store.keys(table.prefix)
    done = table_later(spark, table.sql, hours=200).vacuum(orphans=True, **NOW)
    assert done.failed_files_count == 0
    assert len(before - table.store.keys(table.prefix)) >= 2 * (len(NAMES) - 1)
    assert table.leftovers() == set()
    outcomes[kind.name, "partitions with any name"] = same_rows(table, rows)


def test_a_vacuum_finds_nothing_in_what_remains_of_folders(table: StoreTable) -> None:
    """The connector marks a folder whose last file was deleted by an empty object, which is no file of the table."""
    table.table().recluster("k", policy="full")
    append(table, 60, 80, files=2)
    table.table().recluster("k", policy="full")
    rows = table.spark_rows()
    assert table.table().vacuum(**NOW).failed_files_count == 0
    marks = {key for key in table.store.keys(table.prefix) if key.endswith("/")}
    assert marks, "no folder is marked"
    again = table_later(table.spark, table.sql, hours=200).vacuum(orphans=True, **NOW)
    assert (again.deleted_files_count, again.failed_files_count) == (0, 0)
    same_rows(table, rows)


def test_a_hadoop_catalog_is_refused(spark: SparkSession, name: str, objects: Objects) -> None:
    table = filled(Kind("gcs-iceberg-hadoop", "gch", 2).table(spark, objects, name))
    before = objects.entries(table.prefix)
    assert before
    with pytest.raises(Unsupported, match="a Hadoop catalog on Google Cloud Storage"):
        table.table().recluster("k")
    assert objects.entries(table.prefix) == before


def test_two_drivers_lose_a_commit_of_a_hadoop_catalog_where_the_operator_declared_one(
    spark: SparkSession, name: str, objects: Objects, meeting: Any, places: Places
) -> None:
    """Why commits are refused: a connector that renames by copying replaces the file of the other driver."""
    table = filled(Kind("gcs-iceberg-hadoop", "gch", 2).table(spark, objects, name))
    rows, version = table.spark_rows(), metadata_version(table)
    spark.conf.set("spark.lakekeeper.single-driver", "true")
    try:
        with second_driver(Errand(places, table.sql, "append")) as users:
            met = meeting("copy", f"/metadata/v{version + 1}.metadata.json")
            report = table.table().recluster("k", policy="full", observer=calling(users))
            users.wait_for("done")
    finally:
        spark.conf.unset("spark.lakekeeper.single-driver")
    assert met.happened
    assert report.commits == 1
    assert metadata_version(table) == version + 1, "two commits, and one of them is gone"
    table.forget()
    assert table.log_rows() in (rows, with_users(rows))


def metadata_version(table: StoreTable) -> int:
    """The number of the newest metadata file."""
    names = [key.rpartition("/")[2] for key in table.store.keys(f"{table.prefix}/metadata/v")]
    return max(int(name[1:].partition(".")[0]) for name in names if name.endswith(".metadata.json"))
