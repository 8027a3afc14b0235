"""Find a few lost rows in the files of a rewrite by reading only the row groups that can contain them.

    inputs    ··y·│····│·y··     row groups with a lost row are read, at the known positions
    outputs   ····│?···│····     row groups whose statistics admit the key of a lost row are read, the others are not

PyArrow decodes the columns; no Spark job is started. :mod:`lakekeeper.columnar.narrow` explains why it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.columnar.narrow import Narrowing
from lakekeeper.columnar.parquet import Absent, Column, Leaves, ParquetFile
from lakekeeper.columnar.prune import WORTH, Place, best, row_groups, span, that_may_hold
from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.columnar.rows import Budget, Rows
from lakekeeper.columnar.values import Declined, Incomparable, Longs

__all__ = ["MOST_ROWS", "Column", "Declined", "Identity", "Lost", "Source", "Written", "find"]

MOST_ROWS = 100_000
"""Most lost rows that one search accepts."""
MOST_BYTES = 256 << 20
"""Stored bytes of column chunks that one search may read."""
_SELECTIVE = 4.0  # encoded bytes per row from which a column is assumed to distinguish most rows
_NUMBERED = 1.5  # values per row between a column's bounds, below which it is assumed to number the rows
_LOOKED_AT = 32  # columns whose statistics are compared if the outputs have no key
_MICROSECONDS = (
    "INT64",
    (
        "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, "
        "force_set_converted_type=false)"
    ),
    0,
    -1,
    -1,
)
_SAMPLE = 4  # outputs whose footers give the width of columns


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name in the result, and how to open it (a local path, or a file object that is closed after use)."""

    name: str
    open: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """Lost rows of one input by position; ``first_row_id`` is the id of its first row, for rows without a stored id."""

    source: Source
    positions: Longs
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """One output, and the positions in it that are already deleted."""

    source: Source
    masked: Longs


@dataclass(frozen=True, slots=True)
class Identity:
    """The columns that identify a row.

    columns   top-level columns of the table that a rewrite leaves unchanged
    whole     whether they are all columns of a row, so that rows equal in them are interchangeable
    key       columns that the outputs are sorted by, if any: their statistics limit the search
    row_id    the column of row ids, if each row has its own: values are then not compared
    """

    columns: tuple[Column, ...]
    whole: bool
    key: tuple[Column, ...] = ()
    row_id: Column | None = None


Footers = MutableMapping[str, pq.FileMetaData]
"""Footers by name, kept from one search to the next."""


def find(
    lost: Sequence[Lost],
    written: Sequence[Written],
    identity: Identity,
    footers: Footers,
    budget: Budget | None = None,
) -> Mapping[str, Longs]:
    """Output → ascending positions, one for each lost row.

    Raises Declined if the rows cannot be found with certainty, or exceed ``MOST_ROWS`` or ``budget``. OSError and
    Arrow's errors are passed through.
    """
    if sum(len(each.positions) for each in lost) > MOST_ROWS:
        raise Declined("too many rows")
    sources = [*(each.source for each in lost), *(each.source for each in written)]
    files = in_parallel(lambda source: ParquetFile(source.open, footers.get(source.name)), sources)
    try:
        footers.update((source.name, file.footer) for source, file in zip(sources, files, strict=True))
        search = _Search(lost, files[: len(lost)], written, files[len(lost) :], budget or Budget(MOST_BYTES))
        found = search.by_id(identity) if identity.row_id else search.by_value(identity)
    finally:
        for file in files:
            file.close()
    return {
        written[i].source.name: np.sort(found.position[found.file == i])
        for i in np.unique(found.file).tolist()
    }


@dataclass(frozen=True, slots=True)
class _Shared:
    """A column that all files store in the same way: its leaves in each input and output."""

    column: Column
    inputs: tuple[Leaves, ...]
    outputs: tuple[Leaves, ...]


class _Search:
    """One search: the lost rows, the outputs, and the values of the lost rows read so far."""

    def __init__(
        self,
        lost: Sequence[Lost],
        inputs: Sequence[ParquetFile],
        written: Sequence[Written],
        outputs: Sequence[ParquetFile],
        budget: Budget,
    ) -> None:
        for each, file in zip(lost, inputs, strict=True):
            if len(each.positions) and not 0 <= each.positions.min() <= each.positions.max() < file.rows:
                raise Declined(f"a lost row is beyond the end of {each.source.name}")
        counts = [len(each.positions) for each in lost]
        self._lost = Rows(
            inputs, np.repeat(np.arange(len(lost)), counts), _joined([e.positions for e in lost])
        )
        self._first_ids = [each.first_row_id for each in lost]
        self._outputs = outputs
        self._masked = [np.sort(each.masked) for each in written]
        self._budget = budget
        self._values: dict[Column, list[pa.Array]] = {}

    def by_id(self, identity: Identity) -> Rows:
        """The positions of the rows with the ids of the lost rows."""
        if identity.row_id is None:
            raise Declined("rows have no ids")
        ids = [file.find(identity.row_id) for file in self._outputs]
        narrowing = self._narrowing(self._key(identity))
        narrowing.begin([self._row_ids(identity.row_id)], ids)
        return narrowing.settled(interchangeable=False)

    def by_value(self, identity: Identity) -> Rows:
        """The positions of rows equal to the lost rows, found with as few columns as prove it."""
        shared = [found for column in identity.columns if (found := self._shared(column))]
        if not shared:
            raise Declined("no column is stored in the same way by all files")
        narrowing = self._narrowing(self._key(identity) or self._least_overlapping(shared))
        compared = self._compare(narrowing, self._most_selective_first(shared))
        return narrowing.settled(interchangeable=identity.whole and compared == len(identity.columns))

    def _compare(self, narrowing: Narrowing, columns: Sequence[_Shared]) -> int:
        """Compare one column, then two, then four, until all rows are settled; returns the number of columns compared.

        Columns that cannot be compared are skipped.
        """
        rest, compared, taken = list(columns), 0, 1
        while rest and not (compared and narrowing.done):
            some, rest = rest[:taken], rest[taken:]
            try:
                if compared:
                    narrowing.compare([s.inputs for s in some], [s.outputs for s in some])
                else:
                    narrowing.begin(self._of_lost(some[0]), some[0].outputs)
            except Incomparable:
                # One of several columns cannot be compared: compare them one by one.
                rest, taken = ([*some, *rest] if len(some) > 1 else rest), 1
                continue
            compared += len(some)
            taken = 2 * taken if compared > 1 else 1
        if not compared:
            raise Declined("no column can be compared")
        return compared

    def _narrowing(self, columns: Sequence[_Shared]) -> Narrowing:
        """A narrowing over the row groups that may contain a lost row, by the statistics of these columns."""
        places = self._pruned(row_groups(self._outputs), columns)
        return Narrowing(self._lost, self._outputs, self._masked, places, self._budget)

    def _pruned(self, places: list[Place], columns: Sequence[_Shared]) -> list[Place]:
        """The row groups of ``places`` that may contain a lost row.

        Lost rows spread over all row groups exclude none. The lost rows of one input show this before all are read, but
        they exclude row groups for themselves only: another input's lost rows may be there.
        """
        most = WORTH * len(places)
        if len(self._lost) > most and len(self._admitting(self._of_one_input(), places, columns)) > most:
            return places
        return self._admitting(self._lost, places, columns)

    def _admitting(self, rows: Rows, places: list[Place], columns: Sequence[_Shared]) -> list[Place]:
        """The row groups of ``places`` that may contain one of ``rows``, by the statistics of ``columns``."""
        values = [(column, self._known(column, rows)) for column in columns]
        known = [(column.outputs, found[0]) for column, found in values if found]
        return that_may_hold(places, self._outputs, known)

    def _of_one_input(self) -> Rows:
        """The lost rows of the input with the most of them."""
        most = np.argmax(np.bincount(self._lost.file, minlength=1))
        return self._lost.only(np.flatnonzero(self._lost.file == most))

    def _known(self, column: _Shared, rows: Rows) -> list[pa.Array]:
        """The values of lost rows; empty if they cannot be compared, and then they exclude no row group."""
        try:
            if len(rows) == len(self._lost):
                return self._of_lost(column)
            (values,) = rows.values([column.inputs], self._budget, sure=True)
        except Declined:
            return []
        return values

    def _shared(self, column: Column) -> _Shared | None:
        """None for a column that a file lacks or stores differently from the others, or that cannot be compared."""
        try:
            inputs = tuple(file.find(column) for file in self._lost.files)
            outputs = tuple(file.find(column) for file in self._outputs)
        except Declined:
            return None
        same = len({as_compared(leaves.shape) for leaves in (*inputs, *outputs)}) == 1
        return _Shared(column, inputs, outputs) if same else None

    def _key(self, identity: Identity) -> list[_Shared]:
        found = [self._shared(column) for column in identity.key]
        return [each for each in found if each is not None and each.inputs[0].flat]

    def _least_overlapping(self, shared: Sequence[_Shared]) -> list[_Shared]:
        """The column whose value ranges overlap least between row groups, if one helps."""
        flat = [each for each in shared[:_LOOKED_AT] if each.outputs[0].flat]
        places = row_groups(self._outputs)
        chosen = best(places, self._outputs, {i: each.outputs for i, each in enumerate(flat)})
        return [flat[chosen]] if chosen is not None else []

    def _most_selective_first(self, shared: Sequence[_Shared]) -> list[_Shared]:
        """Columns already read first, then those that distinguish rows with few bytes, then less selective ones.

        If values are spread evenly over their bounds, a lost row shares its value with rows ÷ span other rows; if the
        span is about the number of rows, the column probably numbers them.
        """
        sample = list(enumerate(self._outputs))[:_SAMPLE]
        rows = max(sum(file.rows for _, file in sample), 1)

        def order(each: _Shared) -> tuple[int, float]:
            width = sum(file.encoded_bytes(each.outputs[i]) for i, file in sample) / rows
            if each.column in self._values:
                return 0, width
            values = span([file.bounds(g, each.outputs[i]) for i, file in sample for g in range(file.groups)])
            if width < _SELECTIVE or (values is not None and values < rows):
                return 4, -width
            if values is None:
                return 3, width
            alone = values > rows * len(self._lost) or values < _NUMBERED * rows
            return (1 if alone else 2), width

        return sorted(shared, key=order)

    def _of_lost(self, column: _Shared) -> list[pa.Array]:
        if column.column not in self._values:
            (self._values[column.column],) = self._lost.values([column.inputs], self._budget, sure=True)
        return self._values[column.column]

    def _row_ids(self, column: Column) -> pa.Array:
        """Each lost row's id: as stored, or derived from its position in its file."""
        of_files = np.array([-1 if each is None else each for each in self._first_ids], np.int64)
        first = of_files[self._lost.file]
        ids = np.where(first < 0, -1, first + self._lost.position)
        leaves = {f: found for f, file in enumerate(self._lost.files) if (found := _found(file, column))}
        have = np.flatnonzero(np.isin(self._lost.file, list(leaves)))
        if len(have):
            ((stored,),) = self._lost.only(have).values([leaves], self._budget)
            plain = stored.fill_null(-1).to_numpy(zero_copy_only=False)
            ids[have] = np.where(stored.is_valid().to_numpy(zero_copy_only=False), plain, ids[have])
        if (ids < 0).any():
            raise Declined("a lost row has no id")
        if len(np.unique(ids)) != len(ids):
            raise Declined("two lost rows have the same id")
        return pa.array(ids)


def _found(file: ParquetFile, column: Column) -> Leaves | None:
    """Where a file stores a column; None if it lacks it. Raises Declined if the column is ambiguous."""
    try:
        return file.find(column)
    except Absent:
        return None


def as_compared(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """How a column's values are compared: INT96 is read as the microseconds that a columnar merge writes for it."""
    return tuple(
        (inside, *_MICROSECONDS) if stored[0] == "INT96" else (inside, *stored) for inside, *stored in shape
    )


def _joined(positions: Sequence[Longs]) -> Longs:
    return np.concatenate([np.zeros(0, np.int64), *(np.asarray(p, np.int64) for p in positions)])
