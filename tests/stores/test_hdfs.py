"""What holds on HDFS alone: the trash, empty folders, notes by a rename."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.small_files import create_once, says_it_exists
from tests.opening import table_later
from tests.stores.kinds import ON_HDFS, ONE_OF_EACH_ON_HDFS, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, append, same_rows
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
            create_once(jvm, files, place, b"theirs")
            return stream

    with pytest.raises(Py4JJavaError) as refused:
        create_once(jvm, Slow(), place, b"ours")
    assert says_it_exists(refused.value)
    notes = {key: table.store.get(key) for key in table.store.keys(f"{table.prefix}/_lakekeeper")}
    assert notes == {f"{table.prefix}/_lakekeeper/slot.json": b"theirs"}


def data_files(table: StoreTable) -> set[str]:
    """Keys of the table's data files outside of the trash."""
    keys = table.store.keys(table.prefix)
    return {
        key for key in keys if key.endswith((".parquet", ".puffin", ".bin")) and "/_lakekeeper/" not in key
    }


def times(table: StoreTable, keys: set[str]) -> list[int]:
    entries = table.store.entries(table.prefix)
    return [int(entries[key].rpartition(" at ")[2]) for key in keys]
