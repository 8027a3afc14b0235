"""Texts longer than what a footer records as a bound: each bound of a file includes them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar import merge as merging
from lakekeeper.columnar import outputs
from lakekeeper.columnar.merge import merge
from lakekeeper.core.model.file_merge import ColumnStats, FileColumn, FileInput, FileMerge, WrittenFile

COLUMNS = (
    FileColumn("k", "int64"),
    FileColumn("s", "string"),
    FileColumn("raw", "binary"),
    FileColumn("in", "struct", children=(FileColumn("s", "string"), FileColumn("n", "int64"))),
    FileColumn("list", "list", children=(FileColumn("element", "string"),)),
)
ROWS = 60
LONG = {
    "the greatest": "z" * 5_000,
    "the least": "a" * 5_000,
    "in the middle": "m" * 5_000,
    "of last characters": "\U0010ffff" * 2_000,
    "at the limit": "z" * 4_096,
}


def merged(folder: Path, texts: list[str | None], *, dictionary: bool = False) -> WrittenFile:
    """One file of several row groups, sorted by their numbers."""
    data: dict[str, Any] = {
        "k": pa.array(range(len(texts)), pa.int64()),
        "s": texts,
        "raw": pa.array([None if text is None else b"\xff" + text.encode() for text in texts], pa.binary()),
        "in": pa.array(
            [{"s": text, "n": 1} if i % 7 else None for i, text in enumerate(texts)],
            pa.struct([("s", pa.string()), ("n", pa.int64())]),
        ),
        "list": [[text] for text in texts],
    }
    pq.write_table(pa.table(data), folder / "in.parquet", use_dictionary=dictionary)
    task = FileMerge(
        inputs=(FileInput(str(folder / "in.parquet")),),
        columns=COLUMNS,
        key=(0,),
        folder=str(folder / "out"),
        name="{id}{codec}.parquet",
        target_bytes=1 << 30,
        row_group_bytes=1,
    )
    (file,) = merge(task)
    assert pq.read_metadata(file.path).num_row_groups > 3
    return file


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "FEWEST", 10)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("at", [5, 25, ROWS - 1])
@pytest.mark.parametrize("which", LONG)
def test_bounds_include_long_texts(tmp_path: Path, which: str, at: int, dictionary: bool) -> None:
    texts = [None if i % 10 == 3 else f"m{i:06}" for i in range(ROWS)]
    texts[at] = LONG[which]
    file = merged(tmp_path, texts, dictionary=dictionary)
    _, s, raw, struct, lists = file.stats
    plain = [text.encode() for text in texts if text is not None]
    nested = [text.encode() for i, text in enumerate(texts) if text is not None and i % 7]
    assert ends_of(s) == (min(plain), max(plain))
    assert ends_of(raw) == (b"\xff" + min(plain), b"\xff" + max(plain))
    assert ends_of(struct.children[0]) == (min(nested), max(nested))
    assert (lists.children[0].lo, lists.children[0].hi) == (None, None)


def ends_of(stats: ColumnStats) -> tuple[bytes, bytes]:
    return base64.b64decode(stats.lo), base64.b64decode(stats.hi)


@pytest.mark.usefixtures("small_groups")
def test_bounds_of_long_texts_need_no_second_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a finished file only the footer is read, so that its size takes no memory."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 1 << 20)
    read: list[Any] = []
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *given, **how: read.append((given, how)))
    file = merged(tmp_path, [f"{i:06}" * 1_000 for i in range(ROWS)])
    assert not read
    assert ends_of(file.stats[1]) == (b"000000" * 1_000, b"000059" * 1_000)
