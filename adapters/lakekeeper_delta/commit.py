"""One Delta transaction that puts outputs in the place of inputs, as no change of data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Rewrite
from lakekeeper.errors import CommitError, Conflict, LakekeeperError, Rejected, Unknown
from lakekeeper.spark.jvm import causes, throwable
from lakekeeper.spi import Commit
from lakekeeper_delta.changes import RUN_TAG, commits_between, obstacle_to, outcome
from lakekeeper_delta.native import Log, State

_LOST = (
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
)

# What OptimisticTransaction.commit calls before it writes to the log. A name that a later release of Delta
# changes makes an error Unknown where it was Rejected, which is the safe side.
_BEFORE_THE_LOG = frozenset(
    {
        "checkForSetTransactionConflictAndDedup",
        "checkNoDuplicateActions",
        "performCdcMetadataCheck",
        "performRedirectCheck",
        "precommitUpdateSchemaWithIdentityHighWaterMarks",
        "prepareCommit",
        "trackConsistentDataChange",
        "validateActionsAddFileInvariants",
        "validateDomainMetadataSupportedAndNoDuplicate",
    }
)


def commit(log: Log, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
    """One attempt on the newest version; see ``spi.Adapter.commit``."""
    try:
        now = log.latest()
        _check_inputs(log, rewrites, snapshot, now)
        transaction = log.transaction(now)
        inputs, actions = _actions(log, rewrites)
        transaction.trackFilesRead(log.scala_seq(inputs))
        _register_metrics(log, transaction, rewrites)
        tags = log.singleton("RowTracking").addPreservedRowTrackingTagIfNotSet(
            now.snapshot, log.jvm.map({RUN_TAG: run_id})
        )
        operation = _operation(log, now, snapshot)
    except LakekeeperError:
        raise
    except Exception as error:
        raise Rejected(f"{log.name}: the commit could not be prepared ({_told(error)})") from error
    try:
        version = int(transaction.commit(log.scala_seq(actions), operation, tags))
    except Exception as error:
        raise _failure(log, now, error) from error
    removed = tuple(path for r in rewrites for path in r.task.inputs)
    vectors = {d for r in rewrites for d in r.task.delete_ids if d}
    added = tuple(output.path for r in rewrites for output in r.outputs)
    return Commit(version, run_id, removed, added, len(vectors))


def _check_inputs(log: Log, rewrites: Sequence[Rewrite], snapshot: Snapshot, now: State) -> None:
    """Every input must still be live with the deletes that we applied. Raises Conflict naming the winner."""
    obstacle = obstacle_to(log.name, now, snapshot)
    if obstacle:
        raise Conflict(f"{log.name}: {obstacle}; nothing was committed")
    known = {
        path: deletes
        for r in rewrites
        for path, deletes in zip(r.task.inputs, r.task.delete_ids, strict=True)
    }
    since = commits_between(log, min(r.task.read_version for r in rewrites), now.version)
    touched = since.touching(pa.array(known, pa.string()))
    removed, changed = outcome(touched)
    lost = removed | {path for path, deletes in changed.items() if known[path] != deletes}
    if not lost:
        return
    versions = {row["version"] for row in touched.to_pylist() if row["path"] in lost}
    winner = next(str(w) for w in reversed(since.winners) if w.version in versions)
    raise Conflict(
        f"{log.name}: {winner} changed {len(lost)} of the files that were rewritten; nothing was committed",
        winner,
    )


def _actions(log: Log, rewrites: Sequence[Rewrite]) -> tuple[Any, Any]:
    """(input AddFiles, all actions of the commit) as java.util.Lists."""
    now_ms = time.time_ns() // 1_000_000
    inputs, actions = log.jvm.array_list([]), log.jvm.array_list([])
    for rewrite in rewrites:
        inputs.addAll(rewrite.native.inputs)
        actions.addAll(rewrite.native.outputs)
    for add in inputs:
        actions.add(add.removeWithTimestamp(now_ms, False))
    return inputs, actions


def _operation(log: Log, now: State, snapshot: Snapshot) -> Any:
    """OPTIMIZE: what readers, streams and other engines' conflict checks know as a rewrite without change."""
    columns = log.jvm.none()
    if "clustering" in now.features and snapshot.key is not None:
        columns = log.jvm.some(log.jvm.seq(column.name for column in snapshot.key.columns))
    kind = getattr(log.delta, "DeltaOperations$Optimize")
    return kind(log.jvm.seq([]), log.jvm.seq([]), False, columns, False)


def _register_metrics(log: Log, transaction: Any, rewrites: Sequence[Rewrite]) -> None:
    """Numbers that DESCRIBE HISTORY shows; the names are those of OPTIMIZE."""
    metrics = {
        "numRemovedFiles": sum(len(r.task.inputs) for r in rewrites),
        "numAddedFiles": sum(len(r.outputs) for r in rewrites),
        "numRemovedBytes": sum(r.task.input_bytes for r in rewrites),
        "numAddedBytes": sum(r.bytes_out for r in rewrites),
    }
    make = log.jvm.view.org.apache.spark.sql.execution.metric.SQLMetrics
    context = log.jvm.session.sparkContext()
    registered = {}
    for name, value in metrics.items():
        registered[name] = make.createMetric(context, name)
        registered[name].set(value)
    transaction.registerSQLMetrics(log.jvm.session, log.jvm.map(registered))


def _failure(log: Log, now: State, error: Exception) -> CommitError:
    """What a failed ``commit`` call means: lost, refused before the log was written, or not known."""
    names = [name.rpartition(".")[2] for name, _ in causes(error)]
    if any(name in _LOST for name in names):
        winner = _winner_after(log, now.version)
        return Conflict(f"{log.name}: lost to {winner or 'a concurrent commit'} ({_told(error)})", winner)
    if _while_preparing(error):
        return Rejected(
            f"{log.name}: Delta refused the commit ({_told(error)}); nothing was written to its log"
        )
    return Unknown(f"{log.name}: the commit ended in an error and may have happened ({_told(error)})")


def _while_preparing(error: Exception) -> bool:
    """Did the error come from the checks that Delta makes before it writes to the log?"""
    java = throwable(error)
    while java is not None:
        if any(str(frame.getMethodName()) in _BEFORE_THE_LOG for frame in java.getStackTrace()):
            return True
        java = java.getCause()
    return False


def _winner_after(log: Log, version: int) -> str:
    try:
        winners = commits_between(log, version, log.latest().version).winners
    except Exception:  # only for the message of an error that is already under way
        return ""
    return str(winners[-1]) if winners else ""


def _told(error: Exception) -> str:
    told = causes(error)
    text = f"{told[0][0].rpartition('.')[2]}: {told[0][1]}" if told else f"{type(error).__name__}: {error}"
    return text.strip().splitlines()[0]
