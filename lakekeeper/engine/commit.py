"""Commit with conflict: rebase, try again, settle what is unknown, never clean up in doubt.

changes ─► rebase ─┬─ keep ─► commit ─┬─ done
                   │                  ├─ Conflict ─► wait, from the start (bounded)
                   │                  ├─ Rejected ─► discard, raise
                   │                  └─ Unknown ──► look for our run id: done, or raise and keep every file
                   └─ drop ─► discard
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.options import Options
from lakekeeper.core.rebase import Dropped, Rewrite, rebase
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.errors import Conflict, Rejected, Unknown
from lakekeeper.spi import Adapter, Commit

_STATUS_CHECKS = 3


@dataclass(frozen=True, slots=True)
class Landed:
    """What came of a set of rewrites: the commit, if any survived, those in it, those dropped, retries taken."""

    commit: Commit | None
    kept: tuple[Rewrite, ...]
    dropped: tuple[Dropped, ...]
    retries: int


def commit_rewrites(
    adapter: Adapter[Any],
    rewrites: Sequence[Rewrite],
    snapshot: Snapshot,
    run_id: str,
    *,
    options: Options,
    events: Events,
    clock: Clock,
) -> Landed:
    """Commit all rewrites that survive, in one commit.

    Raises Conflict naming the winner when the retries are used up (outputs are discarded), Rejected
    (likewise), or Unknown where the log does not settle it (outputs are left alone).
    """
    pending: tuple[Rewrite, ...] = tuple(rewrites)
    dropped: list[Dropped] = []
    allowed = options.integer("commit.retry.num-retries")
    deadline = clock.now_ms() + options.integer("commit.retry.total-timeout-ms")
    for attempt in range(allowed + 1):
        events.tell("before_commit", attempt=attempt, rewrites=len(pending))
        changes = adapter.changes_since(snapshot)
        landed = changes.landed(run_id)
        if (
            landed is not None
        ):  # the last attempt did land, whatever its answer was: nothing of it is to be dropped
            return _done(events, _proof(pending, run_id, landed), pending, dropped, attempt)
        rebased = rebase(pending, changes)
        if rebased.drop:
            adapter.discard([lost.rewrite for lost in rebased.drop])
            dropped += rebased.drop
            events.tell("conflict", attempt=attempt, dropped=len(rebased.drop), reason=rebased.drop[0].reason)
        pending = rebased.keep
        if not pending:
            return Landed(None, (), tuple(dropped), attempt)
        try:
            commit = adapter.commit(pending, snapshot, run_id)
        except Conflict as lost:
            events.tell("conflict", attempt=attempt, dropped=0, reason=str(lost))
            if attempt == allowed or clock.now_ms() >= deadline:
                landed = adapter.changes_since(snapshot).landed(run_id)
                if landed is not None:
                    return _done(events, _proof(pending, run_id, landed), pending, dropped, attempt)
                adapter.discard(pending)
                raise Conflict(
                    f"{adapter.table}: gave up after {attempt + 1} attempts, the last lost to {lost.winner or lost}; "
                    "nothing of this call's last commit landed and its files were removed. "
                    "Raise commit.retry.num-retries, or run when there is less writing",
                    lost.winner,
                ) from lost
            clock.wait(_pause(attempt, options))
            continue
        except Rejected:
            adapter.discard(pending)
            raise
        except Unknown as doubt:
            commit = _settle(adapter, pending, snapshot, run_id, doubt, clock)
        return _done(events, commit, pending, dropped, attempt)
    raise AssertionError("the loop returns or raises")


def _done(
    events: Events, commit: Commit, kept: tuple[Rewrite, ...], dropped: Sequence[Dropped], retries: int
) -> Landed:
    events.tell("committed", version=commit.version, rewrites=len(kept))
    return Landed(commit, kept, tuple(dropped), retries)


def _proof(rewrites: Sequence[Rewrite], run_id: str, version: int) -> Commit:
    """The commit of these rewrites, known by its run id in the log."""
    removed = tuple(path for r in rewrites for path in r.task.inputs)
    added = tuple(output.path for r in rewrites for output in r.outputs)
    return Commit(version, run_id, removed, added)


def _pause(attempt: int, options: Options) -> float:
    """Seconds: doubling from the least to the longest pause."""
    least, longest = options.integer("commit.retry.min-wait-ms"), options.integer("commit.retry.max-wait-ms")
    return float(min(least * 2**attempt, longest)) / 1000


def _settle(
    adapter: Adapter[Any],
    rewrites: Sequence[Rewrite],
    snapshot: Snapshot,
    run_id: str,
    doubt: Unknown,
    clock: Clock,
) -> Commit:
    """The commit, if the log has our run id. If not it may still land, so it is neither repeated nor cleaned up."""
    for check in range(_STATUS_CHECKS):
        version = adapter.changes_since(snapshot).landed(run_id)
        if version is not None:
            return _proof(rewrites, run_id, version)
        clock.wait(float(2**check))
    raise Unknown(
        f"{adapter.table}: the outcome of the commit of run {run_id} is not known ({doubt}); no file was removed. "
        "Look for the run id in the table's history; if it is not there, the new files are orphans"
    ) from doubt
