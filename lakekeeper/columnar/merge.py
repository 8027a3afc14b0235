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

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pyarrow as pa

from lakekeeper.columnar.files import Files, files_of
from lakekeeper.columnar.footers import Footers, Group
from lakekeeper.columnar.inputs import Inputs
from lakekeeper.columnar.outputs import Outputs
from lakekeeper.columnar.runs import MOST, Unfit, ascending, merged
from lakekeeper.columnar.sampling import Sample, quantiles, sampled
from lakekeeper.columnar.scratch import TOO_MANY, Scratch
from lakekeeper.columnar.sorting import Range, Token, ordered, permutation, ranges, tokens
from lakekeeper.columnar.values import Declined, single, whole
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.keys import from_json_values

MEMORY_BYTES = 800 << 20
"""Bytes of decoded rows that a task holds at once. Its peak is about twice as much: the order, and one row group."""
REREAD = 1.5  # reads of a row group, on average, up to which reading again is cheaper than a scratch file
TASKS = 2.0  # tasks that read a row group, on average; each further one costs as much as a third of the merge
SKEW = 2.0  # times its share of the memory that a range or a sorted run may take
_MORE = 1.5  # share of the memory that rows may take if they were expected to fit into it
_SAMPLED = 24  # row groups from which cuts are taken
_SCRATCH_FILES = 256  # up to which a scratch file holds half of a range: a worker touches less memory then
_PIECES = 32  # pieces of all sorted runs together take this part of the memory, if that is enough rows
PIECE_ROWS = 1 << 14
"""Rows of a piece below which a sorted run is not merged as a stream."""
STREAMS = 0.125
"""The largest share of the memory that pieces of all runs may take together."""


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
    """One range of one merge. ``plain``: neither streams nor dictionaries in scratch files, which may be unfit."""

    task: FileMerge
    files: Files
    inputs: Inputs
    part: int
    scratch: str | None
    plain: bool = False

    @property
    def _footers(self) -> Footers:
        return self.inputs.footers

    def run(self) -> tuple[list[Range], list[WrittenFile]]:
        try:
            return self._run()
        except Unfit:  # its outputs are removed
            self.plain = True
            return self._run()

    def _run(self) -> tuple[list[Range], list[WrittenFile]]:
        parts = self._parts()
        if self.part >= len(parts):  # others merge its range too
            return parts, []
        own = parts[self.part]
        groups = self._footers.within(self._footers.groups(), self.task.cut_column, own)
        live = self.inputs.live_rows
        with Outputs(
            self.task,
            self.files,
            self._footers.types,
            self.task.codec or self._footers.codec(),
            self._footers.repetitive(),
            self._footers.may_have_nan(),
            row_bytes=self._footers.row_bytes,
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
        groups = self._footers.groups()
        size = {group: self._footers.decoded_bytes(group) for group in groups}
        read = sum(
            size[group] for own in found for group in self._footers.within(groups, self.task.cut_column, own)
        )
        wanted = max(1, int(len(found) * TASKS * sum(size.values()) / max(read, 1)))
        if wanted >= len(found):
            return found
        return ranges([cuts[len(found) * i // wanted - 1] for i in range(1, wanted)])

    def _cuts(self) -> list[Token]:
        if not self.task.cuts:
            return []
        kind = self._footers.types[self.task.cut_column]
        found = tokens(ordered(from_json_values(self.task.cuts, _key_kind(kind))))
        return [cut for cut in found if cut is not None]

    def _sorted(self, groups: Sequence[Group], own: Range, outputs: Outputs) -> None:
        expected = size = sum(map(self._footers.decoded_bytes, groups))
        if size <= MEMORY_BYTES:
            rows, size = self._read(groups, own, _MORE * MEMORY_BYTES)
            if rows is not None:
                self._write(rows, outputs)
                return
        column = self._column
        sample, count, in_order = self._sample(groups, column, own)
        fine = quantiles(sample, 2 * -(-size // (MEMORY_BYTES // 2)))
        inner = ranges(fine[1::2], own)
        each = [self._footers.within(groups, column, range_) for range_ in inner]
        sizes = [sum(map(self._footers.decoded_bytes, some)) * size / max(expected, 1) for some in each]
        again = sum(sizes) > REREAD * size or max(sizes) > SKEW * MEMORY_BYTES
        piece_rows = self._rows_of_pieces(groups, column) if again and in_order else 0
        if piece_rows:
            self._streamed(groups, own, piece_rows, count, outputs)
            return
        if again:
            cuts = fine if len(fine) < _SCRATCH_FILES else fine[1::2]
            types = self._footers.types if self.plain else self._footers.read_types
            scratch = Scratch(column, own, types, self.scratch, MEMORY_BYTES, SKEW * MEMORY_BYTES)
            for rows, left in scratch.by_range(self.inputs.tables(groups), cuts):
                self._write(rows, outputs, left)
                del rows  # before the next range is read
            return
        left = int(sum(map(self._footers.rows, groups)) * size / max(expected, 1))
        for range_, some in zip(inner, each, strict=True):
            rows, _ = self._read(some, range_, SKEW * MEMORY_BYTES)
            if rows is None:
                raise Declined(TOO_MANY)
            left -= rows.num_rows
            self._write(rows, outputs, max(left, 0) if range_ is not inner[-1] else 0)
            del rows  # before the next range is read

    def _sample(self, groups: Sequence[Group], column: int, own: Range) -> tuple[Sample, int, bool]:
        """A sample of a column's values in a range, an estimate of the rows there, NULL included, and whether each
        table of rows that it is taken from ascends.
        """
        step = max(1, len(groups) // _SAMPLED)
        sample: Sample = []
        read = inside = 0
        in_order = True
        for rows in self.inputs.tables(self._footers.ascending(groups, column)[::step], [column]):
            values = ordered(single(rows.column(0)))
            in_order = in_order and ascending(values)
            own_values = values.filter(pa.array(own.holds(values)))
            read, inside = read + len(values), inside + len(own_values)
            sample += [(value, step * count) for value, count in sampled(own_values)]
        return sample, inside * sum(map(self._footers.rows, groups)) // max(read, 1), in_order

    def _rows_of_pieces(self, groups: Sequence[Group], column: int) -> int:
        """Rows of each run to hold where row groups that ascend are best merged as streams; 0 where they are not.

        Few runs of short rows on the local disk are: with fewer rows in a piece, calls cost more than their work.
        """
        if self.plain or len(groups) > MOST or self.files.remote or column != self.task.key[0]:
            return 0
        if not all(size.sure for group in groups for size in self._footers.sizes(group)):
            return 0
        size = sum(map(self._footers.decoded_bytes, groups))
        row_bytes = size / max(sum(map(self._footers.rows, groups)), 1) * len(groups)  # of a row of each run
        rows = int(max(MEMORY_BYTES // _PIECES / max(row_bytes, 1), PIECE_ROWS))
        return rows if rows * row_bytes <= STREAMS * MEMORY_BYTES else 0

    def _streamed(
        self, groups: Sequence[Group], own: Range, piece_rows: int, count: int, outputs: Outputs
    ) -> None:
        """Merge sorted runs of about ``count`` rows together."""
        outputs.expect(self.inputs.live_rows if own.whole else count)
        # If a run does not ascend beyond the range, rows are missing from the count that the driver expects.
        counted = all(each.rows is not None for each in self.task.inputs)
        until = own.hi if counted else None
        rest: list[pa.Table] = []
        with ExitStack() as files:
            runs = [files.enter_context(closing(self.inputs.stream(group, piece_rows))) for group in groups]
            for parts in merged(runs, self._column, int(SKEW * MEMORY_BYTES / len(groups)), until):
                rows = self._inside(whole(parts, self._footers.read_types), own)
                order = permutation([ordered(single(rows.column(c))) for c in self.task.key])
                rest.append(rows if order is None else rows.take(pa.array(order)))
                rest = self._write_full(rest, outputs)
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
                return None, size * sum(map(self._footers.rows, groups)) // max(seen, 1)
        return whole(found, self._footers.read_types), size

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
