"""Rows divided into scratch files by ranges of a column, and read back range by range.

tables, in any order ─► a scratch file for each range ─► the rows of one range after another
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.sampling import quantiles, sampled
from lakekeeper.columnar.sorting import Token, buckets, ordered
from lakekeeper.columnar.values import Declined, Longs, single, whole

TOO_MANY = "more rows of about the same key than fit in memory"
_SAMPLED = 24  # values of each batch of a scratch file from which cuts are taken


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where and how rows are divided.

    column  the column by which they are, by number
    types   of all columns, as they are written
    parent  the folder below which a new one is made for the files; None: the system's for temporary files
    memory  bytes above which the rows of a range come in several tables; ``most``: bytes that one of these may take
    """

    column: int
    types: Sequence[pa.DataType]
    parent: str | None
    memory: int
    most: float

    def by_range(self, tables: Iterable[pa.Table], cuts: Sequence[Token]) -> Iterator[tuple[pa.Table, int]]:
        """The rows of each range between the cuts, one chunk per column; and the number that follows.

        The scratch files are removed at the end, or when the iterator is closed. Raises Declined.
        """
        folder = tempfile.mkdtemp(prefix="lakekeeper-merge-", dir=self.parent)
        paths = [f"{folder}/{number}.arrow" for number in range(len(cuts) + 1)]
        try:
            left = self._write(tables, cuts, paths)
            for path in paths:
                for rows in self._read(path):
                    left -= rows.num_rows
                    yield rows, left
                    del rows  # before the next file is read
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _write(self, tables: Iterable[pa.Table], cuts: Sequence[Token], paths: Sequence[str]) -> int:
        """Append each row to the file of its range; returns the number of rows."""
        schema = pa.schema([(str(c), kind) for c, kind in enumerate(self.types)])
        sinks = [pa.OSFile(path, "wb") for path in paths]
        writers = [pa.ipc.new_file(sink, schema) for sink in sinks]
        count = 0
        try:
            for table in tables:
                rows = table.cast(schema)
                number = buckets(ordered(single(rows.column(self.column))), cuts)
                for i, some in _by_bucket(rows, number, len(paths)):
                    writers[i].write_table(some.combine_chunks())
                count += rows.num_rows
        finally:
            for writer, sink in zip(writers, sinks, strict=True):
                writer.close()
                sink.close()
        return count

    def _read(self, path: str) -> Iterator[pa.Table]:
        """The rows of a file, divided if they do not fit: repeated text takes more memory than in the inputs."""
        with pa.memory_map(path) as source:
            scratch = pa.ipc.open_file(source).read_all()
            if scratch.nbytes > self.memory:
                yield from self._divided(scratch)
                return
            rows = whole([scratch], self.types)
            del scratch
        yield rows  # without the mapped file, whose pages count as the task's memory

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
            yield whole(found, self.types)


def _by_bucket(rows: pa.Table, number: Longs, count: int) -> Iterator[tuple[int, pa.Table]]:
    together = rows.take(pa.array(np.argsort(number, kind="stable")))
    ends = np.cumsum(np.bincount(number, minlength=count))
    for i in range(count):
        first, last = int(ends[i - 1]) if i else 0, int(ends[i])
        if last > first:
            yield i, together.slice(first, last - first)
