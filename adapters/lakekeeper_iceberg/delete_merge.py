"""Merges position delete files: what each of them deletes from live data files moves to new ones.

    chosen delete files ─► read whole: data file ─► positions
                                        │  Iceberg's plan of a scan: which of them apply to the data file
                                        ▼
    v2: one delete file for a data file, or a partition         v3: one deletion vector for a data file

A delete file leaves the table only if all that it deletes from any live data file is in the new ones. What applies is
taken from the plan of a scan, as for a reader: no partition value or name is compared here. A new delete file has the
highest data sequence number of those whose positions it holds, and no position that did not apply before.

Readers ignore position delete files for a data file with a deletion vector, so a data file gets one only if all
position delete files that apply to it are merged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import Mask, format_version, write_masks
from lakekeeper_iceberg.row_delete import by_data_file, in_order


@dataclass(frozen=True, slots=True)
class Merge:
    """New DeleteFiles with their data sequence numbers, and the paths of the old ones that they replace."""

    added: tuple[tuple[Any, int], ...] = ()
    replaced: frozenset[str] = frozenset()

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(delete.location()) for delete, _ in self.added))


@dataclass(frozen=True, slots=True)
class _Held:
    """The content of a position delete file: its data sequence number, and its positions by data file."""

    seq: int
    positions: Any
    named: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Target:
    """A live data file: its scan task, and the paths of the position delete files that apply to it."""

    task: Any
    applied: frozenset[str]


def merged(
    jvm: Iceberg,
    table: Any,
    deletes: Mapping[str, tuple[Any, int]],
    doubled: Collection[str],
    run: str,
    *,
    by_partition: bool,
) -> Merge:
    """Merge position delete files of a pinned table, by path: (DeleteFile, data sequence number).

    The new files are in the folder of ``run``. ``doubled`` are data files that the table lists twice: what they have
    deleted is not moved.
    """
    form = format_version(table)
    held = _read(jvm, table, deletes)
    targets = _targets(jvm, table, {path for each in held.values() for path in each.named}, doubled)
    _keep_movable(held, targets, doubled, whole=form > 2)
    if len(held) < 2 and form == 2:
        return Merge()
    masks, seqs = [], {}
    for path, target in targets.items():
        own = _own(held, target, path)
        if own:
            masks.append(Mask(target.task.file(), _union(jvm, own, path)))
            seqs[path] = max(each.seq for each in own)
    by_partition = by_partition and form == 2
    made = write_masks(jvm, table, masks, run, by_partition=by_partition)
    if by_partition:
        found = by_data_file(jvm, table, masks, made)
        files = [found[m.path] for m in masks]
    else:
        files = in_order(jvm, masks, made)
    added: dict[int, tuple[Any, int]] = {}
    for mask, file in zip(masks, files, strict=True):
        known = added.get(id(file), (file, 0))
        added[id(file)] = (file, max(known[1], seqs[mask.path]))
    return Merge(tuple(added.values()), frozenset(held))


def _read(jvm: Iceberg, table: Any, deletes: Mapping[str, tuple[Any, int]]) -> dict[str, _Held]:
    loader = jvm.delete_loader(table)

    def read(given: tuple[Any, int]) -> _Held:
        positions = jvm.positions_by_file(loader, given[0])
        return _Held(given[1], positions, frozenset(jvm.texts(positions.keySet())))

    return dict(zip(deletes, in_parallel(read, deletes.values()), strict=True))


def _targets(jvm: Iceberg, table: Any, named: set[str], doubled: Collection[str]) -> dict[str, _Target]:
    """Those of the named data files that are live; what is deleted from others is deleted from no row."""
    tasks = jvm.chosen(table.newScan().ignoreResiduals(), named.difference(doubled))
    found = {}
    for path in jvm.texts(tasks.keySet()):
        task = tasks.get(path)
        positional = (d for d in jvm.items(task.deletes()) if not jvm.equality(d))
        found[path] = _Target(task, frozenset(str(d.location()) for d in positional))
    return found


def _keep_movable(
    held: dict[str, _Held], targets: Mapping[str, _Target], doubled: Collection[str], *, whole: bool
) -> None:
    """Drop the delete files that could not be removed after the merge.

    ``whole``: a data file is merged with all position delete files that apply to it, or with none.
    """
    fixed = {delete for delete, each in held.items() if not each.named.isdisjoint(doubled)}
    while True:
        for delete in fixed:
            del held[delete]
        partly = (p for p, t in targets.items() if whole and not t.applied <= held.keys())
        fixed = {d for path in partly for d in targets[path].applied & held.keys() if path in held[d].named}
        if not fixed:
            return


def _own(held: Mapping[str, _Held], target: _Target, path: str) -> list[_Held]:
    """The merged delete files that delete rows of a data file."""
    return [each for d in target.applied if (each := held.get(d)) is not None and path in each.named]


def _union(jvm: Iceberg, deletes: Iterable[_Held], path: str) -> Any:
    made = jvm.no_positions()
    for each in deletes:
        made.merge(each.positions.get(path))
    return made
