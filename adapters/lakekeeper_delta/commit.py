"""One Delta transaction that replaces inputs with outputs, with ``dataChange=false``."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.planning.changes import Winner
from lakekeeper.core.planning.rebase import touched
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import (
    AdapterError,
    CommitError,
    Conflict,
    LakekeeperError,
    NotFound,
    NotSent,
    Rejected,
    Unknown,
    reason,
)
from lakekeeper.spark.jvm import causes, throwable
from lakekeeper.spi import Commit
from lakekeeper_delta import log_stores, session_confs, trino_cleanup
from lakekeeper_delta.changes import changes_since, obstacle_to
from lakekeeper_delta.json_commits import RUN_TAG, Since, commits_between
from lakekeeper_delta.native import Log, State

REPLAYED_TAG = "lakekeeper.replayed"

LOST = (
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
)

# Methods that OptimisticTransaction.commit calls before it writes to the log. If a later Delta release renames one,
# an error becomes Unknown instead of Rejected, which is the safe side.
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
    with preparing(log, "the commit"):
        # Three calls to the JVM for each file: made first, so that no other commit can win meanwhile.
        inputs, actions = _actions(log, rewrites)
        now = log.latest()
        _check_inputs(log, rewrites, snapshot, now)
        transaction = log.transaction(now)
        transaction.trackFilesRead(log.scala_seq(inputs))
        _register_metrics(log, transaction, rewrites)
        tags = commit_tags(log, now, run_id, sum(r.replayed for r in rewrites))
        operation = operation_of(log, now, snapshot.key)
    version = attempt(log, transaction, now, actions, operation, tags, run_id)
    known = {path: deletes for r in rewrites for path, deletes in r.inputs_now.items() if deletes is not None}
    added = tuple(path for r in rewrites for path in r.added)
    return Commit(version, run_id, tuple(known), added, len({d for d in known.values() if d}))


@contextmanager
def preparing(log: Log, what: str) -> Iterator[None]:
    """A context for all that a commit does before anything is written to the log.

    A log that cannot be read raises NotSent, which the engine tries again: it says nothing about the table, and must
    not cost the files written for the commit.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, LakekeeperError) and not isinstance(error, AdapterError | NotFound):
            raise
        raise NotSent(f"{log.name}: {what} could not be prepared ({reason(error)})") from error


def commit_tags(log: Log, now: State, run_id: str, replayed: int = 0) -> Any:
    """Tags of a lakekeeper commit: the run id, and the number of rows whose deletion was replayed on its outputs."""
    ours = {RUN_TAG: run_id} | ({REPLAYED_TAG: str(replayed)} if replayed else {})
    return log.singleton("RowTracking").addPreservedRowTrackingTagIfNotSet(now.snapshot, log.jvm.map(ours))


def read_all_rows(log: Log, transaction: Any) -> None:
    """Count every row as read by the transaction: it conflicts with any commit before it that adds files."""
    everything = log.jvm.view.org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral()
    transaction.trackReadPredicates(log.jvm.seq([everything]), False, True)


def attempt(
    log: Log,
    transaction: Any,
    now: State,
    actions: Any,
    operation: Any,
    tags: Any,
    run_id: str,
    *,
    shared: bool = False,
) -> int:
    """Commit the actions (a java.util.List) and return the version. Raises Conflict, Rejected or Unknown.

    ``shared``: others commit under this run id too, so a winner that has it may not be this attempt.
    """
    with preparing(log, "the commit"):
        refused = log_stores.refusal(log, single_driver=log.single_driver)
        if not refused and now.masks_rows:
            # On the newest version: a delete or an undo commits on top of the one that it has searched.
            refused = trino_cleanup.refusal(log, log.latest())
    if refused:
        raise Rejected(f"{log.name}: {refused}")
    try:
        with session_confs.committing(log, now.snapshot):
            return int(transaction.commit(log.scala_seq(actions), operation, tags))
    except Exception as error:
        failure = _failure(log, error)
        if not isinstance(failure, Conflict):
            raise failure from error
        lost = error
    winners = _winners_after(log, now.version, lost)
    for winner in winners:
        if winner.run_id == run_id and not shared:
            # A store that retries its put-if-absent finds the file of its own first attempt: the winner is this run.
            return winner.version
    named = str(winners[-1]) if winners else ""
    raise Conflict(f"{log.name}: lost to {named or 'a concurrent commit'} ({reason(lost)})", named) from lost


def _check_inputs(log: Log, rewrites: Sequence[Rewrite], snapshot: Snapshot, now: State) -> None:
    """Check that the outputs reflect the current state of every input. Raises Conflict that names the winner."""
    refuse_obstacle(log, snapshot, now)
    seen = changes_since(log, snapshot)  # reads only the commits since the engine's last check
    lost = {path for r in rewrites for side in touched(r, seen) for path in side}
    if seen.obstacle or seen.version < now.version:
        raise Conflict(f"{log.name}: {seen.obstacle or 'the table changed'} while the commit was prepared")
    if lost:
        since = commits_between(log, min(r.task.read_version for r in rewrites), seen.version)
        actions = since.touching(pa.array(sorted(lost), pa.string()))
        refuse_lost(log, since, actions, lost, "that were rewritten")


def refuse_obstacle(log: Log, snapshot: Snapshot, now: State) -> None:
    """Raise Conflict if ``snapshot`` no longer describes the table."""
    obstacle = obstacle_to(log, now, snapshot)
    if obstacle:
        raise Conflict(f"{log.name}: {obstacle}; nothing was committed")


def refuse_lost(log: Log, since: Since, actions: pa.Table, lost: Collection[str], what: str) -> None:
    """Raise Conflict if any paths are ``lost``, naming the last commit whose ``actions`` touched one of them."""
    if not lost:
        return
    versions = {row["version"] for row in actions.to_pylist() if row["path"] in lost}
    winner = next((str(w) for w in reversed(since.winners) if w.version in versions), "")
    raise Conflict(
        f"{log.name}: {winner or 'another commit'} changed {len(lost)} of the files {what}; nothing was committed",
        winner,
    )


def _actions(log: Log, rewrites: Sequence[Rewrite]) -> tuple[Any, Any]:
    """The input AddFiles and all actions of the commit, as two java.util.Lists."""
    now_ms = time.time_ns() // 1_000_000
    inputs, actions = log.jvm.array_list([]), log.jvm.array_list([])
    for rewrite in rewrites:
        for add in (*rewrite.native.outputs, *rewrite.native.moved):
            actions.add(add)
        for add in rewrite.native.inputs:
            inputs.add(add)
            actions.add(add.removeWithTimestamp(now_ms, False))
    return inputs, actions


def operation_of(log: Log, now: State, key: ClusterKey | None) -> Any:
    """OPTIMIZE, which readers, streams and other engines' conflict checks treat as a rewrite without data change."""
    columns = log.jvm.none()
    if "clustering" in now.features and key is not None:
        columns = log.jvm.some(log.jvm.seq(column.name for column in key.columns))
    kind = getattr(log.delta, "DeltaOperations$Optimize")
    return kind(log.jvm.seq([]), log.jvm.seq([]), False, columns, False)


def _register_metrics(log: Log, transaction: Any, rewrites: Sequence[Rewrite]) -> None:
    """Register the metrics that DESCRIBE HISTORY shows, under the names that OPTIMIZE uses."""
    register_metrics(
        log,
        transaction,
        {
            "numRemovedFiles": sum(d is not None for r in rewrites for d in r.inputs_now.values()),
            "numAddedFiles": sum(len(r.added) for r in rewrites),
            "numRemovedBytes": sum(r.task.input_bytes for r in rewrites),
            "numAddedBytes": sum(r.bytes_out for r in rewrites),
        },
    )


def register_metrics(log: Log, transaction: Any, metrics: Mapping[str, int]) -> None:
    """Register metrics with a transaction, which keeps those that its operation defines."""
    make = log.jvm.view.org.apache.spark.sql.execution.metric.SQLMetrics
    context = log.jvm.session.sparkContext()
    registered = {}
    for name, value in metrics.items():
        registered[name] = make.createMetric(context, name)
        registered[name].set(value)
    transaction.registerSQLMetrics(log.jvm.session, log.jvm.map(registered))


def _failure(log: Log, error: Exception) -> CommitError:
    """The error for a failed ``commit`` call: lost, rejected before the log was written, or outcome unknown."""
    names = [name.rpartition(".")[2] for name, _ in causes(error)]
    if any(name in LOST for name in names):
        return Conflict(f"{log.name}: {reason(error)}")
    if _while_preparing(error):
        return Rejected(
            f"{log.name}: Delta refused the commit ({reason(error)}); nothing was written to its log"
        )
    return Unknown(f"{log.name}: the commit ended in an error and may have succeeded ({reason(error)})")


def _while_preparing(error: Exception) -> bool:
    """Whether the error came from the checks that Delta runs before it writes to the log."""
    java = throwable(error)
    while java is not None:
        if any(str(frame.getMethodName()) in _BEFORE_THE_LOG for frame in java.getStackTrace()):
            return True
        java = java.getCause()
    return False


def _winners_after(log: Log, version: int, lost: Exception) -> tuple[Winner, ...]:
    """The commits after a version. Raises Unknown if they cannot be read, since one of them may be ours."""
    try:
        return commits_between(log, version, log.latest().version).winners
    except Exception as error:
        raise Unknown(
            f"{log.name}: another commit came first ({reason(lost)}), and the log does not show whose ({reason(error)})"
        ) from error
