"""Narrow down which rows of the outputs are the lost rows, one column at a time.

    lost         a a b          after one column    a: 2 lost, 2 candidates    settled
    candidates   a a b b'                           b: 1 lost, 2 candidates    compare another column

A rewrite keeps every row. The output rows that agree with some lost rows in a few columns therefore include these lost
rows; if there are exactly as many, they are the lost rows. If there are fewer, the files are not the expected ones.
Rows that agree in all columns are equal, so any of them can be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.columnar.parquet import Leaves, ParquetFile
from lakekeeper.columnar.prune import Place
from lakekeeper.columnar.rows import Budget, Rows, by_file, whole_group
from lakekeeper.columnar.values import Declined, Longs

_MOST_CANDIDATES = 4_000_000
_FEW = 8  # values up to which comparing with each costs less than looking up a hash table
_NONE = np.zeros(0, np.int64)


@dataclass(slots=True)
class Narrowing:
    """The lost rows that are not settled yet and their candidates, both in groups that agree so far.

    ``places`` are the row groups that may contain a lost row, ``masked`` the deleted positions of each output.
    """

    lost: Rows
    outputs: Sequence[ParquetFile]
    masked: Sequence[Longs]
    places: Sequence[Place]
    budget: Budget
    _lost_group: Longs = field(default_factory=lambda: _NONE)
    _group: Longs = field(default_factory=lambda: _NONE)
    _candidates: Rows = field(default_factory=lambda: Rows((), _NONE, _NONE))
    _settled: list[Rows] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every lost row is settled."""
        return len(self.lost) == 0

    def begin(self, values: Sequence[pa.Array], leaves: Sequence[Leaves]) -> None:
        """Search all ``places`` for the lost rows' ``values`` (the parts of one column); ``leaves`` are per output."""
        wanted = [pc.unique(part) for part in values]
        found = by_file(
            lambda place: self._agreeing(place, leaves[place.output], wanted), self.places, lambda p: p.output
        )
        counts = [len(at) for at, _ in found]
        if sum(counts) > _MOST_CANDIDATES:
            raise Declined("too many rows match lost ones")
        output = np.repeat(np.array([p.output for p in self.places], np.int64), counts)
        self._candidates = Rows(self.outputs, output, np.concatenate([_NONE, *(at for at, _ in found)]))
        self._lost_group = np.zeros(len(self.lost), np.int64)
        self._group = np.zeros(len(output), np.int64)
        empty = [part.slice(0, 0) for part in values]
        read = [pa.concat_arrays([empty[p], *(parts[p] for _, parts in found)]) for p in range(len(values))]
        self._refine(values, read)

    def compare(self, inputs: Sequence[Sequence[Leaves]], outputs: Sequence[Sequence[Leaves]]) -> None:
        """Compare further columns of the rows that are not settled; a column is given as its leaves per file."""
        of_lost = self.lost.values(inputs, self.budget, sure=True)
        of_candidates = self._candidates.values(outputs, self.budget)
        flat = [[part for column in columns for part in column] for columns in (of_lost, of_candidates)]
        self._refine(*flat)

    def settled(self, *, interchangeable: bool) -> Rows:
        """One position for each lost row. Raises Declined if some cannot be distinguished from other rows.

        ``interchangeable``: rows that agree so far are equal.
        """
        if not self.done:
            if not interchangeable:
                raise Declined("some lost rows cannot be distinguished from others by the comparable columns")
            self._take_first()
        file = np.concatenate([_NONE, *(rows.file for rows in self._settled)])
        return Rows(self.outputs, file, np.concatenate([_NONE, *(rows.position for rows in self._settled)]))

    def _agreeing(
        self, place: Place, leaves: Leaves, wanted: Sequence[pa.Array]
    ) -> tuple[Longs, list[pa.Array]]:
        """(positions of the live rows in a row group all of whose parts are wanted, the parts of these rows)."""
        file = self.outputs[place.output]
        with whole_group(file, place.group, leaves, self.budget) as parts:
            among = np.ones(len(parts[0]), np.bool_)
            for part, values in zip(parts, wanted, strict=True):
                among &= _is_among(part, values)
            at = np.flatnonzero(among)
            positions = at + file.starts[place.group]
            live = ~_contains(self.masked[place.output], positions)
            chosen = pa.array(at[live])
            return positions[live], [part.take(chosen) for part in parts]

    def _refine(self, of_lost: Sequence[pa.Array], of_candidates: Sequence[pa.Array]) -> None:
        """Split the groups by these values; drop candidates without a group, and move settled groups out."""
        kept, group = np.arange(len(self._candidates)), self._group
        for mine, theirs in zip(of_lost, of_candidates, strict=True):
            known = pc.unique(mine)
            number, numbers = _index_in(mine, known), _index_in(theirs.take(pa.array(kept)), known)
            groups, self._lost_group = np.unique(self._lost_group * len(known) + number, return_inverse=True)
            wanted = group * len(known) + numbers
            at = np.minimum(np.searchsorted(groups, wanted), len(groups) - 1)
            same = (numbers >= 0) & (groups[at] == wanted)
            kept, group = kept[same], at[same]
        self._candidates, self._group = self._candidates.only(kept), group
        self._settle()

    def _settle(self) -> None:
        """Move out groups with as many candidates as lost rows. Raises Declined if one has fewer candidates."""
        lost = np.bincount(self._lost_group)
        candidates = np.bincount(self._group, minlength=len(lost))
        if (candidates < lost).any():
            raise Declined("a lost row is not among the rows that were written")
        settled = candidates == lost
        self._settled.append(self._candidates.only(np.flatnonzero(settled[self._group])))
        self._keep(~settled)

    def _take_first(self) -> None:
        """Settle each group with its first candidates, in the order of files and positions."""
        lost = np.bincount(self._lost_group)
        order = np.lexsort((self._candidates.position, self._candidates.file, self._group))
        group = self._group[order]
        rank = np.arange(len(group)) - np.searchsorted(group, group)
        self._settled.append(self._candidates.only(order[rank < lost[group]]))
        self._keep(np.zeros(len(lost), np.bool_))

    def _keep(self, groups: np.ndarray) -> None:
        candidates, lost = np.flatnonzero(groups[self._group]), np.flatnonzero(groups[self._lost_group])
        self._candidates, self._group = self._candidates.only(candidates), self._group[candidates]
        self.lost, self._lost_group = self.lost.only(lost), self._lost_group[lost]


def _is_among(values: pa.Array, wanted: pa.Array) -> np.ndarray:
    """Which of the values are wanted, where NULL counts as a value."""
    if len(wanted) > _FEW:
        return np.asarray(pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False), np.bool_)
    among = np.zeros(len(values), np.bool_)
    if pa.types.is_integer(values.type) and not values.null_count:  # NumPy compares in a quarter of the time
        plain = values.to_numpy()
        for number in wanted.drop_null().to_numpy():
            among |= plain == number
        return among
    for value in wanted:
        same = pc.equal(values, value).fill_null(False) if value.is_valid else values.is_null()
        among |= same.to_numpy(zero_copy_only=False)
    return among


def _index_in(values: pa.Array, known: pa.Array) -> Longs:
    """The index of each value in ``known``, where NULL counts as a value; −1 if it is missing."""
    found: Longs = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _contains(ascending: Longs, values: Longs) -> np.ndarray:
    """Which of the values are in ``ascending``, which is sorted."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values, np.bool_)
