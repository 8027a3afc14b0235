"""Maintenance of delete files: merges small position delete files and removes dangling deletes, in one commit.

    listing ─┬─ dangling deletes of all kinds ─────────────────────────────────┬─► one commit, with our run id
             └─ crowds of position deletes ─► read, written as fewer, or better ─┘

A dangling delete stays dangling: data files added later have higher sequence numbers. The exception are outputs of a
rewrite, which keep the sequence number of their inputs; while an input is live, the deletes that apply to it are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.compute as pc

from lakekeeper.errors import Conflict, LostRace, Rejected
from lakekeeper.spi import Tidied
from lakekeeper_iceberg.block_tracking import unpartitioned
from lakekeeper_iceberg.changes import RUN_ID
from lakekeeper_iceberg.commit import DeleteChange, Swapped, change_deletes, preparing
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.delete_crowds import Place, crowded
from lakekeeper_iceberg.delete_merge import Merge, merged
from lakekeeper_iceberg.deletes import EQUALITY, MATCHED, target_of
from lakekeeper_iceberg.listing import Listing, list_files
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import format_version
from lakekeeper_iceberg.staging import delete_own

_NEVER = 2**63
_SWAPS = 5  # attempts of one commit before the table is listed again


@dataclass(frozen=True, slots=True)
class Choice:
    """What there is to do with the delete files of a snapshot, as its listing shows.

    gone        (path, offset of the deletion vector or None) of the deletes that apply to no live data file
    merged      position delete files to merge: path → data sequence number
    doubled     data files that the snapshot lists twice, if there is anything to merge
    """

    gone: frozenset[tuple[str, int | None]]
    merged: Mapping[str, int]
    doubled: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.gone or self.merged)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A change of delete files, and the paths of the files that were written for it."""

    change: DeleteChange
    written: tuple[str, ...]


def choice(jvm: Iceberg, table: Any, files: Listing | None) -> Choice:
    """What to do with the delete files of a pinned table. ``files``: its listing; if None, the table is listed."""
    if not _may_have_deletes(table.currentSnapshot()):
        return Choice(frozenset(), {}, frozenset())
    files = files or list_files(jvm, table)
    gone = frozenset(dangling_deletes(files, unpartitioned(jvm, table.operations().current())))
    form = format_version(table)
    merged = {
        d["path"]: d["seq"]
        for d in crowded(files, {path for path, _ in gone}, _granularity(jvm, table), form)
    }
    listed = pc.value_counts(files.data["path"]).to_pylist() if merged else []
    return Choice(gone, merged, frozenset(each["values"] for each in listed if each["counts"] > 1))


def tidy(
    jvm: Iceberg,
    pinned: Any,
    table: Any,
    name: str,
    todo: Choice,
    run_id: str,
    attempts: Attempts,
    lock: AbstractContextManager[Any],
) -> Tidied:
    """Do what was chosen for the table ``pinned``; see ``spi.RowDeletes.tidy``.

    All is written before the commit lock is taken.
    """
    if not todo:
        return Tidied()
    with preparing(name):
        plan = _planned(jvm, pinned, todo, attempts.run)
    if plan is None:
        return Tidied()
    try:
        with lock:
            done = _landed(partial(change_deletes, jvm, table, name, plan.change, run_id, attempts))
    except (Conflict, Rejected):
        _discard(jvm, table, plan.written, run_id)
        raise
    return Tidied(done.version, done.removed_delete_files, len(plan.change.added))


def _may_have_deletes(snapshot: Any) -> bool:
    """Whether a snapshot, or None, has delete files by its summary; true if that does not count them."""
    return snapshot is not None and str(snapshot.summary().get("total-delete-files") or "") != "0"


def _granularity(jvm: Iceberg, table: Any) -> str:
    return jvm.text_map(table.properties()).get("write.delete.granularity", "file").lower()


def _planned(jvm: Iceberg, table: Any, todo: Choice, run: str) -> _Plan | None:
    """The change of a pinned table; None if nothing of it can be done."""
    snapshot = table.currentSnapshot()
    java = jvm.delete_files(table, snapshot, {path for path, _ in todo.gone} | todo.merged.keys())
    removed = [d for d in java if (str(d.location()), _offset(d)) in todo.gone]
    merge = Merge()
    if todo.merged:
        deletes = {path: (d, todo.merged[path]) for d in java if (path := str(d.location())) in todo.merged}
        by_partition = _granularity(jvm, table) == "partition"
        merge = merged(jvm, table, deletes, todo.doubled, run, by_partition=by_partition)
        removed += [d for path, (d, _) in deletes.items() if path in merge.replaced]
    if not removed:
        return None
    version = int(snapshot.snapshotId())
    return _Plan(DeleteChange(version, format_version(table), removed, merge.added), merge.written)


def _landed(commit: Callable[[], Swapped]) -> Swapped:
    """Run the commit; retry it unchanged after a lost race. Raises what the last attempt raises."""
    for _ in range(_SWAPS - 1):
        with suppress(LostRace):
            return commit()
    return commit()


def _discard(jvm: Iceberg, table: Any, written: Sequence[str], run_id: str) -> None:
    """Delete the files of a commit that failed, unless an earlier attempt of it landed after it was reported lost."""
    if written:
        with suppress(Exception):  # left to a vacuum, which finds the folder of the run
            table.refresh()
            summaries = jvm.maps(table.snapshots(), "org.apache.iceberg.Snapshot", "summary")
            if all(summary.get(RUN_ID) != run_id for summary in summaries):
                delete_own(jvm, table, written)


@dataclass(slots=True)
class _Live:
    """The lowest sequence numbers of live data files; a delete applies to one only if its own is high enough."""

    positions: dict[str, int] = field(default_factory=dict)  # path → sequence number
    of_place: dict[Place, int] = field(default_factory=lambda: defaultdict(lambda: _NEVER))
    equality: dict[Place, int] = field(default_factory=lambda: defaultdict(lambda: _NEVER))
    anywhere: int = _NEVER


def dangling_deletes(files: Listing, unpartitioned: frozenset[int]) -> set[tuple[str, int | None]]:
    """(path, offset of the deletion vector or None) of the deletes that apply to no live data file."""
    deletes = files.deletes.to_pylist()
    with_vector = {d["referenced"] for d in deletes if d["dv_offset"] is not None}
    live = _live(files, with_vector)
    gone: set[tuple[str, int | None]] = set()
    paths = set(files.data["path"].to_pylist())
    for d in deletes:
        place = (d["spec"], d["partition"])
        if d["content"] == EQUALITY:
            oldest = live.anywhere if d["spec"] in unpartitioned else live.equality[place]
            applies = oldest < d["seq"]
        elif d["dv_offset"] is not None:
            applies = d["referenced"] in paths
        elif (target := target_of(d)) is not None:
            applies = live.positions.get(target, _NEVER) <= d["seq"]
        else:
            applies = live.of_place[place] <= d["seq"]
        if not applies:
            gone.add((d["path"], d["dv_offset"]))
    return gone


def _live(files: Listing, with_vector: set[str]) -> _Live:
    live = _Live()
    columns = (files.data[name].to_pylist() for name in MATCHED)
    for path, seq, added, spec, partition in zip(*columns, strict=True):
        place = (spec, partition)
        live.anywhere = min(live.anywhere, seq)
        live.equality[place] = min(live.equality[place], seq)
        if path not in with_vector:  # with a deletion vector, other position deletes do not apply
            live.positions[path] = min(live.positions.get(path, _NEVER), seq)  # a file may be listed twice
            live.of_place[place] = min(live.of_place[place], max(seq, added))
    return live


def _offset(delete: Any) -> int | None:
    offset = delete.contentOffset()
    return None if offset is None else int(offset)
