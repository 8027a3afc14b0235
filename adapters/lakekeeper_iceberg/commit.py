"""One atomic swap of a table's metadata, based on exactly the metadata that was checked.

    one refresh ─► update().apply() ─► new snapshot, not yet visible ─► ops.commit(base, base + snapshot)

Iceberg's own ``commit()`` retries internally and bypasses our checks; here the check and the swap use the same base.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.planning.changes import Changes
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    LakekeeperError,
    LostRace,
    NotFound,
    NotSent,
    Rejected,
    Unknown,
    reason,
)
from lakekeeper.spark.jvm import causes
from lakekeeper_iceberg import nessie
from lakekeeper_iceberg.changes import RUN_ID, winners_after
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.dropped_sources import refuse_manifests
from lakekeeper_iceberg.native import Iceberg

REPLAYED = "lakekeeper.replayed-rows"
_ISOLATION = "write.delete.isolation-level"
_LOST_RACE = (
    "CommitFailedException",
    "RetryableValidationException",
    "ValidationException",
    "ValidationFailureException",
)
_BUSY = "SQLITE_BUSY"  # of a JDBC catalog in SQLite that waits for another writer: nothing was written
UNKNOWN_STATE = "CommitStateUnknownException"
"""The error by which a catalog says that it does not know whether it has committed."""
# Catalog errors that prove that nothing was committed.
_REFUSED = (
    "ForbiddenException",
    "NotAuthorizedException",
    "BadRequestException",
    "NoSuchTableException",
    "UnprocessableEntityException",
    "AlreadyExistsException",
    "NessieForbiddenException",
    "NessieNotAuthorizedException",
)


# Those that a catalog may also return for a snapshot that is based on stale metadata.
_STALE = frozenset({"BadRequestException", "UnprocessableEntityException"})


@dataclass(frozen=True, slots=True)
class RowChange:
    """Rows to delete from the table, as Java files: a data change like a user's DELETE.

    searched    the snapshot in which all rows to delete were found; Iceberg checks later commits for conflicts
    schema      the id of the schema to which ``filter`` refers, by the names of its columns
    form        the format version that the files were written for
    filter      an Iceberg expression that selects the rows to delete
    removed     data files to remove; ``dropped_deletes`` are removed with them, or replaced by ``deletes``
    rows        data files with the remaining rows of removed files (v1)
    touched     data files that ``deletes`` reference
    """

    run_id: str
    searched: int
    schema: int
    form: int
    filter: Any
    removed: Sequence[Any] = ()
    dropped_deletes: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    rows: Sequence[Any] = ()
    touched: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Swapped:
    """The committed snapshot, and the number of delete files that it removed."""

    version: int
    removed_delete_files: int


def change_rows(jvm: Iceberg, table: Any, name: str, change: RowChange, attempts: Attempts) -> Swapped:
    """Commit in one attempt. Raises Conflict (without naming the other commit), Rejected or Unknown.

    Deletes no data file from storage.
    """

    def update(transaction: Any, base: Any) -> Any:
        return row_change(jvm, name, change, transaction, base)

    base, made = _prepared(jvm, table, name, update, attempts)
    return _swap(jvm, table, name, base, made)


def append_once(
    jvm: Iceberg, table: Any, name: str, files: Sequence[Any], since: int, run_id: str, attempts: Attempts
) -> tuple[int, bool]:
    """Append data files unless a commit after the snapshot ``since`` has ``run_id``; (snapshot, whether it existed).

    The search uses the metadata that the swap replaces. Raises like :func:`change_rows`, and Rejected if ``since`` is
    not an ancestor of the current snapshot.
    """
    done: list[int] = []

    def update(transaction: Any, base: Any) -> Any:
        done.extend(_carried(name, base, since, run_id))
        append = transaction.newFastAppend()
        for file in () if done else files:
            append = append.appendFile(file)
        return None if done else append.set(RUN_ID, run_id)

    base, made = _prepared(jvm, table, name, update, attempts)
    return (done[0], True) if done else (_swap(jvm, table, name, base, made).version, False)


def _carried(name: str, base: Any, since: int, run_id: str) -> list[int]:
    """The snapshots after ``since`` that have this run id."""
    line = _line(base, since)
    if line is None:
        raise Rejected(
            f"{name}: snapshot {since} is not among the ancestors of the current one (it was expired, or the table was "
            "rolled back), so whether this was done already is not known; nothing was committed"
        )
    return [int(at.snapshotId()) for at in line if (at.summary().get(RUN_ID) or "") == run_id]


def _line(base: Any, since: int) -> list[Any] | None:
    """The current snapshot and its ancestors after ``since``; None if it is not among them."""
    line: list[Any] = []
    at = base.currentSnapshot()
    while at is not None:
        if int(at.snapshotId()) == since:
            return line
        line.append(at)
        parent = at.parentId()
        at = None if parent is None else base.snapshot(parent)
    return None


@dataclass(frozen=True, slots=True)
class DeleteChange:
    """Delete files to remove and to add, which leave every row as it is.

    version     the snapshot that was looked at
    form        the format version that the added files were written for
    removed     DeleteFiles that apply to no data file, or whose rows are in the added ones
    added       DeleteFiles with their data sequence numbers
    """

    version: int
    form: int
    removed: Sequence[Any]
    added: Sequence[tuple[Any, int]] = ()


def change_deletes(
    jvm: Iceberg, table: Any, name: str, change: DeleteChange, run_id: str, attempts: Attempts
) -> Swapped:
    """Commit in one attempt; raises like :func:`change_rows`, and Conflict if the change may no longer be right.

    Data files added since have higher sequence numbers, so older deletes do not apply to them. Only the outputs of a
    rewrite may have lower ones, and a rollback may bring back data files. A position delete that was added since
    applies beside the added ones; but of deletion vectors, a data file may have one only.
    """

    def update(transaction: Any, base: Any) -> Any:
        commits, met = winners_after(jvm, base, base.currentSnapshot(), {change.version})
        if met != change.version or any(c.winner.operation == "replace" for c in commits):
            raise Conflict(f"{name}: the table was rewritten or rolled back while the commit was prepared")
        if change.added and int(base.formatVersion()) != change.form:
            raise Conflict(
                f"{name}: the table has format version {base.formatVersion()} now, not {change.form}"
            )
        if change.added and change.form > 2 and not all(c.quiet for c in commits):
            raise Conflict(f"{name}: rows were deleted while the commit was prepared")
        rewrite = transaction.newRewrite().validateFromSnapshot(change.version)
        for file in change.removed:
            rewrite = rewrite.deleteFile(file)
        for file, seq in change.added:
            rewrite = rewrite.addFile(file, seq)
        return rewrite.set(RUN_ID, run_id)

    base, made = _prepared(jvm, table, name, update, attempts)
    return _swap(jvm, table, name, base, made)


def _prepared(
    jvm: Iceberg, table: Any, name: str, update: Callable[[Any, Any], Any], attempts: Attempts
) -> tuple[Any, Any]:
    """(base metadata, the new snapshot built on it, which is written but not committed).

    ``update`` returns the pending update, or None, for a transaction and its base metadata. The transaction keeps one
    version of the metadata: the check, the snapshot and the swap have the same base even if other threads refresh the
    shared table.
    """
    with preparing(name):
        transaction = table.newTransaction()
        base = transaction.startMetadata()
        pending = update(transaction, base)
        if pending is None:
            return base, None
        attempts.begin(pending, str(base.metadataFileLocation()))
        try:
            made = pending.apply()
            refuse_manifests(jvm, table, base, made)
            return base, made
        except Exception:
            attempts.discard(pending, table)  # nothing was sent
            raise


@contextmanager
def preparing(name: str) -> Iterator[None]:
    """A context for all that a commit does before anything is sent to the catalog.

    A note that cannot be written or metadata that cannot be read raises NotSent, which the engine tries again: it says
    nothing about the table, and must not cost the files written for the commit.
    """
    try:
        yield
    except (AdapterError, NotFound) as error:
        raise NotSent(f"{name}: the commit could not be prepared: {error}") from error
    except LakekeeperError:
        raise
    except Exception as error:
        if any(kind in _LOST_RACE for kind in kinds_of_error(error)):
            raise Conflict(f"{name}: {_text(error)}") from error
        raise NotSent(f"{name}: the commit could not be prepared: {_text(error)}") from error


def won_by(lost: Conflict, winners: Callable[[], Changes]) -> Conflict:
    """The error with the other commit's name, if it can be read."""
    named = lost.winner
    with suppress(Exception):  # which commit won is a detail
        named = named or winner_of(winners())
    return Conflict(str(lost), named)


def winner_of(seen: Changes) -> str:
    """The commits that were seen, or what rules out a commit."""
    return ", ".join(str(w) for w in seen.winners) or str(seen.obstacle or "")


def row_change(jvm: Iceberg, name: str, change: RowChange, transaction: Any, base: Any) -> Any:
    """The pending update of a delete: Iceberg validates it against commits since the search, as for Spark's DELETE.

    Under ``serializable`` isolation, new data files that may match are conflicts. Data files to remove and data files
    that get position deletes must still be live under any isolation level. Concurrent deletes of the same rows are no
    conflict, unless files are copied (v1).
    """
    if int(base.formatVersion()) != change.form:
        raise Conflict(f"{name}: the table has format version {base.formatVersion()} now, not {change.form}")
    if int(base.currentSchemaId()) != change.schema:
        raise Conflict(f"{name}: the columns of the table changed after the search")
    if _line(base, change.searched) is None:
        raise Conflict(
            f"{name}: snapshot {change.searched}, which was searched, is not an ancestor of the current one"
        )
    level = str(base.properties().get(_ISOLATION) or "serializable")
    serializable = level.lower() != "snapshot"
    if change.deletes or (change.dropped_deletes and not serializable):
        return _row_delta(jvm, change, transaction, serializable=serializable)
    if not change.rows and not serializable:
        update = transaction.newDelete().validateFilesExist()
        for file in change.removed:
            update = update.deleteFile(file)
        return update.set(RUN_ID, change.run_id)
    update = (
        transaction.newOverwrite()
        .validateFromSnapshot(change.searched)
        .conflictDetectionFilter(change.filter)
    )
    leaving = jvm.api.util.DataFileSet.of(jvm.array_list(change.removed))
    update = update.deleteFiles(
        leaving, jvm.api.util.DeleteFileSet.of(jvm.array_list(change.dropped_deletes))
    )
    for file in change.rows:
        update = update.addFile(file)
    if change.rows:
        update = update.validateNoConflictingDeletes()
    if serializable:
        update = update.validateNoConflictingData()
    return update.set(RUN_ID, change.run_id)


def _row_delta(jvm: Iceberg, change: RowChange, transaction: Any, *, serializable: bool) -> Any:
    update = transaction.newRowDelta().validateFromSnapshot(change.searched)
    for file in change.deletes:
        update = update.addDeletes(file)
    for file in change.removed:
        update = update.removeRows(file)
    for file in change.dropped_deletes:
        update = update.removeDeletes(file)
    update = update.conflictDetectionFilter(change.filter)
    update = update.validateDataFilesExist(jvm.array_list(change.touched)).validateDeletedFiles()
    if serializable:
        update = update.validateNoConflictingDataFiles()
    return update.set(RUN_ID, change.run_id)


def _swap(jvm: Iceberg, table: Any, name: str, base: Any, made: Any) -> Swapped:
    try:
        send(jvm, table, name, base, made)
    except (Conflict, Rejected):
        with suppress(Exception):  # left to the next vacuum
            remove_manifests(table, made, keep=False)
        raise
    # An error after the swap must never be reported as a failed commit.
    with suppress(Exception):
        remove_manifests(table, made, keep=True)
    return Swapped(int(made.snapshotId()), int(made.summary().get("removed-delete-files") or 0))


def send(jvm: Iceberg, table: Any, name: str, base: Any, made: Any) -> None:
    """Swap ``base`` for ``base`` with a new snapshot, in one attempt; no file is deleted.

    Raises NotSent, LostRace, Conflict or Rejected if the snapshot is known not to be in the table, else Unknown.
    """
    require_newest(jvm, name, table)
    # Iceberg refuses metadata that is more than a minute older than the last, which another clock may have dated.
    with preparing(name):
        updated = jvm.api.TableMetadata.buildFrom(base).setBranchSnapshot(made, "main").build()
    try:
        table.operations().commit(base, updated)
    except Exception as error:
        lost, text = certain_failure(name, error)
        nessie.put_back(jvm, table, updated, int(made.snapshotId()))
        if is_there(table, name, int(made.snapshotId())):
            return
        # A catalog may refuse a snapshot because a commit to another branch has replaced its base metadata.
        if lost or (not _STALE.isdisjoint(kinds_of_error(error)) and _has_moved(table, base)):
            raise LostRace(f"{name}: {text}") from error
        raise Rejected(f"{name}: the catalog refused the commit: {text}") from error


def _has_moved(table: Any, base: Any) -> bool:
    """Whether the table's metadata, refreshed just before, differs from ``base``."""
    now = table.operations().current()
    before, after = (
        (str(each.metadataFileLocation()), int(each.lastUpdatedMillis()), int(each.lastSequenceNumber()))
        for each in (base, now)
    )
    return before != after


def require_newest(jvm: Iceberg, name: str, table: Any) -> None:
    """Raise Conflict if the table's operations have skipped a version that they failed to read."""
    if jvm.has_missed_a_version(table.operations()):
        raise Conflict(f"{name}: the newest metadata could not be read; nothing was committed")


def swap(name: str, what: str, table: Any, base: Any, updated: Any) -> None:
    """Commit ``what``, a change of metadata that makes no snapshot. Raises LostRace, Rejected or Unknown."""
    try:
        table.operations().commit(base, updated)
    except Exception as error:
        lost, text = certain_failure(name, error)
        if lost:
            raise LostRace(f"{name}: {text}") from error
        raise Rejected(f"{name}: the catalog refused {what}: {text}") from error


def certain_failure(name: str, error: Exception) -> tuple[bool, str]:
    """(whether the race was lost, the message) for an error that proves that nothing was committed.

    Raises Unknown for any other error.
    """
    kinds, text = kinds_of_error(error), _text(error)
    lost = is_lost_race(error)
    refused = any(kind in _REFUSED for kind in kinds)
    if UNKNOWN_STATE in kinds or not (lost or refused):
        raise Unknown(f"{name}: {text}") from error
    return lost, text


def is_there(table: Any, name: str, version: int) -> bool:
    """Whether the snapshot is in the table, whatever the catalog reported.

    A client that retries a commit may get a conflict with its own first attempt (apache/iceberg 12818).
    """
    try:
        table.refresh()
        current = table.operations().current()
        return current is not None and current.snapshot(version) is not None
    except Exception as error:
        if "NoSuchTableException" in kinds_of_error(error):
            return False
        raise Unknown(
            f"{name}: the commit was refused, and the metadata cannot be read: {_text(error)}"
        ) from error


def remove_manifests(table: Any, made: Any, *, keep: bool) -> None:
    """Delete the metadata files of our attempt: all of them, or with ``keep`` those that the new snapshot does not use.

    Manifest names consist of the commit's UUID, which is also in the name of the manifest list, and a number; no other
    commit uses this UUID.
    """
    io = table.io()
    place = str(made.manifestListLocation())
    match = re.fullmatch(r"(.*/)snap-\d+-\d+-([0-9a-f-]{36})\.avro", place)
    if match is None:
        return
    mine = re.compile(re.escape(f"{match[1]}{match[2]}-m") + r"(\d+)\.avro")
    named = {str(m.path()) for m in made.allManifests(io)}
    numbers = [int(found[1]) for path in named if (found := mine.fullmatch(path))]
    written = [f"{match[1]}{match[2]}-m{i}.avro" for i in range(max(numbers, default=-1) + 1)]
    for path in [p for p in written if not (keep and p in named)] + ([] if keep else [place]):
        with suppress(Exception):  # gone already, or left to the next vacuum
            io.deleteFile(path)


def is_lost_race(error: BaseException) -> bool:
    """Whether the error reports a lost race and proves that nothing was committed."""
    kinds = kinds_of_error(error)
    lost = any(kind in _LOST_RACE for kind in kinds) or _BUSY in _text(error)
    return lost and UNKNOWN_STATE not in kinds


def kinds_of_error(error: BaseException) -> list[str]:
    """The simple names of the classes of an error and of its causes."""
    return [name.rpartition(".")[2] for name, _ in causes(error)]


def _text(error: BaseException) -> str:
    return reason(error)
