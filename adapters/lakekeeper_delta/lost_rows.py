"""Rows that a replay has to find: those read for a rewrite that are no longer live where they were read.

deletes changed     current vector − vector that the outputs reflect       as a bitmap, by position
input removed       all rows − vector that the outputs reflect             deleted, or in a file of another rewrite
copied on write     rows missing in the successors − those known before    deleted, the others are in the successors

Only inputs that were touched since the last replay are examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import applied_now, changed_inputs
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.spi import Followed, Lost, Places, Traces
from lakekeeper_delta.deletion_vectors import all_rows, vector_of, with_rows, without
from lakekeeper_delta.filesystem import in_parallel
from lakekeeper_delta.json_commits import commits_between
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_positions import as_struct, file_and_position, metadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Dead:
    """Bitmaps by input path: the ``lost`` rows, and all rows ``dead`` now, of the inputs that any replay examined.

    ``inputs`` are the currently live AddFiles by path, ``rows`` the physical rows of those with lost rows, and
    ``successors`` the AddFiles of the successors of the others.
    """

    lost: Mapping[str, Any]
    dead: Mapping[str, Any]
    inputs: Mapping[str, Any]
    rows: Mapping[str, int]
    successors: Sequence[Any] = ()


def lost_rows(
    log: Log, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
) -> Lost:
    """See ``spi.RowDeletes.lost``. Reads deletion vectors, but no data."""
    current = _current(log, rewrite.written, changes)
    files = followed.files if followed is not None else ()
    missing = followed.missing if followed is not None and files else None
    adds = (
        log.jvm.items(add_files(log, log.at(changes.version, rewrite.task.table_uuid), files))
        if files
        else ()
    )
    for base in (rewrite, rewrite.written) if rewrite.unmasked is not None else (rewrite,):
        found = _dead(log, base, current, snapshot, changes, missing)
        if isinstance(found, Dead):
            count = sum(int(bitmap.cardinality()) for bitmap in found.lost.values())
            return Lost(rewrite, base, changes, count, replace(found, successors=adds), followed)
    winner = str(changes.winners[-1]) if changes.winners else ""
    raise Conflict(f"{log.name}: {found}", winner)


def _current(log: Log, written: Rewrite, changes: Changes) -> dict[str, Any]:
    """The currently live inputs, as AddFiles by path; runs no job if the log's small commits suffice."""
    task = written.task
    applied = dict(zip(task.inputs, applied_now(task, changes), strict=True))
    read = dict(zip(task.inputs, task.delete_ids, strict=True))
    since = commits_between(log, task.read_version, changes.version)
    current = {path: add for path, add in written.native.by_path.items() if applied[path] is not None}
    again = {path: since.adds[path] for path in current if path in since.adds}
    current |= {path: log.action(line) for path, line in again.items()}
    unknown = [path for path in current if applied[path] != read[path] and path not in again]
    if unknown:
        found = add_files(log, log.at(changes.version, task.table_uuid), unknown)
        current |= {str(add.path()): add for add in found}
    return current


def _dead(
    log: Log,
    base: Rewrite,
    current: Mapping[str, Any],
    snapshot: Snapshot,
    changes: Changes,
    missing: Places | None,
) -> Dead | str:
    """Rows that died since the outputs of ``base`` were last replayed; or a text if such rows live again.

    ``missing`` are the rows that the successors of removed inputs lack; None if there are no successors.
    """
    native, read = base.native, base.written.native.by_path
    applied = dict(zip(base.task.inputs, applied_now(base.task, changes), strict=True))
    touched = changed_inputs(base, changes)

    def compared(path: str) -> tuple[Any, Any, int]:
        before = native.dead.get(path)
        before = vector_of(log, read[path]) if before is None else before
        physical = _physical_rows(read[path], snapshot)
        if applied[path] is not None:
            now = vector_of(log, current[path])
        elif missing is None:
            now = all_rows(log, physical)
        else:
            now = with_rows(log, vector_of(log, read[path]), missing.get(path, ()))
        return before, now, physical

    dead, lost, rows = dict(native.dead), {}, {}
    # Each vector is a file to read, and replies to Python have latency.
    for path, (before, now, physical) in zip(touched, in_parallel(compared, touched), strict=True):
        back = without(before, now)
        if not back.isEmpty():
            return f"{back.cardinality()} rows of {path} that were deleted when it was read live again"
        gone = without(now, before)
        dead[path] = now
        if not gone.isEmpty():
            lost[path], rows[path] = gone, physical
    return Dead(lost, dead, current, rows)


def _physical_rows(add: Any, snapshot: Snapshot) -> int:
    """Rows in a file, including deleted ones: from the log, else as the snapshot counted them."""
    recorded = add.numPhysicalRecords()
    if recorded.isDefined():
        return int(recorded.get())
    at = snapshot.blocks.path.index(add.path()).as_py()
    if at < 0:
        raise AdapterError(f"{add.path()}: neither the log nor the snapshot records its number of rows")
    return int(snapshot.blocks.rows[at])


def traces(log: Log, lost: Lost) -> Traces[DataFrame]:
    """See ``spi.RowDeletes.traces``. Starts no job."""
    base, task = lost.base, lost.base.task
    state = log.at(task.read_version, task.table_uuid)
    read = base.written.native.by_path
    files = [_only(log, read[path], rows, lost.native.rows[path]) for path, rows in lost.native.lost.items()]
    gone = log.scan(state, log.jvm.array_list(files), numbered=True)
    outputs = base.native.outputs
    if state.tracks_rows:
        # Uncommitted files have no baseRowId yet; the ids materialized in the files take precedence.
        outputs = [log.edited(add, baseRowId=0, defaultRowCommitVersion=0) for add in outputs]
    rows = log.scan(state, log.jvm.array_list(outputs), numbered=True)
    return Traces(
        gone.select(_row(state, gone)),
        rows.select(_row(state, rows), *file_and_position(log, rows)),
    )


def _row(state: State, frame: DataFrame) -> Column:
    """What identifies a row: its row id, else all columns stored in files. A task is in one partition."""
    if state.tracks_rows:
        return metadata(frame).getField("row_id").alias("row")
    partition = {name.lower() for name in state.partition_columns}
    return as_struct([name for name in frame.columns if name.lower() not in partition]).alias("row")


def _only(log: Log, add: Any, rows: Any, physical_rows: int) -> Any:
    """The file as if all rows but these were deleted, by an inline deletion vector."""
    others = without(all_rows(log, physical_rows), rows)
    others.runOptimize()
    if others.isEmpty():
        return log.edited(add, stats=None, deletionVector=None)
    portable = log.singleton("deletionvectors.RoaringBitmapArrayFormat").Portable()
    vector = log.singleton("actions.DeletionVectorDescriptor").inlineInLog(
        others.serializeAsByteArray(portable), others.cardinality()
    )
    return log.edited(add, stats=None, deletionVector=None).removeRows(vector, True, False)._1()
