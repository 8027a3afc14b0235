"""Which Parquet files have a Bloom filter on given columns, by their footers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.errors import AdapterError, Unsupported, reason

_LEVELS_AND_DICTIONARY = frozenset({"RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})

UNFIT = frozenset({"float", "double"})
"""Types whose filters lose rows: queries take -0.0 for 0.0, and filters do not (apache/parquet-format 407)."""

File = tuple[str, Callable[[], Any]]
"""A name, and how to open the file."""


def lacking(
    table: str, files: Iterable[File], columns: Callable[[pa.Schema], Collection[str]]
) -> frozenset[str]:
    """The names of the files that lack a filter on one of the columns: dotted paths, for the schema of each file.

    Each file comes with a function that opens it: to a local path, or a file object. A column that a file does not have
    needs none, nor does a file that is not Parquet. Raises Unsupported if pyarrow does not report filters, and
    AdapterError if a file cannot be read; both name the table.
    """
    if not hasattr(pq.ColumnChunkMetaData, "bloom_filter_offset"):
        raise Unsupported(table, "Bloom filters", "this pyarrow does not report them: install a newer one")

    def lacks(file: File) -> bool:
        try:
            with pq.ParquetFile(file[1]()) as opened:
                return _lacks(opened.metadata, frozenset(columns(opened.schema_arrow)))
        except pa.ArrowInvalid:
            return False

    try:
        named = list(files)
        found = in_parallel(lacks, named)
    except Exception as error:
        raise AdapterError(f"{table}: footers of its files could not be read: {reason(error)}") from error
    return frozenset(name for (name, _), lack in zip(named, found, strict=True) if lack)


def _lacks(footer: Any, wanted: frozenset[str]) -> bool:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for at in range(group.num_columns):
            chunk = group.column(at)
            if chunk.path_in_schema not in wanted or chunk.bloom_filter_offset is not None:
                continue
            # Writers leave out the filter of a chunk whose values are all in its dictionary.
            if not (chunk.has_dictionary_page and set(chunk.encodings) <= _LEVELS_AND_DICTIONARY):
                return True
    return False
