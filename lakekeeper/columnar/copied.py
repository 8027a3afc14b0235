"""Compare files with those that copy-on-write statements wrote in their place, in the driver and without a Spark job.

    read      a@1 a@2 b@3        left   f: a b@1 x@2        missing   a@2        gained   f: x@2

Two rows are equal if they are in all columns; rows that are equal are interchangeable, and the last ones are taken.
PyArrow decodes column after column, and rows that agree so far get the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.find import MOST_BYTES, Footers, Identity, Source, Written, as_compared
from lakekeeper.columnar.parquet import Column, Leaves, ParquetFile
from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.columnar.rows import Budget, by_file, whole_group
from lakekeeper.columnar.values import Declined, Longs

_MOST_ROWS = 4_000_000  # of all files together: each takes a few dozen bytes


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
        number = _numbered(files, identity.columns, budget or Budget(MOST_BYTES))
    finally:
        for file in files:
            file.close()
    cuts = np.cumsum([file.rows for file in files])[:-1]
    parts = np.split(number, cuts)
    return _compared(read, parts[: len(read)], left, parts[len(read) :])


def _compared(
    read: Sequence[Written], before: Sequence[Longs], left: Sequence[Source], after: Sequence[Longs]
) -> Copies:
    """The result from the numbers of the rows of each file; equal rows have the same number."""
    kinds = 1 + max((int(part.max()) for part in (*before, *after) if len(part)), default=-1)
    live = [np.delete(np.arange(len(part)), each.masked) for each, part in zip(read, before, strict=True)]
    numbers = [part[at] for part, at in zip(before, live, strict=True)]
    known = _counts(numbers, kinds)
    kept = list(range(len(left)))
    while True:
        rows = [after[i] for i in kept]
        balance = known - _counts(rows, kinds)
        gained = _last(rows, np.maximum(-balance, 0))
        half = [2 * int(new.sum()) <= len(new) for new in gained]
        if all(half):
            break
        kept = [i for i, good in zip(kept, half, strict=True) if good]
    lost = _last(numbers, np.maximum(balance, 0))
    return Copies(
        tuple(left[i].name for i in kept),
        {each.source.name: at[n] for each, at, n in zip(read, live, lost, strict=True) if n.any()},
        {left[i].name: np.flatnonzero(new) for i, new in zip(kept, gained, strict=True) if new.any()},
    )


def _counts(numbers: Sequence[Longs], kinds: int) -> Longs:
    return sum((np.bincount(part, minlength=kinds) for part in numbers), np.zeros(kinds, np.int64))


def _last(numbers: Sequence[Longs], wanted: Longs) -> list[np.ndarray]:
    """Which rows of each file are the last ``wanted`` ones of their number."""
    if not numbers:
        return []
    together = np.concatenate(numbers)
    order = np.argsort(together, kind="stable")[::-1]
    numbered = together[order]
    first = np.r_[True, numbered[1:] != numbered[:-1]] if len(order) else np.zeros(0, np.bool_)
    rank = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = rank < wanted[numbered]
    return np.split(chosen, np.cumsum([len(part) for part in numbers])[:-1])


def _numbered(files: Sequence[ParquetFile], columns: Sequence[Column], budget: Budget) -> Longs:
    """A number for each row, file after file: the same for rows that are equal in all columns, and for no others."""
    number = np.zeros(sum(file.rows for file in files), np.int64)
    for column in columns:
        leaves = [file.find(column) for file in files]
        if len({as_compared(each.shape) for each in leaves}) > 1:
            raise Declined(f"column {column} is not stored in the same way by all files")
        for part in _parts(files, leaves, budget):
            codes = part.dictionary_encode(null_encoding="encode")
            pairs = number * len(codes.dictionary) + codes.indices.to_numpy().astype(np.int64)
            number = pa.array(pairs).dictionary_encode().indices.to_numpy().astype(np.int64)
    return number


def _parts(files: Sequence[ParquetFile], leaves: Sequence[Leaves], budget: Budget) -> list[pa.Array]:
    """The canonical parts of a column in all rows."""
    groups = [(i, group) for i, file in enumerate(files) for group in range(file.groups)]

    def read(place: tuple[int, int]) -> list[pa.Array]:
        i, group = place
        with whole_group(files[i], group, leaves[i], budget, sure=True) as parts:
            return list(parts)

    found = by_file(read, groups, lambda place: place[0])
    return [pa.concat_arrays([parts[p] for parts in found]) for p in range(len(found[0]))] if found else []
