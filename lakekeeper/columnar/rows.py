"""Rows of several Parquet files by file and position: their values, column by column, and the cost of reading them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.parquet import Leaves, ParquetFile, parts
from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.columnar.values import Declined, Incomparable, Longs, canonical, refuse_old

LeavesOf = Sequence[Leaves] | Mapping[int, Leaves]
"""A column in several files, by the number of the file."""
_In = TypeVar("_In")
_Out = TypeVar("_Out")


MOST_DECODED = 256 << 20
"""Bytes of decoded columns that the threads of one search hold at once."""


@dataclass(slots=True)
class Budget:
    """Bytes that may still be read, and decoded at once; shared by threads. ``groups`` counts the row group reads."""

    left: int
    groups: int = 0
    most_decoded: int = MOST_DECODED
    _decoded: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def reading(self, file: ParquetFile, group: int, columns: Sequence[Leaves]) -> Iterator[None]:
        """Charge these columns of a row group, and wait until other threads leave room to decode them.

        Raises Declined if they exceed the remaining budget, or need more memory than all threads may take.
        """
        size = sum(file.bytes_of(group, c) for c in columns)
        with self._changed:
            self.left -= size
            self.groups += 1
            if self.left < 0:
                raise Declined("too many bytes would be read")
        decoded = file.decoded_bytes(group, columns, self.most_decoded)
        with self._changed:
            if decoded > self.most_decoded:
                raise Declined("a row group takes too much memory")
            self._changed.wait_for(lambda: self._decoded + decoded <= self.most_decoded)
            self._decoded += decoded
        try:
            yield
        finally:
            with self._changed:
                self._decoded -= decoded
                self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows by position: ``file`` is an index into ``files``, ``position`` the row's number in that file, from 0."""

    files: Sequence[ParquetFile]
    file: Longs
    position: Longs

    def __len__(self) -> int:
        return len(self.file)

    def only(self, chosen: Longs) -> Rows:
        return Rows(self.files, self.file[chosen], self.position[chosen])

    def values(
        self, columns: Sequence[LeavesOf], budget: Budget, *, sure: bool = False
    ) -> list[list[pa.Array]]:
        """The canonical parts of each column, in the order of the rows; a column is given by its leaves in each file.

        ``sure``: the values must be the ones that a rewrite wrote for these rows. Raises Declined.
        """
        order, runs = self._runs()
        found = by_file(lambda run: self._read(*run, columns, budget, sure=sure), runs, lambda run: run[0])
        back = np.argsort(order, kind="stable")
        return [
            [
                pa.concat_arrays([run[c][p] for run in found]).take(pa.array(back))
                for p in range(len(found[0][c]))
            ]
            for c in range(len(columns))
        ]

    def _runs(self) -> tuple[Longs, list[tuple[int, int, Longs]]]:
        """(order in which rows are read, (file, row group, positions in the row group) of each run of that order)."""
        group = np.zeros(len(self), np.int64)
        for i in np.unique(self.file):
            here = self.file == i
            group[here] = np.searchsorted(self.files[i].starts, self.position[here], side="right") - 1
        order = np.lexsort((self.position, group, self.file))
        file, group, position = self.file[order], group[order], self.position[order]
        cuts = np.flatnonzero(np.diff(file) | np.diff(group)) + 1
        runs = []
        for at in np.split(np.arange(len(self)), cuts):
            if len(at):
                f, g = int(file[at[0]]), int(group[at[0]])
                runs.append((f, g, position[at] - self.files[f].starts[g]))
        return order.astype(np.int64), runs

    def _read(
        self, f: int, g: int, at: Longs, columns: Sequence[LeavesOf], budget: Budget, *, sure: bool
    ) -> list[list[pa.Array]]:
        file, leaves = self.files[f], [column[f] for column in columns]
        together = (
            len(leaves) == 1 or file.decoded_bytes(g, leaves, budget.most_decoded) <= budget.most_decoded
        )
        taken = []
        for some in [leaves] if together else [[each] for each in leaves]:
            with budget.reading(file, g, some):
                taken += [v.take(pa.array(at)) for v in file.read(g, some, upto=int(at[-1]) + 1)]
        return [[_canonical(part, sure=sure) for part in parts(values)] for values in taken]


def _canonical(values: pa.Array, *, sure: bool) -> pa.Array:
    try:
        if sure:
            refuse_old(values)
        return canonical(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Incomparable(f"values cannot be compared: {error}") from error


@contextmanager
def whole_group(
    file: ParquetFile, group: int, leaves: Leaves, budget: Budget, *, sure: bool = False
) -> Iterator[list[pa.Array]]:
    """The canonical parts of a column in a row group, held within the budget. Raises Declined; ``sure`` as in Rows."""
    with budget.reading(file, group, [leaves]):
        (values,) = file.read(group, [leaves])
        yield [_canonical(part, sure=sure) for part in parts(values)]


def by_file(work: Callable[[_In], _Out], items: Sequence[_In], file: Callable[[_In], int]) -> list[_Out]:
    """Results in input order; consecutive items of one file are processed sequentially, files in parallel."""
    runs = [list(run) for _, run in groupby(items, file)]
    return [
        result
        for results in in_parallel(lambda run: [work(item) for item in run], runs)
        for result in results
    ]
