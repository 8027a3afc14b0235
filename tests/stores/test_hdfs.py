"""What holds on HDFS alone: the trash, empty folders, notes by a rename, two drivers without a declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lakekeeper.spark.jvm import Jvm, says_it_exists
from lakekeeper.testing.values import text
from tests.opening import table_later
from tests.stores.driver import Errand, second_driver
from tests.stores.kinds import ON_HDFS, ONE_OF_EACH_ON_HDFS, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, append, same_rows
from tests.stores.session import Places
from tests.stores.webhdfs import WebHDFS


@pytest.fixture(params=list(ON_HDFS.values()), ids=list(ON_HDFS))
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def test_files_go_into_the_trash_and_come_back(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    before = table.spark_rows()
    table.table().recluster("k")
    rows, data = table.spark_rows(), data_files(table)
    report = table.table().vacuum(trash=True, **NOW)
    assert report.failed_files_count == 0
    assert len(data - data_files(table)) >= 6, "nothing was moved"
    same_rows(table, rows)
    opened = table.table()
    [entry] = opened.trash()
    assert (entry.files, entry.bytes) == (report.deleted_files_count, report.deleted_bytes_count)
    opened.restore(entry.name)
    assert data_files(table) == data
    assert table.table().trash() == ()
    assert table.table().vacuum(trash=True, **NOW).deleted_files_count == report.deleted_files_count
    [emptied] = table_later(table.spark, table.sql, hours=200).empty_trash()
    assert emptied.files == report.deleted_files_count
    assert not table.store.keys(f"{table.prefix}/_lakekeeper/trash")
    assert rows == before
    outcomes[kind.name, "vacuum into the trash, restore, empty"] = same_rows(table, rows)


def test_a_moved_file_is_as_young_as_its_move(table: StoreTable) -> None:
    """Otherwise an emptied trash, or a vacuum of another engine, deletes what was moved just before."""
    table.table().recluster("k")
    written = max(times(table, data_files(table)))
    table.table().vacuum(trash=True, **NOW)
    moved = {key for key in table.store.keys(f"{table.prefix}/_lakekeeper/trash") if key.endswith(".parquet")}
    assert len(moved) >= 6
    assert min(times(table, moved)) > written


def test_a_vacuum_leaves_no_empty_folder_of_a_run(table: StoreTable) -> None:
    table.table().recluster("k", policy="full")
    first = table.store.keys(table.prefix)
    append(table, 60, 80, files=2)
    table.table().recluster("k", policy="full")
    table.table().vacuum(**NOW)
    assert isinstance(table.store, WebHDFS)
    folders, keys = table.store.folders(table.prefix), table.store.keys(table.prefix)
    assert first - keys, "nothing was deleted"
    empty = {folder for folder in folders if not any(key.startswith(f"{folder}/") for key in keys)}
    assert not {folder for folder in empty if "/lk" in folder}


def test_two_drivers_commit_the_same_version(
    table: StoreTable, kind: Kind, outcomes: Outcomes, places: Places
) -> None:
    """The second driver commits between our read and our commit: HDFS refuses the second file of that name."""
    rows = table.spark_rows()
    with second_driver(Errand(places, table.sql, "append")) as users:
        waiting = [users]

        def commit_first(phase: str, _: Mapping[str, Any]) -> None:
            if phase == "before_commit" and waiting:
                waiting[0].go()
                waiting.pop().wait_for("done")

        report = table.table().recluster("k", policy="full", observer=commit_first)
    assert report.commits == 1
    outcomes[kind.name, "two drivers, one version"] = same_rows(table, rows + appended(1))


def test_two_drivers_commit_again_and_again(
    table: StoreTable, kind: Kind, outcomes: Outcomes, places: Places
) -> None:
    """Ten appends of one driver, and deletes of ours beside them: nothing is lost and nothing returns."""
    rows, deleted = table.spark_rows(), 0
    with second_driver(Errand(places, table.sql, "append", times=10)) as users:
        users.go()
        while users.running():
            deleted += table.table().delete(f"id = {10 + deleted}").deleted_rows_count
        users.wait_for("done")
    assert deleted >= 2
    gone = {f"'v{i}'" for i in range(10, 10 + deleted)}
    left = Counter({row: n for row, n in rows.items() if not any(v in row for v in gone)})
    assert left.total() == rows.total() - deleted
    outcomes[kind.name, "two drivers, ten commits"] = same_rows(table, left + appended(10))


@of_kinds(ONE_OF_EACH_ON_HDFS)
def test_a_note_that_is_being_written_is_not_there_yet(table: StoreTable) -> None:
    """Otherwise a vacuum reads an empty registration, and the second of two runs in one slot fails."""
    jvm = Jvm(table.spark)
    place = jvm.view.org.apache.hadoop.fs.Path(f"{table.store.root}{table.prefix}/_lakekeeper/slot.json")
    files = place.getFileSystem(table.spark.sparkContext._jsc.hadoopConfiguration())

    class Slow:
        """The file system; while its first file is open, another driver writes the same note."""

        def __getattr__(self, name: str) -> Any:
            return getattr(files, name)

        def create(self, aside: Any, over: bool) -> Any:
            stream = files.create(aside, over)
            assert not files.exists(place)
            jvm.create_object(files, place, b"theirs")
            return stream

    with pytest.raises(Py4JJavaError) as refused:
        jvm.create_object(Slow(), place, b"ours")
    assert says_it_exists(refused.value)
    notes = {key: table.store.get(key) for key in table.store.keys(f"{table.prefix}/_lakekeeper")}
    assert notes == {f"{table.prefix}/_lakekeeper/slot.json": b"theirs"}


def appended(times: int) -> Counter[str]:
    """The rows of the second driver's appends."""
    return Counter({text({"id": i, "k": i % 101, "v": f"v{i}"}): times for i in range(1_000, 1_010)})


def data_files(table: StoreTable) -> set[str]:
    """Keys of the table's data files outside of the trash."""
    keys = table.store.keys(table.prefix)
    return {
        key for key in keys if key.endswith((".parquet", ".puffin", ".bin")) and "/_lakekeeper/" not in key
    }


def times(table: StoreTable, keys: set[str]) -> list[int]:
    entries = table.store.entries(table.prefix)
    return [int(entries[key].rpartition(" at ")[2]) for key in keys]
