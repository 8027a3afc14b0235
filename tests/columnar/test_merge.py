"""The columnar merge against brute force: the same rows, in Spark's order, with statistics of their values."""

from __future__ import annotations

import base64
import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar import inputs, scratch
from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.files import Files, LocalFiles, StoreFiles
from lakekeeper.columnar.footers import Footers, Group
from lakekeeper.columnar.inputs import Inputs
from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.positions import pack, unpack
from lakekeeper.columnar.types import arrow_type
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import (
    ROW_ID,
    VERSION,
    FileColumn,
    FileInput,
    FileMerge,
    WrittenFile,
)
from lakekeeper.core.model.keys import to_json_value
from tests.columnar.kinds import EPOCH, KINDS, at, bits, order
from tests.sampling import fewer

SPARK = {"org.apache.spark.version": "4.1.1"}


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Python values; timestamps without their zone."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    found: list[Any] = column.to_pylist()
    return found


@st.composite
def jobs(
    draw: st.DrawFn,
) -> tuple[list[str], list[tuple[list[tuple[Any, ...]], set[int], int]], dict[str, Any]]:
    """(kinds, files as rows with deleted positions and rows per row group, settings of the task)."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | st.sampled_from(KINDS[kind][1]) for kind in kinds))
    files: list[Any] = []
    keyed = draw(st.integers(0, len(kinds)))
    shuffled: list[int] = draw(st.permutations(range(len(kinds))))
    key = shuffled[:keyed]
    presorted: bool = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        rows: list[Any] = draw(st.lists(row, max_size=12))
        if presorted:
            rows.sort(key=lambda r: [order(r[c]) for c in key])
        dead: set[int] = draw(st.sets(st.integers(0, len(rows) - 1))) if rows else set()
        files.append((rows, dead, draw(st.integers(1, 5))))
    cuts: list[Any] = []
    if bool(key) and draw(st.booleans()):
        kind = kinds[key[0]]
        some = draw(st.sets(st.sampled_from([v for v in KINDS[kind][1] if order(v) != (2,)]), max_size=3))
        cuts = sorted(some, key=order)
        cuts = [cut for i, cut in enumerate(cuts) if not i or order(cut) != order(cuts[i - 1])]
    said = {"key": tuple(key), "cuts": cuts, "target_rows": draw(st.none() | st.integers(1, 6))}
    return kinds, files, said


def table_of(kinds: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[c] for row in rows], arrow_type(kind)) for c, kind in enumerate(kinds)]
    return pa.table(columns, names=[f"c{c}" for c in range(len(kinds))])


def task_of(
    folder: Path,
    kinds: Sequence[str],
    files: Sequence[tuple[Sequence[tuple[Any, ...]], set[int], int]],
    said: dict[str, Any],
    **how: Any,
) -> FileMerge:
    """The files on disk, and the merge of them."""
    found = []
    for number, (rows, dead, group) in enumerate(files):
        path = str(folder / f"in{number}.parquet")
        table = table_of(kinds, rows).replace_schema_metadata(SPARK)
        pq.write_table(table, path, row_group_size=group, **how)
        found.append(FileInput(path, len(rows), pack(np.array(sorted(dead), np.int64))))
    key = said["key"]
    kind = KINDS[kinds[key[0]]][0] if key else ""
    return FileMerge(
        inputs=tuple(found),
        columns=tuple(FileColumn(f"c{c}", kind) for c, kind in enumerate(kinds)),
        key=key,
        folder=str(folder / "out"),
        name="{id}{codec}.parquet",
        target_bytes=said.get("target_bytes", 1 << 20),
        row_group_bytes=1 << 18,
        target_rows=said.get("target_rows"),
        cut_column=key[0] if key else 0,
        cuts=tuple(to_json_value(cut, kind) for cut in said.get("cuts", ())),
        footer=tuple(SPARK.items()),
        spark_calendar=True,
    )


def rows_of(files: Sequence[WrittenFile]) -> list[tuple[Any, ...]]:
    tables = [pq.ParquetFile(file.path).read() for file in files]
    return [row for table in tables for row in zip(*map(values_of, table.columns), strict=True)]


@pytest.fixture(params=["at once", "range by range", "by scratch files", "as streams if sorted"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of a merge fits in memory, and whether tasks keep the ranges of the cuts."""
    if request.param not in ("by scratch files", "as streams if sorted"):
        monkeypatch.setattr(merging, "TASKS", 1e9)
    if request.param == "by scratch files":
        monkeypatch.setattr(merging, "MOST", 0)
        monkeypatch.setattr(
            scratch, "TEXTS", 1e-9
        )  # text by number: elsewhere, dictionaries exceed their bound
    elif request.param == "as streams if sorted":
        monkeypatch.setattr(merging, "PIECE_ROWS", 2)
        monkeypatch.setattr(merging, "STREAMS", 1e9)
        sizes = Footers.sizes
        monkeypatch.setattr(
            Footers, "sizes", lambda *given: [replace(size, sure=True) for size in sizes(*given)]
        )
    if request.param != "at once":
        monkeypatch.setattr(merging, "MEMORY_BYTES", 100)
        monkeypatch.setattr(merging, "SKEW", 1e9)
        monkeypatch.setattr(merging, "REREAD", 1e9 if request.param == "range by range" else 0.0)


IN_STORE = StoreFiles(pafs.LocalFileSystem())
"""Files as in a store: read as objects, several at once."""


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("files", [LocalFiles(), IN_STORE], ids=["local disk", "store"])
def test_rows_order_and_statistics_are_those_of_a_brute_force_merge(files: Files) -> None:
    @settings(max_examples=fewer(120), deadline=None)
    @given(jobs())
    def check(job: Any) -> None:
        kinds, given_files, said = job
        with tempfile.TemporaryDirectory() as folder:
            task = FileMerge.from_json(task_of(Path(folder), kinds, given_files, said).to_json())
            Path(task.folder).mkdir()
            written = [merge(task, part, files=files) for part in range(task.parts)]
            live = [row for rows, dead, _ in given_files for i, row in enumerate(rows) if i not in dead]
            check_rows(live, written, said)
            for file in (file for part in written for file in part):
                assert said["target_rows"] is None or file.rows <= said["target_rows"]
                check_file(kinds, file)
            assert not list(Path(folder).glob("lakekeeper-merge*"))

    check()


def check_rows(live: list[tuple[Any, ...]], written: list[list[WrittenFile]], said: dict[str, Any]) -> None:
    found = [row for part in written for row in rows_of(part)]
    if not said["key"]:
        assert [tuple(map(bits, row)) for row in found] == [tuple(map(bits, row)) for row in live]
        return
    assert Counter(tuple(map(bits, row)) for row in found) == Counter(tuple(map(bits, row)) for row in live)
    keys = [[order(row[c]) for c in said["key"]] for row in found]
    assert keys == sorted(keys)
    first, below = said["key"][0], -1
    for number, part in enumerate(written):
        ranges = {sum(order(row[first]) >= order(cut) for cut in said["cuts"]) for row in rows_of(part)}
        if len(said["cuts"]) + 1 < merging.TASKS:
            assert ranges <= {number}
        assert all(range_ > below for range_ in ranges)
        below = max(ranges, default=below)


def check_file(kinds: Sequence[str], file: WrittenFile) -> None:
    """Statistics against the values in the file; and its footer."""
    read = pq.ParquetFile(file.path).read()
    assert pq.read_metadata(file.path).metadata == {k.encode(): v.encode() for k, v in SPARK.items()}
    assert (file.rows, file.bytes) == (read.num_rows, Path(file.path).stat().st_size)
    for column, kind, stats in zip(read.columns, kinds, file.stats, strict=True):
        values = [value for value in values_of(column) if value is not None]
        assert stats.nulls == read.num_rows - len(values)
        numbers = [v for v in values if order(v) != (2,)]
        assert stats.nans == len(values) - len(numbers)
        ends = (min(numbers, key=order), max(numbers, key=order)) if numbers else (None, None)
        assert (stats.lo, stats.hi) == tuple(as_stored(end, kind) for end in ends) or (
            kind in ("float", "double") and [float(stats.lo), float(stats.hi)] == list(ends)
        )


def as_stored(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if isinstance(value, Decimal):
        return int(value.scaleb(int(kind[:-1].split(",")[1])))
    if isinstance(value, str | bytes):
        return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    return int(value) if isinstance(value, bool) else value


@given(st.sets(st.integers(0, 2**40)))
def test_positions_survive_their_packing(positions: set[int]) -> None:
    plain = np.array(sorted(positions), np.int64)
    assert unpack(pack(plain)).tolist() == plain.tolist()


# --------------------------------------------------------------------------------------- what is declined, and what not
def declined(task: FileMerge) -> str:
    before = set(Path(task.folder).glob("*"))
    with pytest.raises(Declined) as found:
        merge(task)
    assert set(Path(task.folder).glob("*")) == before
    return str(found.value)


def plain_task(folder: Path, table: pa.Table, columns: Sequence[FileColumn], **how: Any) -> FileMerge:
    path = str(folder / "in.parquet")
    pq.write_table(table, path, **how)
    return FileMerge(
        inputs=(FileInput(path, table.num_rows),),
        columns=tuple(columns),
        key=(0,),
        folder=str(folder / "out"),
        name="{id}{codec}.parquet",
        target_bytes=1 << 20,
        row_group_bytes=1 << 18,
        spark_calendar=True,
    )


class Failing(LocalFiles):
    """A disk that fails at the n-th file that is opened to read: the inputs, then each output that is finished."""

    def __init__(self, at: int) -> None:
        self.left = at

    def open(self, path: str) -> str:
        self.left -= 1
        if self.left == 0:
            raise OSError("the disk is gone")
        return path


@pytest.mark.parametrize("at", [3, 4, 5])
def test_an_error_at_any_output_leaves_no_file(tmp_path: Path, at: int) -> None:
    table = pa.table({"k": range(30_000)}).replace_schema_metadata(SPARK)
    task = replace(plain_task(tmp_path, table, [FileColumn("k", "int64")]), target_rows=10_000)
    assert len(merge(task)) == 3
    before = set(Path(task.folder).iterdir())
    with pytest.raises(OSError, match="the disk is gone"):
        merge(task, files=Failing(at))
    assert set(Path(task.folder).iterdir()) == before


def test_ids_that_a_file_does_not_store_follow_from_the_positions_of_its_rows(tmp_path: Path) -> None:
    """Deleted rows count; stored ids stay; in several row groups."""
    plain = pa.table({"k": [5, 4, 3, 2, 1]})
    stored = pa.table({"k": [10, 9, 8], "id": [700, None, 300], "at": [1, 2, None]})
    for name, table in (("plain", plain), ("stored", stored)):
        pq.write_table(table.replace_schema_metadata(SPARK), tmp_path / f"{name}.parquet", row_group_size=2)
    deleted = pack(np.array([1], np.int64))
    inputs_ = (
        FileInput(str(tmp_path / "plain.parquet"), 5, deleted, first_row_id=100, version=7),
        FileInput(str(tmp_path / "stored.parquet"), 3, deleted, first_row_id=0, version=9),
    )
    columns = [
        FileColumn("k", "int64"),
        FileColumn("id", "int64", replaces_null=ROW_ID),
        FileColumn("at", "int64", replaces_null=VERSION),
    ]
    task = replace(plain_task(tmp_path, plain, columns), inputs=inputs_)
    (written,) = merge(FileMerge.from_json(task.to_json()))
    assert rows_of([written]) == [
        (1, 104, 7), (2, 103, 7), (3, 102, 7), (5, 100, 7), (8, 300, 9), (10, 700, 1),
    ]  # fmt: skip
    assert [stats.nulls for stats in written.stats] == [0, 0, 0]
    unknown = (replace(inputs_[0], first_row_id=None), inputs_[1])
    assert declined(replace(task, inputs=unknown)) == "rows without a row id"


OLD_DAY, DAY = dt.date(1500, 1, 1), dt.date(1950, 1, 1)


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"org.apache.spark.version": "2.4.8"},
        {"org.apache.spark.version": "3.0.1"},
        {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""},
        {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""},
    ],
)
def test_old_dates_are_declined_where_their_calendar_is_not_known(
    tmp_path: Path, marks: dict[str, str]
) -> None:
    column = FileColumn("d", "date")
    old = plain_task(tmp_path, pa.table({"d": [DAY, OLD_DAY]}).replace_schema_metadata(marks), [column])
    assert declined(old) == "dates before 1900 in files whose calendar is not known"
    assert merge(replace(old, spark_calendar=False))[0].stats[0].lo == (OLD_DAY - EPOCH.date()).days
    new = plain_task(tmp_path, pa.table({"d": [DAY]}).replace_schema_metadata(marks), [column])
    assert rows_of(merge(new)) == [(DAY,)]


@pytest.mark.parametrize("kind, values", [("date", [OLD_DAY, DAY]), ("timestamp", [at(1500, 1, 1), EPOCH])])
def test_outputs_with_old_dates_are_merged_again(tmp_path: Path, kind: str, values: list[Any]) -> None:
    """Their footer names the calendar, for Spark's readers too."""
    table = pa.table({"c": pa.array(values, arrow_type(kind))}).replace_schema_metadata(SPARK)
    task = replace(plain_task(tmp_path, table, [FileColumn("c", kind)]), footer=tuple(SPARK.items()))
    (first,) = merge(task)
    second = merge(replace(task, inputs=(FileInput(first.path, first.rows),)))
    assert rows_of(second) == rows_of([first]) == [(value,) for value in values]


def test_timestamps_of_96_bits_are_declined_where_spark_did_not_write_them(tmp_path: Path) -> None:
    timestamps = [at(1600, 1, 1), at(2500, 1, 1, 0, 0, 0, 1)]
    table = pa.table({"t": pa.array(timestamps, pa.timestamp("us"))}).replace_schema_metadata(SPARK)
    column = FileColumn("t", "timestamp")
    task = plain_task(tmp_path, table, [column], use_deprecated_int96_timestamps=True)
    assert "may convert to its time zone" in declined(task)


def test_an_unsupported_type_is_declined(tmp_path: Path) -> None:
    for values, kind in [
        (pa.array([1], pa.uint32()), "int64"),
        (pa.array([1], pa.int64()), "int32"),
        (pa.array([1], pa.timestamp("ms")), "timestamp_ntz"),
        (pa.array([1], pa.timestamp("ns")), "timestamp_ntz"),
        (pa.array([b"a"], pa.binary()), "string"),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "decimal(4,2)"),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 1)), "decimal(4,1)"),
        (pa.array([1.5], pa.float64()), "float"),
        (pa.array([{"x": 1}]), "int64"),
        (pa.array([[1]]), "int64"),
        (pa.array([1], pa.int64()), "interval"),
    ]:
        task = plain_task(tmp_path, pa.table({"c": values}), [FileColumn("c", kind)])
        assert declined(task), (values.type, kind)


BERLIN = pa.timestamp("us", "Europe/Berlin")
TEXTS = ["", "a", "é", "a\0", "z" * 5_000, None, "\U0001f600"]
BYTES = [b"", b"\xff", b"\x00", b"a\0", None, b"z" * 5_000]
TIMES = [at(1900, 1, 3), at(2024, 10, 27, 0, 30), at(2024, 10, 27, 1, 30), None, at(9999, 12, 30)]


@pytest.mark.sampled
@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("key", [(0,), (1,)], ids=["the key", "no key"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize(
    "stored, kind, values",
    [
        (pa.large_string(), "string", TEXTS),
        (pa.large_binary(), "binary", BYTES),
        (BERLIN, "timestamp", TIMES),
    ],
    ids=["large text", "large bytes", "another zone"],
)
def test_what_only_the_arrow_schema_of_a_file_adds_changes_nothing(
    tmp_path: Path, stored: pa.DataType, kind: str, values: list[Any], dictionary: bool, key: tuple[int, ...]
) -> None:
    """PyIceberg writes text with wide offsets, and Arrow keeps the zone: the stored bytes are those of Spark."""
    values = [value for value in values for _ in range(200)]
    columns = [FileColumn("c", kind), FileColumn("n", "int64")]
    numbers = np.random.default_rng(1).permutation(len(values))
    made = []
    for name, type_ in (("theirs", stored), ("plain", arrow_type(kind))):
        (tmp_path / name).mkdir()
        table = pa.table({"c": pa.array(values, type_), "n": numbers})
        task = plain_task(tmp_path / name, table, columns, use_dictionary=dictionary, row_group_size=500)
        files = merge(replace(task, key=key))
        schema = pq.ParquetFile(files[0].path).schema
        made.append((rows_of(files), [(file.rows, file.stats) for file in files], schema))
    theirs, plain = made
    assert theirs[:2] == plain[:2]
    assert theirs[2].equals(plain[2])


@pytest.mark.parametrize(
    "stored", [pa.dictionary(pa.int32(), pa.string()), pa.string_view()], ids=["dictionary", "view"]
)
def test_dictionaries_and_views_are_declined(tmp_path: Path, stored: pa.DataType) -> None:
    table = pa.table({"c": pa.array(["a", "b"]).cast(stored)})
    try:
        task = plain_task(tmp_path, table, [FileColumn("c", "string")])
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow writes no views")
    assert "stored as" in declined(task)


def test_narrower_types_and_missing_columns_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    for values, kind, expected in [
        (pa.array([3, None], pa.int8()), "int64", 3),
        (pa.array([3, None], pa.int32()), "int64", 3),
        (pa.array([1.5, None], pa.float32()), "double", 1.5),
        (pa.array([Decimal("1.5"), None], pa.decimal128(4, 1)), "decimal(20,1)", Decimal("1.5")),
    ]:
        columns = [FileColumn("c", kind), FileColumn("later", "string")]
        assert rows_of(merge(plain_task(tmp_path, pa.table({"c": values}), columns))) == [
            (None, None),
            (expected, None),
        ]
    required = [FileColumn("c", "int64"), FileColumn("later", "string", may_lack=False)]
    assert "without column later" in declined(plain_task(tmp_path, pa.table({"c": [1]}), required))


def test_a_file_without_field_ids_is_declined_where_columns_have_them(tmp_path: Path) -> None:
    """Its columns would count as missing, and their values as NULL."""
    for name in ("c", "C", "another"):
        task = plain_task(tmp_path, pa.table({name: [1]}), [FileColumn("c", "int64", 1, by_id=True)])
        assert "without" in declined(task)
    some = pa.schema(
        [pa.field("c", pa.int64()), pa.field("d", pa.int64(), metadata={b"PARQUET:field_id": b"2"})]
    )
    table = pa.table([pa.array([1]), pa.array([1])], schema=some)
    assert "without its id" in declined(
        plain_task(tmp_path, table, [FileColumn("c", "int64", 1, by_id=True)])
    )


def test_a_name_in_another_case_is_declined(tmp_path: Path) -> None:
    """Spark finds such a column; it must not count as missing."""
    task = plain_task(tmp_path, pa.table({"C": [1]}), [FileColumn("c", "int64")])
    assert "spells column c otherwise" in declined(task)


def test_columns_are_found_by_their_id_and_written_under_their_new_name(tmp_path: Path) -> None:
    field = pa.field("old", pa.int64(), metadata={b"PARQUET:field_id": b"7"})
    table = pa.table([pa.array([2, 1])], schema=pa.schema([field]))
    (file,) = merge(plain_task(tmp_path, table, [FileColumn("new", "int64", 7, by_id=True)]))
    written = pq.read_schema(file.path).field("new")
    assert written.metadata == {b"PARQUET:field_id": b"7"}
    assert rows_of([file]) == [(1,), (2,)]


def test_a_file_whose_row_count_differs_from_the_log_is_declined(tmp_path: Path) -> None:
    task = plain_task(tmp_path, pa.table({"c": [1, 2]}), [FileColumn("c", "int64")])
    assert "2 rows in a file" in declined(replace(task, inputs=(replace(task.inputs[0], rows=3),)))
    beyond = replace(task.inputs[0], deleted=pack(np.array([2])))
    assert "beyond the end" in declined(replace(task, inputs=(beyond,)))


# ------------------------------------------------------------------------------------------------------ the files
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_the_codec_of_the_inputs_is_kept_unless_another_is_set(tmp_path: Path, codec: str) -> None:
    task = plain_task(tmp_path, pa.table({"c": [1]}), [FileColumn("c", "int64")], compression=codec)

    def of(file: WrittenFile) -> str:
        return str(pq.read_metadata(file.path).row_group(0).column(0).compression)

    (kept,) = merge(task)
    assert of(kept) == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    (named,) = merge(replace(task, codec="zstd"))
    assert of(named) == "ZSTD"


def test_the_codec_of_most_bytes_is_kept(tmp_path: Path) -> None:
    """Not that of the first column, which a writer may leave uncompressed."""
    table = pa.table({"c": range(1_000), "s": [f"text {i}" for i in range(1_000)]})
    columns = [FileColumn("c", "int64"), FileColumn("s", "string")]
    for few, most in (("none", "zstd"), ("zstd", "snappy"), ("snappy", "none")):
        task = plain_task(tmp_path, table, columns, compression={"c": few, "s": most}, use_dictionary=False)
        (file,) = merge(task)
        footer = pq.read_metadata(file.path).row_group(0)
        found = {footer.column(number).compression for number in range(2)}
        assert found == {{"none": "UNCOMPRESSED"}.get(most, most.upper())}
    rare = plain_task(
        tmp_path, table, columns, compression={"c": "brotli", "s": "zstd"}, use_dictionary=False
    )
    assert len(merge(rare)) == 1
    frequent = plain_task(
        tmp_path, table, columns, compression={"c": "zstd", "s": "brotli"}, use_dictionary=False
    )
    assert declined(frequent) == "files compressed by BROTLI"


@pytest.mark.parametrize(
    "unsorted, tasks, reads", [(True, 2, 2), (False, 6, 1)], ids=["unsorted", "in disjoint ranges"]
)
def test_a_row_group_is_read_by_two_tasks_at_most_on_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unsorted: bool, tasks: int, reads: int
) -> None:
    """Each task that merges one of six ranges of unsorted inputs would read all of them."""
    values = np.random.default_rng(1).permutation(60_000)
    table = pa.table({"k": values if unsorted else np.sort(values)})
    task = plain_task(tmp_path, table, [FileColumn("k", "int64")], row_group_size=1_000)
    task = replace(task, cuts=tuple(range(10_000, 60_000, 10_000)), cut_column=0)
    whole: list[Group] = []
    read = Inputs.read

    def counted(self: Inputs, group: Group, columns: Sequence[int] | None = None) -> pa.Table:
        whole.extend([group] if columns is None else [])
        return read(self, group, columns)

    monkeypatch.setattr(Inputs, "read", counted)
    Path(task.folder).mkdir()
    written = [merge(task, part) for part in range(task.parts)]
    assert [row for part in written for row in rows_of(part)] == [(k,) for k in range(60_000)]
    assert sum(map(bool, written)) == tasks
    assert len(whole) == reads * 60


@pytest.mark.sampled
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("of_input", [0.2, 1.0])
def test_files_are_within_fifteen_percent_of_the_target(tmp_path: Path, codec: str, of_input: float) -> None:
    """Whether sorting makes rows smaller or larger: the size is measured while a file is written."""
    rng = np.random.default_rng(1)
    rows = 1_300_000
    table = pa.table(
        {
            "k": rng.integers(0, 10**12, rows),
            "like": np.sort(rng.integers(0, int(rows * of_input), rows)),
            "t": pa.array([f"row {i % 977:09}" for i in range(rows)]),
        }
    )
    columns = [FileColumn("k", "int64"), FileColumn("like", "int64"), FileColumn("t", "string")]
    task = replace(
        plain_task(tmp_path, table, columns, compression=codec), target_bytes=1 << 20, row_group_bytes=1 << 18
    )
    written = merge(task)
    assert len(written) >= 8
    for file in written:
        assert 0.85 * task.target_bytes <= file.bytes <= 1.15 * task.target_bytes, [f.bytes for f in written]


@pytest.mark.parametrize("rare", [1, 8, 500])
@pytest.mark.parametrize("reread", [1.5, 0.0], ids=["range by range", "by scratch files"])
def test_a_rare_lowest_value_makes_no_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rare: int, reread: float
) -> None:
    """The first range has a few rows, and the others as many as fit: its rows said that few were left."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 4 << 20)
    monkeypatch.setattr(merging, "REREAD", reread)
    rng = np.random.default_rng(rare)
    keys = rng.permutation(np.concatenate([np.zeros(rare, int), np.repeat([1, 2, 3], 200_000)]))
    table = pa.table({"k": keys, "v": rng.integers(0, 1 << 60, len(keys))})
    task = plain_task(tmp_path, table, [FileColumn("k", "int64"), FileColumn("v", "int64")])
    written = merge(replace(task, target_bytes=2 << 20, row_group_bytes=1 << 19))
    assert sum(file.rows for file in written) == len(keys)
    assert len(written) == 3
    assert min(file.bytes for file in written) >= 0.7 * (2 << 20), [file.bytes for file in written]


def test_rows_are_spread_evenly_where_the_last_file_would_not_be_full(tmp_path: Path) -> None:
    table = pa.table({"c": np.random.default_rng(1).integers(0, 2**62, 25_000)})
    task = plain_task(tmp_path, table, [FileColumn("c", "int64")])
    sizes = [file.rows for file in merge(replace(task, target_rows=10_000))]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("memory", [1 << 30, 100_000])
def test_a_merge_without_a_key_fills_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", memory)
    rows = [(i, ["a", "bb", None][i % 3]) for i in range(30_000)]
    small = [(rows[at : at + 100], {5, 7}, 50) for at in range(0, len(rows), 100)]
    task = replace(
        task_of(tmp_path, ["int64", "string"], small, {"key": ()}),
        target_bytes=1 << 30,
        row_group_bytes=1 << 27,
    )
    Path(task.folder).mkdir()
    (file,) = merge(task)
    sizes = group_sizes(file)
    assert len(sizes) == 1 if memory > 1e9 else 5 < len(sizes) < 60
    assert rows_of([file]) == [row for i, row in enumerate(rows) if i % 100 not in (5, 7)]


def test_row_groups_without_a_key_are_cut_by_their_size(tmp_path: Path) -> None:
    rows = [(i, "a") for i in range(45_000)]
    parts = [(rows[at : at + 9_000], set[int](), 9_000) for at in range(0, len(rows), 9_000)]
    task = task_of(tmp_path, ["int64", "string"], parts, {"key": ()})
    Path(task.folder).mkdir()
    (file,) = merge(replace(task, target_bytes=1 << 30, row_group_bytes=1))
    assert group_sizes(file) == [10_000, 10_000, 10_000, 10_000, 5_000]
    assert rows_of([file]) == rows


def group_sizes(file: WrittenFile) -> list[int]:
    footer = pq.read_metadata(file.path)
    return [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]


def test_a_worker_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = plain_task(tmp_path, pa.table({"c": list(range(40))}), [FileColumn("c", "int64")])
    real, left = pq.ParquetWriter, [3]

    def failing(*given: Any, **how: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise OSError("no space")
        return real(*given, **how)

    monkeypatch.setattr(pq, "ParquetWriter", failing)
    with pytest.raises(OSError, match="no space"):
        merge(replace(task, target_rows=10))
    assert not list(Path(task.folder).iterdir())


def test_two_attempts_write_files_of_different_names(tmp_path: Path) -> None:
    task = plain_task(tmp_path, pa.table({"c": [1]}), [FileColumn("c", "int64")])
    (first,), (second,) = merge(task), merge(task)
    assert first.path != second.path
    assert rows_of([first]) == rows_of([second])


# ------------------------------------------------------------------------------------------------- what is read
@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(file, row group) of each read."""
    seen: list[tuple[int, int]] = []
    real = inputs.Inputs.read

    def read(self: inputs.Inputs, group: Group, columns: Sequence[int] | None = None) -> pa.Table:
        if columns is None:
            seen.append((group.file, group.group))
        return real(self, group, columns)

    monkeypatch.setattr(inputs.Inputs, "read", read)
    return seen


def test_a_range_reads_only_the_row_groups_that_overlap_it(
    tmp_path: Path, reads: list[tuple[int, int]]
) -> None:
    files: list[Any] = [([(i,) for i in range(start, 100, 2)], set(), 10) for start in (0, 1)]
    task = task_of(tmp_path, ["int64"], files, {"key": (0,), "cuts": [40, 60]})
    found = []
    for part, expected in enumerate(
        [{(0, 0), (0, 1), (1, 0), (1, 1)}, {(0, 2), (1, 2)}, {(0, 3), (0, 4), (1, 3), (1, 4)}]
    ):
        reads.clear()
        found += rows_of(merge(task, part))
        assert set(reads) == expected
    assert found == [(i,) for i in range(100)]


def test_sorted_inputs_are_merged_range_by_range_and_unsorted_ones_are_read_once(
    tmp_path: Path, reads: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 2_000)
    monkeypatch.setattr(merging, "SKEW", 10)
    scattered = []
    real = tempfile.mkdtemp

    def noting(*given: Any, **how: Any) -> Any:
        scattered.append(True)
        return real(*given, **how)

    monkeypatch.setattr(tempfile, "mkdtemp", noting)
    whole = np.random.default_rng(2).permutation(1_000).tolist()
    for in_order in (True, False):
        halves = [sorted(half) if in_order else half for half in (whole[:500], whole[500:])]
        files: list[Any] = [([(value,) for value in half], set(), 10) for half in halves]
        reads.clear()
        scattered.clear()
        task = task_of(tmp_path, ["int64"], files, {"key": (0,)})
        assert rows_of(merge(task)) == [(i,) for i in range(1_000)]
        assert bool(scattered) == (not in_order)
        assert len(reads) <= (150 if in_order else 100)


def test_equal_keys_beyond_the_memory_are_declined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 1_000)
    task = task_of(tmp_path, ["int64"], [([(1,)] * 2_000, set(), 500)], {"key": (0,)})
    assert "about the same key" in declined(task)


def test_a_merge_of_thousands_of_files_keeps_one_of_them_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    files: list[Any] = [([(number,)], set(), 1) for number in range(200)]
    task = task_of(tmp_path, ["int64"], files, {"key": (0,)})
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, before[1]))
    try:
        assert len(rows_of(merge(task))) == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
