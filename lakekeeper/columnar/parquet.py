"""A Parquet file accessed through its footer: row groups, columns, statistics, and values of single row groups."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.dictionaries import longest_texts, repeated_bytes
from lakekeeper.columnar.sizes import has_texts, size_of_leaves
from lakekeeper.columnar.types import FIELD_ID
from lakekeeper.columnar.values import SHORT_DECIMAL, Declined, Longs

_PARQUET_MR = "parquet-mr"
_BATCH = 65_536  # rows decoded per batch if only the first rows of a row group are wanted
_BUFFER = 1 << 20  # bytes of each column of a local file; a mapped file's pages would count as memory
_FIRST = 1_024  # rows decoded per batch to find the dictionaries


class Absent(Declined):
    """A file does not have the column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table as its files name it, by field id if it has one; ``steps`` lead into structs."""

    steps: tuple[tuple[str, int | None], ...]

    def __str__(self) -> str:
        return ".".join(name for name, _ in self.steps)


@dataclass(frozen=True, slots=True)
class Leaves:
    """A column in one file: its path, the numbers of its leaf columns, and how they are stored.

    If their ``shape`` is equal, two files store a column in the same way, so that a rewrite from one into the other has
    kept each value.
    """

    path: tuple[str, ...]
    numbers: tuple[int, ...]
    shape: tuple[Any, ...]

    @property
    def flat(self) -> bool:
        """Whether the column is one leaf itself. The only leaf of a struct, a list or a map has other values."""
        return len(self.shape) == 1 and not self.shape[0][0]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower and upper bound of a column in a row group, as numbers or bytes, and its NULL count; None if unknown."""

    lo: Any = None
    hi: Any = None
    nulls: int | None = None


class ParquetFile:
    """One Parquet file, opened at the first read; with ``footer`` given, metadata is available without opening it."""

    def __init__(
        self, open_: Callable[[], Any], footer: pq.FileMetaData | None = None, *, buffered: bool = False
    ) -> None:
        """``open_`` returns a local path, or a file object. ``buffered``: do not read whole columns at once."""
        self.open = open_
        self._opened: tuple[Any, pq.ParquetFile] | None = None
        self._dictionaries: list[str | int] = []
        self._buffered = buffered
        self._decoded: dict[tuple[int, tuple[int, ...]], int] = {}  # as counted by decoded_bytes
        self.footer: pq.FileMetaData = footer or self._file().metadata
        self._schema = self.footer.schema
        self._index: _Index | None = None
        groups = (self.footer.row_group(i).num_rows for i in range(self.footer.num_row_groups))
        self.starts: Longs = np.cumsum([0, *groups], dtype=np.int64)

    def _file(self, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
        if self._opened is None:
            source = self.open()
            file = pq.ParquetFile(
                source,
                metadata=footer,
                buffer_size=_BUFFER if self._buffered or isinstance(source, str) else 0,
                # Columns of a row group in few requests.
                pre_buffer=not self._buffered and isinstance(source, pa.NativeFile),
                coerce_int96_timestamp_unit="us",  # a wider range than 64-bit nanoseconds since 1970
                read_dictionary=self._dictionaries,
                page_checksum_verification=True,
            )
            self._opened = (source, file)
        return self._opened[1]

    def close(self) -> None:
        if self._opened is not None:
            source, file = self._opened
            file.close()
            if not isinstance(source, str):
                source.close()
            self._opened = None

    def another(self) -> ParquetFile:
        """The same file, not opened: two threads do not share one."""
        file = ParquetFile(self.open, self.footer)
        file.keep_dictionaries(self._dictionaries)
        return file

    def keep_dictionaries(self, names: Sequence[str | int]) -> None:
        """Read these columns of text as dictionaries from the next opening on: top-level ones, or leaves by number."""
        self.close()
        self._dictionaries = list(names)

    @property
    def _fields(self) -> _Index:
        """Its columns by name, id and path, listed once: each call of PyArrow walks the whole schema."""
        # Not a cached_property: before Python 3.12 that holds a lock, and this class is pickled for the executors.
        if self._index is None:
            self._index = _Index(self._schema)
        return self._index

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    def has_layout_of(self, other: ParquetFile) -> bool:
        """Whether each column of the other file is in the same place here, and stored in the same way, at all depths.

        PyArrow compares schemas by their leaves: the text and the Arrow schema also have the names and ids of groups.
        """
        if self.footer.created_by != other.footer.created_by or self._schema != other._schema:
            return False
        if _text(self._schema) != _text(other._schema):
            return False
        ours, theirs = (each.to_arrow_schema().remove_metadata() for each in (self._schema, other._schema))
        return bool(ours.equals(theirs, check_metadata=True))

    def type_of(self, leaves: Leaves) -> pa.DataType:
        """The Arrow type of a top-level column."""
        return self._fields.only(leaves.path[0], None).type

    @property
    def has_field_ids(self) -> bool:
        """Whether any of its top-level columns has a field id."""
        return self._fields.has_ids

    def has_like(self, name: str, *, with_id: bool) -> bool:
        """Whether a top-level column has this name in any case: one without a field id, or any ``with_id``."""
        found = self._fields.like(name)
        return any(with_id or FIELD_ID not in (field.metadata or {}) for field in found)

    def find(self, column: Column, *, nested: bool = False) -> Leaves:
        """Locate a column. Raises Absent if it is not in the file, Declined if it is repeated or ambiguous.

        A ``nested`` column may be repeated, and has no shape: its Arrow type shows how it is stored.
        """
        (name, number), *inner = column.steps
        field = self._fields.only(name, number)
        path = [field.name]
        for name, number in inner:
            field = _child(field.type, name, number)
            path.append(field.name)
        numbers = self._leaves_below(path)
        shape = () if nested else tuple(self._shape(number, path) for number in numbers)
        return Leaves(tuple(path), numbers, shape)

    def _leaves_below(self, path: Sequence[str]) -> tuple[int, ...]:
        here = ".".join(path)
        found = self._fields.below.get(here)
        if not found or any("." in step for step in path):
            raise Declined(f"column {here} cannot be distinguished from another")
        return tuple(found)

    def _shape(self, number: int, path: Sequence[str]) -> tuple[Any, ...]:
        leaf = self._schema.column(number)
        if leaf.max_repetition_level:
            raise Declined(f"column {leaf.path} is a list or a map")
        self.is_int96(number)
        inside = leaf.path[len(".".join(path)) :]
        return (inside, leaf.physical_type, str(leaf.logical_type), leaf.length, leaf.precision, leaf.scale)

    def is_int96(self, number: int) -> bool:
        """Whether a leaf holds INT96. Raises Declined if another library than Spark's may have written it."""
        leaf = self._schema.column(number)
        if leaf.physical_type == "INT96" and not str(self.footer.created_by).startswith(_PARQUET_MR):
            raise Declined(f"column {leaf.path} holds timestamps that a session may convert to its time zone")
        return bool(leaf.physical_type == "INT96")

    def is_local_time(self, number: int) -> bool:
        """Whether a leaf holds timestamps without a zone."""
        return "isAdjustedToUTC=false" in str(self._schema.column(number).logical_type)

    def bytes_of(self, group: int, leaves: Leaves) -> int:
        """Stored (compressed) bytes of a column in a row group."""
        chunks = (self.footer.row_group(group).column(i) for i in leaves.numbers)
        return sum(int(chunk.total_compressed_size) for chunk in chunks)

    def decoded_bytes(self, group: int, columns: Sequence[Leaves], room: int) -> int:
        """Bytes of these columns of a row group in memory, at most.

        If its dictionary may make a column larger than ``room``, its texts are counted. Of texts that are stored as
        differences from others, this is an estimate.
        """
        return sum(self._decoded_bytes(group, each, room) for each in columns)

    def _decoded_bytes(self, group: int, column: Leaves, room: int) -> int:
        footer = self.footer.row_group(group)
        size = size_of_leaves(footer.column(i) for i in column.numbers)
        if size.sure or size.differences:
            return size.bytes
        if size.most <= room:
            return size.most
        key = (group, column.numbers)
        if key not in self._decoded:
            most = size.with_texts_of(*self.longest_texts(group, [column]))
            if most > room:
                with closing(self._as_dictionaries(group, [column], _BATCH)) as batches:
                    most = size.with_texts_of(0) + repeated_bytes(batches)
            self._decoded[key] = most
        return self._decoded[key]

    def longest_texts(self, group: int, columns: Sequence[Leaves]) -> list[int]:
        """The bytes of the longest text in the dictionaries of each top-level column of a row group; 0 without one."""
        with closing(self._as_dictionaries(group, columns, _FIRST, buffered=True)) as batches:
            return longest_texts(batches, [each.path[0] for each in columns])

    def _as_dictionaries(
        self, group: int, columns: Sequence[Leaves], rows: int, *, buffered: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """The top-level columns that contain these, in batches, with the texts of dictionaries as such."""
        file = ParquetFile(self.open, self.footer, buffered=buffered)
        chunks = self.footer.row_group(group)
        numbers = (number for each in columns for number in each.numbers)
        file.keep_dictionaries([number for number in numbers if has_texts(chunks.column(number))])
        try:
            yield from file.batches(group, list(dict.fromkeys(each.path[0] for each in columns)), rows)
        finally:
            file.close()

    def encoded_bytes(self, leaves: Leaves) -> int:
        """Encoded, uncompressed bytes of a column in the file."""
        groups = (self.footer.row_group(g) for g in range(self.groups))
        return sum(int(group.column(i).total_uncompressed_size) for group in groups for i in leaves.numbers)

    def bounds(self, group: int, leaves: Leaves) -> Bounds:
        """The bounds of a column from the statistics of a row group; of a nested column, none is known."""
        if not leaves.flat:
            return Bounds()
        (number,) = leaves.numbers
        chunk = self.footer.row_group(group).column(number)
        stats = chunk.statistics if chunk.is_stats_set else None
        if stats is None:
            return Bounds()
        nulls = int(stats.null_count) if stats.has_null_count else None
        if not stats.has_min_max:
            return Bounds(nulls=nulls)
        lo, hi = (_ordered(raw, self._schema.column(number)) for raw in (stats.min_raw, stats.max_raw))
        return Bounds(nulls=nulls) if lo is None or hi is None else Bounds(lo, hi, nulls)

    def table(self, group: int, names: Sequence[str]) -> pa.Table:
        """All rows of these top-level columns of a row group, in as many chunks as they are decoded in.

        Raises Absent if the file does not have each of them once: PyArrow leaves out what it does not find.
        """
        found = self._file(self.footer).read_row_group(group, columns=list(names), use_threads=False)
        if sorted(found.column_names) != sorted(names):
            raise Absent(f"columns {sorted(found.column_names)} in a file instead of {sorted(names)}")
        return found

    def batches(self, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """All rows of these top-level columns of a row group, in batches of ``rows``."""
        found: Iterator[pa.RecordBatch] = self._file(self.footer).iter_batches(
            rows, row_groups=[group], columns=list(names), use_threads=False
        )
        return found

    def read(self, group: int, columns: Sequence[Leaves], upto: int | None = None) -> list[pa.Array]:
        """These columns of a row group as Arrow arrays: all of its rows, or at least the first ``upto``."""
        paths = list(dict.fromkeys(".".join(c.path) for c in columns))
        file = self._file(self.footer)
        rows = int(self.starts[group + 1] - self.starts[group])
        if upto is None or rows - upto < _BATCH:
            table = file.read_row_group(group, columns=paths, use_threads=False)
        else:
            batches = file.iter_batches(_BATCH, row_groups=[group], columns=paths, use_threads=False)
            table = pa.Table.from_batches(islice(batches, -(-upto // _BATCH)))
        return [_at(table, c.path) for c in columns]


class _Index:
    """The top-level columns of a schema, and its leaves by each path that leads to them.

    below    dotted path → numbers of the leaves at or below it
    """

    def __init__(self, schema: pq.ParquetSchema) -> None:
        self._named: dict[str, list[pa.Field]] = {}
        self._numbered: dict[bytes, list[pa.Field]] = {}
        self._alike: dict[str, list[pa.Field]] = {}
        for field in schema.to_arrow_schema():
            self._named.setdefault(field.name, []).append(field)
            self._alike.setdefault(field.name.lower(), []).append(field)
            number = (field.metadata or {}).get(FIELD_ID)
            if number is not None:
                self._numbered.setdefault(number, []).append(field)
        self.below: dict[str, list[int]] = {}
        for number in range(len(schema)):
            for path in accumulate(schema.column(number).path.split("."), "{}.{}".format):
                self.below.setdefault(path, []).append(number)

    @property
    def has_ids(self) -> bool:
        """Whether any top-level column has a field id."""
        return bool(self._numbered)

    def like(self, name: str) -> Sequence[pa.Field]:
        """The top-level columns of this name in any case."""
        return self._alike.get(name.lower(), ())

    def only(self, name: str, number: int | None) -> pa.Field:
        """The top-level column of this id, or of this name if ``number`` is None. Raises Absent or Declined."""
        if number is None:
            return _only(self._named.get(name, ()), name)
        return _only(self._numbered.get(str(number).encode(), ()), name)


def parts(values: pa.Array) -> list[pa.Array]:
    """A column as flat arrays: the column itself; for a struct, its validity, then the parts of its fields."""
    if not pa.types.is_struct(values.type):
        return [values]
    return [values.is_valid(), *(part for child in values.flatten() for part in parts(child))]


def _text(schema: pq.ParquetSchema) -> str:
    """The whole schema, with names, ids, repetition and logical types at all depths; its first line is an address."""
    return str(schema).partition("\n")[2]


def _child(kind: pa.DataType, name: str, number: int | None) -> pa.Field:
    """A field of a struct by its id, or by its name if ``number`` is None."""
    if not pa.types.is_struct(kind):
        raise Declined(f"column {name} is not a field of a struct")
    fields = [kind.field(i) for i in range(kind.num_fields)]
    if number is None:
        return _only([field for field in fields if field.name == name], name)
    wanted = str(number).encode()
    return _only([field for field in fields if (field.metadata or {}).get(FIELD_ID) == wanted], name)


def _only(found: Sequence[pa.Field], name: str) -> pa.Field:
    if not found:
        raise Absent(f"column {name} is not in a file")
    if len(found) > 1:
        raise Declined(f"column {name} occurs more than once in a file")
    return found[0]


def _at(table: pa.Table, path: Sequence[str]) -> pa.Array:
    values = table.column(path[0]).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks > 1:
            raise Declined(f"column {path[0]} is too large for one array")
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    for step in path[1:]:
        values = values.flatten()[values.type.get_field_index(step)]
    return values


def _ordered(raw: Any, leaf: Any) -> Any:
    """A bound as a number or as bytes, in the order of the values; None if the order is unknown."""
    logical = str(leaf.logical_type)
    if leaf.physical_type in ("INT32", "INT64", "BOOLEAN"):
        return None if "isSigned=false" in logical else int(raw)  # for a decimal: the unscaled value
    if leaf.physical_type in ("FLOAT", "DOUBLE"):
        return None if np.isnan(raw) else float(raw)
    if leaf.physical_type == "BYTE_ARRAY":
        return bytes(raw) if logical in ("None", "String") else None
    if logical.startswith("Decimal") and leaf.precision <= SHORT_DECIMAL:
        return int.from_bytes(raw, "big", signed=True)
    return None
