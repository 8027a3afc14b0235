"""Rows deleted since they were read for a rewrite: found by position, from the delete files alone.

    deletes that the outputs reflect   ···x········
    deletes now                        ···x··y··y··     y lost; all rows of a removed input are deleted, or those that
                                                        its successors lack

A scan is needed only if equality deletes applied to an input when it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import applied_now, changed_inputs
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import Conflict
from lakekeeper.spi import Followed, Lost
from lakekeeper_iceberg.block_tracking import Follower
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.staging import Kept

_DATA_FILE = "org.apache.iceberg.DataFile"
_ROWS = ((_DATA_FILE, "recordCount", "long"), (_DATA_FILE, "firstRowId", "java.lang.Long"))


@dataclass(frozen=True, slots=True)
class Dead:
    """Lost rows by input path, as PositionDeleteIndexes, and the state for the next replay.

    ``counted`` is False if equality deletes hide the number of lost rows. ``clean`` are inputs without deletes when the
    outputs were written: all their deleted rows are lost, and all rows of those that are gone without a successor.
    """

    lost: Mapping[str, Any]
    kept: Kept
    counted: bool
    clean: frozenset[str]


@dataclass(frozen=True, slots=True)
class Read:
    """An input as it was read: its scan task, DataFile and delete files, its physical rows and first row id."""

    task: Any
    file: Any
    deletes: tuple[Any, ...]
    rows: int
    first_row_id: int | None


@dataclass(frozen=True, slots=True)
class Before:
    """The context of a search for lost rows; ``table`` is pinned at the newest metadata."""

    jvm: Iceberg
    planner: Planner
    follower: Follower
    table: Any
    name: str

    def reads(self, rewrite: Rewrite) -> Mapping[str, Read]:
        """The inputs as they were read, by path."""
        known: dict[str, Read] = rewrite.native.kept.reads
        if not known:
            task = rewrite.task
            found = self.planner.tasks(self.table, task.read_version, task.inputs)
            files = [scan.file() for scan in found]
            row_counts = self.jvm.records(self.jvm.array_list(files), _DATA_FILE, _ROWS)
            for path, scan, file, (rows, first) in zip(task.inputs, found, files, row_counts, strict=True):
                deletes = tuple(self.jvm.items(scan.deletes()))
                known[path] = Read(scan, file, deletes, int(rows), int(first) if first else None)
        return known


def find_lost(
    at: Before, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
) -> Lost:
    """See ``spi.RowDeletes.lost``. Reads delete files, but no data files."""
    now = _deletes_now(at, rewrite, snapshot, changes)
    back = ""
    for base in (rewrite, rewrite.written) if rewrite.unmasked is not None else (rewrite,):
        found = _dead(at, base, now, changes, followed)
        if isinstance(found, Dead) and not found.counted:
            kept = replace(rewrite.written.native.kept, deletes=now)
            return Lost(rewrite, rewrite.written, changes, None, replace(found, kept=kept), followed)
        if isinstance(found, Dead):
            counts = (int(index.cardinality()) for index in found.lost.values())
            return Lost(rewrite, base, changes, sum(counts), found, followed)
        back = found
    raise Conflict(f"{at.name}: {back}", str(changes.winners[-1]) if changes.winners else "")


def _deletes_now(
    at: Before, rewrite: Rewrite, snapshot: Snapshot, changes: Changes
) -> dict[str, Sequence[Any]]:
    """Current delete files of the inputs whose deletes changed since the read, reusing those of the last replay."""
    task, reads, known = rewrite.task, at.reads(rewrite), rewrite.native.kept.deletes
    applied = dict(zip(task.inputs, applied_now(task, changes), strict=True))
    read = dict(zip(task.inputs, task.delete_ids, strict=True))
    now: dict[str, Sequence[Any]] = {}
    unknown = []
    for path in (path for path, deletes in applied.items() if deletes not in (None, read[path])):
        if path in known and applied[path] == rewrite.inputs_now[path]:
            now[path] = known[path]
            continue
        found = at.follower.deletes_of(snapshot, changes, path, reads[path].deletes)
        if found is None:
            unknown.append(path)
        else:
            now[path] = found
    if unknown:
        planned = at.planner.tasks(at.table, changes.version, unknown)
        now |= {path: at.jvm.items(scan.deletes()) for path, scan in zip(unknown, planned, strict=True)}
    return now


def _dead(
    at: Before,
    base: Rewrite,
    now: Mapping[str, Sequence[Any]],
    changes: Changes,
    followed: Followed | None,
) -> Dead | str:
    """Rows deleted since the outputs of ``base`` were last replayed; or a text if such rows are live again."""
    reads, kept = at.reads(base), base.native.kept
    applied = dict(zip(base.task.inputs, applied_now(base.task, changes), strict=True))
    missing = followed.missing if followed is not None and followed.files else None
    touched = changed_inputs(base, changes)
    counted = not any(at.jvm.equality(delete) for path in touched for delete in reads[path].deletes)
    if not counted:
        return Dead({}, kept, counted, frozenset())
    loader = at.jvm.delete_loader(at.table)

    def as_read(path: str) -> Any:
        return _positions(at, loader, reads[path].deletes, path)

    def compared(path: str) -> tuple[Any, Any]:
        known = kept.dead.get(path)
        before = as_read(path) if known is None else known
        if applied[path] is not None:
            return before, _positions(at, loader, now.get(path, reads[path].deletes), path)
        if missing is None:
            return before, at.jvm.all_rows(reads[path].rows)
        return before, at.jvm.union(at.jvm.index_of(missing.get(path, ())), as_read(path))

    dead, lost, clean = dict(kept.dead), {}, set()
    for path, (before, after) in zip(touched, in_parallel(compared, touched), strict=True):
        dead[path] = gone = after
        if before.isEmpty():
            clean.add(path)
        else:
            back = at.jvm.without(before, after)
            if not back.isEmpty():
                return f"{back.cardinality()} rows of {path} that were deleted when it was read live again"
            gone = at.jvm.without(after, before)
        if not gone.isEmpty():
            lost[path] = gone
    return Dead(lost, replace(kept, deletes=now, dead=dead), counted, frozenset(clean))


def read_positions(at: Before, reads: Mapping[str, Read]) -> list[Any]:
    """The deleted rows of inputs when they were read, as PositionDeleteIndexes; equality deletes are ignored."""
    loader = at.jvm.delete_loader(at.table)
    return in_parallel(lambda each: _positions(at, loader, each[1].deletes, each[0]), list(reads.items()))


def _positions(at: Before, loader: Any, deletes: Sequence[Any], path: str) -> Any:
    positional = [delete for delete in deletes if not at.jvm.equality(delete)]
    return at.jvm.deleted_positions(loader, positional, path) if positional else at.jvm.no_positions()


def have_row_ids(table: Any, reads: Iterable[Read]) -> bool:
    """Whether each row of these files has a row id: files older than an upgrade to v3 get none until a later commit."""
    if int(table.operations().current().formatVersion()) < 3:
        return False
    return all(read.first_row_id is not None for read in reads)
