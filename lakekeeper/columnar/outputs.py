"""The outputs of a columnar merge: Parquet files cut at a size in bytes, with their statistics.

row groups   ▇▇▇▇▇▇▇│▇▇▇▇▇▇▇│▇▇▇▇      after each, the bytes of a row are known better,
file         ├───────────────────┤     and with them the rows that fit into the file
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.decoded import fitting
from lakekeeper.columnar.encoding import batch_rows, dictionary_columns
from lakekeeper.columnar.files import Files
from lakekeeper.columnar.long_texts import LongTexts
from lakekeeper.columnar.nans import all_columns, columns_with_nan
from lakekeeper.columnar.statistics import statistics_of
from lakekeeper.columnar.tallies import Tally
from lakekeeper.columnar.types import field_of
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile, files_for

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

FEWEST, _MOST = 10_000, 1 << 20  # rows of a row group
_SUFFIX = {"none": "", "gzip": ".gz"}


@dataclass(slots=True)
class _Open:
    """The file that is being written."""

    path: str
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    limit: int
    tallies: list[Tally]
    long: LongTexts
    rows: int = 0


class Outputs:
    """Writes rows in the order in which they come. ``row_bytes`` of the first rows are an estimate.

    Dictionaries are decoded before they are written, into at most ``memory`` bytes at once. ``may_have_nan`` are
    Parquet columns that get no bounds in a footer; see :mod:`lakekeeper.columnar.nans`.
    Use it in a ``with`` block: an exception in it deletes every file that was written.
    """

    def __init__(
        self,
        merge: FileMerge,
        files: Files,
        types: Sequence[pa.DataType],
        codec: str,
        repetitive: Sequence[str],
        may_have_nan: Collection[str] = (),
        *,
        row_bytes: float,
        memory: int,
    ) -> None:
        self._merge = merge
        self._files = files
        self._codec = codec
        self._schema = _schema(merge, types)
        self._repetitive = frozenset(repetitive)
        self._unbounded = set(may_have_nan)
        self._row_bytes = max(row_bytes, 0.01)
        self._memory = memory
        self._left = 0
        self._last = (0, 0)  # rows and bytes of the last file
        self._file: _Open | None = None
        self.files: list[WrittenFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        if kind is not None:
            self._remove()
            return
        try:
            self._finish()
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        paths = [file.path for file in self.files]
        if self._file is not None:
            # Closing fails too if the disk is full or the store no longer answers; the first error is raised.
            with suppress(OSError):
                self._file.sink.close()
            paths.append(self._file.path)
        for path in paths:
            self._files.remove(path)

    def expect(self, rows: int) -> None:
        """Set the approximate number of rows still to be written, by which the open file is cut as well."""
        self._left = rows
        if self._file is not None:
            self._file.limit = self._rows_of_file()
            if self._file.rows >= self._file.limit:
                self._finish()

    def wanted(self) -> int:
        """How many rows the next row group has room for."""
        group = int(self._merge.row_group_bytes / self._row_bytes)
        group = max(FEWEST, min(group, _MOST))
        file = self._file
        return min(group, self._rows_of_file() if file is None else file.limit - file.rows)

    def write(self, rows: pa.Table) -> None:
        """Write rows, in row groups of at most :meth:`wanted` rows, or fewer if long texts repeat."""
        at = 0
        while at < rows.num_rows:
            some = rows.slice(at, self.wanted())
            size = fitting(some, self._memory)
            self._write_group(some.slice(0, size))
            at += size

    def _write_group(self, rows: pa.Table) -> None:
        columns = [
            column if column.type == field.type else column.cast(field.type)  # dictionaries as their values
            for column, field in zip(rows.columns, self._schema, strict=True)
        ]
        group = pa.Table.from_arrays(columns, schema=self._schema)
        with_nan = columns_with_nan(group)
        if not with_nan <= self._unbounded:
            # Of all further files: a footer cannot drop the bounds of a row group that is written.
            self._unbounded |= with_nan
            self._finish()
        file = self._file or self._start(group)
        file.writer.write_table(group, row_group_size=rows.num_rows)
        for tally, column in zip(file.tallies, rows.columns, strict=True):
            tally.add(column)
        file.long.add(group)
        file.rows += rows.num_rows
        self._left -= rows.num_rows
        if file.rows >= FEWEST:  # headers outweigh the values of a few rows
            rows_before, bytes_before = self._last
            self._row_bytes = (bytes_before + file.sink.tell()) / (rows_before + file.rows)
            file.limit = max(file.rows, self._rows_of_file())
        if file.rows >= file.limit:
            self._finish()

    def _rows_of_file(self) -> int:
        """Rows at which the current file is cut, so that the files of the merge have about the same size."""
        here = self._file.rows if self._file else 0
        left = self._left
        if left <= 0:  # fewer rows were expected than there are: fill the file
            left = max(int(self._merge.target_bytes / self._row_bytes) - here, FEWEST)
        left += here
        files = files_for(left * self._row_bytes / self._merge.target_bytes)
        most = self._merge.target_rows
        if most is not None:
            files = max(files, math.ceil(left / most))
        return min(math.ceil(left / files), most or left)

    def _start(self, first: pa.Table) -> _Open:
        codec = _SUFFIX.get(self._codec, f".{self._codec}")
        name = self._merge.name.format(id=uuid.uuid4(), codec=codec)
        path = f"{self._merge.folder}/{name}"
        sink = self._files.create(path)
        try:
            writer = pq.ParquetWriter(
                sink,
                self._schema,
                version="2.6",
                compression=self._codec,
                use_dictionary=dictionary_columns(first, self._repetitive) or False,
                write_statistics=self._bounded(first),
                write_batch_size=batch_rows(first),
                store_decimal_as_integer=True,
                write_page_index=True,
                write_page_checksum=True,
                store_schema=False,
            )
            # with store_schema=False, the writer drops the metadata of an Arrow schema
            writer.add_key_value_metadata(dict(self._merge.footer))
        except BaseException:
            sink.close()
            self._files.remove(path)
            raise
        tallies = [Tally.of(column) for column in self._merge.columns]
        self._file = _Open(path, sink, writer, self._rows_of_file(), tallies, LongTexts())
        return self._file

    def _bounded(self, rows: pa.Table) -> bool | list[str]:
        """The columns of Parquet with statistics in the footer; True for all."""
        if not self._unbounded:
            return True
        return [path for path in all_columns(rows) if path not in self._unbounded]

    def _finish(self) -> None:
        file = self._file
        if file is None:
            return
        file.writer.close()
        size = file.sink.tell()
        self._last = (file.rows, size) if file.rows >= FEWEST else self._last
        file.sink.close()
        with pq.ParquetFile(self._files.open(file.path)) as written:
            stats = statistics_of(written.metadata, self._merge.columns, file.tallies, file.long)
        self._file = None
        self.files.append(WrittenFile(file.path, file.rows, size, stats))


def _schema(merge: FileMerge, types: Sequence[pa.DataType]) -> pa.Schema:
    return pa.schema([field_of(column, kind) for column, kind in zip(merge.columns, types, strict=True)])
