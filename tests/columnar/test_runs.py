"""Sorted runs merged as streams, against a sort of all rows."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar import inputs
from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.footers import Group
from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.positions import pack
from lakekeeper.columnar.runs import Unfit, ascending, merged
from lakekeeper.columnar.sorting import ordered
from lakekeeper.columnar.types import arrow_type
from lakekeeper.core.model.file_merge import ROW_ID, FileColumn, FileInput, FileMerge
from tests.columnar.kinds import KINDS, bits, order
from tests.columnar.tasks import task_of
from tests.sampling import fewer

FAR = 1 << 40


def _pieces(values: list[Any], kind: pa.DataType, sizes: list[int]) -> Iterator[pa.Table]:
    at = 0
    while at < len(values):
        size = sizes[at % len(sizes)]
        yield pa.table({"0": pa.array(values[at : at + size], kind)})
        at += size
        yield pa.table({"0": pa.array([], kind)})


@settings(max_examples=fewer(300), deadline=None)
@given(st.sampled_from(["int64", "double", "string", "decimal(38,3)"]), st.data())
def test_parts_are_in_order_and_hold_each_row_once(kind: str, data: st.DataObject) -> None:
    value = st.none() | st.sampled_from(KINDS[kind][1])
    runs = data.draw(
        st.lists(st.lists(value, max_size=12).map(lambda run: sorted(run, key=order)), max_size=5)
    )
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    found = list(merged([_pieces(run, arrow_type(kind), sizes) for run in runs], 0, FAR))
    parts = [[each for table in part for each in table.column(0).to_pylist()] for part in found]
    assert Counter(bits(each) for part in parts for each in part) == Counter(
        bits(e) for run in runs for e in run
    )
    ends = [(min(part, key=order), max(part, key=order)) for part in parts if part]
    assert all(order(a[1]) <= order(b[0]) for a, b in pairwise(ends))


@settings(max_examples=fewer(100), deadline=None)
@given(st.lists(st.lists(st.none() | st.integers(0, 20), max_size=12), max_size=4), st.integers(0, 21))
def test_runs_are_read_until_a_key(values: list[list[int | None]], until: int) -> None:
    runs = [_pieces(sorted(run, key=order), pa.int64(), [2]) for run in values]
    found = [key for part in merged(runs, 0, FAR, until) for t in part for key in t.column(0).to_pylist()]
    below = Counter(key for run in values for key in run if key is None or key < until)
    assert Counter(key for key in found if key is None or key < until) == below
    assert Counter(found) <= Counter(key for run in values for key in run)


def test_long_runs_are_held_by_pieces() -> None:
    """Ten runs of 1,000 rows, read ten rows at a time: a part is about one piece of each."""
    rng = random.Random(1)
    runs = [sorted(rng.choices(range(10**6), k=1_000)) for _ in range(10)]
    sizes = [sum(map(len, part)) for part in merged([_pieces(r, pa.int64(), [10]) for r in runs], 0, FAR)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 200


@pytest.mark.parametrize("values", [[1, 3, 2], [1, None], [2, 2, 1], [None, 5, None]])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_run_that_is_not_sorted(values: list[Any], size: int) -> None:
    other = [0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(Unfit):
        list(merged([_pieces(values, pa.int64(), [size]), _pieces(other, pa.int64(), [3])], 0, FAR))


def test_equal_keys_beyond_what_may_be_held() -> None:
    runs = [_pieces([1] * 1_000, pa.int64(), [10]), _pieces(list(range(10)), pa.int64(), [3])]
    with pytest.raises(Unfit):
        list(merged(runs, 0, 1_000))


@given(st.lists(st.none() | st.integers(0, 3)))
def test_what_ascends(values: list[int | None]) -> None:
    expected = values == sorted(values, key=order)
    assert ascending(ordered(pa.array(values, pa.int64()))) == expected


@pytest.mark.parametrize(
    "unsorted", ["none", "none, long dictionaries", "one that is not in the sample", "all"]
)
def test_files_of_one_row_group_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsorted: str) -> None:
    """As Spark and Trino write them. Sorted ones need no scratch file; for one that is not, the merge begins again."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 400_000)
    monkeypatch.setattr(merging, "PIECE_ROWS", 64)
    scattered, streamed = [], []
    make_folder, read = tempfile.mkdtemp, inputs.Inputs.stream

    def noting(**how: Any) -> str:
        scattered.append(how)
        return make_folder(**how)

    def stream(self: inputs.Inputs, group: Group, piece_bytes: int) -> Generator[pa.Table, None, None]:
        streamed.append(group)
        return read(self, group, piece_bytes)

    monkeypatch.setattr(tempfile, "mkdtemp", noting)
    monkeypatch.setattr(inputs.Inputs, "stream", stream)
    rng = np.random.default_rng(3)
    files = sorted((np.sort(rng.integers(0, 10**9, 2_000)) for _ in range(50)), key=lambda keys: int(keys[0]))
    if not unsorted.startswith("none"):  # of the files by their least key, every other one is in the sample
        for keys in files if unsorted == "all" else files[9:10]:
            keys[[1_000, 1_500]] = keys[[1_500, 1_000]]
    for number, keys in enumerate(files):
        texts = [f"text {key % (200 if 'dictionaries' in unsorted else 17)}" for key in keys]
        pq.write_table(pa.table({"k": keys, "s": texts}), tmp_path / f"{number:02}.parquet")
    task = task_of(tmp_path, (FileColumn("k", "int64"), FileColumn("s", "string")), row_group_bytes=20_000)
    written = merge(task)
    before, after = (
        pa.concat_tables(pq.read_table(path) for path in paths).combine_chunks()
        for paths in ([each.path for each in task.inputs], [file.path for file in written])
    )
    assert ascending(after.column(0).combine_chunks())
    by = [("k", "ascending"), ("s", "ascending")]
    assert after.sort_by(by).equals(before.sort_by(by))
    assert bool(scattered) == (unsorted != "none")
    assert bool(streamed) == (unsorted != "all")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {Path(file.path).name for file in written}


def test_streams_keep_ids_and_leave_out_deleted_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that a file does not store follow from the position in the file, whatever was read before."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 200_000)
    monkeypatch.setattr(merging, "PIECE_ROWS", 100)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **how: pytest.fail(f"a scratch file in {how}"))
    rows, expected, given = 9_000, [], []
    for number in range(3):
        keys = 3 * np.arange(rows) + number
        stored = [i if i % 7 == 0 else None for i in range(rows)]
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"k": keys, "id": pa.array(stored, pa.int64())}), path, row_group_size=5_000)
        dead = np.arange(number, rows, 11)
        first = (number + 1) * 100_000
        given.append(FileInput(str(path), rows, pack(dead), first_row_id=first))
        gone = set(dead.tolist())
        live = (i for i in range(rows) if i not in gone)
        expected += [(int(keys[i]), first + i if stored[i] is None else i) for i in live]
    columns = (FileColumn("k", "int64"), FileColumn("id", "int64", replaces_null=ROW_ID))
    (made,) = merge(task_of(tmp_path, columns, inputs=tuple(given)))
    found = pq.read_table(made.path)
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == sorted(expected)


def _two_parts(folder: Path, monkeypatch: pytest.MonkeyPatch, *, counted: bool) -> FileMerge:
    """A merge of five sorted files of one row group each, whose first part is the lower quarter of the keys."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 200_000)
    monkeypatch.setattr(merging, "PIECE_ROWS", 100)
    for number in range(5):
        pq.write_table(pa.table({"k": 5 * np.arange(8_000) + number}), folder / f"{number}.parquet")
    task = task_of(folder, (FileColumn("k", "int64"),), cuts=(10_000,))
    return replace(task, inputs=tuple(replace(i, rows=8_000 if counted else None) for i in task.inputs))


@pytest.mark.parametrize("counted", [True, False])
def test_a_range_of_sorted_runs_is_read_up_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """Where the log does not have the rows of each file, the rest of a run may hold rows of the range too."""
    task = _two_parts(tmp_path, monkeypatch, counted=counted)
    read, take = [], inputs.Inputs.stream

    def stream(self: inputs.Inputs, group: Group, rows: int) -> Generator[pa.Table, None, None]:
        for piece in take(self, group, rows):
            read.append(piece.num_rows)
            yield piece

    monkeypatch.setattr(inputs.Inputs, "stream", stream)
    first = merge(task)
    assert sum(read) in (range(10_000, 15_000) if counted else range(40_000, 40_001))
    found = pa.concat_tables(pq.read_table(file.path) for file in [*first, *merge(task, 1)])
    assert found.column("k").to_pylist() == list(range(40_000))


@pytest.mark.parametrize("counted", [True, False])
def test_rows_out_of_order_beyond_the_end_of_a_range_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """They are merged, or missing from the count: the driver then has Spark merge the rows again."""
    task = _two_parts(tmp_path, monkeypatch, counted=counted)
    path = tmp_path / "2.parquet"
    keys = pq.read_table(path).column("k").to_numpy().copy()
    keys[7_500] = 3
    pq.write_table(pa.table({"k": keys}), path)
    monkeypatch.setattr(merging, "ascending", lambda _values: True)  # as if no sample had shown it
    keys_of = [pq.read_table(file.path).column("k").to_pylist() for p in (0, 1) for file in merge(task, p)]
    found = [key for keys in keys_of for key in keys]
    every = sorted([*range(40_000), 3])
    every.remove(5 * 7_500 + 2)
    assert found == sorted(found)
    assert (len(found) < 40_000) if counted else (found == every)


@pytest.mark.parametrize("target", [100_000, 1 << 30])
@pytest.mark.parametrize("shape", ["NULL keys", "a large run that is not sampled"])
def test_more_rows_than_expected_make_no_tiny_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, target: int
) -> None:
    """A row group for each row, or a file for each, followed the last row that was expected."""
    monkeypatch.setattr(merging, "PIECE_ROWS", 100)
    if shape == "NULL keys":
        monkeypatch.setattr(merging, "MEMORY_BYTES", 400_000)
        runs = [[None] * 4_000 + list(range(n, 40_000, 5)) for n in range(5)]
        cut = 36_000
    else:
        monkeypatch.setattr(merging, "MEMORY_BYTES", 800_000)
        runs = [
            np.linspace(n, 10**6, 80_000 if n == 25 else 1_500, dtype=np.int64).tolist() for n in range(50)
        ]
        cut = 900_000
    for n, keys in enumerate(runs):
        pq.write_table(pa.table({"k": pa.array(keys, pa.int64())}), tmp_path / f"{n}.parquet")
    task = replace(task_of(tmp_path, (FileColumn("k", "int64"),), cuts=(cut,)), target_bytes=target)
    written = merge(task)
    assert sum(file.rows for file in written) == sum(
        key is None or key < cut for keys in runs for key in keys
    )
    groups = [pq.ParquetFile(file.path).metadata.num_row_groups for file in written]
    assert sum(groups) <= 30
    assert min(file.rows for file in written) > 1_000
