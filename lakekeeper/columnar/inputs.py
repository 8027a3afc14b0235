"""The inputs of a columnar merge: checked through their footers, read by row group, without their deleted rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.files import Files
from lakekeeper.columnar.footers import Footers, Group
from lakekeeper.columnar.parquet import ParquetFile
from lakekeeper.columnar.positions import unpack
from lakekeeper.columnar.read_ahead import in_parallel, read_ahead
from lakekeeper.columnar.runs import Unfit
from lakekeeper.columnar.stored import is_modern
from lakekeeper.columnar.types import DATED, same_names
from lakekeeper.columnar.values import Damaged, Declined, Incomparable, refuse_old
from lakekeeper.core.model.file_merge import ROW_ID, FileInput, FileMerge

_WRONG_CHECKSUM = "CRC checksum verification failed"  # Arrow has no type of its own for this error
_BATCH = (64, 16_384)  # fewest and most rows that are decoded at once if nothing bounds their size
_ROW = 6_400  # assumed bytes of such a row
_MOST_PIECES = 8  # pieces that may be read ahead from a store
AHEAD = 128 << 20  # decoded bytes of the row groups that are read ahead from a store


def _longest_dictionary(column: pa.ChunkedArray | pa.Array) -> int:
    """Values of the longest dictionary of a column; 0 for one without."""
    if not pa.types.is_dictionary(column.type):
        return 0
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return max((len(chunk.dictionary) for chunk in chunks), default=0)


class _Held:
    """Counts the bytes of rows that are read ahead: they were chosen by sizes estimated from footers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._lock = Lock()

    def add(self, rows: pa.Table) -> pa.Table:
        """Add these rows to the count. Raises Declined if the count exceeds the limit."""
        with self._lock:
            before, self._bytes = self._bytes, self._bytes + rows.nbytes
        if before and self._bytes > self._most:
            raise Declined("row groups that do not fit in memory")
        return rows

    def release(self, rows: pa.Table) -> pa.Table:
        """Subtract rows that are no longer ahead."""
        with self._lock:
            self._bytes -= rows.nbytes
        return rows


class _Cursor:
    """Columns of a row group, read in batches that have other rows than those of its other columns."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: list[pa.Table] = []

    def beside(self, rows: pa.Table) -> pa.Table:
        """These rows, which follow those of the call before, with the columns of the cursor."""
        while sum(each.num_rows for each in self._rest) < rows.num_rows:
            self._rest.append(pa.Table.from_batches([next(self._batches)]))
        found = pa.concat_tables(self._rest)
        for name in found.column_names:
            rows = rows.append_column(name, found.column(name).slice(0, rows.num_rows))
        self._rest = [found.slice(rows.num_rows)]
        return rows


class Inputs:
    """The opened inputs of one merge. Raises Declined for a file that only Spark may read."""

    def __init__(self, merge: FileMerge, files: Files, piece_bytes: int = 100 << 20) -> None:
        """``piece_bytes``: approximate size of the tables in which rows of unknown size are read."""
        self._merge = merge
        self._piece_bytes = piece_bytes
        self._place = files
        opened = in_parallel(self._opened, merge.inputs) if files.remote else map(self._opened, merge.inputs)
        self._files = list(opened)
        self.footers = Footers(merge, self._files)
        self._keep_dictionaries()
        self._open: ParquetFile | None = None
        self._dead = [unpack(each.deleted) for each in merge.inputs]
        for file, dead in zip(self._files, self._dead, strict=True):
            if len(dead) and not 0 <= dead[0] <= dead[-1] < file.rows:
                raise Declined("a deleted row beyond the end of its file")

    def _keep_dictionaries(self) -> None:
        kept = [c for c, kind in enumerate(self.footers.read_types) if pa.types.is_dictionary(kind)]
        for file, leaves in zip(self._files, self.footers.leaves, strict=True):
            file.keep_dictionaries([found.path[0] for c in kept if (found := leaves[c]) is not None])

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    @property
    def live_rows(self) -> int:
        """Rows of all inputs that are not deleted."""
        return self.footers.all_rows - sum(map(len, self._dead))

    def tables(self, groups: Iterable[Group], columns: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """The rows of the row groups as :meth:`read` returns them, in one table each, or in several if they are large.

        From a store, the next row groups are read meanwhile. Raises Declined.
        """
        if not self._place.remote:
            return (rows for group in groups for rows in self._pieces(group, columns))
        held = _Held(max(_MOST_PIECES * self._piece_bytes, 2 * AHEAD))

        def together(group: Group) -> list[pa.Table]:
            return [held.add(rows) for rows in self._pieces(group, columns)]

        ahead = read_ahead(together, groups, self.footers.decoded_bytes, AHEAD)
        return (held.release(rows) for pieces in ahead for rows in pieces)

    def _pieces(self, group: Group, columns: Sequence[int] | None) -> Iterator[pa.Table]:
        """The live rows of a row group, in one table, or in several if they may be larger than two pieces.

        Columns of unknown size are then read in smaller batches than the others: of a column that is read as a
        dictionary, each batch has the whole dictionary.
        """
        wanted = range(len(self.footers.types)) if columns is None else columns
        rows, sizes = self.footers.rows(group), self.footers.sizes(group)
        known = sum(sizes[c].bytes for c in wanted if sizes[c].sure)
        most = 2 * self._piece_bytes
        small = self._rows_at_once(group, [c for c in wanted if not sizes[c].sure], most - known)
        large = rows if known <= most else max(1, rows * self._piece_bytes // known)
        sure = self._names(group, [c for c in wanted if sizes[c].sure])
        unsure = self._names(group, [c for c in wanted if not sizes[c].sure])
        if min(small, large) >= rows or not (sure or unsure):
            yield self.read(group, columns)
            return
        with self._reading(group) as file, self._reading(group, apart=True) as other:  # one batch size each
            beside = _Cursor(other.batches(group.group, sure, large)) if sure and unsure else None
            batches = file.batches(group.group, unsure or sure, min(small, large))
            for first, read in self._measured(batches, rows, known if beside else 0):
                both = beside.beside(read) if beside else read
                arrays = [self._column(file, group, c, both, first) for c in wanted]
                yield self._live_rows(group, pa.table(arrays, names=[str(c) for c in wanted]), first)

    def _rows_at_once(self, group: Group, unsure: Sequence[int], room: int) -> int:
        """The rows of these columns of unknown size to decode at once: all, or of about the size of a piece."""
        sizes = self.footers.sizes(group)
        bounded = [c for c in unsure if not sizes[c].differences]
        rows = self._rows_by_texts(group, bounded, room)
        if len(bounded) < len(unsure):
            rows = min(rows, max(_BATCH[0], min(_BATCH[1], self._piece_bytes // _ROW)))
        return rows

    def _rows_by_texts(self, group: Group, columns: Sequence[int], room: int) -> int:
        """The same of columns that the longest text of a dictionary bounds."""
        rows = self.footers.rows(group)
        sizes = [self.footers.sizes(group)[c] for c in columns]
        if not sizes or sum(size.most for size in sizes) <= room:
            return rows
        with self._reading(group) as file:
            leaves = [found for c in columns if (found := self.footers.leaves[group.file][c])]
            longest = file.longest_texts(group.group, leaves)
        size = sum(size.with_texts_of(each) for size, each in zip(sizes, longest, strict=True))
        return rows if size <= room else max(1, rows * self._piece_bytes // size)

    def _names(self, group: Group, columns: Iterable[int]) -> list[str]:
        """The top-level columns of a file that store these columns."""
        return [found.path[0] for c in columns if (found := self.footers.leaves[group.file][c])]

    def _measured(
        self, batches: Iterable[pa.RecordBatch], rows: int, beside: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """(number of its first row, table) of the batches together, cut where a table is larger than a piece.

        ``beside``: bytes of other columns of all rows, which are not in the batches.
        """
        first = last = 0
        size = 0.0
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            size += batch.nbytes + beside * batch.num_rows / rows
            last += batch.num_rows
            if size > self._piece_bytes or last == rows:
                yield first, pa.Table.from_batches(held)
                first, size, held = last, 0.0, []

    def stream(self, group: Group, rows: int) -> Generator[pa.Table, None, None]:
        """The live rows of a row group, ``rows`` at a time, each table read when it is needed.

        The file stays open until the end, or until the generator is closed. Raises Declined, and Unfit where the
        dictionary of a column is longer than the tables: those of all streams are unified for each part of a merge.
        """
        every = range(len(self.footers.types))
        names = self._names(group, every)
        if not names:
            yield self.read(group)
            return
        with self._reading(group, apart=True) as file:
            first = 0
            for batch in file.batches(group.group, names, rows):
                read = pa.Table.from_batches([batch])
                arrays = [self._column(file, group, c, read, first) for c in every]
                if any(_longest_dictionary(each) > rows for each in arrays):
                    raise Unfit
                yield self._live_rows(group, pa.table(arrays, names=[str(c) for c in every]), first)
                first += batch.num_rows

    def read(self, group: Group, columns: Sequence[int] | None = None) -> pa.Table:
        """The live rows of a row group: all columns of the outputs, or some, by number, in :attr:`read_types`.

        Raises Declined.
        """
        wanted = range(len(self.footers.types)) if columns is None else columns
        with self._reading(group) as file:
            arrays = self._columns(file, group, wanted)
        return self._live_rows(group, pa.table(arrays, names=[str(c) for c in wanted]), 0)

    def _columns(self, file: ParquetFile, group: Group, wanted: Sequence[int]) -> list[Any]:
        """These columns of all rows of a row group."""
        read = file.table(group.group, self._names(group, wanted))
        return [self._column(file, group, c, read, 0) for c in wanted]

    def _column(self, file: ParquetFile, group: Group, column: int, read: pa.Table, first: int) -> Any:
        """A column of the rows that were read, from the ``first`` of the row group on."""
        found = self.footers.leaves[group.file][column]
        if found is None:
            count = read.num_rows if read.num_columns else self.footers.rows(group)
            return self._filled(group, column, pa.nulls(count, self.footers.read_types[column]), first)
        values = self._as_output(file, column, read.column(found.path[0]))
        return self._filled(group, column, values, first)

    def _live_rows(self, group: Group, rows: pa.Table, first: int) -> pa.Table:
        """The rows, from the ``first`` of the row group on, without those that are deleted."""
        live = self._live(group)
        return rows if live is None else rows.filter(pa.array(live[first : first + rows.num_rows]))

    @contextmanager
    def _reading(self, group: Group, *, apart: bool = False) -> Iterator[ParquetFile]:
        """The file of a row group. Few are open at once, since a merge can have thousands of inputs.

        On the local disk the file before it is closed; from a store, each read of several threads opens its own, and so
        does one ``apart``. Raises Damaged.
        """
        file = self._files[group.file]
        apart = apart or self._place.remote
        if apart:
            file = file.another()
        else:
            if self._open is not None and self._open is not file:
                self._open.close()
            self._open = file
        try:
            yield file
        except OSError as error:
            if _WRONG_CHECKSUM not in str(error):
                raise
            raise Damaged(self._merge.inputs[group.file].path) from error
        finally:
            if apart:
                file.close()

    def _live(self, group: Group) -> npt.NDArray[np.bool_] | None:
        dead, starts = self._dead[group.file], self._files[group.file].starts
        first, last = np.searchsorted(dead, [starts[group.group], starts[group.group + 1]])
        if first == last:
            return None
        live = np.ones(self.footers.rows(group), np.bool_)
        live[dead[first:last] - starts[group.group]] = False
        return live

    def _as_output(self, file: ParquetFile, column: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values in the type of the outputs, or as a dictionary of it."""
        kind = self.footers.read_types[column]
        if self._merge.spark_calendar and self._merge.columns[column].kind in DATED and not is_modern(file):
            try:
                for chunk in values.chunks:
                    refuse_old(chunk)
            except Incomparable:
                raise Declined("dates before 1900 in files whose calendar is not known") from None
        if not same_names(values.type, kind):
            raise Declined(f"column {self._merge.columns[column].name} stored as {values.type}")
        return values if values.type == kind else values.cast(kind)

    def _filled(self, group: Group, column: int, values: Any, first: int) -> Any:
        """The values, from the ``first`` row of the row group on, with ids and versions of rows that do not store them.

        Raises Declined if one is not known.
        """
        what = self._merge.columns[column].replaces_null
        if not what or not values.null_count:
            return values
        given = self._merge.inputs[group.file]
        known = given.first_row_id if what == ROW_ID else given.version
        if known is None:
            raise Declined(f"rows without a {what}")
        if what != ROW_ID:
            return values.fill_null(known)
        start = known + int(self._files[group.file].starts[group.group]) + first
        return pc.coalesce(values, pa.array(np.arange(start, start + len(values))))

    def _opened(self, each: FileInput) -> ParquetFile:
        file = ParquetFile(lambda: self._place.open(each.path))
        file.close()  # opened again to read rows
        if each.rows is not None and file.rows != each.rows:
            raise Declined(f"{file.rows} rows in a file of which the log has {each.rows}")
        return file
