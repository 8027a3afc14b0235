"""What a replay has to look for: rows that were read for a rewrite and live no more where they were read.

deletes changed     vector now − vector as read     only these rows, by the vector that masks all others
input gone          all rows that were read of it    they are dead, or in a file of somebody's rewrite
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Rewrite, applied_now
from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.spi import Traces
from lakekeeper_delta.disk import in_parallel
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.places import as_struct, file_and_position, metadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def traces(log: Log, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Traces[DataFrame]:
    """See ``spi.RowDeletes.traces``. Starts no job but the look-up of the inputs' actions."""
    written = rewrite.written
    task = written.task
    state = log.at(task.read_version, task.table_uuid)
    lost = log.scan(state, _lost_files(log, written, snapshot, changes), numbered=True)
    outputs = written.native.outputs
    if state.tracks_rows:
        # Uncommitted files have no first row id yet; the ids in the files themselves go first.
        fresh = [log.edited(add, baseRowId=0, defaultRowCommitVersion=0) for add in outputs]
        outputs = log.jvm.array_list(fresh)
    rows = log.scan(state, outputs, numbered=True)
    return Traces(
        lost.select(_row(state, lost)),
        rows.select(_row(state, rows), *file_and_position(log, rows)),
    )


def _row(state: State, frame: DataFrame) -> Column:
    """What tells rows apart: their id, else all that is stored in files. A task lies in one partition."""
    if state.tracks_rows:
        return metadata(frame).getField("row_id").alias("row")
    partition = {name.lower() for name in state.partition_columns}
    return as_struct([name for name in frame.columns if name.lower() not in partition]).alias("row")


def _lost_files(log: Log, written: Rewrite, snapshot: Snapshot, changes: Changes) -> Any:
    """AddFiles whose live rows are just the lost ones, as a java.util.List."""
    task = written.task
    now = log.at(changes.version, task.table_uuid)
    applied = dict(zip(task.inputs, applied_now(task, changes), strict=True))
    live = [path for path, deletes in applied.items() if deletes is not None]
    current = {str(add.path()): add for add in log.inputs(now, task.id, live)}
    read = dict(zip(task.inputs, task.delete_ids, strict=True))

    def lost(add: Any) -> Any:
        path = str(add.path())
        if applied[path] is None:
            return add
        if applied[path] == read[path]:
            return None
        dead = _newly_deleted(log, add, current[path], changes)
        return None if dead.isEmpty() else _only(log, add, dead, _physical_rows(add, snapshot))

    # Each vector is a file to be read, and its answers to Python come with waits.
    found = in_parallel(lost, written.native.inputs)
    return log.jvm.array_list(add for add in found if add is not None)


def _newly_deleted(log: Log, before: Any, now: Any, changes: Changes) -> Any:
    """Row numbers that the vector has now and did not have as we read it, as a RoaringBitmapArray."""
    dead, masked = _vector(log, now), _vector(log, before)
    back = masked.copy()
    back.andNot(dead)
    if not back.isEmpty():
        winner = str(changes.winners[-1]) if changes.winners else ""
        raise Conflict(
            f"{log.name}: {back.cardinality()} rows of {before.path()} that were deleted when it was read live again",
            winner,
        )
    dead.andNot(masked)
    return dead


def _vector(log: Log, add: Any) -> Any:
    descriptor = add.deletionVector()
    if descriptor is None:
        return log.delta.deletionvectors.RoaringBitmapArray()
    store = log.singleton("storage.dv.DeletionVectorStore").createInstance(log.log.newDeltaHadoopConf())
    return store.read(descriptor, log.log.dataPath())


def _only(log: Log, add: Any, rows: Any, physical_rows: int) -> Any:
    """The file as if all rows but these were deleted, by a vector within the action itself."""
    others = log.delta.deletionvectors.RoaringBitmapArray()
    others.addRange(log.jvm.object("scala.collection.immutable.Range").apply(0, physical_rows))
    others.andNot(rows)
    others.runOptimize()
    if others.isEmpty():
        return log.edited(add, stats=None, deletionVector=None)
    portable = log.singleton("deletionvectors.RoaringBitmapArrayFormat").Portable()
    vector = log.singleton("actions.DeletionVectorDescriptor").inlineInLog(
        others.serializeAsByteArray(portable), others.cardinality()
    )
    return add.removeRows(vector, True, False)._1()


def _physical_rows(add: Any, snapshot: Snapshot) -> int:
    """Rows in a file, deleted ones included: as the log says, or as the snapshot counted them."""
    told = add.numPhysicalRecords()
    if told.isDefined():
        return int(told.get())
    at = snapshot.blocks.path.index(add.path()).as_py()
    if at < 0:
        raise AdapterError(f"{add.path()}: neither the log nor the snapshot tells its number of rows")
    return int(snapshot.blocks.rows[at])
