"""Undo a run of maintenance: bring back the files that it replaced, by a new commit.

    find the reversal ─► register ─► no vacuum? ─► files there? ─► commit ─┬─ committed
          ▲                                                                ├─ Conflict ─► find it again
          └────────────────────────────────────────────────────────────────┘              (or UndoError)
                                                                           └─ Unknown ──► is the layout back?

The reversal is checked on one version and committed on that version: a delete that comes in between wins. A vacuum that
registers later than the undo keeps its files; one that registered before it, and still deletes, is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.report import UndoReport
from lakekeeper.core.model.run_name import RunName
from lakekeeper.core.text.formatting import counted
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled, unknown_outcome
from lakekeeper.engine.delete.row_delete import new_run_id
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.retries import LONG_PAUSES, SHORT_PAUSES, retried, sent
from lakekeeper.engine.state.leases import Registration, registered, registered_run
from lakekeeper.engine.trash.moves import entries_with
from lakekeeper.errors import Conflict, OptionError, UndoError, Unknown
from lakekeeper.spi import Adapter, Commit, Observer, Reversal, Undone

_NAMED = 3


def undo(
    adapter: Adapter[Any],
    run: str,
    options: Options,
    *,
    dry_run: bool = False,
    allow_rollback: bool = False,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> UndoReport:
    """Bring back the layout before a run, named by the id of one commit, or of an operation with all its commits.

    Raises OptionError for a text that is no run id, NotFound if the log has no commit of the run, UndoError if it
    cannot be undone or would need a rollback that is not allowed, Unsupported, all before anything is written;
    Conflict, Rejected or Unknown.
    """
    clock = clock or Clock()
    started = clock.now_ms()
    name = _name_of(run)
    found = _found(adapter, name, clock, SHORT_PAUSES)
    if isinstance(found, Reversal):
        _require_files(adapter, name, found, clock)
        if dry_run:
            return _report(adapter, name, found, dry_run=True, duration_ms=clock.now_ms() - started)
        if found.rollback and not allow_rollback:
            raise UndoError(
                adapter.table,
                f"run {name} can be undone only by a rollback to version {found.before}, and streams that have already "
                "read past the run then fail; nothing was written. Allow it with allow_rollback (--allow-rollback) "
                "if there is no such stream, or restart the stream afterwards",
            )
        adapter.require_writable(options)
        _require_no_vacuum(adapter, options, clock)  # and again, once the undo is registered
        found, commit = _committed(adapter, name, found, options, observer, clock)
    if isinstance(found, Undone):
        return UndoReport(adapter.table, str(name), already=True, version_after=found.version)
    return replace(
        _report(adapter, name, found, dry_run=dry_run, duration_ms=clock.now_ms() - started),
        version_after=commit.version,
        run_id="" if found.rollback else commit.run_id,
    )


def _found(
    adapter: Adapter[Any], name: RunName, clock: Clock, pauses: Sequence[float] = LONG_PAUSES
) -> Reversal | Undone:
    """How the run can be undone. Raises UndoError if a reversal would only take files away, and rows with them."""
    found = retried(lambda: adapter.undos.find(name), clock, pauses)
    if isinstance(found, Reversal) and found.removed and not found.restored:
        gone = counted(len(found.removed), "file")
        raise UndoError(
            adapter.table,
            f"run {name} replaced no file, so an undo would remove {gone} with live rows; nothing was written. "
            "Only runs that merged files can be undone",
        )
    return found


def _name_of(run: str) -> RunName:
    try:
        return RunName.parse(run)
    except (ValueError, TypeError):
        expected = "the id of a run: one of a report's run_ids, or an operation_id of the history"
        raise OptionError("run_id", run, expected) from None


def _committed(
    adapter: Adapter[Any],
    name: RunName,
    found: Reversal,
    options: Options,
    observer: Observer | None,
    clock: Clock,
) -> tuple[Reversal | Undone, Commit]:
    events = Events(adapter.table, name.undo_id, observer)
    # Registered as a reader of the version before the run, whose files a vacuum must leave alone.
    read = adapter.version().at_version(found.before)
    try:
        with registered_run(
            adapter, new_run_id(), read, clock, options.vacuum.lease_timeout_ms
        ) as registration:
            work = _Undo(adapter, name, found, options, events, clock, registration)
            return work.run()
    except Halted as halted:
        raise halted.cause from None


@dataclass(slots=True)
class _Undo:
    """One undo under way; ``found`` is the reversal that the next attempt commits."""

    adapter: Adapter[Any]
    name: RunName
    found: Reversal | Undone
    options: Options
    events: Events
    clock: Clock
    registration: Registration
    loop: CommitLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = CommitLoop(self.events, self.options, self.clock, "the undo", "the layout is unchanged")

    def run(self) -> tuple[Reversal | Undone, Commit]:
        if isinstance(self.found, Reversal):
            _require_no_vacuum(self.adapter, self.options, self.clock)
        commit = self.loop.run(self._attempt, self._after, self._settle)
        self.events.emit("committed", version=commit.version)
        return self.found, commit

    def _attempt(self) -> Commit:
        found = self.found
        if isinstance(found, Undone):
            return Commit(found.version, self.events.run_id, (), ())
        self.events.emit("before_commit", attempt=self.loop.lost, files=len(found.restored))

        def ready() -> None:
            self.registration.require()
            _require_files(self.adapter, self.name, found, self.clock)

        def send() -> Commit:
            return self.adapter.undos.commit(found, self.events.run_id)

        return sent(send, self.adapter.table, self.clock, ready)

    def _after(self, lost: Conflict) -> Commit | Retry:
        try:
            version = retried(self._landed, self.clock)
        except Exception as error:
            raise self._unknown(lost) from error
        return self._proof(version) if version is not None else Retry(resume=self._look_again)

    def _look_again(self) -> None:
        """Check the run again on the newest version. Raises UndoError naming the commit that came in between."""
        self.found = _found(self.adapter, self.name, self.clock)

    def _settle(self, doubt: Unknown) -> Commit:
        version = settled(self._landed, self.clock)
        if version is None:
            raise self._unknown(doubt) from doubt
        return self._proof(version)

    def _landed(self) -> int | None:
        if isinstance(self.found, Undone):
            return self.found.version
        return self.adapter.undos.landed(self.found, self.events.run_id)

    def _proof(self, version: int) -> Commit:
        return Commit(version, self.events.run_id, (), ())

    def _unknown(self, why: Exception) -> Unknown:
        advice = ", or undo the run again later: it first looks whether that is done"
        return unknown_outcome(self.adapter.table, self.events.run_id, "the undo", why, advice)


def _require_files(adapter: Adapter[Any], name: RunName, found: Reversal, clock: Clock) -> None:
    """Raise UndoError if a file that would come back is gone, or may be deleted by another engine at any time."""
    if found.until_ms is not None and clock.now_ms() >= found.until_ms:
        raise UndoError(
            adapter.table,
            f"run {name} is older than the table's retention of removed files, so the vacuum of any engine may be "
            "deleting the files that it replaced; nothing was written. Recluster or compact with other options instead",
        )
    paths = [*found.restored, *found.needed]
    gone = retried(lambda: adapter.storage.missing(paths), clock) if paths else set()
    if not gone:
        return
    entries = entries_with(adapter, gone)
    advice = (
        f"they are in the trash: restore {', '.join(entries)} first"
        if entries
        else "a vacuum has deleted them, so the run cannot be undone any more"
    )
    raise UndoError(
        adapter.table,
        f"{len(gone):,} of {len(paths):,} files that run {name} replaced are gone "
        f"({', '.join(sorted(gone)[:_NAMED])}{' …' if len(gone) > _NAMED else ''}); nothing was written; {advice}",
    )


def _require_no_vacuum(adapter: Adapter[Any], options: Options, clock: Clock) -> None:
    """Raise UndoError if a vacuum may be deleting the files: it may not have seen that this undo is registered.

    A rollback to a version that has expired would fail anyway, but a vacuum into the trash expires none.
    """

    def deleting() -> list[str]:
        now_ms, timeout_ms = clock.now_ms(), options.vacuum.lease_timeout_ms
        return [
            intent.run_id
            for intent in registered(adapter.notes).values()
            if intent.deletes(timeout_ms, now_ms)
            and adapter.storage.same_table(intent.table_uuid, intent.read_version)
        ]

    if vacuums := retried(deleting, clock, SHORT_PAUSES):
        raise UndoError(
            adapter.table,
            f"vacuum {', '.join(vacuums)} is deleting files of the table; nothing was written. Undo the run again when "
            "the vacuum has ended. If it was killed, run another vacuum first, or wait vacuum.intent-timeout-hours "
            "from its start",
        )


def _report(
    adapter: Adapter[Any], name: RunName, found: Reversal, *, dry_run: bool, duration_ms: int
) -> UndoReport:
    return UndoReport(
        table=adapter.table,
        undone=str(name),
        dry_run=dry_run,
        version_before=found.seen,
        restored_data_files_count=len(found.restored),
        restored_bytes_count=sum(found.restored.values()),
        removed_data_files_count=len(found.removed),
        removed_bytes_count=sum(found.removed.values()),
        rollback_to=found.before if found.rollback else None,
        duration_ms=duration_ms,
    )
