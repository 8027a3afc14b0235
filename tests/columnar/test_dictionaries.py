"""The texts of dictionaries: how long they are is known before rows are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.parquet import Column, ParquetFile

LONG, SHORT = "é" * 50, "b"
TEXT = pa.string()
VALUES: dict[str, tuple[pa.DataType, list[Any], int]] = {
    "text": (TEXT, [SHORT, LONG] * 500, 100),
    "binary": (pa.binary(), [b"a" * 30, b"", None] * 500, 30),
    "first rows are null": (TEXT, [None] * 9_000 + [SHORT, LONG] * 500, 100),
    "all rows are null": (TEXT, [None] * 9_000, 0),
    "struct": (pa.struct([("a", TEXT), ("b", TEXT)]), [{"a": SHORT, "b": LONG}, None] * 500, 100),
    "a field is null": (pa.struct([("a", TEXT), ("b", TEXT)]), [{"a": None, "b": LONG}] * 2_000, 100),
    "list": (pa.list_(TEXT), [[SHORT, None, LONG], []] * 500, 100),
    "first lists are empty": (pa.list_(TEXT), [[]] * 9_000 + [[LONG]] * 10, 100),
    "map": (pa.map_(TEXT, pa.list_(TEXT)), [[(SHORT, [LONG])]] * 500, 100),
    "no texts": (pa.list_(pa.int64()), [[1, 2]] * 500, 0),
}


def opened(folder: Path, columns: dict[str, pa.Array], **options: Any) -> ParquetFile:
    path = str(folder / "0.parquet")
    pq.write_table(pa.table(columns), path, data_page_size=1_000, **options)
    return ParquetFile(lambda: path)


def text_bytes(values: Any) -> int:
    if isinstance(values, dict):
        return sum(map(text_bytes, values.values()))
    if isinstance(values, (list, tuple)):
        return sum(map(text_bytes, values))
    return (
        len(values.encode()) if isinstance(values, str) else len(values) if isinstance(values, bytes) else 0
    )


@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize("case", VALUES)
def test_the_longest_text_and_the_bytes_of_all_texts(tmp_path: Path, case: str, pages: str) -> None:
    kind, values, longest = VALUES[case]
    file = opened(
        tmp_path, {"x": pa.array([SHORT] * len(values)), "c": pa.array(values, kind)}, data_page_version=pages
    )
    leaves = [file.find(Column(((name, None),)), nested=True) for name in ("c", "x")]
    assert file.longest_texts(0, leaves) == [longest, 1]
    chunks = [file.footer.row_group(0).column(i) for i in leaves[0].numbers]
    beside = sum(chunk.total_uncompressed_size + 32 * chunk.num_values for chunk in chunks)
    size = file.decoded_bytes(0, leaves[:1], room=0)
    assert text_bytes(values) <= size <= text_bytes(values) + beside
    file.close()


def test_texts_after_the_dictionary_are_bounded_by_what_is_stored(tmp_path: Path) -> None:
    """A writer that finds too many distinct texts stores the rest one by one."""
    values = [f"{number:0200}" for number in range(2_000)]
    file = opened(tmp_path, {"c": pa.array([SHORT] * 1_000 + values)}, dictionary_pagesize_limit=1_000)
    leaves = [file.find(Column((("c", None),)))]
    (longest,) = file.longest_texts(0, leaves)
    assert longest == 200
    assert text_bytes(values) < file.decoded_bytes(0, leaves, room=0) < 2.5 * text_bytes(values)
    file.close()


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_columns_beside_that_arrow_cannot_read_as_dictionaries(tmp_path: Path, encoding: str) -> None:
    texts = pa.array([SHORT, LONG] * 500)
    columns = {"c": texts, "d": texts, "s": pa.StructArray.from_arrays([texts, texts], ["c", "d"])}
    encoded = {"d": encoding, "s.d": encoding}
    file = opened(tmp_path, columns, use_dictionary=["c", "s.c"], column_encoding=encoded)
    leaves = [file.find(Column(((name, None),)), nested=True) for name in columns]
    assert file.longest_texts(0, leaves) == [100, 0, 100]
    assert file.decoded_bytes(0, leaves, room=0) > 2 * text_bytes(texts.to_pylist())
    file.close()
