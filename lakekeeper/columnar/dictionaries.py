"""The texts of columns that were read as dictionaries, at any depth, without decoding the text of each row.

A column of a row group has one dictionary. Arrow decodes all of it at the column's first value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def longest_texts(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[int]:
    """The bytes of the longest text in the dictionaries of each column; 0 without one.

    ``batches`` of one row group, from its first row on, are taken until each column has had a value.
    """
    longest: list[list[int]] = [[] for _ in names]
    for batch in batches:
        for number, name in enumerate(names):
            here = [_longest(values) for values in _dictionaries(batch.column(name))]
            longest[number] = list(map(max, longest[number] or here, here))
        if all(map(all, longest)):
            break
    return [max(each, default=0) for each in longest]


def repeated_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """The bytes of the texts of all rows."""
    size = 0
    for batch in batches:
        for values in (found for column in batch.columns for found in _dictionaries(column)):
            lengths = pc.binary_length(values.dictionary).cast(pa.int64())
            size += pc.sum(lengths.take(values.indices)).as_py() or 0
    return size


def _dictionaries(values: pa.Array) -> Iterator[pa.DictionaryArray]:
    if pa.types.is_dictionary(values.type):
        yield values
    elif pa.types.is_struct(values.type):
        for number in range(values.type.num_fields):
            yield from _dictionaries(values.field(number))
    elif pa.types.is_map(values.type):
        yield from _dictionaries(values.keys)
        yield from _dictionaries(values.items)
    elif pa.types.is_nested(values.type):
        yield from _dictionaries(values.values)


def _longest(values: pa.DictionaryArray) -> int:
    return pc.max(pc.binary_length(values.dictionary)).as_py() or 0
