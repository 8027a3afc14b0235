"""Commit with conflict: rebase, replay, try again, settle what is unknown, never clean up in doubt.

wait ─► changes ─► rebase ─┬─ keep ────────────────────┬─► commit ─┬─ done
                           ├─ replay ─┬─ masked ───────┘           ├─ Conflict ─► from the start (bounded)
                           │          └─ not proven ─► discard     ├─ Rejected ─► discard, raise
                           └─ drop ─► discard                      └─ Unknown ──► look for our run id: done, or raise
                                                                                  and keep every file

Nothing is waited for between a replay and its commit: what is deleted meanwhile has to be replayed too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.rebase import Changes, Dropped, Rewrite, rebase
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.engine.merge.quiet_window import QuietWindow
from lakekeeper.engine.merge.replay import Replayer, discard, discard_replaced
from lakekeeper.engine.retries import BEFORE_WORK, patiently
from lakekeeper.engine.state.leases import Registration
from lakekeeper.errors import Conflict, Rejected, Unknown
from lakekeeper.spi import Adapter, Commit, Runner

_LOOKS = (1.0, 2.0, 4.0, 8.0, 0.0)
"""Seconds to wait after each look that told nothing."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What came of a set of rewrites: the commit, if any survived, those in it, those dropped, and the losses.

    ``retries`` are attempts that lost; ``replays`` how often a group was replayed.
    """

    commit: Commit | None
    kept: tuple[Rewrite, ...]
    dropped: tuple[Dropped, ...]
    retries: int
    replays: int = 0


@dataclass(slots=True)
class Committer:
    """Commits all rewrites that survive, in one commit. One use, one run id."""

    adapter: Adapter[Any]
    runner: Runner[Any]
    snapshot: Snapshot
    run_id: str
    options: Options
    events: Events
    clock: Clock
    registration: Registration | None = None
    dropped: list[Dropped] = field(default_factory=list)
    replays: int = 0

    def commit(self, rewrites: Sequence[Rewrite]) -> Landed:
        """Raises Conflict naming the winner when the retries are used up (outputs are discarded), Rejected
        (likewise), or Unknown where the log does not settle it (outputs are left alone).
        """
        pending = tuple(rewrites)
        allowed = self.options.integer("commit.retry.num-retries")
        deadline = self.clock.now_ms() + self.options.integer("commit.retry.total-timeout-ms")
        quiet = QuietWindow.of(self.options, self.clock)
        for attempt in range(allowed + 1):
            self.events.tell("before_commit", attempt=attempt, rewrites=len(pending))
            changes, pending = self._up_to_date(pending, quiet, attempt, deadline)
            landed = changes.landed(self.run_id)
            if landed is not None:
                # The last attempt did land, whatever its answer was: nothing of it is to be dropped.
                return self._done(self._proof(pending, landed), pending, attempt)
            if not pending:
                return Landed(None, (), tuple(self.dropped), attempt, self.replays)
            try:
                commit = self._attempt(pending)
            except Conflict as lost:
                self.events.tell("conflict", attempt=attempt, dropped=0, replayed=0, reason=str(lost))
                if attempt < allowed and self.clock.now_ms() < deadline:
                    self._back_off(pending, attempt)
                    continue
                landed = self._changes(pending, attempt + 1).landed(self.run_id)
                if landed is None:
                    discard(self.adapter, pending)
                    raise _given_up(self.adapter.table, attempt + 1, lost, pending) from lost
                commit = self._proof(pending, landed)
            except Rejected:
                discard(self.adapter, pending)
                raise
            except Unknown as doubt:
                commit = self._settle(pending, doubt)
            return self._done(commit, pending, attempt)
        raise AssertionError("the loop returns or raises")

    def _up_to_date(
        self, pending: tuple[Rewrite, ...], quiet: QuietWindow, attempt: int, deadline: int
    ) -> tuple[Changes, tuple[Rewrite, ...]]:
        """(the changes up to now, what is left to commit upon them), at a moment between users' statements.

        What is deleted while such a moment is waited for is replayed at once, so that little is left to do in it.
        """
        while True:
            changes = quiet.look(partial(self._changes, pending, attempt))
            if changes.landed(self.run_id) is not None:
                return changes, pending
            pending = self._rebased(pending, changes, attempt)
            if not pending or self.clock.now_ms() >= deadline or quiet.passed(changes):
                return changes, pending

    def _changes(self, pending: Sequence[Rewrite], attempts: int) -> Changes:
        """What the log says now. Where it cannot be read for long, the outputs are discarded, and Rejected is raised.

        After the first attempt Unknown is raised and every file kept: a catalog may land a commit and report a loss.
        """
        try:
            return patiently(lambda: self.adapter.changes_since(self.snapshot), self.clock)
        except Exception as error:
            table, cause = self.adapter.table, f"{type(error).__name__}: {error}"
            if attempts:
                raise Unknown(
                    f"{table}: run {self.run_id} lost {attempts} attempts to commit, and the log cannot be read to "
                    f"confirm it ({cause}); no file was removed. Look for the run id in the table's history"
                ) from error
            discard(self.adapter, pending)
            raise Rejected(
                f"{table}: the log cannot be read, so nothing of run {self.run_id} was committed ({cause}). Run again"
            ) from error

    def _back_off(self, pending: Sequence[Rewrite], attempt: int) -> None:
        """Pause after a lost race, unless a replay is what wins the next one: that is best begun at once."""
        if not rebase(pending, self._changes(pending, attempt + 1)).replay:
            self.clock.wait(pause_seconds(attempt, self.options))

    def _attempt(self, pending: Sequence[Rewrite]) -> Commit:
        """One attempt, and again after one that is known not to have reached the log: its files are still there."""
        for pause in BEFORE_WORK:
            if self.registration:
                self.registration.require()
            try:
                return self.adapter.commit(pending, self.snapshot, self.run_id)
            except Rejected:
                self.clock.wait(pause)
        return self.adapter.commit(pending, self.snapshot, self.run_id)

    def _rebased(self, pending: Sequence[Rewrite], changes: Changes, attempt: int) -> tuple[Rewrite, ...]:
        """What is left to commit upon ``changes``, in the order it came; the rest is dropped and its files go."""
        sorted_out = rebase(pending, changes)
        if not sorted_out.replay and not sorted_out.drop:
            return tuple(pending)
        if sorted_out.replay and self.registration:
            self._in_time(pending)
        replayer = Replayer(self.adapter, self.runner, self.run_id, self.snapshot, self.options)
        became: dict[str, Rewrite | Dropped] = {lost.rewrite.task.id: lost for lost in sorted_out.drop}
        replayed = replayer.replay_all(sorted_out.replay, changes)
        became |= {r.task.id: done for r, done in zip(sorted_out.replay, replayed, strict=True)}
        now = [became.get(rewrite.task.id, rewrite) for rewrite in pending]
        lost = [each for each in now if isinstance(each, Dropped)]
        left = tuple(each for each in now if isinstance(each, Rewrite))
        discard(self.adapter, [each.rewrite for each in lost])
        self.dropped += lost
        count = len(became) - len(lost)
        self.replays += count
        reason = lost[0].reason if lost else "deletes that won were replayed"
        self.events.tell("conflict", attempt=attempt, dropped=len(lost), replayed=count, reason=reason)
        return left

    def _in_time(self, pending: Sequence[Rewrite]) -> None:
        """A replay writes files: Rejected where that is too late, and the outputs are discarded."""
        try:
            if self.registration:
                self.registration.renew()
        except Rejected:
            discard(self.adapter, pending)
            raise

    def _done(self, commit: Commit, kept: tuple[Rewrite, ...], retries: int) -> Landed:
        # Halted here, files that a replay put others in the place of stay behind as orphans: no harm.
        self.events.tell("committed", version=commit.version, rewrites=len(kept))
        with suppress(Exception):  # what happens after a commit must never look like a failed one
            discard_replaced(self.adapter, kept)
        return Landed(commit, kept, tuple(self.dropped), retries, self.replays)

    def _proof(self, rewrites: Sequence[Rewrite], version: int) -> Commit:
        """The commit of these rewrites, known by its run id in the log."""
        removed = tuple(
            path for r in rewrites for path, deletes in r.inputs_now.items() if deletes is not None
        )
        added = tuple(output.path for r in rewrites for output in r.outputs)
        return Commit(version, self.run_id, removed, added)

    def _settle(self, rewrites: Sequence[Rewrite], doubt: Unknown) -> Commit:
        """The commit, if the log has our run id. If not it may still land: it is neither repeated nor cleaned up."""
        version = settled_version(self.adapter, self.snapshot, self.run_id, self.clock)
        if version is not None:
            return self._proof(rewrites, version)
        raise Unknown(
            f"{self.adapter.table}: the outcome of the commit of run {self.run_id} is not known ({doubt}); no file "
            "was removed. Look for the run id in the table's history; if it is not there, the new files are orphans"
        ) from doubt


def _given_up(table: str, attempts: int, lost: Conflict, pending: Sequence[Rewrite]) -> Conflict:
    outputs = [output for rewrite in pending for output in rewrite.outputs]
    written = f"groups: {len(pending):,}, files: {len(outputs):,}, bytes: {sum(o.bytes for o in outputs):,}"
    return Conflict(
        f"{table}: gave up after {attempts} attempts, the last lost to {lost.winner or lost}; what was written for "
        f"this commit was removed ({written}). Raise commit.retry.num-retries, or run when there is less writing",
        lost.winner,
    )


def settled_version(adapter: Adapter[Any], snapshot: Snapshot, run_id: str, clock: Clock) -> int | None:
    """The version that carries ``run_id``, looked for within a bounded time; None where the log does not say (yet).

    A catalog that has just lost the answer to a commit often fails to answer the next question too: a look that fails
    says nothing, and is no reason to forget that the outcome is unknown.
    """
    for pause in _LOOKS:
        with suppress(Exception):
            version = adapter.changes_since(snapshot).landed(run_id)
            if version is not None:
                return version
        if pause:
            clock.wait(pause)
    return None


def pause_seconds(attempt: int, options: Options) -> float:
    """Seconds: doubling from the least to the longest pause."""
    least, longest = options.integer("commit.retry.min-wait-ms"), options.integer("commit.retry.max-wait-ms")
    return float(min(least * 2**attempt, longest)) / 1000
