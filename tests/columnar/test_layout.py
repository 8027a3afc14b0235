"""Files of one merge whose schemas differ only in what PyArrow's comparison of schemas ignores."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.parquet import ParquetFile
from lakekeeper.columnar.stored import stored_alike
from lakekeeper.columnar.types import field_of, type_of
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import FileColumn, FileInput, FileMerge
from tests.sampling import fewer

SPARK = {"org.apache.spark.version": "3.5.1"}
LEGACY = {**SPARK, "org.apache.spark.legacyDateTime": ""}

ROOT = 0
FIELDS = {ROOT: (2, 9, 11), 2: (3, 4, 6), 6: (7, 8)}
"""Struct → its fields, by id. All leaves are numbers, so that no type distinguishes one from another."""
ELEMENTS = {4: 5, 9: 10, 11: 12}
"""List → its element, by id."""


@dataclass(frozen=True)
class Version:
    """A version of the table's schema: the fields of each struct in their order, and all names."""

    fields: Mapping[int, Sequence[int]]
    names: Mapping[int, str]

    def columns(self) -> list[FileColumn]:
        return [
            FileColumn("k", "int32", 1, by_id=True),
            *(self._column(number) for number in self.fields[ROOT]),
        ]

    def _column(self, number: int) -> FileColumn:
        name = self.names[number]
        if number in ELEMENTS:
            element = FileColumn("element", "int32", ELEMENTS[number], by_id=True)
            return FileColumn(name, "list", number, by_id=True, children=(element,))
        if number in self.fields:
            inside = tuple(self._column(each) for each in self.fields[number])
            return FileColumn(name, "struct", number, by_id=True, children=inside)
        return FileColumn(name, "int32", number, by_id=True)

    def row(self, row: int, stored: Version) -> dict[str, Any]:
        """A row of a file of the version ``stored``, as a reader maps it to this one by ids."""
        return {"k": row, **self._struct(ROOT, row, stored)}

    def _struct(self, struct: int, row: int, stored: Version) -> dict[str, Any]:
        return {
            self.names[each]: self._value(each, row, stored) if each in stored.fields[struct] else None
            for each in self.fields[struct]
        }

    def _value(self, number: int, row: int, stored: Version) -> Any:
        if number in ELEMENTS:
            return [100 * row + number, None]
        return self._struct(number, row, stored) if number in self.fields else 100 * row + number


ONE = Version(FIELDS, dict(zip((2, 9, 11, 3, 4, 6, 7, 8), "abcabcab", strict=True)))


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    """Versions of a table, the newest first: each is the one after it with a few fields renamed, moved or absent."""
    found = [ONE]
    for _ in range(draw(st.integers(1, 2))):
        fields, names = {k: list(v) for k, v in found[-1].fields.items()}, dict(found[-1].names)
        for _ in range(draw(st.integers(1, 3))):
            inside = fields[draw(st.sampled_from(list(FIELDS)))]
            one, other = (draw(st.integers(0, len(inside) - 1)) for _ in range(2))
            how = draw(st.sampled_from(["names swapped", "renamed", "moved", "absent"]))
            if how == "names swapped":
                names[inside[one]], names[inside[other]] = names[inside[other]], names[inside[one]]
            elif how == "renamed":
                names[inside[one]] = f"n{len(found)}_{inside[one]}"
            elif how == "moved":
                inside[one], inside[other] = inside[other], inside[one]
            elif len(inside) > 1:
                del inside[one]
        found.append(Version(fields, names))
    return found


def wrote(path: Path, columns: Sequence[FileColumn], rows: Sequence[Any], footer: Mapping[str, str]) -> None:
    schema = pa.schema([field_of(each, type_of(each)) for each in columns])
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        writer.add_key_value_metadata(dict(footer))
        writer.write_table(pa.Table.from_pylist(list(rows), schema=schema))


def task_of(paths: Sequence[Path], columns: Sequence[FileColumn], **said: Any) -> FileMerge:
    return FileMerge(
        inputs=tuple(FileInput(str(path)) for path in paths),
        columns=tuple(columns),
        key=(0,),
        folder=str(paths[0].parent / "out"),
        name="{id}{codec}.parquet",
        target_bytes=1 << 20,
        row_group_bytes=1 << 18,
        **said,
    )


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_renamed_and_moved_fields_are_read_by_their_ids_or_declined() -> None:
    """In any order of the files: where a file begins with what the file before it has, too."""
    merged = [0]

    @settings(max_examples=fewer(300), deadline=None)
    @given(histories(), st.data())
    def check(history: list[Version], data: st.DataObject) -> None:
        table, files = history[0], data.draw(st.lists(st.sampled_from(history), min_size=2, max_size=4))
        with a_folder() as folder:
            paths = [folder / f"{number}.parquet" for number in range(len(files))]
            for number, (path, each) in enumerate(zip(paths, files, strict=True)):
                wrote(path, each.columns(), [each.row(number, each)], {})
            try:
                (written,) = merge(task_of(paths, table.columns()))
            except Declined:
                return
            merged[0] += len(set(map(str, files))) > 1
            rows = pq.ParquetFile(written.path).read().to_pylist()
            assert rows == [table.row(number, each) for number, each in enumerate(files)]

    check()
    assert merged[0], "each merge of files of several schemas was declined"


RENAMES = {
    "a list in a struct": {4: "z"},
    "a struct in a struct": {6: "z"},
    "two lists swapped": {9: "c", 11: "b"},
}


@pytest.mark.parametrize("rename", RENAMES)
def test_a_file_from_before_a_rename_keeps_its_values(tmp_path: Path, rename: str) -> None:
    """``ALTER TABLE ... RENAME COLUMN``: leaves are equal before and after, and only ids or names of groups differ."""
    table = Version(ONE.fields, {**ONE.names, **RENAMES[rename]})
    for number, each in enumerate((table, ONE)):
        wrote(tmp_path / f"{number}.parquet", each.columns(), [each.row(number, each)], {})
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for order in (paths, paths[::-1]):
        task = task_of(order, table.columns())
        if rename == "two lists swapped":
            (written,) = merge(task)
            rows = pq.ParquetFile(written.path).read().to_pylist()
            assert rows == [table.row(0, table), table.row(1, ONE)]
        else:
            with pytest.raises(Declined, match="stored as"):
                merge(task)
    assert not stored_alike(*(ParquetFile(lambda path=path: str(path)) for path in paths))  # type: ignore[misc]


def test_old_dates_in_a_struct_are_declined_after_a_modern_file_too(tmp_path: Path) -> None:
    """Both files have the same schema; the legacy flag is in the footer, and its days count in the Julian calendar."""
    columns = [
        FileColumn("k", "int32"),
        FileColumn("s", "struct", children=(FileColumn("d", "date"),)),
    ]
    modern, legacy = tmp_path / "modern.parquet", tmp_path / "legacy.parquet"
    for path, footer in ((modern, SPARK), (legacy, LEGACY)):
        wrote(path, columns, [{"k": 1, "s": {"d": dt.date(1000, 1, 1)}}], footer)
    for paths in ([modern, legacy], [legacy, modern], [legacy]):
        with pytest.raises(Declined, match="dates in nested columns of files whose calendar is not known"):
            merge(task_of(paths, columns, spark_calendar=True))
    assert len(merge(task_of([modern, modern], columns, spark_calendar=True))) == 1


def test_files_of_one_schema_are_checked_once(tmp_path: Path) -> None:
    """The parts of the footer that say nothing about values do not count."""
    for number in range(2):
        wrote(tmp_path / f"{number}.parquet", ONE.columns(), [], {**SPARK, "written by": str(number)})
    one, other = (ParquetFile(lambda n=n: str(tmp_path / f"{n}.parquet")) for n in range(2))  # type: ignore[misc]
    assert stored_alike(one, other)


def test_a_file_that_is_not_as_its_check_found_it_is_declined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line of defence: no value is filled with NULL, and no error escapes the worker."""
    renamed = Version(ONE.fields, {**ONE.names, 4: "z"})
    gone = Version(ONE.fields, {**ONE.names, 9: "z"})
    for number, each in enumerate((ONE, renamed, gone)):
        wrote(tmp_path / f"{number}.parquet", each.columns(), [each.row(number, each)], {})
    monkeypatch.setattr("lakekeeper.columnar.footers.stored_alike", lambda _one, _other: True)
    for number, said in ((1, "column a stored as"), (2, "in a file instead of")):
        task = task_of([tmp_path / "0.parquet", tmp_path / f"{number}.parquet"], ONE.columns())
        with pytest.raises(Declined, match=said):
            merge(task)
