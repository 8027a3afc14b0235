"""``merge_deletes``: rewrite blocks with too many deleted rows, then tidy the delete files.

    maintain(policy deletes) ─► report ─► tidy ─┬─ nothing to do, or done ─► counts in the report
                                                ├─ Conflict ─► look again, try again (bounded)
                                                └─ Unknown  ─► look for our run id

Tidying removes delete files that no longer apply to any row and merges small ones. It is a commit of its own, which
changes no row and, like every other, waits for a gap between users' commits. An error before it was sent, or a refusal,
is tried again. If the tidying fails after the rewrites were committed, whatever the error, these remain valid, so the
report gives the reason; if nothing was committed before it, the error is raised.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.planning.changes import EARLIER_MS, Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled_version, unknown_outcome
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.quiet_window import QuietWindow
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.retries import retried, sent
from lakekeeper.engine.state.leases import Registration, registered_run
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.errors import Conflict, Unknown, message
from lakekeeper.spi import Adapter, Observer, Runner, Tidied


def merge_deletes(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    request: Request,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> MergeReport:
    """Run a request of the policy ``deletes`` on one table, then tidy all delete files of the table.

    ``where`` and the budget limit the rewrites only: only a whole snapshot shows which delete files apply
    to no row, and no data file is read for it. Raises as :func:`lakekeeper.engine.merge.job.maintain`; a failure of
    the tidying is raised only where nothing else was committed, else it is in the report's ``ended``.
    """
    clock = clock or Clock()
    session = session_of(table)
    adapter = session.adapter
    report = maintain(session, runner, request, observer=observer, clock=clock)
    if request.dry_run:
        return report
    run_id = _run_id(report)
    tidying = _Tidying(
        session, request.options, run_id, Events(adapter.table, run_id, observer), clock, clock.now_ms()
    )
    try:
        tidied = tidying.run()
        report = _with(report, tidied, run_id)
    except Halted as halted:
        raise halted.cause from None
    except Exception as error:
        if not report.changed:
            raise
        why = Reason.of(Code.DELETE_FILES_NOT_MERGED, error=message(error))
        report = replace(report, ended=report.ended.plus(why))
    return replace(
        report,
        conflicts=report.conflicts + tidying.loop.lost,
        duration_ms=report.duration_ms + clock.now_ms() - tidying.started,
    )


_TIDY = "tidy"  # name in the memo of a snapshot that has nothing to tidy


@dataclass(slots=True)
class _Tidying:
    """One commit that tidies, under one run id."""

    session: TableSession
    options: Options
    run_id: str
    events: Events
    clock: Clock
    started: int
    loop: CommitLoop = field(init=False)
    quiet: QuietWindow = field(init=False)
    adapter: Adapter[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.adapter = self.session.adapter
        self.loop = CommitLoop(
            self.events, self.options, self.clock, "the merge of delete files", "none was changed"
        )
        self.quiet = QuietWindow.of(self.options, self.clock)

    def run(self) -> Tidied:
        """Raises Conflict naming the winner when the retries are used up, Rejected, or Unknown."""
        self.adapter.require_writable(self.options)
        snapshot = retried(self.session.snapshot, self.clock)
        if snapshot.memo.get(_TIDY) or not retried(
            lambda: self.adapter.deletes.may_tidy(snapshot), self.clock
        ):
            return Tidied()
        timeout_ms = self.options.vacuum.lease_timeout_ms
        with registered_run(self.adapter, self.run_id, snapshot, self.clock, timeout_ms) as registration:
            tidied = self._commit(snapshot, registration)
            # A commit that lost may leave files whose names are not recorded anywhere.
            registration.clean = not self.loop.lost
        if tidied.version is None and not self.loop.lost:
            snapshot.memo[_TIDY] = True  # which delete files apply is a matter of the snapshot alone
        return tidied

    def _commit(self, first: Snapshot, registration: Registration) -> Tidied:
        snapshot = first

        def attempt() -> Tidied:
            nonlocal snapshot
            self.events.emit("before_commit", attempt=self.loop.lost, rewrites=0)
            seen = self._in_a_gap(first)
            landed = seen.landed(self.run_id) if seen else None
            if landed is not None:
                return Tidied(landed)
            if self.loop.lost or (seen and seen.version != snapshot.version):
                # The whole table: a delete that dangles in a part may apply elsewhere.
                snapshot = retried(self.session.snapshot, self.clock)
            return sent(send, self.adapter.table, self.clock, registration.require)

        def send() -> Tidied:
            return self.adapter.deletes.tidy(snapshot, self.run_id)

        def after(lost: Conflict) -> Tidied | Retry:
            try:
                landed = self._changes(first).landed(self.run_id)
            except Exception as error:
                # A catalog may apply a commit and report that it lost; only the log shows that.
                raise self._unknown(lost) from error
            return Retry() if landed is None else Tidied(landed)

        def settle(doubt: Unknown) -> Tidied:
            landed = settled_version(self.adapter, snapshot, self.run_id, self.clock)
            if landed is None:
                raise self._unknown(doubt) from doubt
            return Tidied(landed)  # the log may not record the number of files

        return self._done(self.loop.run(attempt, after, settle))

    def _in_a_gap(self, first: Snapshot) -> Changes | None:
        """The changes since ``first``, at a time between users' statements; None where no writer is expected.

        Whether one is, the snapshot shows, by when rows were last added or deleted: a quiet time costs no further read
        of the log. An attempt that lost has met a writer.
        """
        recent = max(self.quiet.window_ms, EARLIER_MS)
        busy = bool((self.clock.now_ms() - first.commits_ms[-1:] < recent).any())
        if self.quiet.window_ms <= 0 or not (busy or self.loop.lost):
            return None
        while True:
            try:
                changes = self.quiet.look(lambda: self._changes(first))
            except Exception as error:
                if not self.loop.lost:
                    raise  # nothing was sent
                raise self._unknown(error) from error
            landed = changes.landed(self.run_id) is not None
            if landed or self.loop.out_of_time or self.quiet.passed(changes):
                return changes

    def _changes(self, first: Snapshot) -> Changes:
        return retried(lambda: self.adapter.changes_since(first), self.clock)

    def _unknown(self, why: Exception) -> Unknown:
        return unknown_outcome(self.adapter.table, self.run_id, "the merge of delete files", why)

    def _done(self, tidied: Tidied) -> Tidied:
        if tidied.version is not None:
            self.events.emit(
                "committed",
                version=tidied.version,
                rewrites=0,
                removed_delete_files=tidied.removed_delete_files,
                added_delete_files=tidied.added_delete_files,
            )
        return tidied


def _run_id(report: MergeReport) -> str:
    """An id of this call that no commit of its rewrites had, landed or not."""
    run = report.run_ids[0].rpartition("-")[0] if report.run_ids else uuid.uuid4().hex[:16]
    return f"{run}-0"  # rewrites are numbered from 1


def _with(report: MergeReport, tidied: Tidied, run_id: str) -> MergeReport:
    if tidied.version is None:
        return report
    return replace(
        report,
        version_after=tidied.version,
        removed_delete_files_count=report.removed_delete_files_count + tidied.removed_delete_files,
        added_delete_files_count=report.added_delete_files_count + tidied.added_delete_files,
        commits=report.commits + 1,
        run_ids=(*report.run_ids, run_id),
        ended=Reason.of(Code.DELETE_FILES_MERGED) if not report.commits else report.ended,
    )
