"""How outputs are encoded: by a dictionary where values repeat, in pages of a bounded size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.encoding import batch_rows, dictionary_columns
from lakekeeper.columnar.merge import merge
from lakekeeper.core.model.file_merge import FileColumn, FileInput, FileMerge

ROWS = 1_000_000
_RANDOM = np.random.default_rng(1)
COLUMNS: dict[str, np.ndarray] = {
    "sorted, all distinct": np.arange(ROWS) * 7,
    "sorted, each ten times": np.arange(ROWS) // 10,
    "random, all distinct": _RANDOM.permutation(ROWS),
    "random, 20,000 distinct": _RANDOM.integers(0, 20_000, ROWS),
    "random, 100,000 distinct": _RANDOM.integers(0, 100_000, ROWS),
    "random, 400,000 distinct": _RANDOM.integers(0, 400_000, ROWS),
    "one value": np.zeros(ROWS, np.int64),
}


def encoded(column: pa.Array, *, dictionary: bool) -> int:
    """Bytes of the column in one row group, uncompressed."""
    sink = pa.BufferOutputStream()
    table = pa.table({"c": column})
    pq.write_table(table, sink, use_dictionary=dictionary, compression="none", row_group_size=ROWS)
    return int(sink.getvalue().size)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_gets_a_dictionary_exactly_where_that_saves_bytes(name: str) -> None:
    column = pa.array(COLUMNS[name])
    saves = encoded(column, dictionary=True) < encoded(column, dictionary=False)
    assert bool(dictionary_columns(pa.table({"c": column}), ())) == saves


@pytest.mark.parametrize("rows", [10_000, 94_000, 1_000_000])
@pytest.mark.parametrize("repeated, pays", [(2, False), (4, False), (16, True), (100, True)])
def test_values_that_repeat_a_few_times_in_a_row_group_get_no_dictionary(
    rows: int, repeated: int, pays: bool
) -> None:
    """Such as order keys in a table clustered by date: a search for an order decoded dictionaries of all row groups."""
    random = np.random.default_rng(rows + repeated)
    keys = pa.array(random.integers(0, rows // repeated, rows))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, rows + 1, 2, dtype=np.int32)), keys)
    assert dictionary_columns(pa.table({"k": keys}), ()) == (["k"] if pays else [])
    assert bool(dictionary_columns(pa.table({"l": lists}), ())) == pays


@pytest.mark.parametrize("rows", [0, 1, 3, 70_000])
def test_a_dictionary_of_few_rows(rows: int) -> None:
    table = pa.table({"same": pa.nulls(rows, pa.int64()), "text": pa.nulls(rows, pa.string())})
    assert dictionary_columns(table, ()) == (["same"] if rows != 1 else [])
    assert "text" in dictionary_columns(table, ("text",))


def test_long_values_are_encoded_in_small_batches_and_pages() -> None:
    numbers = pa.table({"n": pa.array(range(10_000))})
    assert batch_rows(numbers) == 8_192
    assert batch_rows(numbers.slice(0, 0)) == 8_192
    short = numbers.append_column("t", pa.array(["x" * 100] * 10_000))
    long = numbers.append_column("t", pa.array(["x" * 4_000] * 10_000))
    assert 1_024 < batch_rows(short) < 8_192
    assert batch_rows(long) == 1_024


def test_a_merge_writes_no_dictionary_for_a_key_of_distinct_values(tmp_path: Path) -> None:
    """Before, the writer built one for 131,072 values, and then left it in the file beside the values."""
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}.parquet"))
        rows = {"k": np.arange(number, 400_000, 2), "v": np.arange(200_000) % 10}
        pq.write_table(pa.table(rows), paths[-1])
    columns = tuple(FileColumn(name, "int64") for name in ("k", "v"))
    inputs = tuple(FileInput(path) for path in paths)
    [written] = merge(
        FileMerge(inputs, columns, (0,), f"{tmp_path}/out", "{id}{codec}.parquet", 1 << 27, 1 << 27)
    )
    footer = pq.read_metadata(written.path)
    of_key, of_value = (footer.row_group(0).column(c) for c in range(2))
    assert (of_key.has_dictionary_page, of_value.has_dictionary_page) == (False, True)
    assert pq.read_table(written.path).column("k").to_pylist() == list(range(400_000))
