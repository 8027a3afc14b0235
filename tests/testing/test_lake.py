from __future__ import annotations

from dataclasses import replace

import pytest

from lakekeeper.errors import AdapterError, NotFound, OptionError
from lakekeeper.spi import TableName
from lakekeeper.testing.harness import task_for
from lakekeeper.testing.lake import LiveFileDiscarded, MemoryTable, Settings
from lakekeeper.testing.memory import Lake, MemoryAdapter, MemoryFormat
from lakekeeper.testing.row_counts import physical_rows, scanned
from lakekeeper.testing.runner import MemoryRunner


def table() -> MemoryTable:
    made = MemoryTable("db.t", {"k": "int", "a": {"b": "string"}, "v": "map"})
    made.append([{"k": 1, "a": {"b": "x"}, "v": "m"}, {"k": 2, "a": None, "v": None}])
    return made


def test_columns_keep_their_ids_through_schema_changes() -> None:
    t = table()
    t.rename_column("k", "key")
    t.add_column("n", "int")
    t.append([{"key": 3, "n": 7}])
    t.drop_column("a.b")
    assert [tuple(row.values()) for row in t.rows()] == [(1, "m", None), (2, None, None), (3, None, 7)]
    assert list(t.rows()[0]) == ["key", "v", "n"]
    assert t.rows(1) == [{"k": 1, "a": {"b": "x"}, "v": "m"}, {"k": 2, "a": {"b": None}, "v": None}]
    assert t.rows(0) == []


def test_a_key_follows_a_rename_and_keeps_its_id() -> None:
    t = table()
    t.set_key(["k"])
    before = MemoryAdapter(t).snapshot().key
    t.rename_column("k", "key")
    after = MemoryAdapter(t).snapshot().key
    assert before is not None
    assert after is not None
    assert (before.key_id, after.columns[0].name) == (after.key_id, "key")


def test_a_column_added_later_is_null_in_older_files() -> None:
    t = table()
    t.add_column("n", "int")
    (block,) = MemoryAdapter(t).snapshot(["n"]).blocks
    assert (block.lo, block.null_count) == ((None,), (2,))


def test_bounds_that_fill_the_truncation_are_not_exact() -> None:
    """As Iceberg's and Delta's adapters report them: a format does not record whether more followed."""
    for kind, texts in (
        ("string", ["a", "abc", "abcd", "abcde"]),
        ("binary", [b"a", b"abc", b"abcd", b"abcde"]),
    ):
        t = MemoryTable("db.t", {"k": kind}, settings=Settings(truncate=4))
        for text in texts:
            t.append([{"k": text}])
        blocks = MemoryAdapter(t).snapshot(["k"]).blocks
        assert blocks.exact[0].tolist() == [True, True, False, False]
        assert blocks.hi[0].to_pylist()[:3] == texts[:3]


def test_columns_that_cannot_be_a_key_are_refused() -> None:
    t = MemoryTable("db.t", {"k": "int", "v": "map"}, settings=Settings(no_statistics=frozenset({"k"})))
    for columns, said in ((["v"], "orderable"), (["k"], "statistics"), (["kk"], "did you mean 'k'")):
        with pytest.raises(OptionError, match=said):
            MemoryAdapter(t).snapshot(columns)
        with pytest.raises(OptionError, match=said):
            t.set_key(columns)


def test_tables_are_found_by_name_or_not_at_all() -> None:
    lake = Lake()
    lake.create("db.t", {"k": "int"})
    assert MemoryFormat(lake).open(None, TableName("db.t", "memory", "db.t")).table == "db.t"
    with pytest.raises(NotFound, match=r"db\.u"):
        MemoryFormat(lake).open(None, TableName("db.u", "memory", "db.u"))
    with pytest.raises(OptionError):
        lake.create("db.t", {"k": "int"})
    with pytest.raises(NotFound):
        lake.tables["db.t"].rows(7)


@pytest.mark.parametrize("wrong", ["lost", "doubled", "foreign"])
def test_a_commit_with_other_rows_than_were_read_is_refused(wrong: str) -> None:
    """The adapter does not trust the engine: the row ids must be the same, one for one."""
    t = table()
    adapter = MemoryAdapter(t)
    snapshot = adapter.snapshot(["k"])
    task = task_for(snapshot)
    ((first, second),) = adapter.read(task)
    rows = {
        "lost": [first],
        "doubled": [first, second, second],
        "foreign": [first, {**second, "_row_id": 99}],
    }
    made = adapter.write(MemoryRunner().merge([rows[wrong]], task), task, "run-1")
    with pytest.raises(AdapterError, match="read 2 rows"):
        adapter.commit([made], snapshot, "run")


def test_live_files_cannot_be_discarded() -> None:
    t = table()
    adapter = MemoryAdapter(t)
    snapshot = adapter.snapshot(["k"])
    task = task_for(snapshot)
    made = adapter.write(adapter.read(task), task, "run-1")
    adapter.commit([made], snapshot, "run")
    with pytest.raises(LiveFileDiscarded, match="part of the table"):
        adapter.discard([made])


def test_reads_are_counted() -> None:
    t = table()
    adapter = MemoryAdapter(t)
    snapshot = adapter.snapshot(["k"])
    assert (t.touched.snapshots, t.touched.data_reads) == (1, [])
    adapter.read(task_for(snapshot))
    assert t.touched.data_reads == list(t.current.files)


UNCOUNTED = Settings(measured=False, location="lake/a%20b")


def test_rows_of_files_without_statistics_are_counted() -> None:
    t = MemoryTable("db.t", {"k": "int"}, settings=UNCOUNTED)
    t.append([{"k": 1}, {"k": 2}], [{"k": 3}])
    t.delete("k = 2")
    snapshot = MemoryAdapter(t).snapshot(["k"])
    assert sorted(snapshot.blocks.rows.tolist()) == [1, 2]
    assert snapshot.blocks.live_rows.tolist() == [1, 1]
    assert [block.lo for block in snapshot.blocks] == [(None,), (None,)]


def test_a_file_that_a_scan_does_not_show_is_opened() -> None:
    t = MemoryTable("db.t", {"k": "int"}, settings=UNCOUNTED)
    t.append([{"k": 1}])
    (empty,) = (replace(entry.file, rows=()) for entry in t.current.files.values())
    t.disk[empty.path] = empty
    assert scanned(t, [empty.path]) == {}
    assert physical_rows(t, [empty]) == [0]
    del t.disk[empty.path]
    with pytest.raises(AdapterError, match=r"rows of data.*and the file is missing"):
        MemoryAdapter(t).snapshot()
