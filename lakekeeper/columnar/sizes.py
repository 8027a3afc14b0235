"""How many bytes a column of a row group takes in memory, as far as its footer shows.

numbers                          their width
text read as a dictionary        its encoded bytes, and a number for each row
text stored one by one           its encoded bytes, and an offset for each row
text stored with a dictionary    not known: a few bytes of the file may mean a long text in each row, but none longer
                                 than the longest of the dictionary (``ParquetFile.longest_texts``)
text stored as differences       not known
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.values import is_text

_NUMBER = 4  # bytes of an offset, or of a number that represents a text
_VALUE = 5  # bytes for each value of a nested column: an offset, and bits
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
_LONG = (
    1_024  # supposed bytes of a text if its column has no bounds, which a writer leaves out if they are long
)
_DICTIONARIES = frozenset(("PLAIN_DICTIONARY", "RLE_DICTIONARY"))
_DELTA = "DELTA_"
_DIFFERENCES = "DELTA_BYTE_ARRAY"
_WIDEST = 16  # a decimal, the longest value that is not a text


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes in memory: an upper bound if ``sure``, otherwise an estimate.

    beside       upper bound of what is not in a dictionary
    texts        values that may be texts of a dictionary
    differences  whether texts may be stored as differences from others, or the dictionary cannot be read, so that
                 nothing bounds them
    """

    bytes: int
    sure: bool = True
    beside: int = 0
    texts: int = 0
    differences: bool = False

    @property
    def most(self) -> int:
        """Upper bound without ``differences``: no text is longer than all that is stored."""
        return (1 + self.texts) * self.beside

    def with_texts_of(self, longest: int) -> int:
        """Upper bound without ``differences``, if no text of the dictionaries has more bytes than ``longest``."""
        return self.beside + self.texts * max(longest, _WIDEST)


def size_of(chunks: Sequence[pq.ColumnChunkMetaData], rows: int, kind: pa.DataType) -> Size:
    """The size of a column that is read as this type, from the footer's facts of its columns of Parquet.

    Without one, the file lacks the column.
    """
    if pa.types.is_nested(kind):
        return size_of_leaves(chunks)
    if pa.types.is_dictionary(kind):
        size = sum(int(chunk.total_uncompressed_size) for chunk in chunks)
        return Size(_NUMBER * rows + size)
    if is_text(kind):
        return _text(chunks[0], rows, _NUMBER) if chunks else Size(_NUMBER * rows)
    return Size(rows * max(kind.bit_width, 8) // 8)


def size_of_leaves(chunks: Iterable[pq.ColumnChunkMetaData]) -> Size:
    """The size of single columns of Parquet, in whatever columns they are."""
    leaves = [_leaf(chunk) for chunk in chunks]
    return Size(
        sum(leaf.bytes for leaf in leaves),
        all(leaf.sure for leaf in leaves),
        sum(leaf.bytes if leaf.sure else leaf.beside for leaf in leaves),
        sum(leaf.texts for leaf in leaves),
        any(leaf.differences for leaf in leaves),
    )


def _leaf(chunk: pq.ColumnChunkMetaData) -> Size:
    """A leaf of a nested column. Its values include NULLs and empty lists."""
    count = int(chunk.num_values)
    if chunk.physical_type == "BYTE_ARRAY":
        return _text(chunk, count, _VALUE)
    width = _WIDEST if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(chunk.physical_type, 8)
    return Size(count * (width + _VALUE))


def has_texts(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether values are stored with a dictionary that Arrow can return: it has no decoder from DELTA encodings."""
    return _has_dictionary(chunk) and not has_delta(chunk)


def _has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return not _DICTIONARIES.isdisjoint(chunk.encodings)


def has_delta(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether values are stored by one of the DELTA encodings."""
    return any(name.startswith(_DELTA) for name in chunk.encodings)


def _text(chunk: pq.ColumnChunkMetaData, count: int, beside: int) -> Size:
    encoded = int(chunk.total_uncompressed_size)
    numbers, dictionary = beside * count, _has_dictionary(chunk)
    if not dictionary and _DIFFERENCES not in chunk.encodings:
        return Size(encoded + numbers)
    differences = has_delta(chunk)
    expected = max(encoded, _length(chunk) * count) + numbers
    return Size(expected, sure=False, beside=encoded + numbers, texts=count, differences=differences)


def _length(chunk: pq.ColumnChunkMetaData) -> int:
    """Estimated bytes of a text: the length of the shorter bound, since one long text says little about the others."""
    found = chunk.statistics if chunk.is_stats_set else None
    if found is None or not found.has_min_max:
        return _LONG if found is not None and found.num_values else 0
    return min(map(_bytes, (found.min_raw, found.max_raw)))


def _bytes(bound: Any) -> int:
    return len(bound) if isinstance(bound, (bytes, str)) else _WIDEST
