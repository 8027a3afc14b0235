"""Restore the rows of a dropped partition: exactly once, even if called repeatedly.

    note "restoring" ─► copy the rows from the version before the drop ─► append ─► the entry goes
                                                                            │
            the same run id each time: a commit that carries it is the proof that the rows are back

If a restore dies at any step, run it again: before the append nothing has happened, after it the log has the run id. Of
two concurrent restores, one appends, and the other one finds its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import RestoreReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled_version, unknown_outcome
from lakekeeper.engine.delete.row_delete import new_run_id
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.retries import NOT_COMMITTED, retried, sent
from lakekeeper.engine.state.leases import Registration, registered_run
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.drop_partition import restore_run, settle_drops, since
from lakekeeper.engine.trash.dropped_rows import dropped_rows, other_rows
from lakekeeper.engine.trash.entries import PENDING, RESTORING, TrashEntry
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.uncommitted import removed_parts
from lakekeeper.engine.written import require_written
from lakekeeper.errors import AdapterError, Conflict, NotFound, Unknown
from lakekeeper.spi import Adapter, Commit, Held, Observer, Prepared, Runner


def restore(
    adapter: Adapter[Any],
    runner: Runner[Any],
    name: str,
    options: Options,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> RestoreReport:
    """Restore an entry of the trash: files to their original paths, or the rows of a partition by an append.

    ``name`` may be the beginning of the entry's. Raises NotFound, also where the version before the drop cannot be
    read any more; Unsupported for rows that would not come back as they were; AdapterError where files are still in
    the trash, or whether the rows are back already is not known; Conflict, Rejected, or Unknown. The entry stays
    after any error: run it again.
    """
    clock = clock or Clock()
    started = clock.now_ms()
    settle_drops(adapter, options, started)
    # The version first: a restore that it has missed has noted itself in the entry before it committed.
    seen = adapter.version()
    slot, entry = trash_entries.find(adapter, name)
    if entry.kind == "files":
        back = restore_files(adapter, entry.name, started, options.vacuum.allowed_locations)
        return RestoreReport(
            adapter.table, back.name, "files", files=back.files, bytes=back.bytes, version=seen.version
        )
    adapter.require_writable(options)
    events = Events(adapter.table, restore_run(entry), observer)
    work = _Restore(adapter, runner, options, events, clock, slot, entry)
    try:
        commit, rows, files = work.run(seen)
    except Halted as halted:
        raise halted.cause from None
    with suppress(Exception):  # the rows are back, and the log shows that to the next reader of the trash
        trash_entries.forget(adapter, entry.name)
    return RestoreReport(
        table=adapter.table,
        name=entry.name,
        kind="partition",
        where=entry.where,
        rows=rows,
        files=files,
        version=commit.version,
        already=not commit.added,
        run_id=commit.run_id,
        duration_ms=clock.now_ms() - started,
    )


@dataclass(slots=True)
class _Restore:
    """One restore under way.

    writer       the id under which it registers and writes: two restores of one entry share the commit's id alone
    found, held  positions as found and as kept, to be released
    made         copies, to be discarded
    in_doubt     an attempt was sent and its outcome is not known
    sent         copies were sent, and no answer says that they are in the table
    """

    adapter: Adapter[Any]
    runner: Runner[Any]
    options: Options
    events: Events
    clock: Clock
    slot: str
    entry: TrashEntry
    writer: str = field(default_factory=new_run_id)
    found: list[Any] = field(default_factory=list)
    held: list[Held[Any]] = field(default_factory=list)
    made: list[Prepared] = field(default_factory=list)
    in_doubt: bool = False
    sent: bool = False
    loop: CommitLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = CommitLoop(self.events, self.options, self.clock, "the restore", "no row was restored")

    @property
    def _run_id(self) -> str:
        return self.events.run_id

    def run(self, seen: Snapshot) -> tuple[Commit, int, int]:
        """The commit that has the rows, their number, and the files that were written."""
        entry = self.entry
        if entry.state == PENDING:
            raise Unknown(
                f"{self.adapter.table}: the outcome of the drop of run {entry.run_id} is not known yet, so nothing "
                "was restored. Look for the run id in the table's history, or try again later"
            )
        if seen.table_uuid != entry.table_uuid or seen.version is None:
            raise NotFound(
                self.adapter.table,
                f"the entry '{entry.name}' belongs to an earlier table at the same location",
            )
        if entry.state == RESTORING:
            done = self._done_before()
            if done is not None:
                return done, entry.rows, 0
        else:
            begun = replace(entry, state=RESTORING, since=seen.version)
            trash_entries.change(self.adapter.notes, self.slot, entry, begun)
            self.entry = begun
        timeout_ms = self.options.vacuum.lease_timeout_ms
        read = seen.at_version(entry.version)
        with registered_run(self.adapter, self.writer, read, self.clock, timeout_ms) as registration:
            return self._append(registration)

    def _done_before(self) -> Commit | None:
        """The commit of an earlier restore of this entry, if there is one. Raises AdapterError in doubt.

        A rollback may have left the version at which the earlier restore began. The log is then read from the drop on:
        each restore came after it, and the next one has to find the same commits.
        """
        entry, adapter = self.entry, self.adapter
        changes = retried(lambda: since(adapter, entry.since, entry), self.clock)
        if changes is not None and changes.obstacle and changes.landed(self._run_id) is None:
            changes = retried(lambda: since(adapter, entry.dropped, entry), self.clock)
            self.entry = replace(entry, since=entry.dropped)
        version = changes.landed(self._run_id) if changes else None
        if version is not None:
            return Commit(version, self._run_id, (), ())
        if changes is None or changes.obstacle:
            why = changes.obstacle if changes else "another table is in its place"
            raise AdapterError(
                f"{adapter.table}: an earlier restore of '{entry.name}' began at version {entry.since}, "
                f"and whether its rows are back is not known ({why}); nothing was restored. Look for the rows of "
                "the partition that the entry names, and empty the trash if they are there"
            )
        if self.entry != entry:
            trash_entries.change(adapter.notes, self.slot, entry, self.entry)
        return None

    def _append(self, registration: Registration) -> tuple[Commit, int, int]:
        """Raises as :func:`restore`; unless it is Unknown, no file is left behind."""
        littered = False
        try:
            registration.renew()
            copies = self._copies()
            while (commit := self._commit(copies, registration)) is None:
                littered |= not removed_parts(self.adapter, [copies])
                copies = self._copies()
        except (Halted, Unknown):
            raise
        except BaseException:
            if not self.in_doubt:
                removed_parts(self.adapter, self.made)
            raise
        finally:
            for held in self.held:
                self.runner.release(held)
            for found in self.found:
                with suppress(Exception):  # memory that is not freed must not hide the outcome of the restore
                    self.adapter.deletes.release(found)
        if self.sent:
            registration.clean = False  # the table names these copies or another restore's: a vacuum looks
        elif not commit.added:
            littered |= not removed_parts(self.adapter, [copies])
        registration.clean &= not littered
        rows = sum(copies.rows.values())
        self.events.emit("committed", version=commit.version, restored_rows=rows)
        return commit, rows, len(copies.rows)

    def _commit(self, copies: Prepared, registration: Registration) -> Commit | None:
        """Commit, and again after each conflict (bounded); None where the copies can no longer be committed."""

        def ready() -> None:
            registration.require()
            require_written(self.adapter, copies.written, self.clock)

        def send() -> Commit:
            self.in_doubt = True
            try:
                return self.adapter.restores.commit(copies, self.entry.since, self._run_id)
            except NOT_COMMITTED:
                self.in_doubt = False
                raise

        def attempt() -> Commit | None:
            if not retried(lambda: self.adapter.restores.keep(copies), self.clock):
                return None
            self.events.emit("before_commit", attempt=self.loop.lost, rows=sum(copies.rows.values()))
            try:
                commit = sent(send, self.adapter.table, self.clock, ready)
            except (Conflict, Unknown):
                self.sent = True
                raise
            self.sent &= not commit.added
            return commit

        def after(lost: Conflict) -> Commit | Retry:
            version = self._landed(lost)
            if version is not None:
                return Commit(version, self._run_id, (), ())
            self.in_doubt = False
            return Retry()

        return self.loop.run(attempt, after, lambda doubt: self._settled(copies, doubt))

    def _landed(self, lost: Conflict) -> int | None:
        """The version that has the rows after all: a catalog may apply a commit and report that it lost.

        It is that commit, or the one of another restore of this entry: both carry one run id. Raises Unknown where
        the log does not show it.
        """
        try:
            changes = retried(lambda: since(self.adapter, self.entry.since, self.entry), self.clock)
        except Exception as error:
            raise self._unknown(lost) from error
        version = changes.landed(self._run_id) if changes else None
        if version is None and (changes is None or changes.obstacle):
            raise self._unknown(lost) from lost
        return version

    def _unknown(self, why: Exception) -> Unknown:
        return unknown_outcome(
            self.adapter.table,
            self._run_id,
            "the restore",
            why,
            ", or run it again later: it first looks for its commit",
        )

    def _settled(self, copies: Prepared, doubt: Unknown) -> Commit:
        try:
            seen = retried(self.adapter.version, self.clock)
        except Exception as error:
            raise self._unknown(doubt) from error
        version = settled_version(self.adapter, seen.at_version(self.entry.since), self._run_id, self.clock)
        if version is not None:
            return Commit(version, self._run_id, (), tuple(copies.rows))
        raise self._unknown(doubt) from doubt

    def _copies(self) -> Prepared:
        """The dropped rows, in files that no version names yet."""
        entry, adapter = self.entry, self.adapter
        found = dropped_rows(adapter, entry, self._search)
        copies = adapter.restores.copy(found.hits, found.whole, found.then, self.writer)
        self.made.append(copies)
        dropped = only_blocks(found.then.blocks, found.whole)
        matched = sum(found.hits.per_file.values()) if found.hits else 0
        expected = int(dropped.least_live_rows.sum()) + matched
        read, exact = sum(copies.rows.values()), bool((dropped.live_rows >= 0).all())
        if read < expected or (read != expected and exact):
            raise AdapterError(
                f"{adapter.table}: the drop of the entry '{entry.name}' removed {expected:,} rows, but {read:,} were "
                "read to be restored; nothing was committed"
            )
        # Entries of earlier releases have no number if the drop died: it removed some rows, else it left no entry.
        most = entry.rows or max(read, 1)
        least = 1 if entry.fewer else most
        if exact and not least <= read <= most:
            removed = f"{'at most ' if entry.fewer else ''}{entry.rows:,}" if entry.rows else "some"
            raise other_rows(adapter, entry, f"{read:,} match, and it removed {removed}")
        return copies

    def _search(self, seen: Snapshot, paths: Sequence[str]) -> Held[Any]:
        found = self.adapter.deletes.find(seen, self.entry.where, paths)
        self.found.append(found)
        held = self.runner.hold(found)
        self.held.append(held)
        return held
