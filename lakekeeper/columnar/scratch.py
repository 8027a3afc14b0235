"""Rows divided into scratch files by ranges of a column, and read back range by range.

tables, in any order ─► a scratch file for each range ─► the rows of one range after another
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.decoded import slices
from lakekeeper.columnar.runs import Unfit
from lakekeeper.columnar.sampling import quantiles, sampled
from lakekeeper.columnar.sorting import Range, Token, buckets, ordered
from lakekeeper.columnar.values import Declined, Longs, single, whole

TOO_MANY = "more rows of about the same key than fit in memory"
TEXTS = 16
"""The part of the memory that the dictionaries of all texts may take together."""
_NUMBER = pa.int32()
_SLICE = 1 << 19  # rows that are divided at once: a row group may fill most of the memory
_SAMPLED = 24  # values of each batch of a scratch file from which cuts are taken


@dataclass(frozen=True, slots=True)
class Scratch:
    """How rows are divided, and where the files are.

    column  number of the column by which rows are divided
    within  range of that column; rows beyond it are left out
    types   of all columns, as they are returned: text that is read as a dictionary may stay one
    parent  folder in which a temporary folder is made for the files; None: that of the system
    memory  bytes above which the rows of a range come in several tables; ``most``: bytes that one of these may take
    """

    column: int
    within: Range
    types: Sequence[pa.DataType]
    parent: str | None
    memory: int
    most: float

    def by_range(self, tables: Iterable[pa.Table], cuts: Sequence[Token]) -> Iterator[tuple[pa.Table, int]]:
        """The rows of each range between the cuts, one chunk per column; and the number that follows.

        The scratch files are removed at the end, or when the iterator is closed. Raises Declined, and Unfit where the
        dictionaries of all texts take too much memory.
        """
        texts = {c: Texts(kind) for c, kind in enumerate(self.types) if pa.types.is_dictionary(kind)}
        folder = tempfile.mkdtemp(prefix="lakekeeper-merge-", dir=self.parent)
        paths = [f"{folder}/{number}.arrow" for number in range(len(cuts) + 1)]
        try:
            left = self._write(tables, cuts, paths, texts)
            for path in paths:
                for rows in self._read(path, texts):
                    left -= rows.num_rows
                    yield rows, left
                    del rows  # before the next file is read
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _write(
        self,
        tables: Iterable[pa.Table],
        cuts: Sequence[Token],
        paths: Sequence[str],
        texts: Mapping[int, Texts],
    ) -> int:
        """Append each row to the file of its range; returns the number of rows."""
        kinds = [_NUMBER if c in texts else kind for c, kind in enumerate(self.types)]
        schema = pa.schema([(str(c), kind) for c, kind in enumerate(kinds)])
        ends = [self.within.lo, *cuts, self.within.hi]
        bounded = [end for end in ends if end is not None]
        first = int(self.within.lo is not None)
        sinks = [pa.OSFile(path, "wb") for path in paths]
        writers = [pa.ipc.new_file(sink, schema) for sink in sinks]
        count = 0
        try:
            for table in tables:
                numbered = _with_numbers(table, texts)
                if sum(known.nbytes for known in texts.values()) > self.memory // TEXTS:
                    raise Unfit
                for rows in slices(numbered, self.memory // 8, longest=_SLICE):
                    number = buckets(ordered(single(rows.column(self.column))), bounded) - first
                    for i, some in _by_bucket(rows, number, schema, len(paths)):
                        writers[i].write_table(some.combine_chunks())
                        count += some.num_rows
        finally:
            for writer, sink in zip(writers, sinks, strict=True):
                writer.close()
                sink.close()
        return count

    def _read(self, path: str, texts: Mapping[int, Texts]) -> Iterator[pa.Table]:
        """The rows of a file, divided if they do not fit: repeated text takes more memory than in the inputs."""
        with pa.memory_map(path) as source:
            scratch = pa.ipc.open_file(source).read_all()
            if scratch.nbytes > self.memory:
                yield from (_with_texts(rows, texts) for rows in self._divided(scratch))
                return
            rows = whole([scratch], scratch.schema.types)
            del scratch
        yield _with_texts(rows, texts)  # without the mapped file, whose pages count as the task's memory

    def _divided(self, scratch: pa.Table) -> Iterator[pa.Table]:
        batches = [pa.Table.from_batches([batch]) for batch in scratch.to_batches()]
        values = [ordered(single(rows.column(self.column))) for rows in batches]
        sample = [each for chunk in values for each in sampled(chunk, _SAMPLED)]
        cuts = quantiles(sample, -(-scratch.nbytes // (self.memory // 2)))
        for number in range(len(cuts) + 1):
            found, size = [], 0
            for rows, keys in zip(batches, values, strict=True):
                found.append(rows.filter(pa.array(buckets(keys, cuts) == number)))
                size += found[-1].nbytes
                if size > self.most:
                    raise Declined(TOO_MANY)
            yield whole(found, scratch.schema.types)


class Texts:
    """One dictionary for a column of many tables, in which each text keeps its number."""

    def __init__(self, kind: pa.DictionaryType) -> None:
        self._all = pa.array([], kind)

    @property
    def nbytes(self) -> int:
        """Bytes of all texts so far."""
        return int(self._all.dictionary.nbytes)

    def numbers(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The numbers of the texts of a column."""
        together = pa.chunked_array([self._all, *column.chunks]).unify_dictionaries()
        self._all, *chunks = together.chunks
        return pa.chunked_array([chunk.indices for chunk in chunks], _NUMBER)

    def of(self, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
        """The texts of these numbers, as a dictionary."""
        chunks = [pa.DictionaryArray.from_arrays(each, self._all.dictionary) for each in numbers.chunks]
        return pa.chunked_array(chunks, self._all.type)


def _with_numbers(rows: pa.Table, texts: Mapping[int, Texts]) -> pa.Table:
    """The rows with numbers in place of these columns of text."""
    for c, known in texts.items():
        rows = rows.set_column(c, str(c), known.numbers(rows.column(c)))
    return rows


def _with_texts(rows: pa.Table, texts: Mapping[int, Texts]) -> pa.Table:
    """Inverse of :func:`_with_numbers`."""
    for c, known in texts.items():
        rows = rows.set_column(c, str(c), known.of(rows.column(c)))
    return rows


def _by_bucket(
    rows: pa.Table, number: Longs, schema: pa.Schema, count: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket from 0 on, one ``number`` for each row. Dictionaries are decoded in their new order."""
    # NumPy sorts 16-bit numbers by radix.
    order = np.argsort(number.astype(np.int16), kind="stable")
    ends = np.searchsorted(number[order], np.arange(count + 1))
    together = rows.take(pa.array(order[ends[0] : ends[-1]])).cast(schema)
    for i, (start, end) in enumerate(pairwise((ends - ends[0]).tolist())):
        if end > start:
            yield i, together.slice(start, end - start)
