"""What the footers of a merge's inputs say: their row groups, bounds, sizes, codec, and how text repeats.

A file is read only where each value provably means to Spark what it means to Arrow; else it is declined, and nothing
is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.nans import float_leaves
from lakekeeper.columnar.parquet import Bounds, Leaves, ParquetFile
from lakekeeper.columnar.sizes import Size, has_delta, size_of
from lakekeeper.columnar.sorting import Range, Token, token_of_bound
from lakekeeper.columnar.stored import located, stored_alike
from lakekeeper.columnar.types import type_of
from lakekeeper.columnar.values import Declined, is_text
from lakekeeper.core.model.file_merge import FileMerge

_ZSTD_AND_OTHERS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_FEW_DISTINCT = 4.5  # encoded bytes per text below which a dictionary is assumed to hold the texts
_DICTIONARY = 1 << 20


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of an input, by the number of either."""

    file: int
    group: int


class Footers:
    """The footers of all inputs of one merge.

    types, read_types  by column of the outputs: its Arrow type, and the one in which it is read
    leaves             by input and column: where the input stores the column; None if it lacks it

    Raises Declined for a file that only Spark may read.
    """

    def __init__(self, merge: FileMerge, files: Sequence[ParquetFile]) -> None:
        self._merge = merge
        self._files = files
        self._sizes: dict[Group, list[Size]] = {}
        self.types = [type_of(column) for column in merge.columns]
        self.leaves: list[list[Leaves | None]] = []
        for number, file in enumerate(files):
            same = number > 0 and stored_alike(file, files[number - 1])
            self.leaves.append(self.leaves[-1] if same else located(file, merge))
        self.read_types = [self._read_type(c) for c in range(len(self.types))]

    def _read_type(self, column: int) -> pa.DataType:
        """The type in which a column is read: repetitive text stays a dictionary, unless rows are compared by it.

        Arrow has no decoder from DELTA encodings to dictionaries.
        """
        compared = {*self._merge.key, *([self._merge.cut_column] if self._merge.cuts else [])}
        kind = self.types[column]
        if not is_text(kind) or column in compared or not self._repeats(column):
            return kind
        chunks = (self._chunk(group, column) for group in self.groups())
        delta = any(has_delta(chunk) for chunk in chunks if chunk is not None)
        return kind if delta else pa.dictionary(pa.int32(), kind)

    @property
    def all_rows(self) -> int:
        """Rows of all inputs, deleted ones included."""
        return sum(file.rows for file in self._files)

    @property
    def row_bytes(self) -> float:
        """Stored bytes of a row, with its share of the footers."""
        footers = sum(int(file.footer.serialized_size) for file in self._files)
        return (self._stored_bytes + footers) / max(self.all_rows, 1)

    @property
    def _stored_bytes(self) -> int:
        """Compressed bytes of the columns that are read."""
        return sum(
            self._files[group.file].bytes_of(group.group, leaves)
            for group in self.groups()
            for leaves in self.leaves[group.file]
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
        if self.leaves[group.file][column] is None:  # all rows are NULL
            return range_.lo is None
        bounds = self._bounds(group, column)
        ends: list[Token | None] = [
            None if end is None else token_of_bound(end) for end in (bounds.lo, bounds.hi)
        ]
        nans = self._merge.columns[column].kind in ("float", "double")
        return range_.may_hold(*ends, nulls=bounds.nulls != 0, nans=nans)

    def _bounds(self, group: Group, column: int) -> Bounds:
        """Unknown for a column that the file lacks, and for INT96, whose statistics have no defined order."""
        leaves = self.leaves[group.file][column]
        if leaves is None or leaves.shape[0][1] == "INT96":
            return Bounds()
        return self._files[group.file].bounds(group.group, leaves)

    def decoded_bytes(self, group: Group) -> int:
        """The approximate size of a row group as Arrow arrays, in bytes."""
        return sum(size.bytes for size in self.sizes(group))

    def sizes(self, group: Group) -> list[Size]:
        """The size of each column of a row group as an Arrow array."""
        found = self._sizes.get(group)
        if found is None:
            footer = self._files[group.file].footer.row_group(group.group)
            leaves, rows = self.leaves[group.file], self.rows(group)
            found = self._sizes[group] = [
                size_of([footer.column(number) for number in each.numbers] if each else (), rows, kind)
                for each, kind in zip(leaves, self.read_types, strict=True)
            ]
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
        leaves = self.leaves[group.file][column]
        if leaves is None:
            return False
        chunk = self._files[group.file].footer.row_group(group.group).column(leaves.numbers[leaf])
        found = chunk.statistics if chunk.is_stats_set else None
        return found is None or (not found.has_min_max and found.num_values > 0)

    def _repeats(self, column: int) -> bool:
        sizes = [(self._size(group, column), self.rows(group)) for group in self.groups()]
        return all(self._few_distinct(size, rows) for size, rows in sizes)

    def _size(self, group: Group, column: int) -> int:
        chunk = self._chunk(group, column)
        return 0 if chunk is None else int(chunk.total_uncompressed_size)

    def _chunk(self, group: Group, column: int) -> pq.ColumnChunkMetaData | None:
        """The first leaf of a column in a row group; None where the file lacks the column."""
        leaves = self.leaves[group.file][column]
        if leaves is None:
            return None
        return self._files[group.file].footer.row_group(group.group).column(leaves.numbers[0])

    @staticmethod
    def _few_distinct(size: int, rows: int) -> bool:
        return size <= _FEW_DISTINCT * rows + _DICTIONARY
