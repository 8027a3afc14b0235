"""What workers return for the ranges of one merge, and what the driver makes of it."""

from __future__ import annotations

import ctypes
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar import merge as merging
from lakekeeper.columnar import worker
from lakekeeper.columnar.parquet import Bounds, ParquetFile
from lakekeeper.columnar.values import Declined
from lakekeeper.columnar.worker import DECLINED, merge_part
from lakekeeper.core.model.file_merge import FileColumn, FileInput, FileMerge
from lakekeeper.core.model.reason import Reason
from lakekeeper.errors import AdapterError
from lakekeeper.spark.columnar_merge import live_rows, written_of
from tests.columnar.tasks import task_of

PARTS, ROWS = 6, 6_000


@pytest.fixture(params=["unsorted", "in disjoint ranges"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> FileMerge:
    """Six ranges, which two tasks merge if the rows are not sorted."""
    values = np.arange(ROWS)
    shuffled = np.random.default_rng(1).permutation(values)
    table = pa.table({"k": shuffled if request.param == "unsorted" else values})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=500)
    return FileMerge(
        inputs=(FileInput(str(tmp_path / "in.parquet"), ROWS),),
        columns=(FileColumn("k", "int64"),),
        key=(0,),
        folder=str(tmp_path / "out"),
        name="{id}{codec}.parquet",
        target_bytes=1 << 20,
        row_group_bytes=1 << 18,
        cuts=tuple(range(ROWS // PARTS, ROWS, ROWS // PARTS)),
    )


def test_the_files_of_all_ranges_are_returned_in_their_order(task: FileMerge) -> None:
    texts = [text for part in range(PARTS) for text in merge_part(task.to_json(), part)]
    files = written_of(texts)
    assert not isinstance(files, Reason)
    rows = [row["k"] for file in files for row in pq.ParquetFile(file.path).read().to_pylist()]
    assert rows == list(range(ROWS))


def test_workers_that_divide_the_rows_differently_are_not_believed(
    task: FileMerge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As executors do whose versions of PyArrow differ in the statistics that they read."""
    texts = merge_part(task.to_json(), 0)
    two_tasks = len(merge_part(task.to_json(), PARTS - 1)) == 1

    def other(_self: ParquetFile, group: int, _leaves: Any) -> Bounds:
        return Bounds(500 * group, 500 * group + 499, 0) if two_tasks else Bounds()

    monkeypatch.setattr(ParquetFile, "bounds", other)
    texts += [text for part in range(1, PARTS) for text in merge_part(task.to_json(), part)]
    found = written_of(texts)
    assert isinstance(found, Reason)
    assert "executors divided the rows differently" in str(found)


def test_a_worker_that_declines_is_why_the_merge_runs_by_rows() -> None:
    found = written_of([f"{DECLINED}a file without column c"])
    assert isinstance(found, Reason)
    assert "a file without column c" in str(found)


def test_a_range_whose_bounds_do_not_hold_its_rows_is_merged_by_rows(task: FileMerge) -> None:
    """Otherwise the group fails for good, since the check of its rows finds too few each time."""
    texts = [text for part in range(PARTS) for text in merge_part(task.to_json(), part)]
    assert live_rows(task) == ROWS
    assert isinstance(written_of(texts, ROWS), list)
    found = written_of(texts, ROWS + 1)
    assert isinstance(found, Reason)
    assert "outside their bounds or out of order" in str(found)
    assert isinstance(written_of(texts, live_rows(replace(task, inputs=(FileInput("a"),)))), list)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_page_that_does_not_match_its_checksum_is_not_copied(task: FileMerge, codec: str) -> None:
    """A merge would give the wrong value a right checksum."""
    path = Path(task.inputs[0].path)
    pq.write_table(
        pq.read_table(path), path, compression=codec, use_dictionary=False, write_page_checksum=True
    )
    chunk = pq.read_metadata(path).row_group(0).column(0)
    bits = bytearray(path.read_bytes())
    bits[chunk.data_page_offset + chunk.total_compressed_size - 9] ^= 0x40
    path.write_bytes(bits)
    texts = [text for part in range(PARTS) for text in merge_part(task.to_json(), part)]
    with pytest.raises(AdapterError, match=f"{path} is damaged: a page does not match its checksum"):
        written_of(texts)


def test_outputs_have_checksums(task: FileMerge) -> None:
    path = Path(next(file.path for file in merging.merge(replace(task, cuts=()))))
    chunk = pq.read_metadata(path).row_group(0).column(0)
    bits = bytearray(path.read_bytes())
    bits[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 9] ^= 0x40
    path.write_bytes(bits)
    with pytest.raises(OSError, match="checksum"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def _without_huge_pages(setting: int | None = None) -> int:
    """The process's PR_GET_THP_DISABLE, after it was set if a setting is given."""
    prctl = ctypes.CDLL(None).prctl
    if setting is not None:
        assert prctl(41, setting, 0, 0, 0) == 0
    return int(prctl(42, 0, 0, 0, 0))


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such setting")
@pytest.mark.parametrize("own", [0, 1], ids=["with huge pages", "without"])
@pytest.mark.parametrize("ends", [None, Declined("a reason"), OSError(28, "a full disk")])
def test_a_merge_takes_small_pages_and_leaves_the_processs_setting(
    monkeypatch: pytest.MonkeyPatch, ends: Exception | None, own: int
) -> None:
    """The process later runs tasks of users."""
    during = []

    def merge_range(*_args: object, **_options: object) -> tuple[list[object], list[object]]:
        during.append(_without_huge_pages())
        if ends is not None:
            raise ends
        return [], []

    monkeypatch.setattr(worker, "merge_range", merge_range)
    before = _without_huge_pages()
    text = FileMerge((), (), (), "/nowhere", "{id}{codec}", 1, 1).to_json()
    try:
        _without_huge_pages(own)
        if isinstance(ends, OSError):
            with pytest.raises(OSError, match="a full disk"):
                merge_part(text, 0)
        else:
            assert merge_part(text, 0) == (["ranges: []"] if ends is None else [f"{DECLINED}a reason"])
        assert during == [1]
        assert _without_huge_pages() == own
    finally:
        _without_huge_pages(before)


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="other C libraries have no such settings"
)
def test_freed_memory_stays_in_the_process_until_the_merge_ends(
    monkeypatch: pytest.MonkeyPatch, task: FileMerge
) -> None:
    """Then it returns to the system, and the process's later tasks have their own allocator again."""
    held, names, part = [], [], pa.array(np.ones(1 << 22))

    def merge_range(*_args: object, **_options: object) -> tuple[list[object], list[object]]:
        names.append(pa.default_memory_pool().backend_name)
        for make in (lambda: pa.concat_arrays([part] * 8), lambda: np.ones(1 << 25)):
            before = _resident()
            assert len(make()) == 1 << 25
            held.append(_resident() - before)
        return [], []

    monkeypatch.setattr(worker, "merge_range", merge_range)
    own, before = pa.default_memory_pool().backend_name, _resident()
    merge_part(task.to_json(), 0)
    assert names == ["system"]
    assert held[0] > 1 << 27
    assert held[1] < 1 << 27, "the pages of the first array serve the second"
    assert _resident() - before < 1 << 27
    assert pa.default_memory_pool().backend_name == own


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_text_in_delta_encodings_is_merged(tmp_path: Path, encoding: str, kind: pa.DataType) -> None:
    """Arrow has no decoder from them to dictionaries: each attempt of the task failed, and Spark merged by rows."""
    expected = []
    for number in range(2):
        keys = np.random.default_rng(number).permutation(100) * 2 + number
        text = pa.array([f"city {key % 7}" for key in keys]).cast(kind)
        table = pa.table({"k": keys, "t": text})
        how: dict[str, Any] = {"use_dictionary": ["t"]} if number else {"column_encoding": {"t": encoding}}
        pq.write_table(table, tmp_path / f"{number}.parquet", **{"use_dictionary": False} | how)
        expected += table.to_pylist()
    columns = (FileColumn("k", "int64"), FileColumn("t", str(kind)))
    task = task_of(tmp_path, columns)
    found = written_of(merge_part(task.to_json(), 0))
    assert not isinstance(found, Reason), found
    rows = [row for file in found for row in pq.ParquetFile(file.path).read().to_pylist()]
    assert rows == sorted(expected, key=lambda row: row["k"])


@pytest.mark.parametrize("error", [OSError("Not yet implemented"), OSError(28, "No space left on device")])
def test_an_error_of_a_decoder_declines_the_merge_and_one_of_the_disk_fails_the_task(
    task: FileMerge, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """Spark repeated a task that cannot succeed."""

    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(worker, "merge_range", failing)
    if error.errno is None:
        assert merge_part(task.to_json(), 0) == [f"{DECLINED}Not yet implemented"]
    else:
        with pytest.raises(OSError, match="No space left"):
            merge_part(task.to_json(), 0)
