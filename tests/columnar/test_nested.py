"""Columnar merges of structs, lists and maps against brute force; and what is declined."""

from __future__ import annotations

import base64
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar import merge as merging
from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.positions import pack
from lakekeeper.columnar.types import FIELD_ID, parts_of, type_of
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import ColumnStats, FileColumn, FileInput, FileMerge
from tests.columnar import tasks
from tests.sampling import fewer

FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan])
TEXTS = st.none() | st.sampled_from(["", "a", "é", "z" * 9_000])


def column(name: str, kind: str, number: int, *children: FileColumn, nullable: bool = True) -> FileColumn:
    return FileColumn(name, kind, number, by_id=True, nullable=nullable, children=children)


KEY = column("k", "int64", 1)
STRUCT = column(
    "s", "struct", 2,
    column("x", "double", 3),
    column("deep", "struct", 4, column("t", "string", 5), column("f", "float", 6)),
    column("items", "list", 7, column("element", "int32", 8)),
)  # fmt: skip
LIST = column(
    "l", "list", 9, column("element", "struct", 10, column("d", "double", 11), column("t", "string", 12))
)
MAP = column("m", "map", 13, column("key", "string", 14, nullable=False), column("value", "double", 15))
VALUES = {
    "k": st.none() | st.integers(-3, 3),
    "s": st.none()
    | st.fixed_dictionaries(
        {
            "x": FLOATS,
            "deep": st.none() | st.fixed_dictionaries({"t": TEXTS, "f": FLOATS}),
            "items": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
        }
    ),
    "l": st.none() | st.lists(st.none() | st.fixed_dictionaries({"d": FLOATS, "t": TEXTS}), max_size=3),
    "m": st.none() | st.lists(st.tuples(st.sampled_from("abc"), FLOATS), max_size=3, unique_by=lambda p: p[0]),
}  # fmt: skip
COLUMNS = (KEY, STRUCT, LIST, MAP)


def schema_of(columns: Sequence[FileColumn]) -> pa.Schema:
    return pa.schema(
        [pa.field(c.name, type_of(c), c.nullable, {FIELD_ID: str(c.field_id).encode()}) for c in columns]
    )


def layout(fields: Iterable[pa.Field]) -> list[Any]:
    """Names, types, ids and nullability at all depths."""
    return [(f.name, layout(parts_of(f.type)) or f.type, f.nullable, f.metadata) for f in fields]


def task_of(folder: Path, tables: Sequence[tuple[pa.Table, set[int], int]], **how: Any) -> FileMerge:
    inputs = []
    for number, (table, dead, group) in enumerate(tables):
        path = str(folder / f"in{number}.parquet")
        pq.write_table(table, path, row_group_size=group, **how)
        inputs.append(FileInput(path, table.num_rows, pack(np.array(sorted(dead), np.int64))))
    return tasks.task_of(folder, COLUMNS, inputs=tuple(inputs), target_bytes=1 << 20, row_group_bytes=1 << 18)


@st.composite
def files(draw: st.DrawFn) -> list[tuple[list[dict[str, Any]], set[int], int]]:
    """Rows, deleted positions and rows per row group of each file."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=8))
        dead = draw(st.sets(st.integers(0, len(rows) - 1)))
        made.append((rows, dead, draw(st.integers(1, 5))))
    return made


@pytest.fixture(params=["at once", "by scratch files"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of a merge fits in memory."""
    if request.param != "at once":
        monkeypatch.setattr(merging, "MEMORY_BYTES", 100)
        monkeypatch.setattr(merging, "SKEW", 1e9)
        monkeypatch.setattr(merging, "REREAD", 0.0)


@pytest.mark.usefixtures("room")
def test_rows_and_statistics_are_those_of_brute_force() -> None:
    @settings(max_examples=fewer(120), deadline=None)
    @given(files(), st.sampled_from([None, 3]))
    def check(given_: list[tuple[list[dict[str, Any]], set[int], int]], most: int | None) -> None:
        schema = schema_of(COLUMNS)
        tables = [(pa.Table.from_pylist(rows, schema), dead, group) for rows, dead, group in given_]
        with tempfile.TemporaryDirectory() as folder:
            task = replace(task_of(Path(folder), tables), target_rows=most)
            written = merge(FileMerge.from_json(task.to_json()))
            live = [row for rows, dead, _ in given_ for i, row in enumerate(rows) if i not in dead]
            found = [pq.ParquetFile(file.path).read() for file in written]
            rows = [row for table in found for row in table.to_pylist()]
            assert Counter(map(plain, rows)) == Counter(map(plain, live))
            keys = [(row["k"] is not None, row["k"] or 0) for row in rows]
            assert keys == sorted(keys)
            for table, file in zip(found, written, strict=True):
                assert layout(table.schema) == layout(schema)
                for each, stats in zip(COLUMNS, file.stats, strict=True):
                    check_stats(each, [row[each.name] for row in table.to_pylist()], stats, bounded=True)

    check()


def plain(row: dict[str, Any]) -> str:
    """Equal for equal rows, and for no others: NaN is NaN, and no zero equals another."""
    return repr(_ordered(row))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((name, _ordered(part)) for name, part in value.items())
    return [_ordered(part) for part in value] if isinstance(value, list | tuple) else value


def check_stats(of: FileColumn, values: list[Any], stats: ColumnStats, *, bounded: bool) -> None:
    """Statistics of a column and of its parts against its values."""
    there = [value for value in values if value is not None]
    assert stats.nulls == len(values) - len(there)
    for child, part in zip(of.children, stats.children, strict=True):
        inside = list(parts(of, child.name, values))
        check_stats(child, inside, part, bounded=bounded and of.kind == "struct")
    if of.children:
        return
    numbers = [value for value in there if value == value]  # noqa: PLR0124 - NaN alone differs from itself
    assert stats.nans == len(there) - len(numbers)
    if not bounded or not numbers:
        assert (stats.lo, stats.hi) == (None, None)
    elif of.kind in ("float", "double"):
        assert (float(stats.lo), float(stats.hi)) == (min(numbers), max(numbers))
    else:
        ends = [min(numbers), max(numbers)]
        if of.kind == "string":
            ends = [base64.b64encode(end.encode()).decode() for end in ends]
        assert [stats.lo, stats.hi] == ends


def parts(of: FileColumn, name: str, values: list[Any]) -> Iterator[Any]:
    for value in values:
        if of.kind == "struct":
            yield None if value is None else value[name]
        elif value is not None:
            yield from value if of.kind == "list" else (pair[name == "value"] for pair in value)


def table_of(kind: pa.DataType, name: str = "s") -> pa.Table:
    fields = [*schema_of([KEY]), pa.field(name, kind, metadata={FIELD_ID: b"2"})]
    value = (
        pa.array([{part.name: None if part.nullable else 0 for part in parts_of(kind)}], kind)
        if pa.types.is_struct(kind)
        else pa.nulls(1, kind)
    )
    return pa.table([pa.array([1]), value], schema=pa.schema(fields))


def field(name: str, kind: pa.DataType, number: int | None, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, None if number is None else {FIELD_ID: str(number).encode()})


GOOD = [field("x", pa.float64(), 3), field("y", pa.int32(), 4)]
OTHERS = {
    "a field was added": GOOD[:1],
    "fields in another order": GOOD[::-1],
    "a field was renamed": [GOOD[0], field("Y", pa.int32(), 4)],
    "a field was dropped and added": [GOOD[0], field("y", pa.int32(), 9)],
    "a field without its id": [GOOD[0], field("y", pa.int32(), None)],
    "a wider type": [GOOD[0], field("y", pa.int64(), 4)],
    "a list": [GOOD[0], field("y", pa.list_(pa.int32()), 4)],
}


@pytest.mark.parametrize("other", OTHERS)
def test_files_that_store_a_struct_otherwise_are_declined(tmp_path: Path, other: str) -> None:
    of = column("s", "struct", 2, column("x", "double", 3), column("y", "int32", 4))
    good, bad = table_of(pa.struct(GOOD)), table_of(pa.struct(OTHERS[other]))
    task = replace(task_of(tmp_path, [(good, set(), 5), (bad, set(), 5)]), columns=(KEY, of))
    with pytest.raises(Declined, match="column s stored as"):
        merge(task)
    assert len(merge(replace(task, inputs=task.inputs[:1]))) == 1


def test_a_required_field_of_a_file_becomes_optional(tmp_path: Path) -> None:
    """As the table says; the reverse would need a proof that no value is NULL."""
    of = column("s", "struct", 2, column("x", "double", 3))
    kinds = [pa.struct([field("x", pa.float64(), 3, nullable=nullable)]) for nullable in (True, False)]
    task = replace(task_of(tmp_path, [(table_of(kind), set(), 5) for kind in kinds]), columns=(KEY, of))
    (written,) = merge(task)
    assert pq.read_schema(written.path).field("s").type.field("x").nullable
    required = column("s", "struct", 2, column("x", "double", 3, nullable=False))
    with pytest.raises(pa.ArrowException):
        merge(replace(task, columns=(KEY, required)))
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_file_from_before_a_nested_column_has_nulls(tmp_path: Path) -> None:
    before = pa.table([pa.array([2])], schema=schema_of([KEY]))
    for tables in (
        [before],
        [before, pa.Table.from_pylist([{"k": 1, "m": [("a", 0.5)]}], schema_of(COLUMNS))],
    ):
        task = task_of(tmp_path, [(table, set(), 5) for table in tables])
        (written,) = merge(task)
        read = pq.ParquetFile(written.path).read()
        assert layout(read.schema) == layout(schema_of(COLUMNS))
        assert read.column("m").to_pylist() == [[("a", 0.5)], None][-len(tables) :]


def test_lists_of_two_levels_are_declined(tmp_path: Path) -> None:
    of = column("s", "list", 2, column("element", "int32", 3))
    kind = pa.list_(field("item", pa.int32(), 3))
    task = replace(
        task_of(tmp_path, [(table_of(kind), set(), 5)], use_compliant_nested_type=False), columns=(KEY, of)
    )
    with pytest.raises(Declined, match="column s stored as"):
        merge(task)


def test_dates_in_nested_columns_need_a_known_calendar(tmp_path: Path) -> None:
    of = column("s", "struct", 2, column("d", "date", 3))
    table = table_of(pa.struct([field("d", pa.date32(), 3)]))
    task = replace(task_of(tmp_path, [(table, set(), 5)]), columns=(KEY, of), spark_calendar=True)
    with pytest.raises(Declined, match="calendar"):
        merge(task)
    (tmp_path / "modern").mkdir()
    known = table.replace_schema_metadata({"org.apache.spark.version": "4.1.1"})
    task = replace(task_of(tmp_path / "modern", [(known, set(), 5)]), columns=(KEY, of), spark_calendar=True)
    assert len(merge(task)) == 1


def test_timestamps_without_a_zone_get_none(tmp_path: Path) -> None:
    of = column("s", "struct", 2, column("at", "timestamp", 3))
    for kind in (
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.timestamp("ms", "UTC"),
    ):
        table = table_of(pa.struct([field("at", kind, 3)]))
        task = replace(task_of(tmp_path, [(table, set(), 5)]), columns=(KEY, of))
        with pytest.raises(Declined, match=r"without a zone|stored as"):
            merge(task)
    table = table_of(pa.struct([field("at", pa.timestamp("us", "UTC"), 3)]))
    assert len(merge(replace(task_of(tmp_path, [(table, set(), 5)]), columns=(KEY, of)))) == 1


def test_nested_timestamps_of_96_bits_are_declined_where_spark_did_not_write_them(tmp_path: Path) -> None:
    of = column("s", "struct", 2, column("at", "timestamp", 3))
    table = table_of(pa.struct([field("at", pa.timestamp("us"), 3)])).replace_schema_metadata(
        {"org.apache.spark.version": "4.1.1"}
    )
    task = task_of(tmp_path, [(table, set(), 5)], use_deprecated_int96_timestamps=True)
    with pytest.raises(Declined, match="may convert to its time zone"):
        merge(replace(task, columns=(KEY, of), spark_calendar=True))
