"""Compare files with those that copy-on-write statements wrote in their place, in the driver and without a Spark job.

    read      a@1 a@2 b@3        left   f: a b@1 x@2        missing   a@2        gained   f: x@2

Two rows are equal if they are in all columns; rows that are equal are interchangeable. Copies mostly have the order of
what they copy, so runs of equal rows are paired first. The others are numbered: those that agree in a column get the
same number, and then those that agree in the next column, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.aligned import Flags, unpaired
from lakekeeper.columnar.find import MOST_BYTES, Footers, Identity, Source, Written, as_compared
from lakekeeper.columnar.parquet import Column, Leaves, ParquetFile
from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.columnar.rows import Budget, by_file, whole_group
from lakekeeper.columnar.values import Declined, Longs

_MOST_ROWS = 4_000_000  # of all files together: each takes a few dozen bytes
_MOST_DECODED = 512 << 20


@dataclass(frozen=True, slots=True)
class Copies:
    """The files at least half of whose rows were read, and ascending positions by file.

    ``missing`` are rows that were read and are in none of the files, ``gained`` rows of the files that were not read.
    """

    files: tuple[str, ...]
    missing: dict[str, Longs]
    gained: dict[str, Longs]


def compare(
    read: Sequence[Written],
    left: Sequence[Source],
    identity: Identity,
    footers: Footers,
    budget: Budget | None = None,
) -> Copies:
    """What became of the rows of ``read``, without those at the ``masked`` positions, in the files of ``left``.

    Raises Declined if the rows cannot be compared exactly, or are too many. OSError and Arrow's errors are passed
    through.
    """
    if not identity.whole or identity.row_id is not None:
        raise Declined("rows are not known by their values alone")
    sources = [*(each.source for each in read), *left]
    files = in_parallel(lambda source: ParquetFile(source.open, footers.get(source.name)), sources)
    try:
        footers.update((source.name, file.footer) for source, file in zip(sources, files, strict=True))
        if sum(file.rows for file in files) > _MOST_ROWS:
            raise Declined("too many rows")
        # Without a file that is left, all rows are missing.
        columns = _columns(files, identity.columns, budget or Budget(MOST_BYTES)) if left else []
    finally:
        for file in files:
            file.close()
    return _compared(read, left, [file.rows for file in files], columns)


def _compared(
    read: Sequence[Written], left: Sequence[Source], counts: Sequence[int], columns: Sequence[pa.Array]
) -> Copies:
    """The result from the values of all rows, in the order of the files; ``counts`` are the rows of each."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    ranges = [range(*each) for each in pairwise(starts.tolist())]
    before, after = ranges[: len(read)], dict(enumerate(ranges[len(read) :]))
    free = np.ones(starts[len(read)], np.bool_)
    for each, rows in zip(read, before, strict=True):
        free[each.masked + rows.start] = False
    while True:
        rest = np.flatnonzero(unpaired(columns, free, list(after.values())))
        number = _numbered(columns, rest)
        of_read = rest < len(free)
        balance = np.bincount(number[of_read], minlength=len(rest)) - np.bincount(
            number[~of_read], minlength=len(rest)
        )
        gained = rest[~of_read][_last(number[~of_read], np.maximum(-balance, 0))]
        new = {
            i: gained[(gained >= rows.start) & (gained < rows.stop)] - rows.start for i, rows in after.items()
        }
        others = [i for i, places in new.items() if 2 * len(places) > len(after[i])]
        if not others:
            break
        for i in others:
            del after[i]
    lost = rest[of_read][_last(number[of_read], np.maximum(balance, 0))]
    missing = {
        each.source.name: lost[(lost >= rows.start) & (lost < rows.stop)] - rows.start
        for each, rows in zip(read, before, strict=True)
    }
    return Copies(
        tuple(left[i].name for i in after),
        {name: places for name, places in missing.items() if len(places)},
        {left[i].name: places for i, places in new.items() if len(places)},
    )


def _last(number: Longs, wanted: Longs) -> Flags:
    """Which rows are the last ``wanted`` ones of their number."""
    order = np.argsort(number, kind="stable")[::-1]
    numbered = number[order]
    first = np.r_[True, numbered[1:] != numbered[:-1]][: len(order)]
    rank = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = rank < wanted[numbered]
    return chosen


def _numbered(columns: Sequence[pa.Array], rows: Longs) -> Longs:
    """A number for each of these rows: the same for rows that are equal in all columns, and for no others."""
    number, taken = np.zeros(len(rows), np.int64), pa.array(rows)
    for part in columns:
        codes = part.take(taken).dictionary_encode(null_encoding="encode")
        pairs = number * len(codes.dictionary) + codes.indices.to_numpy().astype(np.int64)
        number = pa.array(pairs).dictionary_encode().indices.to_numpy().astype(np.int64)
    return number


def _columns(files: Sequence[ParquetFile], columns: Sequence[Column], budget: Budget) -> list[pa.Array]:
    """The canonical values of all rows, column by column."""
    found: list[pa.Array] = []
    for column in columns:
        leaves = [file.find(column) for file in files]
        if len({as_compared(each.shape) for each in leaves}) > 1:
            raise Declined(f"column {column} is not stored in the same way by all files")
        found += _parts(files, leaves, budget)
        if sum(part.nbytes for part in found) > _MOST_DECODED:
            raise Declined("the rows take too much memory")
    return found


def _parts(files: Sequence[ParquetFile], leaves: Sequence[Leaves], budget: Budget) -> list[pa.Array]:
    """The canonical parts of a column in all rows."""
    groups = [(i, group) for i, file in enumerate(files) for group in range(file.groups)]

    def read(place: tuple[int, int]) -> list[pa.Array]:
        i, group = place
        with whole_group(files[i], group, leaves[i], budget, sure=True) as parts:
            return list(parts)

    found = by_file(read, groups, lambda place: place[0])
    return [pa.concat_arrays([parts[p] for parts in found]) for p in range(len(found[0]))] if found else []
