"""The inputs of a columnar merge: checked through their footers, read by row group, without their deleted rows.

A file is read only where each value provably means to Spark what it means to Arrow; else it is declined, and nothing
is written.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.files import Files
from lakekeeper.columnar.nans import float_leaves
from lakekeeper.columnar.parquet import Bounds, Leaves, ParquetFile
from lakekeeper.columnar.read_ahead import in_parallel, read_ahead
from lakekeeper.columnar.runs import Unfit
from lakekeeper.columnar.sizes import size_of
from lakekeeper.columnar.sorting import Range, Token, token_of_bound
from lakekeeper.columnar.stored import is_modern, located, stored_alike
from lakekeeper.columnar.types import DATED, same_names, type_of
from lakekeeper.columnar.values import Damaged, Declined, Incomparable, Longs, is_text, refuse_old
from lakekeeper.core.model.file_merge import ROW_ID, FileInput, FileMerge

_WRONG_CHECKSUM = "CRC checksum verification failed"  # Arrow has no type of its own for this error
_ZSTD_AND_OTHERS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_FEW_DISTINCT = 4.5  # encoded bytes per text below which a dictionary is assumed to hold the texts
_DICTIONARY = 1 << 20
_BATCH = (64, 16_384)  # fewest and most rows that are decoded at once if their size is unknown
_ROW = 6_400  # assumed bytes of a row of unknown size
_MOST_PIECES = 8  # pieces that may be read ahead from a store
AHEAD = 128 << 20  # decoded bytes of the row groups that are read ahead from a store


MOST_DELETED_ROWS = 20_000_000
"""Positions of deleted rows that travel with a task: they take 160 MB of the driver and of each worker."""


def pack(positions: Longs) -> str:
    """Ascending positions as text."""
    steps = np.diff(positions, prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode() if len(positions) else ""


def unpack(text: str) -> Longs:
    """Inverse of :func:`pack`."""
    data = zlib.decompress(base64.b64decode(text)) if text else b""
    return np.cumsum(np.frombuffer(data, "<i8")).astype(np.int64)


def _longest_dictionary(column: pa.ChunkedArray | pa.Array) -> int:
    """Values of the longest dictionary of a column; 0 for one without."""
    if not pa.types.is_dictionary(column.type):
        return 0
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return max((len(chunk.dictionary) for chunk in chunks), default=0)


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of an input, by the number of either."""

    file: int
    group: int


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


class Inputs:
    """The opened inputs of one merge. Raises Declined for a file that only Spark may read."""

    def __init__(self, merge: FileMerge, files: Files, piece_bytes: int = 100 << 20) -> None:
        """``piece_bytes``: approximate size of the tables in which rows of unknown size are read."""
        self._merge = merge
        self._piece_bytes = piece_bytes
        self._known: dict[Group, tuple[int, frozenset[int]]] = {}
        self._place = files
        self.types = [type_of(column) for column in merge.columns]
        opened = in_parallel(self._opened, merge.inputs) if files.remote else map(self._opened, merge.inputs)
        self._files = list(opened)
        self._leaves: list[list[Leaves | None]] = []
        for number, file in enumerate(self._files):
            same = number > 0 and stored_alike(file, self._files[number - 1])
            self._leaves.append(self._leaves[-1] if same else located(file, merge))
        self.read_types = [self._read_type(c) for c in range(len(self.types))]
        self._keep_dictionaries()
        self._open: ParquetFile | None = None
        self._dead = [unpack(each.deleted) for each in merge.inputs]
        for file, dead in zip(self._files, self._dead, strict=True):
            if len(dead) and not 0 <= dead[0] <= dead[-1] < file.rows:
                raise Declined("a deleted row beyond the end of its file")

    def _read_type(self, column: int) -> pa.DataType:
        """The type in which a column is read: repetitive text stays a dictionary, unless rows are compared by it."""
        compared = {*self._merge.key, self._merge.cut_column}
        kind = self.types[column]
        if is_text(kind) and column not in compared and self._repeats(column):
            return pa.dictionary(pa.int32(), kind)
        return kind

    def _keep_dictionaries(self) -> None:
        kept = [c for c, kind in enumerate(self.read_types) if pa.types.is_dictionary(kind)]
        for file, leaves in zip(self._files, self._leaves, strict=True):
            file.keep_dictionaries([found.path[0] for c in kept if (found := leaves[c]) is not None])

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    @property
    def live_rows(self) -> int:
        """Rows of all inputs that are not deleted."""
        return sum(file.rows for file in self._files) - sum(map(len, self._dead))

    @property
    def row_bytes(self) -> float:
        """Stored bytes of a row, with its share of the footers."""
        rows = sum(file.rows for file in self._files)
        footers = sum(int(file.footer.serialized_size) for file in self._files)
        return (self._stored_bytes + footers) / max(rows, 1)

    @property
    def _stored_bytes(self) -> int:
        """Compressed bytes of the columns that are read."""
        return sum(
            self._files[group.file].bytes_of(group.group, leaves)
            for group in self.groups()
            for leaves in self._leaves[group.file]
            if leaves is not None
        )

    def groups(self) -> list[Group]:
        """All row groups that have rows, in the order of the inputs."""
        return [
            Group(f, g)
            for f, file in enumerate(self._files)
            for g in range(file.groups)
            if file.starts[g + 1] > file.starts[g]
        ]

    def rows(self, group: Group) -> int:
        starts = self._files[group.file].starts
        return int(starts[group.group + 1] - starts[group.group])

    def within(self, groups: Sequence[Group], column: int, range_: Range) -> list[Group]:
        """The row groups that may have a row in the range of a column, by their statistics."""
        if range_.whole:
            return list(groups)
        return [group for group in groups if self._may_hold(group, column, range_)]

    def ascending(self, groups: Sequence[Group], column: int) -> list[Group]:
        """The row groups by the lower end of a column; first those whose statistics do not say it."""
        ends = {group: self._bounds(group, column).lo for group in groups}
        lower = {group: token_of_bound(end) for group, end in ends.items() if end is not None}
        return [group for group in groups if group not in lower] + sorted(lower, key=lower.__getitem__)

    def _may_hold(self, group: Group, column: int, range_: Range) -> bool:
        if self._leaves[group.file][column] is None:  # all rows are NULL
            return range_.lo is None
        bounds = self._bounds(group, column)
        ends: list[Token | None] = [
            None if end is None else token_of_bound(end) for end in (bounds.lo, bounds.hi)
        ]
        nans = self._merge.columns[column].kind in ("float", "double")
        return range_.may_hold(*ends, nulls=bounds.nulls != 0, nans=nans)

    def _bounds(self, group: Group, column: int) -> Bounds:
        """Unknown for a column that the file lacks, and for INT96, whose statistics have no defined order."""
        leaves = self._leaves[group.file][column]
        if leaves is None or leaves.shape[0][1] == "INT96":
            return Bounds()
        return self._files[group.file].bounds(group.group, leaves)

    def decoded_bytes(self, group: Group) -> int:
        """The approximate size of a row group as Arrow arrays, in bytes."""
        return self.sizes(group)[0]

    def sizes(self, group: Group) -> tuple[int, frozenset[int]]:
        """The bytes of a row group as Arrow arrays, and the columns whose share of them is only an estimate."""
        found = self._known.get(group)
        if found is None:
            footer = self._files[group.file].footer.row_group(group.group)
            leaves, rows = self._leaves[group.file], self.rows(group)
            sizes = [
                size_of([footer.column(number) for number in each.numbers] if each else (), rows, kind)
                for each, kind in zip(leaves, self.read_types, strict=True)
            ]
            unsure = frozenset(c for c, size in enumerate(sizes) if not size.sure)
            found = self._known[group] = sum(size.bytes for size in sizes), unsure
        return found

    def codec(self) -> str:
        """The codec of most encoded bytes of the inputs, as PyArrow's writer names it. Raises Declined.

        A writer may leave single columns uncompressed.
        """
        sizes: Counter[str] = Counter()
        for group in self.groups():
            found = self._files[group.file].footer.row_group(group.group)
            for chunk in map(found.column, range(found.num_columns)):
                sizes[chunk.compression] += int(chunk.total_uncompressed_size)
        if not sizes:
            return "zstd"
        ((codec, _),) = sizes.most_common(1)
        if codec not in _ZSTD_AND_OTHERS:
            raise Declined(f"files compressed by {codec}")
        return _ZSTD_AND_OTHERS[codec]

    def repetitive(self) -> list[str]:
        """Names of the text columns whose inputs are stored with dictionaries throughout."""
        return [
            column.name
            for c, (column, kind) in enumerate(zip(self._merge.columns, self.types, strict=True))
            if is_text(kind) and self._repeats(c)
        ]

    def may_have_nan(self) -> set[str]:
        """Columns of floats, by path, of which a row group has values and no bounds, as Java writes them for NaN.

        Other writers may record bounds beside NaN.
        """
        groups = self.groups()
        return {
            path
            for number, column in enumerate(self._merge.columns)
            for leaf, path in float_leaves(column)
            if any(self._is_unbounded(group, number, leaf) for group in groups)
        }

    def _is_unbounded(self, group: Group, column: int, leaf: int) -> bool:
        leaves = self._leaves[group.file][column]
        if leaves is None:
            return False
        chunk = self._files[group.file].footer.row_group(group.group).column(leaves.numbers[leaf])
        found = chunk.statistics if chunk.is_stats_set else None
        return found is None or (not found.has_min_max and found.num_values > 0)

    def _repeats(self, column: int) -> bool:
        sizes = [(self._size(group, column), self.rows(group)) for group in self.groups()]
        return all(self._few_distinct(size, rows) for size, rows in sizes)

    def _size(self, group: Group, column: int) -> int:
        leaves = self._leaves[group.file][column]
        if leaves is None:
            return 0
        chunk = self._files[group.file].footer.row_group(group.group).column(leaves.numbers[0])
        return int(chunk.total_uncompressed_size)

    @staticmethod
    def _few_distinct(size: int, rows: int) -> bool:
        return size <= _FEW_DISTINCT * rows + _DICTIONARY

    def tables(self, groups: Iterable[Group], columns: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """The rows of the row groups as :meth:`read` returns them, in one table each, or in several if they are large.

        From a store, the next row groups are read meanwhile. Raises Declined.
        """
        if not self._place.remote:
            return (rows for group in groups for rows in self._pieces(group, columns))
        held = _Held(max(_MOST_PIECES * self._piece_bytes, 2 * AHEAD))

        def together(group: Group) -> list[pa.Table]:
            return [held.add(rows) for rows in self._pieces(group, columns)]

        ahead = read_ahead(together, groups, self.decoded_bytes, AHEAD)
        return (held.release(rows) for pieces in ahead for rows in pieces)

    def _pieces(self, group: Group, columns: Sequence[int] | None) -> Iterator[pa.Table]:
        """The live rows of a row group. What its footer does not bound is read in batches, and measured.

        If the row group is larger than two pieces, all of its columns are.
        """
        wanted = range(len(self.types)) if columns is None else columns
        size, unsure = self.sizes(group)
        batched = [c for c in wanted if c in unsure or size > 2 * self._piece_bytes]
        leaves = self._leaves[group.file]
        paths = [found.path[0] for c in batched if (found := leaves[c])]
        batch_rows = max(_BATCH[0], min(_BATCH[1], self._piece_bytes // _ROW))
        if not paths or self.rows(group) <= batch_rows:
            yield self.read(group, columns)
            return
        sure = [c for c in wanted if c not in batched]
        with self._reading(group) as file:
            whole = dict(zip(sure, self._columns(file, group, sure), strict=True))
            for first, read in self._measured(file.batches(group.group, paths, batch_rows), self.rows(group)):
                count = read.num_rows
                arrays = [
                    whole[c].slice(first, count) if c in whole else self._column(file, group, c, read, first)
                    for c in wanted
                ]
                yield self._live_rows(group, pa.table(arrays, names=[str(c) for c in wanted]), first)

    def _measured(self, batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[tuple[int, pa.Table]]:
        """(number of its first row, table) of the batches together, cut where a table is larger than a piece."""
        first = size = last = 0
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            last += batch.num_rows
            if size > self._piece_bytes or last == rows:
                yield first, pa.Table.from_batches(held)
                first, size, held = last, 0, []

    def stream(self, group: Group, rows: int) -> Generator[pa.Table, None, None]:
        """The live rows of a row group, ``rows`` at a time, each table read when it is needed.

        The file stays open until the end, or until the generator is closed. Raises Declined, and Unfit where the
        dictionary of a column is longer than the tables: those of all streams are unified for each part of a merge.
        """
        leaves, every = self._leaves[group.file], range(len(self.types))
        names = [found.path[0] for found in leaves if found is not None]
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
        wanted = range(len(self.types)) if columns is None else columns
        with self._reading(group) as file:
            arrays = self._columns(file, group, wanted)
        return self._live_rows(group, pa.table(arrays, names=[str(c) for c in wanted]), 0)

    def _columns(self, file: ParquetFile, group: Group, wanted: Sequence[int]) -> list[Any]:
        """These columns of all rows of a row group."""
        leaves = self._leaves[group.file]
        read = file.table(group.group, [found.path[0] for c in wanted if (found := leaves[c])])
        return [self._column(file, group, c, read, 0) for c in wanted]

    def _column(self, file: ParquetFile, group: Group, column: int, read: pa.Table, first: int) -> Any:
        """A column of the rows that were read, from the ``first`` of the row group on."""
        found = self._leaves[group.file][column]
        if found is None:
            count = read.num_rows if read.num_columns else self.rows(group)
            return self._filled(group, column, pa.nulls(count, self.read_types[column]), first)
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
        live = np.ones(self.rows(group), np.bool_)
        live[dead[first:last] - starts[group.group]] = False
        return live

    def _as_output(self, file: ParquetFile, column: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values in the type of the outputs, or as a dictionary of it."""
        kind = self.read_types[column]
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
