"""Delete rows by their places, in one commit that changes data: our own DELETE.

With deletion vectors no data file is written, and the change feed is what Delta works out of the vectors. Without
them the touched files are copied without the rows; then the rows are written for the feed, where it is on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekeeper.core.blocks import Snapshot
from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, Rejected, Unsupported
from lakekeeper.spi import Commit, Held
from lakekeeper_delta.changes import commits_between, outcome
from lakekeeper_delta.commit import (
    attempt,
    commit_tags,
    refuse_lost,
    refuse_obstacle,
    register_metrics,
    told,
)
from lakekeeper_delta.masks import count_places, keep_vectors, rows_by_file, write_copies, write_vectors
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.rewrite import carried_marks, described, discard, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPTS = 3

# What Delta's own DELETE registers: it fails where one that it looks up is missing.
_METRICS = (
    "numAddedFiles",
    "numRemovedFiles",
    "numDeletedRows",
    "numCopiedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
    "numAddedChangeFiles",
    "numAddedBytes",
    "numRemovedBytes",
)


@dataclass(frozen=True, slots=True)
class _Removal:
    """Actions of a delete, what they say, and the files that were written for them."""

    actions: tuple[Any, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    files: tuple[str, ...]
    metrics: Mapping[str, int]
    removed_vectors: int


@dataclass(frozen=True, slots=True)
class _Touched:
    """Files with rows to delete: actions by path as they are now, rows to delete and physical rows of each."""

    adds: Mapping[str, Any]
    counts: Mapping[str, int]
    rows: Mapping[str, int]

    def left(self, path: str) -> int:
        """Live rows of a file after the delete."""
        vector = self.adds[path].deletionVector()
        dead = int(vector.cardinality()) if vector is not None else 0
        return self.rows[path] - dead - self.counts[path]


def refuse_append_only(log: Log, state: State) -> None:
    """Raise Unsupported where the table's owner forbade to delete rows."""
    if state.switched_on("appendOnly"):
        raise Unsupported(
            log.name,
            "appendOnly",
            "the table property delta.appendOnly is true, which forbids to delete rows; nothing was written",
        )


def delete(log: Log, hits: Sequence[Held[DataFrame]], snapshot: Snapshot, run_id: str, where: str) -> Commit:
    """See ``spi.RowDeletes.delete``. Files of an attempt that is known to have failed are deleted."""
    now = log.latest()
    refuse_append_only(log, now)
    paths = sorted({path for held in hits for path, rows in held.per_file.items() if rows})
    if not paths:
        return Commit(now.version, run_id, (), ())
    _refuse_changed(log, snapshot, now, paths)
    try:
        predicate = log.jvm.session.sessionState().sqlParser().parseExpression(where)
        operation = getattr(log.delta, "DeltaOperations$Delete")(log.jvm.seq([predicate]))
        removal = _prepared(log, hits, snapshot, now, paths)
    except LakekeeperError:
        raise
    except Exception as error:
        raise Rejected(f"{log.name}: the delete could not be prepared ({told(error)})") from error
    version = _settled(log, removal, snapshot, now, operation, run_id)
    return Commit(version, run_id, removal.removed, removal.added, removal.removed_vectors)


def _settled(log: Log, removal: _Removal, snapshot: Snapshot, now: State, operation: Any, run_id: str) -> int:
    """Commit; the version. Tried again where Delta calls an append a conflict: the places are as good as before.

    Raises Conflict or Rejected, and deletes the attempt's files, or Unknown.
    """
    left = _ATTEMPTS
    while True:
        left -= 1
        try:
            return _committed(log, removal, now, operation, run_id)
        except Rejected:
            discard(log, removal.files)
            raise
        except Conflict:
            latest = log.latest()  # none of the winners is our own commit: ``attempt`` has looked for it
            try:
                _refuse_changed(log, snapshot, latest, removal.removed)
                if not left:
                    raise
            except Conflict:
                discard(log, removal.files)
                raise
            now = latest


def _refuse_changed(log: Log, snapshot: Snapshot, now: State, paths: Collection[str]) -> None:
    """Raise Conflict where a file is gone or has other deletes than in the snapshot: its places would be wrong."""
    refuse_obstacle(log, snapshot, now)
    base = -1 if snapshot.version is None else snapshot.version
    since = commits_between(log, base, now.version)
    actions = since.touching(pa.array(list(paths), pa.string()))
    removed, changed = outcome(actions)
    known = dict(zip(snapshot.blocks.path.to_pylist(), snapshot.blocks.delete_id.to_pylist(), strict=True))
    lost = removed | {path for path, deletes in changed.items() if known[path] != deletes}
    refuse_lost(log, since, actions, lost, "with rows to delete")


def _prepared(
    log: Log, hits: Sequence[Held[DataFrame]], snapshot: Snapshot, now: State, paths: Sequence[str]
) -> _Removal:
    places = reduce(lambda one, other: one.unionByName(other), (held.hits for held in hits))
    adds = {str(add.path()): add for add in log.add_files(now, paths)}
    known = snapshot.blocks.path.to_pylist()
    wanted = set(paths)
    rows = {path: int(snapshot.blocks.rows[i]) for i, path in enumerate(known) if path in wanted}
    if rows.keys() != wanted:
        raise AdapterError(f"{log.name}: places in files that are not in the snapshot; nothing was written")
    touched = _Touched(adds, count_places(log, places, rows), rows)
    removing = _by_vectors if now.masks_rows else _by_copies
    return removing(log, now, places, touched)


def _by_vectors(log: Log, now: State, places: DataFrame, touched: _Touched) -> _Removal:
    present = {path: touched.adds[path].deletionVector() for path in touched.counts}
    vectors = write_vectors(log, now, places, present, touched.counts)
    actions, added = [], []
    for path, vector in vectors.by_file.items():
        if int(vector.cardinality()) == touched.rows[path]:
            actions.append(_remove(touched.adds[path]))
            continue
        pair = _counted(log, touched.adds[path], touched.rows[path]).removeRows(vector, True, True)
        actions += [pair._2(), pair._1()]
        added.append(path)
    files = keep_vectors(log, vectors, added)
    updated = [path for path in added if present[path] is not None]
    return _removal(touched, actions, added, files, updated=updated)


def _by_copies(log: Log, now: State, places: DataFrame, touched: _Touched) -> _Removal:
    kept = {path: rows for path in touched.counts if (rows := touched.left(path))}
    copies = write_copies(log, now, places, {path: touched.adds[path] for path in kept}, kept)
    actions = [_remove(touched.adds[path]) for path in touched.counts]
    added = []
    for path, copy in copies.items():
        output, data = described(log, copy)
        actions.append(log.edited(copy, dataChange=True, **carried_marks(touched.adds[path], data)))
        added.append(output.path)
    feed = _feed(log, now, places, touched) if now.switched_on("enableChangeDataFeed") else []
    changes = [json.loads(action.json())["cdc"]["path"] for action in feed]
    return _removal(touched, [*actions, *feed], added, [*added, *changes], updated=None)


def _feed(log: Log, now: State, places: DataFrame, touched: _Touched) -> list[Any]:
    """The deleted rows as files of the change feed: a commit with one of them is read from them alone."""
    from pyspark.sql import functions as F

    adds = {path: touched.adds[path] for path in touched.counts}
    rows = rows_by_file(log, now, places, adds, "left_semi", row_ids=False)
    return write_files(log, now, rows.withColumn("_change_type", F.lit("delete")))


def _remove(add: Any) -> Any:
    return add.removeWithTimestamp(time.time_ns() // 1_000_000, True)


def _counted(log: Log, add: Any, rows: int) -> Any:
    """An action that tells its number of rows: a file with deletes must."""
    if add.numPhysicalRecords().isDefined():
        return add
    return log.edited(add, stats=json.dumps({"numRecords": rows, "tightBounds": False}))


def _removal(
    touched: _Touched,
    actions: Sequence[Any],
    added: Sequence[str],
    files: Sequence[str],
    *,
    updated: Sequence[str] | None,
) -> _Removal:
    """``updated``: files that had a vector and got another; None where copies were written."""
    gone = [path for path in touched.counts if updated is None or path not in added]
    had = [path for path in touched.counts if touched.adds[path].deletionVector() is not None]
    by_vectors = updated is not None
    metrics = {
        "numRemovedFiles": len(gone),
        "numAddedFiles": 0 if by_vectors else len(added),
        "numDeletedRows": sum(touched.counts.values()),
        "numCopiedRows": 0 if by_vectors else sum(touched.left(path) for path in gone),
        "numDeletionVectorsAdded": len(set(added) - set(updated or ())) if by_vectors else 0,
        "numDeletionVectorsUpdated": len(updated or ()),
        "numDeletionVectorsRemoved": len([path for path in had if path in gone]),
        "numAddedChangeFiles": 0 if by_vectors else len(files) - len(added),
        "numRemovedBytes": sum(int(touched.adds[path].size()) for path in gone),
    }
    return _Removal(tuple(actions), tuple(touched.counts), tuple(added), tuple(files), metrics, len(had))


def _committed(log: Log, removal: _Removal, now: State, operation: Any, run_id: str) -> int:
    """The version. Raises Conflict, Rejected or Unknown."""
    try:
        transaction = log.transaction(now)
        transaction.trackFilesRead(log.scala_seq(log.add_files(now, removal.removed)))
        register_metrics(log, transaction, dict.fromkeys(_METRICS, 0) | dict(removal.metrics))
        tags = commit_tags(log, now, run_id)
    except Exception as error:
        raise Rejected(f"{log.name}: the delete could not be prepared ({told(error)})") from error
    return attempt(log, transaction, now, log.jvm.array_list(removal.actions), operation, tags, run_id)
