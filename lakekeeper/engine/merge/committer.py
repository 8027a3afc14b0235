"""Commit rewrites under conflict: rebase, replay, retry, settle unknown outcomes, and never clean up in doubt.

wait ─► changes ─► rebase ─┬─ keep ────────────────────┬─► commit ─┬─ done
                           ├─ replay ─┬─ masked ───────┘           ├─ Conflict ─► from the start (bounded)
                           │          └─ not proven ─► discard     ├─ Rejected ─► discard, raise
                           └─ drop ─► discard                      └─ Unknown ──► look for our run id: done, or raise
                                                                                  and keep every file

A commit follows its replay without a wait: rows deleted in between would have to be replayed too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import Dropped, rebase
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled_version, unknown_outcome
from lakekeeper.engine.events import Events
from lakekeeper.engine.merge.quiet_window import QuietWindow
from lakekeeper.engine.merge.replay import Replayer, discard, discard_replaced
from lakekeeper.engine.retries import NOT_COMMITTED, retried, sent
from lakekeeper.engine.state.leases import Registration
from lakekeeper.engine.written import require_written
from lakekeeper.errors import Conflict, Rejected, Unknown
from lakekeeper.spi import Adapter, Commit, Runner


@dataclass(frozen=True, slots=True)
class Landed:
    """The outcome of a set of rewrites: the commit, if any survived, those in it, those dropped, and the lost attempts.

    ``retries`` are attempts that lost; ``replays`` how often a group was replayed. ``littered``: files that are in no
    version may be left.
    """

    commit: Commit | None
    kept: tuple[Rewrite, ...]
    dropped: tuple[Dropped, ...]
    retries: int
    replays: int = 0
    littered: bool = False


@dataclass(slots=True)
class Committer:
    """Commits all surviving rewrites in one commit. For one use, with one run id.

    ``began_ms`` is when the rewrite began; by default, now. ``discarded`` are files that are to be gone at the end.
    """

    adapter: Adapter[Any]
    runner: Runner[Any]
    snapshot: Snapshot
    run_id: str
    options: Options
    events: Events
    clock: Clock
    registration: Registration
    began_ms: int | None = None
    dropped: list[Dropped] = field(default_factory=list)
    replays: int = 0
    discarded: set[str] = field(default_factory=set)
    littered: bool = False
    pending: tuple[Rewrite, ...] = ()
    loop: CommitLoop = field(init=False)
    quiet: QuietWindow = field(init=False)

    def __post_init__(self) -> None:
        self.loop = CommitLoop(self.events, self.options, self.clock, "the commit", "")
        self.quiet = QuietWindow.of(self.options, self.clock, self.began_ms)

    def commit(self, rewrites: Sequence[Rewrite]) -> Landed:
        """The outcome of the commit.

        Raises Conflict naming the winner when the retries are used up, Rejected or Unsupported (outputs are discarded
        after each of them), or Unknown where the log does not settle it (outputs are left alone).
        """
        self.pending = tuple(rewrites)
        self.loop.start()  # an attempt waits for a quiet window, and replays in it
        try:
            return self.loop.run(self._attempt, self._after, self.settle)
        except (Conflict, *NOT_COMMITTED):
            discard(self.adapter, self.pending)
            raise

    def _attempt(self) -> Landed:
        self.events.emit("before_commit", attempt=self.loop.lost, rewrites=len(self.pending))
        landed = self._up_to_date().landed(self.run_id)
        if landed is not None:
            # The last attempt did land, whatever its answer was: nothing of it is to be dropped.
            return self._done(self._proof(landed))
        if not self.pending:
            return self._landed(None)
        return self._done(self._send())

    def _after(self, lost: Conflict) -> Landed | Retry:
        changes = self._changes(self.loop.lost + 1)
        landed = changes.landed(self.run_id)
        if landed is not None:
            return self._done(self._proof(landed))
        self.loop.undone = f"the files written for this commit were removed ({_written(self.pending)})"
        # A replay is needed to win the next race: begin it at once.
        return Retry(wait=not rebase(self.pending, changes).replay)

    def _up_to_date(self) -> Changes:
        """The changes up to now, at a time between users' statements; pending work is based on them.

        Deletes that arrive while it waits for such a time are replayed at once, so that little is left to do then.
        """
        while True:
            changes = self.quiet.look(lambda: self._changes(self.loop.lost))
            if changes.landed(self.run_id) is not None:
                return changes
            self.pending = self.rebased(self.pending, changes, self.loop.lost)
            if not self.pending or self.loop.out_of_time or self.quiet.passed(changes):
                return changes

    def _changes(self, attempts: int) -> Changes:
        """The changes in the log now. Raises Rejected if the log cannot be read for long.

        After the first attempt Unknown is raised and every file kept: a catalog may land a commit and report a loss.
        """
        try:
            return retried(lambda: self.adapter.changes_since(self.snapshot), self.clock)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            if attempts:
                raise unknown_outcome(
                    self.adapter.table,
                    self.run_id,
                    "the commit",
                    f"{attempts} attempts lost, and the log cannot be read: {cause}",
                ) from error
            raise Rejected(
                f"{self.adapter.table}: the log cannot be read, so nothing of run {self.run_id} was committed "
                f"({cause}). Run again"
            ) from error

    def _send(self) -> Commit:
        """One attempt, and again after one that is known not to have reached the log."""
        written = [p for r in self.pending for p in (*(output.path for output in r.outputs), *r.extra)]

        def ready() -> None:
            self.registration.require()
            require_written(self.adapter, written, self.clock)

        def send() -> Commit:
            return self.adapter.commit(self.pending, self.snapshot, self.run_id)

        return sent(send, self.adapter.table, self.clock, ready)

    def rebased(self, pending: Sequence[Rewrite], changes: Changes, attempt: int) -> tuple[Rewrite, ...]:
        """The rewrites left to commit on top of ``changes``, in order; the files of the others are deleted."""
        sorted_out = rebase(pending, changes)
        if not sorted_out.replay and not sorted_out.drop:
            return tuple(pending)
        if sorted_out.replay:
            self.registration.renew()  # a replay writes files: Rejected where that is too late
        replayer = Replayer(self.adapter, self.runner, self.run_id, self.snapshot, self.options)
        became: dict[str, Rewrite | Dropped] = {lost.rewrite.task.id: lost for lost in sorted_out.drop}
        replayed = replayer.replay_all(sorted_out.replay, changes, sorted_out.keep)
        became |= {r.task.id: done for r, done in zip(sorted_out.replay, replayed, strict=True)}
        now = [became.get(rewrite.task.id, rewrite) for rewrite in pending]
        lost = [each for each in now if isinstance(each, Dropped)]
        left = tuple(each for each in now if isinstance(each, Rewrite))
        self.discarded |= discard(self.adapter, [each.rewrite for each in lost])
        self.littered |= any(each.littered for each in lost)
        self.dropped += lost
        count = len(became) - len(lost)
        self.replays += count
        before = {rewrite.task.id: rewrite.replayed for rewrite in sorted_out.replay}
        rows = sum(each.replayed - before[each.task.id] for each in left if each.task.id in before)
        why = lost[0].reason if lost else Reason.of(Code.REPLAYED, rows=rows)
        self.events.emit("conflict", attempt=attempt, dropped=len(lost), replayed=count, reason=why)
        return left

    def _done(self, commit: Commit) -> Landed:
        # If the run halts here, files that a replay replaced remain as orphans, which does no harm.
        self.events.emit("committed", version=commit.version, rewrites=len(self.pending))
        self.discarded |= discard_replaced(self.adapter, self.pending)
        return self._landed(commit)

    def _landed(self, commit: Commit | None) -> Landed:
        kept = self.pending if commit else ()
        littered = self._may_have_left_files()
        return Landed(commit, kept, tuple(self.dropped), self.loop.lost, self.replays, littered)

    def _may_have_left_files(self) -> bool:
        """Whether a vacuum must look for files of this commit: a discarded file counts as gone only once it is."""
        if self.loop.lost or self.littered:  # an attempt that lost may leave metadata
            return True
        if not self.discarded:
            return False
        try:
            return self.adapter.storage.missing(self.discarded) != self.discarded
        except Exception:
            return True

    def _proof(self, version: int) -> Commit:
        """The commit of what is pending, known by its run id in the log."""
        removed = tuple(
            path for r in self.pending for path, deletes in r.inputs_now.items() if deletes is not None
        )
        added = tuple(path for r in self.pending for path in r.added)
        return Commit(version, self.run_id, removed, added)

    def settle(self, doubt: Unknown) -> Landed:
        """The commit, if the log has our run id. If not it may still land: it is neither repeated nor cleaned up."""
        version = settled_version(self.adapter, self.snapshot, self.run_id, self.clock)
        if version is None:
            advice = "; if it is not there, the new files are orphans"
            raise unknown_outcome(self.adapter.table, self.run_id, "the commit", doubt, advice) from doubt
        return self._done(self._proof(version))


def _written(pending: Sequence[Rewrite]) -> str:
    outputs = [output for rewrite in pending for output in rewrite.outputs]
    return f"groups: {len(pending):,}, files: {len(outputs):,}, bytes: {sum(o.bytes for o in outputs):,}"
