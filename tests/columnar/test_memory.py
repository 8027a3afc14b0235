"""The memory of a merge is bounded where footers do not show how much memory its rows take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar import inputs
from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.files import Files, LocalFiles, StoreFiles
from lakekeeper.columnar.inputs import Inputs
from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.positions import pack
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import ROW_ID, FileColumn, FileInput, FileMerge
from tests.columnar.tasks import task_of

MEMORY = 8 << 20
MAPS = Path("/proc/self/maps")
RNG = np.random.default_rng(1)
TEXT, KEY = FileColumn("s", "string"), FileColumn("k", "int64")


def repeated(values: list[str], rows: int) -> pa.Array:
    numbers = pa.array(RNG.integers(0, len(values), rows), pa.int32())
    return pa.DictionaryArray.from_arrays(numbers, pa.array(values)).cast(pa.string())


def small_files(folder: Path) -> None:
    for number in range(100):
        texts = [RNG.bytes(256).hex() for _ in range(1_000)]
        data = {"k": RNG.integers(0, 1 << 40, 1_000), "s": texts}
        pq.write_table(pa.table(data), folder / f"{number}.parquet", use_dictionary=False)


def text_key(folder: Path) -> None:
    for number in range(2):
        texts = repeated([f"tenant-{i:03}-" * 20 for i in range(300)], 200_000)
        pq.write_table(pa.table({"s": texts}), folder / f"{number}.parquet")


def long_texts_between_short_ones(folder: Path) -> None:
    texts = repeated(["a", *(f"m{i}" * 1_000 for i in range(20)), "z"], 30_000)
    pq.write_table(pa.table({"s": texts}), folder / "0.parquet")


def repeated_columns(folder: Path) -> None:
    texts = repeated([RNG.bytes(200).hex() for _ in range(50)], 200_000)
    data = {"k": RNG.permutation(200_000), "s": texts, "t": texts}
    pq.write_table(pa.table(data), folder / "0.parquet")


def sorted_files(folder: Path) -> None:
    """Runs that are merged as streams; the footers do not show how long the texts are."""
    for number in range(4):
        texts = repeated([RNG.bytes(2_000).hex() for _ in range(50)], 50_000)
        data = {"k": np.sort(RNG.permutation(50_000)), "s": texts}
        pq.write_table(pa.table(data), folder / f"{number}.parquet")


def sorted_texts(folder: Path) -> None:
    for number in range(4):
        texts = repeated([f"tenant-{i:03}-" * 200 for i in range(300)], 50_000)
        texts = texts.take(pc.sort_indices(texts))
        pq.write_table(pa.table({"s": texts}), folder / f"{number}.parquet")


def long_key(folder: Path) -> None:
    texts = repeated([RNG.bytes(50_000).hex() for _ in range(20)], 600)
    beside = repeated([RNG.bytes(500).hex() for _ in range(100)], 600)
    table = pa.table({"s": texts, "t": beside})
    pq.write_table(table, folder / "0.parquet", dictionary_pagesize_limit=1 << 22)


def long_nested(folder: Path) -> None:
    texts = repeated([RNG.bytes(250_000).hex() for _ in range(2)], 300)
    data = {"k": RNG.permutation(300), "in": pa.StructArray.from_arrays([texts], ["s"])}
    pq.write_table(pa.table(data), folder / "0.parquet", dictionary_pagesize_limit=1 << 20)


def long_key_beside_differences(folder: Path) -> None:
    """Nothing bounds texts that are stored as differences, and the others were decoded as many rows at once as they."""
    texts = repeated([RNG.bytes(50_000).hex() for _ in range(20)], 600)
    table = pa.table({"s": texts, "t": [f"customer {number:06}" for number in range(600)]})
    differences: dict[str, Any] = {"use_dictionary": ["s"], "column_encoding": {"t": "DELTA_BYTE_ARRAY"}}
    pq.write_table(table, folder / "0.parquet", dictionary_pagesize_limit=1 << 22, **differences)


def nested(folder: Path) -> None:
    texts = repeated([RNG.bytes(100).hex() for _ in range(50)], 200_000)
    data = {"k": RNG.permutation(200_000), "in": pa.StructArray.from_arrays([texts], ["s"])}
    pq.write_table(pa.table(data), folder / "0.parquet")


def sparse_numbers(folder: Path) -> None:
    """A few kilobytes of file that take 100 MB as arrays."""
    rows = 400_000
    empty = {f"c{i}": pa.nulls(rows, pa.int64()) for i in range(30)}
    pq.write_table(pa.table({"k": np.arange(rows), **empty}), folder / "0.parquet", row_group_size=rows)


CASES: dict[Callable[[Path], None], tuple[FileColumn, ...]] = {
    small_files: (KEY, TEXT),
    text_key: (TEXT,),
    sorted_files: (KEY, TEXT),
    sorted_texts: (TEXT,),
    long_texts_between_short_ones: (TEXT,),
    repeated_columns: (KEY, TEXT, FileColumn("t", "string")),
    long_key: (TEXT, FileColumn("t", "string")),
    long_key_beside_differences: (TEXT, FileColumn("t", "string")),
    long_nested: (KEY, FileColumn("in", "struct", children=(TEXT,))),
    nested: (KEY, FileColumn("in", "struct", children=(TEXT,))),
    sparse_numbers: (KEY, *(FileColumn(f"c{i}", "int64") for i in range(30))),
}
RUN = """
import sys
import pyarrow as pa
from lakekeeper.columnar import merge as merging
from lakekeeper.core.model.file_merge import FileMerge
merging.MEMORY_BYTES = int(sys.argv[2])
merging.merge(FileMerge.from_json(open(sys.argv[1]).read()))
print(pa.default_memory_pool().max_memory())
"""


def peak_of(task: FileMerge, folder: Path) -> int:
    """Bytes of Arrow's memory that a merge takes in a process of its own, with ``MEMORY``."""
    (folder / "task").write_text(task.to_json())
    given = [sys.executable, "-c", RUN, str(folder / "task"), str(MEMORY)]
    return int(subprocess.run(given, check=True, capture_output=True, text=True).stdout)


def test_a_merge_by_scratch_files_touches_little_memory(tmp_path: Path) -> None:
    """It took 1.55 times the memory: a scratch file was half of it, and the one before was still held."""
    small_files(tmp_path)
    assert peak_of(task_of(tmp_path, CASES[small_files]), tmp_path) <= 1.25 * MEMORY


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_rows_of_unknown_size_take_little_more_than_the_memory(
    tmp_path: Path, case: Callable[[Path], None]
) -> None:
    case(tmp_path)
    task = task_of(tmp_path, CASES[case])
    assert peak_of(task, tmp_path) <= 4 * MEMORY
    found = [pq.ParquetFile(path).read() for path in (tmp_path / "out").iterdir()]
    before = pa.concat_tables(pq.ParquetFile(each.path).read() for each in task.inputs)
    by = [(task.columns[0].name, "ascending")]
    (first,) = found
    assert first.column(0).to_pylist() == before.sort_by(by).column(0).to_pylist()


@pytest.mark.parametrize("stored", [True, False], ids=["some ids stored", "no ids stored"])
def test_ids_of_rows_that_are_read_in_pieces_follow_from_their_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 200_000)
    monkeypatch.setattr(merging, "SKEW", 1e9)
    rows = 9_000
    ids = pa.array([i if i % 7 == 0 else None for i in range(rows)], pa.int64())
    data = {"k": np.arange(rows), **({"_row_id": ids} if stored else {})}
    pq.write_table(pa.table(data), tmp_path / "0.parquet", row_group_size=5_000)
    columns = (KEY, FileColumn("_row_id", "int64", replaces_null=ROW_ID))
    plain = task_of(tmp_path, columns)
    task = replace(plain, inputs=(replace(plain.inputs[0], first_row_id=100_000),))
    opened = Inputs(task, LocalFiles(), 200_000 // 8)
    assert sum(1 for _ in opened.tables(opened.footers.groups())) > 2
    opened.close()
    (made,) = merge(task)
    found = pq.ParquetFile(made.path).read().column("_row_id").to_pylist()
    assert found == [i if stored and i % 7 == 0 else 100_000 + i for i in range(rows)]


@pytest.mark.parametrize("files", [LocalFiles(), StoreFiles(pafs.LocalFileSystem())], ids=["disk", "store"])
@pytest.mark.parametrize("key", [(0,), (1,), ()])
def test_a_row_group_that_is_read_in_pieces_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Files, key: tuple[int, ...]
) -> None:
    """Deleted rows, missing columns, and dictionaries are those of their rows."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 200_000)
    monkeypatch.setattr(merging, "SKEW", 1e9)
    rows = 3_000
    data = {
        "k": RNG.permutation(rows),
        "s": repeated(["a" * 300, "b", "c" * 900], rows),
        "in": pa.StructArray.from_arrays([repeated(["x", "y" * 500], rows)], ["s"]),
    }
    table = pa.table(data)
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=1_700)
    dead = sorted(RNG.choice(rows, 400, replace=False).tolist())
    columns = (KEY, TEXT, FileColumn("in", "struct", children=(TEXT,)), FileColumn("new", "int32"))
    plain = task_of(tmp_path, columns, key=key)
    deleted = pack(np.array(dead, np.int64))
    task = replace(plain, inputs=(FileInput(plain.inputs[0].path, rows, deleted),))
    (tmp_path / "out").mkdir()
    found = [row for file in merge(task, files=files) for row in pq.ParquetFile(file.path).read().to_pylist()]
    gone = set(dead)
    live = [{**row, "new": None} for i, row in enumerate(table.to_pylist()) if i not in gone]
    if key:
        name = columns[key[0]].name
        assert [row[name] for row in found] == sorted(row[name] for row in live)
        found, live = (sorted(some, key=lambda row: row["k"]) for some in (found, live))
    assert found == live


@pytest.mark.parametrize("cuts", [(), (50,)])
def test_text_by_which_nothing_is_compared_stays_a_dictionary(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    """Without a key, the first column counted as compared, and its long texts were decoded."""
    data = {"s": repeated(["a" * 9_000, "b" * 9_000], 1_000), "k": RNG.integers(0, 100, 1_000)}
    pq.write_table(pa.table(data), tmp_path / "0.parquet")
    task = replace(task_of(tmp_path, (TEXT, KEY), key=()), cut_column=1 if cuts else 0, cuts=cuts)
    opened = Inputs(task, LocalFiles())
    assert [pa.types.is_dictionary(kind) for kind in opened.footers.read_types] == [True, False]
    opened.close()


def test_a_row_group_of_a_store_that_does_not_fit_is_declined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", MEMORY)
    monkeypatch.setattr(inputs, "AHEAD", MEMORY // 4)
    long_texts_between_short_ones(tmp_path)
    task = task_of(tmp_path, (TEXT,))
    with pytest.raises(Declined, match="do not fit in memory"):
        merge(task, files=StoreFiles(pafs.LocalFileSystem()))
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_sizes_are_bounds_where_the_footer_has_them(tmp_path: Path) -> None:
    """So that row groups of numbers, distinct texts and short dictionaries are read at once."""
    rows = 5_000
    data = {
        "k": pa.array(range(rows), pa.int64()),
        "s": [RNG.bytes(20).hex() for _ in range(rows)],
        "t": repeated(["a" * 200, "b"], rows),
        "list": [[1, 2]] * rows,
    }
    pq.write_table(pa.table(data), tmp_path / "0.parquet", use_dictionary=["t"])
    integers = FileColumn("list", "list", children=(FileColumn("element", "int64"),))
    task = task_of(tmp_path, (KEY, TEXT, FileColumn("t", "string"), integers))
    opened = Inputs(task, LocalFiles())
    try:
        (group,) = opened.footers.groups()
        assert all(size.sure for size in opened.footers.sizes(group))
        size = opened.footers.decoded_bytes(group)
        assert opened.read(group).nbytes <= size <= 1.3 * opened.read(group).nbytes
    finally:
        opened.close()


@pytest.mark.skipif(not MAPS.exists(), reason="the kernel does not list what a process has mapped")
def test_inputs_are_not_mapped(tmp_path: Path) -> None:
    """Their pages would count as the task's memory: of ten files of 380 MB merged side by side, a gigabyte."""
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"k": RNG.integers(0, 1 << 40, 100_000)}), path)
    opened = Inputs(task_of(tmp_path, (KEY,)), LocalFiles())
    pieces = opened.stream(opened.footers.groups()[0], 1_000)
    assert next(pieces).num_rows == 1_000
    assert str(path) not in MAPS.read_text()
    pieces.close()
