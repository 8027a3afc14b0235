"""Row groups with NaN have no bounds in the footer: those of Arrow leave NaN out, and readers would skip the rows."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.tallies import Tally
from lakekeeper.core.model.file_merge import FileColumn, FileInput, FileMerge, WrittenFile

ROWS = 60_000
COLUMNS = (
    FileColumn("k", "int64"),
    FileColumn("x", "double"),
    FileColumn("s", "struct", children=(FileColumn("n", "int64"), FileColumn("f", "float"))),
    FileColumn("l", "list", children=(FileColumn("element", "double"),)),
    FileColumn("y", "double"),
)


def rows_with_nan(at: int) -> pa.Table:
    """Rows in the order of ``k``; ``x``, ``s.f`` and ``l`` are NaN in row ``at``, ``y`` in none."""
    x = np.arange(ROWS, dtype=np.float64)
    x[at] = math.nan
    struct = pa.StructArray.from_arrays(
        [pa.array(np.arange(ROWS)), pa.array(x.astype(np.float32))], names=["n", "f"]
    )
    lists = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), pa.array(x))
    return pa.table(
        {"k": np.arange(ROWS), "x": x, "s": struct, "l": lists, "y": np.arange(ROWS, dtype=np.float64)}
    )


def written(folder: Path, rows: pa.Table, *, by_java: bool) -> str:
    """An input; Java's writer records no bounds in row groups with NaN, Arrow's records those of the others."""
    path = str(folder / "input.parquet")
    leaves = ["k", "s.n", "l.list.element", "y"]
    pq.write_table(rows, path, row_group_size=5_000, write_statistics=leaves if by_java else True)
    return path


def merged(folder: Path, inputs: list[str], target_bytes: int = 1 << 30) -> list[WrittenFile]:
    folder.mkdir()
    given = tuple(FileInput(path, pq.read_metadata(path).num_rows) for path in inputs)
    task = FileMerge(
        inputs=given,
        columns=COLUMNS,
        key=(0,),
        folder=str(folder),
        name="{id}{codec}.parquet",
        target_bytes=target_bytes,
        row_group_bytes=100_000,
    )
    return merge(task)


def check(files: list[WrittenFile]) -> None:
    """Bounds of row groups hold all values; those of files are right, whatever their footers have."""
    for file in files:
        read = pq.ParquetFile(file.path)
        x = read.read(["x"]).column("x").to_numpy()
        numbers = x[~np.isnan(x)]
        for stats in (file.stats[1], file.stats[2].children[1]):
            assert (stats.nans, stats.nulls) == (int(np.isnan(x).sum()), 0)
            wide = [float(numbers.min()), float(numbers.max())] if len(numbers) else [None, None]
            assert [end and float(end) for end in (stats.lo, stats.hi)] == [
                end and float(end) for end in wide
            ]
        for group in range(read.num_row_groups):
            found: dict[str, Any] = {}
            footer = read.metadata.row_group(group)
            for chunk in map(footer.column, range(footer.num_columns)):
                found[chunk.path_in_schema] = chunk.statistics if chunk.is_stats_set else None
            values = read.read_row_group(group, columns=["x"]).column("x").to_numpy()
            if np.isnan(values).any():
                assert found["x"] is None and found["s.f"] is None  # noqa: PT018 (either would lose rows)
                assert not any(map(has_index, map(footer.column, (1, 3))))
            assert all(found[name].has_min_max for name in ("k", "s.n", "y"))


def has_index(chunk: Any) -> bool:
    return bool(chunk.has_column_index)


@pytest.mark.parametrize("at", [3, 30_000, ROWS - 1])
@pytest.mark.parametrize("by_java", [True, False], ids=["honest", "misleading"])
def test_no_bounds_beside_nan(tmp_path: Path, at: int, by_java: bool) -> None:
    rows = rows_with_nan(at)
    files = merged(tmp_path / "out", [written(tmp_path, rows, by_java=by_java)])
    check(files)
    together = pa.concat_tables([pq.read_table(file.path) for file in files])
    for name in ("k", "x", "y"):
        np.testing.assert_array_equal(together.column(name).to_numpy(), rows.column(name).to_numpy())
    assert len(files) == (1 if by_java or at == 3 else 2), "bounds were written before the NaN came"


def test_a_file_that_was_cut_at_a_nan_is_not_cut_again(tmp_path: Path) -> None:
    first = merged(tmp_path / "1", [written(tmp_path, rows_with_nan(30_000), by_java=False)])
    again = merged(tmp_path / "2", [file.path for file in first])
    assert (len(first), len(again)) == (2, 1)
    check(again)


def test_floats_without_nan_keep_their_bounds(tmp_path: Path) -> None:
    rows = rows_with_nan(0).slice(1)
    [file] = merged(tmp_path / "out", [written(tmp_path, rows, by_java=False)])
    read = pq.read_metadata(file.path)
    chunks = [
        read.row_group(g).column(c) for g in range(read.num_row_groups) for c in range(read.num_columns)
    ]
    assert all(chunk.statistics.has_min_max for chunk in chunks)
    assert all(map(has_index, chunks))


@pytest.mark.parametrize(
    "zeros, bounds",
    [
        ([0.0, -0.0], ("-0.0", "0.0")),
        ([-0.0, 0.0], ("-0.0", "0.0")),
        ([0.0], ("0.0", "0.0")),
        ([-0.0], ("-0.0", "-0.0")),
        ([-0.0, 3.0], ("-0.0", "3.0")),
        ([0.0, 3.0], ("0.0", "3.0")),
        ([0.0, -3.0], ("-3.0", "0.0")),
        ([-0.0, -3.0], ("-3.0", "-0.0")),
    ],
    ids=str,
)
def test_bounds_of_zeros_are_zeros_of_the_file(
    tmp_path: Path, zeros: list[float], bounds: tuple[str, str]
) -> None:
    """Delta answers MIN and MAX by them: they were values that no row has."""
    path = str(tmp_path / "zeros.parquet")
    pq.write_table(pa.table({"x": [*zeros, math.nan]}), path)
    task = FileMerge(
        inputs=(FileInput(path, len(zeros) + 1),),
        columns=(FileColumn("x", "double"),),
        key=(0,),
        folder=str(tmp_path),
        name="{id}{codec}.parquet",
        target_bytes=1 << 30,
        row_group_bytes=1 << 20,
    )
    [file] = merge(task)
    assert (file.stats[0].lo, file.stats[0].hi, file.stats[0].nans) == (*bounds, 1)


def test_bounds_of_zeros_in_several_parts() -> None:
    column = FileColumn("x", "double")
    for parts in itertools.permutations([[0.0, 1.0], [-0.0], [0.0]]):
        tally = Tally.of(column)
        for part in parts:
            tally.add(pa.array(part))
        assert tally.bounds is not None
        assert [str(end) for end in tally.bounds] == ["-0.0", "1.0"]
