"""Sorted runs merged as streams: each is read once, a piece at a time, and no scratch file is written.

run a    1  3  5 │ 7  9 11 │ …        held of each run: the piece that was read last
run b    2  4  8 │ …                  below the least of their ends, here 5, nothing more can come
out      1  2  3  4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.sorting import Token, buckets, ordered, tokens
from lakekeeper.columnar.values import single

MOST = 64
"""Runs that are merged as streams: each holds a file open, and a piece in memory."""


class Unfit(Exception):
    """The merge has to begin again in a plain way.

    A run does not ascend, more of its rows share a key than may be held, or dictionaries are long.
    """


def ascending(values: pa.Array) -> bool:
    """Whether values from :func:`lakekeeper.columnar.sorting.ordered` ascend, NULL first."""
    rest = values[values.null_count :]
    return not rest.null_count and bool(pc.all(pc.less_equal(rest[:-1], rest[1:]), min_count=0).as_py())


def merged(
    runs: Sequence[Iterator[pa.Table]], key: int, most: int, until: Token | None = None
) -> Iterator[list[pa.Table]]:
    """The rows of all runs by a column: no row of a part is below one of an earlier part; within one, in any order.

    At most ``most`` bytes of a run are held. Runs are read until all further rows are at or above ``until``, if given.
    Raises Unfit.
    """
    held = [_Run(run, key, most) for run in runs]
    while held:
        for run in held:
            run.fill()
        held = [run for run in held if run.rows is not None]
        open_ = [run for run in held if not run.ended]
        if not open_:
            yield [run.take_all() for run in held]
            return
        bound = min((run.last for run in open_), key=_order)
        parts = [part for run in held if (part := run.take_below(bound)).num_rows]
        if parts:
            yield parts
        if until is not None and _order(bound) >= _order(until):
            return
        if not parts:
            # All that is held of a run is this one key.
            for run in open_:
                if run.last == bound:
                    run.read()


def _order(token: Token | None) -> tuple[bool, Token]:
    return (False, 0) if token is None else (True, token)


class _Run:
    """A run, and those of its ``rows`` that are held; None if no row is."""

    def __init__(self, pieces: Iterator[pa.Table], key: int, most: int) -> None:
        self._pieces = pieces
        self._key = key
        self._most = most
        self._values = pa.array([], pa.int64())
        self._piece = 0
        self.rows: pa.Table | None = None
        self.ended = False

    def fill(self) -> None:
        """Read until half a piece is held, or the run ends: with less, a part would have few rows of this run."""
        while not self.ended and (self.rows is None or 2 * self.rows.num_rows < self._piece):
            self.read()

    def read(self) -> None:
        """Read one more piece."""
        piece = next(self._pieces, None)
        if piece is None:
            self.ended = True
            return
        if not piece.num_rows:
            return
        self._piece = piece.num_rows
        values = ordered(single(piece.column(self._key)))
        if self.rows is not None:
            piece, values = pa.concat_tables([self.rows, piece]), pa.concat_arrays([self._values, values])
            if piece.nbytes > self._most:
                raise Unfit
        if not ascending(values):
            raise Unfit
        self.rows, self._values = piece, values

    @property
    def last(self) -> Token | None:
        """The greatest key that is held."""
        return tokens(self._values[-1:])[0]

    def take_below(self, bound: Token | None) -> pa.Table:
        """The rows whose key is below the bound; they are no longer held."""
        rows, values = self.rows, self._values
        if rows is None:
            raise AssertionError("a run that holds rows")
        count = 0 if bound is None else int((buckets(values, [bound]) == 0).sum())
        self.rows = rows.slice(count) if count < rows.num_rows else None
        self._values = values[count:]
        return rows.slice(0, count)

    def take_all(self) -> pa.Table:
        """All rows that are held."""
        rows, self.rows = self.rows, None
        return rows
