"""Text in scratch files: by number, under one dictionary for all tables, as long as that is short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.decoded import slices
from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.scratch import Texts
from lakekeeper.core.model.file_merge import FileColumn
from tests.columnar.tasks import task_of

KIND = pa.dictionary(pa.int32(), pa.string())
CHUNKS = st.lists(st.lists(st.none() | st.text(max_size=3), max_size=8), max_size=4)


def _column(chunks: list[list[str | None]]) -> pa.ChunkedArray:
    """Each chunk under a dictionary of its own."""
    return pa.chunked_array([pa.array(chunk, pa.string()).dictionary_encode() for chunk in chunks], KIND)


@given(st.lists(CHUNKS, max_size=4))
def test_each_text_keeps_its_number(columns: list[list[list[str | None]]]) -> None:
    texts = Texts(KIND)
    numbers = [texts.numbers(_column(chunks)) for chunks in columns]
    found = [texts.of(each).cast(pa.string()).to_pylist() for each in numbers]
    assert found == [[text for chunk in chunks for text in chunk] for chunks in columns]
    every = {text for column in found for text in column if text is not None}
    assert len({n for each in numbers for n in each.to_pylist() if n is not None}) == len(every)


def test_a_dictionary_that_lists_a_text_twice() -> None:
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b", "a"]))
    texts = Texts(KIND)
    numbers = texts.numbers(pa.chunked_array([repeated]))
    assert texts.of(numbers).cast(pa.string()).to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize("texts_of_a_file", [20, 700])
def test_rows_of_unsorted_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts_of_a_file: int
) -> None:
    """With few distinct texts, numbers are divided; with many, the merge begins again, and divides the texts."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 400_000)
    divided: list[set[str]] = []

    def noted(rows: pa.Table, most: int, *, longest: int) -> Iterator[pa.Table]:
        divided.append({str(column.type) for column in rows.columns})
        return slices(rows, most, longest=longest)

    monkeypatch.setattr("lakekeeper.columnar.scratch.slices", noted)
    rng = np.random.default_rng(5)
    for number in range(6):
        named = [f"text {number} {n} of a file" for n in rng.integers(0, texts_of_a_file, 8_000)]
        pq.write_table(
            pa.table({"k": rng.integers(0, 10**9, 8_000), "s": named}), tmp_path / f"{number}.parquet"
        )
    task = task_of(tmp_path, (FileColumn("k", "int64"), FileColumn("s", "string")), cuts=(500_000_000,))
    written = [file for part in (0, 1) for file in merge(task, part, scratch=str(tmp_path))]
    before, after = (
        pa.concat_tables(pq.read_table(path) for path in paths)
        for paths in ([each.path for each in task.inputs], [file.path for file in written])
    )
    by = [("k", "ascending"), ("s", "ascending")]
    assert after.column("k").to_pylist() == sorted(before.column("k").to_pylist())
    assert after.sort_by(by).equals(before.sort_by(by))
    numbers, plain = {"int64", "int32"}, {"int64", "dictionary<values=string, indices=int32, ordered=0>"}
    assert numbers in divided
    assert (plain in divided) == (texts_of_a_file > 20)
    assert not list(tmp_path.glob("lakekeeper-merge*"))
