"""Merge Parquet files into Parquet files in the memory of one task: the worker of a columnar merge.

    fits in memory    read ─► sort the key ─► take the rows of one row group after another ─► write
    sorted inputs     the same for one range of the key after another: each reads the row groups that overlap it
    sorted, but each  the runs side by side, a piece of each at a time, where the ranges would read row groups again
    over many ranges
    unsorted inputs   read once ─► append each row to a scratch file of its range ─► the same, from the scratch files

A range that another task merges is left out in the same way: by the statistics of row groups, then by value. So each
task reads all unsorted inputs; where most row groups would be read by many tasks, a few tasks merge all ranges:

    cuts of the task        ├────┼────┼────┼────┤
    row groups, unsorted    ■■■■■■■■■■■■■■■■■■■■■      two tasks: ├─────────┼─────────┤
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.decoded import slices
from lakekeeper.columnar.files import Files, files_of
from lakekeeper.columnar.inputs import Group, Inputs
from lakekeeper.columnar.outputs import Outputs
from lakekeeper.columnar.runs import MOST, Unfit, ascending, merged
from lakekeeper.columnar.sampling import Sample, quantiles, sampled
from lakekeeper.columnar.sorting import Range, Token, buckets, ordered, permutation, ranges, tokens
from lakekeeper.columnar.values import Declined, Longs, single
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.keys import from_json_values

MEMORY_BYTES = 800 << 20
"""Bytes of decoded rows that a task holds at once. Its peak is about twice as much: the order, and one row group."""
REREAD = 1.5  # reads of a row group, on average, up to which reading again is cheaper than a scratch file
TASKS = 2.0  # tasks that read a row group, on average; each further one costs as much as a third of the merge
SKEW = 2.0  # times its share of the memory that a range or a sorted run may take
_MORE = 1.5  # share of the memory that rows may take if they were expected to fit into it
_TOO_MANY = "more rows of about the same key than fit in memory"
_SAMPLED = 24  # row groups from which cuts are taken, and values of each batch of a scratch file
_SCRATCH_FILES = 256  # up to which a scratch file holds half of a range: a worker touches less memory then
_PIECES = 32  # pieces of all sorted runs together take this part of the memory, if that is enough rows
PIECE_ROWS = 1 << 14
"""Rows of a piece below which a sorted run is not merged as a stream."""
STREAMS = 0.125
"""The largest share of the memory that pieces of all runs may take together."""
_SLICE = 1 << 19  # rows that are filtered and divided at once: a row group may fill most of the memory


def merge(
    task: FileMerge, part: int = 0, *, scratch: str | None = None, files: Files | None = None
) -> list[WrittenFile]:
    """Merge one range of the task into new files. ``scratch`` is a local folder for temporary files.

    ``files`` opens the inputs and creates the outputs; by default, those of the task's store.

    Raises Declined, with no file left, where the result might differ from Spark's. OSError and Arrow's errors are
    passed through, with no file left either.
    """
    return merge_range(task, part, scratch=scratch, files=files)[1]


def merge_range(
    task: FileMerge, part: int = 0, *, scratch: str | None = None, files: Files | None = None
) -> tuple[list[Range], list[WrittenFile]]:
    """Like :func:`merge`, and returns all ranges of the task too: every part must have computed the same ones."""
    files = files or files_of(task)
    inputs = Inputs(task, files, MEMORY_BYTES // 8)
    try:
        return _Merge(task, files, inputs, part, scratch).run()
    finally:
        inputs.close()


@dataclass(slots=True)
class _Merge:
    """One range of one merge."""

    task: FileMerge
    files: Files
    inputs: Inputs
    part: int
    scratch: str | None
    streams: bool = True

    def run(self) -> tuple[list[Range], list[WrittenFile]]:
        try:
            return self._run()
        except Unfit:  # its outputs are removed
            self.streams = False
            return self._run()

    def _run(self) -> tuple[list[Range], list[WrittenFile]]:
        parts = self._parts()
        if self.part >= len(parts):  # others merge its range too
            return parts, []
        own = parts[self.part]
        groups = self.inputs.within(self.inputs.groups(), self.task.cut_column, own)
        live = self.inputs.live_rows
        with Outputs(
            self.task,
            self.files,
            self.inputs.types,
            self.task.codec or self.inputs.codec(),
            self.inputs.repetitive(),
            self.inputs.may_have_nan(),
            row_bytes=self.inputs.row_bytes,
            memory=MEMORY_BYTES // 2,
        ) as outputs:
            if not self.task.key:
                outputs.expect(live)
                self._in_order(groups, outputs)
            else:
                self._sorted(groups, own, outputs)
        return parts, outputs.files

    def _in_order(self, groups: Sequence[Group], outputs: Outputs) -> None:
        """Write the rows as they come, in row groups that are as full as possible."""
        held: list[pa.Table] = []
        count = size = 0
        for rows in self.inputs.tables(groups):
            held.append(rows)
            count += rows.num_rows
            size += rows.nbytes
            if size > MEMORY_BYTES // 2 or count >= outputs.wanted():
                held = self._write_full(held, outputs)
                count, size = sum(rest.num_rows for rest in held), sum(rest.nbytes for rest in held)
        if held:
            outputs.write(pa.concat_tables(held))

    def _write_full(self, rows: list[pa.Table], outputs: Outputs) -> list[pa.Table]:
        """Write the row groups that these rows fill, or all rows if they take half of the memory; returns the rest."""
        rest = pa.concat_tables(rows)
        full = rest.nbytes > MEMORY_BYTES // 2
        while rest.num_rows >= (1 if full else outputs.wanted()):
            group = rest.slice(0, outputs.wanted())
            outputs.write(group)
            rest = rest.slice(group.num_rows)
        return [rest] if rest.num_rows else []

    @property
    def _column(self) -> int:
        """The key column by which rows are divided into ranges."""
        return self.task.cut_column if self.task.cuts else self.task.key[0]

    def _parts(self) -> list[Range]:
        """The ranges of the tasks, equal in each of them: as the cuts say, or fewer if row groups overlap too many."""
        cuts = self._cuts()
        found = ranges(cuts)
        if len(found) <= TASKS:
            return found
        groups = self.inputs.groups()
        size = {group: self.inputs.decoded_bytes(group) for group in groups}
        read = sum(
            size[group] for own in found for group in self.inputs.within(groups, self.task.cut_column, own)
        )
        wanted = max(1, int(len(found) * TASKS * sum(size.values()) / max(read, 1)))
        if wanted >= len(found):
            return found
        return ranges([cuts[len(found) * i // wanted - 1] for i in range(1, wanted)])

    def _cuts(self) -> list[Token]:
        if not self.task.cuts:
            return []
        kind = self.inputs.types[self.task.cut_column]
        found = tokens(ordered(from_json_values(self.task.cuts, _key_kind(kind))))
        return [cut for cut in found if cut is not None]

    def _sorted(self, groups: Sequence[Group], own: Range, outputs: Outputs) -> None:
        expected = size = sum(map(self.inputs.decoded_bytes, groups))
        if size <= MEMORY_BYTES:
            rows, size = self._read(groups, own, _MORE * MEMORY_BYTES)
            if rows is not None:
                self._write(rows, outputs)
                return
        column = self._column
        sample, in_order = self._sample(groups, column, own)
        fine = quantiles(sample, 2 * -(-size // (MEMORY_BYTES // 2)))
        inner = ranges(fine[1::2], own)
        each = [self.inputs.within(groups, column, range_) for range_ in inner]
        sizes = [sum(map(self.inputs.decoded_bytes, some)) * size / max(expected, 1) for some in each]
        again = sum(sizes) > REREAD * size or max(sizes) > SKEW * MEMORY_BYTES
        piece_rows = self._rows_of_pieces(groups, column) if again and in_order else 0
        if piece_rows:
            self._streamed(groups, own, piece_rows, sum(rows for _, rows in sample), outputs)
            return
        if again:
            cuts = fine if len(fine) < _SCRATCH_FILES else fine[1::2]
            for rows, left in self._scattered(groups, own, column, cuts):
                self._write(rows, outputs, left)
                del rows  # before the next range is read
            return
        left = int(sum(map(self.inputs.rows, groups)) * size / max(expected, 1))
        for range_, some in zip(inner, each, strict=True):
            rows, _ = self._read(some, range_, SKEW * MEMORY_BYTES)
            if rows is None:
                raise Declined(_TOO_MANY)
            left -= rows.num_rows
            self._write(rows, outputs, max(left, 0) if range_ is not inner[-1] else 0)
            del rows  # before the next range is read

    def _sample(self, groups: Sequence[Group], column: int, own: Range) -> tuple[Sample, bool]:
        """A sample of a column's values in a range, and whether each table of rows that it is taken from ascends."""
        step = max(1, len(groups) // _SAMPLED)
        sample: Sample = []
        in_order = True
        for rows in self.inputs.tables(self.inputs.ascending(groups, column)[::step], [column]):
            values = ordered(single(rows.column(0)))
            in_order = in_order and ascending(values)
            sample += [
                (value, step * count) for value, count in sampled(values.filter(pa.array(own.holds(values))))
            ]
        return sample, in_order

    def _rows_of_pieces(self, groups: Sequence[Group], column: int) -> int:
        """Rows of each run to hold where row groups that ascend are best merged as streams; 0 where they are not.

        Few runs of short rows on the local disk are: with fewer rows in a piece, calls cost more than their work.
        """
        if not self.streams or len(groups) > MOST or self.files.remote or column != self.task.key[0]:
            return 0
        if any(self.inputs.sizes(group)[1] for group in groups):
            return 0
        size = sum(map(self.inputs.decoded_bytes, groups))
        row_bytes = size / max(sum(map(self.inputs.rows, groups)), 1) * len(groups)  # of a row of each run
        rows = int(max(MEMORY_BYTES // _PIECES / max(row_bytes, 1), PIECE_ROWS))
        return rows if rows * row_bytes <= STREAMS * MEMORY_BYTES else 0

    def _streamed(
        self, groups: Sequence[Group], own: Range, piece_rows: int, count: int, outputs: Outputs
    ) -> None:
        """Merge sorted runs of about ``count`` rows together."""
        outputs.expect(self.inputs.live_rows if own.whole else count)
        counted = all(each.rows is not None for each in self.task.inputs)
        rest: list[pa.Table] = []
        with ExitStack() as files:
            runs = [files.enter_context(closing(self.inputs.stream(group, piece_rows))) for group in groups]
            for parts in merged(runs, self._column, int(SKEW * MEMORY_BYTES / len(groups))):
                found = _whole(parts, self.inputs.read_types)
                rows = self._inside(found, own)
                order = permutation([ordered(single(rows.column(c))) for c in self.task.key])
                rest.append(rows if order is None else rows.take(pa.array(order)))
                rest = self._write_full(rest, outputs)
                # The rows of a run that does not ascend further up are missing from the count that the driver expects.
                if counted and own.ends_below(ordered(single(found.column(self._column)))):
                    break
        if rest:
            outputs.write(pa.concat_tables(rest))

    def _read(self, groups: Sequence[Group], own: Range, most: float) -> tuple[pa.Table | None, int]:
        """The rows of a range, one chunk per column, and their bytes; beyond the most: None, and an estimate."""
        found, size, seen = [], 0, 0
        for rows in self.inputs.tables(groups):
            found.append(self._inside(rows, own))
            size += found[-1].nbytes
            seen += rows.num_rows
            if size > most:
                return None, size * sum(map(self.inputs.rows, groups)) // max(seen, 1)
        return _whole(found, self.inputs.read_types), size

    def _inside(self, rows: pa.Table, own: Range) -> pa.Table:
        if own.whole:
            return rows
        inside = own.holds(ordered(single(rows.column(self._column))))
        return rows if inside.all() else rows.filter(pa.array(inside))

    def _write(self, rows: pa.Table, outputs: Outputs, more: int = 0) -> None:
        """Sort rows, and write them row group by row group; about ``more`` rows follow."""
        outputs.expect(rows.num_rows + more)
        order = permutation([ordered(single(rows.column(c))) for c in self.task.key])
        at = 0
        while at < rows.num_rows:
            size = min(outputs.wanted(), rows.num_rows - at)
            outputs.write(
                rows.slice(at, size) if order is None else rows.take(pa.array(order[at : at + size]))
            )
            at += size

    def _scattered(
        self, groups: Sequence[Group], own: Range, column: int, cuts: Sequence[Token]
    ) -> Iterator[tuple[pa.Table, int]]:
        """The rows of each range between the cuts, through one scratch file per range; and the number that follows."""
        folder = tempfile.mkdtemp(prefix="lakekeeper-merge-", dir=self.scratch)
        schema = pa.schema([(str(c), kind) for c, kind in enumerate(self.inputs.types)])
        paths = [f"{folder}/{number}.arrow" for number in range(len(cuts) + 1)]
        left = 0
        try:
            sinks = [pa.OSFile(path, "wb") for path in paths]
            writers = [pa.ipc.new_file(sink, schema) for sink in sinks]
            try:
                for read in self.inputs.tables(groups):
                    for part in slices(read, MEMORY_BYTES // 8, longest=_SLICE):
                        rows = self._inside(part, own).cast(schema)
                        number = buckets(ordered(single(rows.column(column))), cuts)
                        for i, some in _by_bucket(rows, number, len(paths)):
                            writers[i].write_table(some.combine_chunks())
                        left += rows.num_rows
            finally:
                for writer, sink in zip(writers, sinks, strict=True):
                    writer.close()
                    sink.close()
            for path in paths:
                for rows in self._within_memory(path, column):
                    left -= rows.num_rows
                    yield rows, left
                    del rows  # before the next file is read
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _within_memory(self, path: str, column: int) -> Iterator[pa.Table]:
        """The rows of a scratch file, divided if they do not fit: repeated text takes more memory than in the inputs.

        Raises Declined.
        """
        with pa.memory_map(path) as source:
            scratch = pa.ipc.open_file(source).read_all()
            if scratch.nbytes > MEMORY_BYTES:
                yield from self._divided(scratch, column)
                return
            rows = _whole([scratch], self.inputs.types)
            del scratch
        yield rows  # without the mapped file, whose pages count as the task's memory

    def _divided(self, scratch: pa.Table, column: int) -> Iterator[pa.Table]:
        batches = [pa.Table.from_batches([batch]) for batch in scratch.to_batches()]
        values = [ordered(single(rows.column(column))) for rows in batches]
        sample = [each for chunk in values for each in sampled(chunk, _SAMPLED)]
        cuts = quantiles(sample, -(-scratch.nbytes // (MEMORY_BYTES // 2)))
        for number in range(len(cuts) + 1):
            found, size = [], 0
            for rows, keys in zip(batches, values, strict=True):
                found.append(rows.filter(pa.array(buckets(keys, cuts) == number)))
                size += found[-1].nbytes
                if size > SKEW * MEMORY_BYTES:
                    raise Declined(_TOO_MANY)
            yield _whole(found, self.inputs.types)


def _by_bucket(rows: pa.Table, number: Longs, count: int) -> Iterator[tuple[int, pa.Table]]:
    together = rows.take(pa.array(np.argsort(number, kind="stable")))
    ends = np.cumsum(np.bincount(number, minlength=count))
    for i in range(count):
        first, last = int(ends[i - 1]) if i else 0, int(ends[i])
        if last > first:
            yield i, together.slice(first, last - first)


def _whole(tables: list[pa.Table], types: Sequence[pa.DataType]) -> pa.Table:
    """The tables as one, with one chunk per column; they are released column by column."""
    columns = []
    for kind in types:
        chunks = [chunk for table in tables for chunk in table.column(0).chunks]
        tables = [table.remove_column(0) for table in tables]
        column = pa.chunked_array(chunks, kind)
        columns.append(column.unify_dictionaries().combine_chunks())
        del chunks, column
    return pa.table(columns, names=[str(c) for c in range(len(types))])


def _key_kind(kind: pa.DataType) -> str:
    """The kind of a key column (:mod:`lakekeeper.core.model.keys`) of an Arrow type."""
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return {"bool": "boolean", "date32[day]": "date"}.get(str(kind), str(kind))
