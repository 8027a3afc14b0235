"""Repeated long texts are decoded in slices: all at once they overflow 32-bit offsets, or the memory of a task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.decoded import fitting, slices
from lakekeeper.columnar.merge import merge
from lakekeeper.core.model.file_merge import FileColumn, FileInput
from tests.columnar.tasks import task_of
from tests.sampling import fewer

TEXTS = [letter * size for letter, size in (("a", 3), ("b", 1_000), ("", 0), ("c", 2_000))]
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@settings(max_examples=fewer(200), deadline=None)
@given(st.lists(st.lists(st.none() | st.integers(0, 3), max_size=9), max_size=4), st.integers(0, 9_000))
def test_slices_hold_all_rows_and_fit(chunks: list[list[int | None]], most: int) -> None:
    column = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array(some, pa.int32()), pa.array(TEXTS)) for some in chunks],
        _DICTIONARY,
    )
    rows = pa.table({"k": range(len(column)), "s": column, "t": column})
    found = list(slices(rows, most, longest=5))
    assert [row for some in found for row in some.to_pylist()] == rows.to_pylist()
    for some in found:
        size = sum(2 * (4 + len(text or "")) for text in some["s"].to_pylist())
        assert 1 <= some.num_rows <= 5
        assert some.num_rows == 1 or size <= most
        assert fitting(some, size) == some.num_rows


@pytest.mark.parametrize("by", ["memory", "scratch files"])
def test_a_row_group_holds_no_more_text_than_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 8 << 20)
    if by == "scratch files":
        monkeypatch.setattr(merging, "MEMORY_BYTES", 1 << 20)
        monkeypatch.setattr(merging, "SKEW", 40)
        monkeypatch.setattr(merging, "REREAD", 0.0)
    rng = np.random.default_rng(0)
    order, which = rng.permutation(40_000), rng.integers(0, 4, 40_000)
    texts = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(TEXTS))
    path = str(tmp_path / "in.parquet")
    pq.write_table(pa.table({"k": order, "s": texts.cast(pa.string())}), path)
    task = task_of(tmp_path, (FileColumn("k", "int64"), FileColumn("s", "string")))
    (file,) = merge(task)
    read = pq.ParquetFile(file.path)
    sizes = [read.read_row_group(g)["s"].nbytes for g in range(read.num_row_groups)]
    assert max(sizes) <= merging.MEMORY_BYTES * (0.51 if by == "memory" else merging.SKEW)
    found = read.read()
    assert found["k"].to_pylist() == list(range(40_000))
    assert found["s"].to_pylist() == [TEXTS[i] for i in which[np.argsort(order)]]


@pytest.mark.parametrize("width", [20, 80, 200])
def test_unsorted_rows_with_long_texts_are_divided_until_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Ranges are planned by dictionaries of text, scratch files hold the text itself: they were declined in the end."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 2 << 20)
    count = 200_000
    rng = np.random.default_rng(0)
    texts = pa.array([f"{number:04}".ljust(width, "x") for number in range(50)])
    rows = pa.table({"k": rng.permutation(count), "t": texts.take(pa.array(rng.integers(0, 50, count)))})
    path = str(tmp_path / "in.parquet")
    pq.write_table(rows, path, row_group_size=20_000)
    columns = (FileColumn("k", "int64"), FileColumn("t", "string"))
    task = task_of(tmp_path, columns, inputs=(FileInput(path, count),), row_group_bytes=1 << 20)
    monkeypatch.setattr(merging, "REREAD", 0.0)
    [file] = merge(task)
    found = pq.read_table(file.path)
    expected = rows.sort_by("k")
    assert found.column("k").equals(expected.column("k"))
    assert found.column("t").to_pylist() == expected.column("t").to_pylist()
