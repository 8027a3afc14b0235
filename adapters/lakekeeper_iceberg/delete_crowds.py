"""Which position delete files are worth a merge: those of which readers open too many, within a bound.

format, granularity   a crowd                                                      is merged into
v2, file              two small delete files of one data file                      one for the data file
                      five small ones of a partition: with all small ones there    one for each data file
v2, partition         five small ones of a partition                               one for the partition
v3                    as above: with all position delete files of the partition    a vector for each data file

After a merge, none of these is a crowd. The choice is a matter of cost alone: which rows a file deletes, and whether it
may be removed, is found out from its content and from Iceberg's plan of a scan (``delete_merge``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.columnar.positions import MOST_DELETED_ROWS
from lakekeeper_iceberg.deletes import EQUALITY, target_of
from lakekeeper_iceberg.listing import Listing

_CROWD = 5  # small delete files of one partition: Iceberg's default of `min-input-files`
SMALL_BYTES = 48 << 20
"""A delete file of fewer bytes is small; this is Iceberg's limit."""
MOST_PAIRS = 20_000
"""Pairs of a delete file and a data file of one merge: each takes some calls to the JVM."""

Place = tuple[int, str]
Delete = dict[str, Any]


@dataclass(slots=True)
class _Room:
    """What one merge may still hold: positions, and pairs of a delete file and a data file."""

    rows: int
    pairs: int

    def first_of(self, crowd: Sequence[Delete], data_files: int) -> list[Delete]:
        """The first delete files of a crowd that there is room for; they take it."""
        taken = []
        for d in crowd:
            pairs = 1 if target_of(d) is not None else min(d["rows"], data_files)
            if d["rows"] > self.rows or pairs > self.pairs:
                break
            self.rows -= d["rows"]
            self.pairs -= pairs
            taken.append(d)
        return taken


def crowded(files: Listing, gone: Collection[str], granularity: str, form: int) -> list[Delete]:
    """The delete files of a listing to merge in one commit, without those in ``gone``, which are removed anyway.

    ``form`` is the format version. Of a v2 crowd that exceeds the bound, the smallest files are merged, and more by the
    next call; of a v3 crowd none, as a vector must hold all deleted rows of its data file.
    """
    by_place: dict[Place, list[Delete]] = defaultdict(list)
    for d in files.deletes.to_pylist():
        if d["content"] != EQUALITY and d["dv_offset"] is None and d["path"] not in gone:
            by_place[d["spec"], d["partition"]].append(d)
    crowds = [
        (place, crowd)
        for place, found in by_place.items()
        for crowd in _crowds(found, by_partition=granularity == "partition", whole=form > 2)
    ]
    if not crowds:
        return []
    data_files = _data_files(files)
    room, chosen = _Room(MOST_DELETED_ROWS, MOST_PAIRS), []
    for place, crowd in crowds:
        before = (room.rows, room.pairs)
        taken = room.first_of(crowd, data_files.get(place, 0))
        if len(taken) == len(crowd) or (form == 2 and len(taken) > 1):
            chosen += taken
        else:
            room.rows, room.pairs = before
    return chosen


def _crowds(found: Sequence[Delete], *, by_partition: bool, whole: bool) -> Iterator[list[Delete]]:
    """The crowds among the delete files of a partition; the files whose merge leaves fewer come first."""
    small = sorted((d for d in found if d["bytes"] < SMALL_BYTES), key=lambda d: int(d["rows"]))
    wide = small if by_partition else [d for d in small if target_of(d) is None]
    by_target: dict[str, list[Delete]] = defaultdict(list)
    for d in () if by_partition else small:
        target = target_of(d)
        if target is not None:
            by_target[target].append(d)
    doubled = [own for own in by_target.values() if len(own) > 1]
    if len(wide) < _CROWD and not doubled:
        return
    if whole:
        yield list(found)
    elif len(wide) < _CROWD:
        yield from doubled
    else:
        yield [*wide, *(d for own in by_target.values() for d in own)]


def _data_files(files: Listing) -> Mapping[Place, int]:
    """The number of data files of each partition."""
    found = files.data.group_by(["spec", "partition"]).aggregate([("path", "count")])
    names = ("spec", "partition", "path_count")
    columns = (found[name].to_pylist() for name in names)
    return {(spec, partition): count for spec, partition, count in zip(*columns, strict=True)}
