"""Delete rows so that maintenance never makes the delete fail.

    register ─► search ─► prepare ─► commit ─┬─ done
                  ▲                          ├─ Conflict ─► search new and changed files only, keep the rest (bounded)
                  └──────────────────────────┤
                                             └─ Unknown  ─► look for our run id: done, or raise and keep every file

Files in which every row matches, as partition values and bounds prove, are removed by path. Rows of the others are
deleted by position. All files of the delete are written before its first attempt, so that an attempt that lost to an
append costs a search of the appended files and no more.

If only rewrites came between, the search must find exactly as many rows as the removed files had: a rewrite moves rows
and changes none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import DeleteReport
from lakekeeper.core.planning.changes import Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry, settled_version, unknown_outcome
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.retries import LONG_PAUSES, NOT_COMMITTED, SHORT_PAUSES, retried, sent
from lakekeeper.engine.state.leases import Registration, registered_run
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.engine.uncommitted import removed_parts
from lakekeeper.engine.written import require_written
from lakekeeper.errors import AdapterError, Conflict, OptionError, Unknown, Unsupported
from lakekeeper.spi import Adapter, Commit, Held, Observer, Prepared, Runner

T = TypeVar("T")


def new_run_id() -> str:
    """The id of a run of one commit."""
    return f"{uuid.uuid4().hex[:16]}-1"


def delete_rows(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    where: str,
    options: Options,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
    run_id: str | None = None,
    attempt: Callable[[int], None] | None = None,
) -> DeleteReport:
    """Delete the rows that match ``where``, under the isolation level that the table asks for.

    Under ``serializable`` these are all rows that match in the version that the delete is committed upon; under a lower
    level, rows that are appended meanwhile count as later. Raises the errors of the adapter before anything is
    written; Conflict naming the winner when the retries are used up; Rejected for a commit that failed, or if a vacuum
    may have taken the run for dead; Unknown with the run id if the log does not settle the outcome. Unless it is
    Unknown, no row was deleted. ``attempt`` is called with the number of rows before each attempt to commit.
    """
    run_id = run_id or new_run_id()
    session = session_of(table)
    events = Events(session.adapter.table, run_id, observer)
    work = RowDelete(session, runner, where, options, run_id, events, clock or Clock(), attempt)
    try:
        return work.run()
    except Halted as halted:
        raise halted.cause from None
    finally:
        work.release()


@dataclass(slots=True)
class _Part:
    """The result of one search: positions of rows, files to remove as a whole, and what was prepared for both."""

    held: Held[Any] | None
    whole: frozenset[str]
    prepared: Prepared


@dataclass(slots=True)
class RowDelete:
    """One delete under way.

    attempt    called with the number of rows before each attempt
    parts      what is deleted, in the order it was found
    made       all that was prepared, whether it is still valid or not; ``kept`` are positions to release
    over       concurrent commits that the delete was retried after, by version
    again      rows found again in files that were added meanwhile
    snapshot   the version that the parts rest on
    unsure     a file to remove as a whole has deletes of unknown effect: its rows are a lower bound
    in_doubt   an attempt was sent and its outcome is not known
    littered   files of this delete that no version names may be left
    """

    session: TableSession
    runner: Runner[Any]
    where: str
    options: Options
    run_id: str
    events: Events
    clock: Clock
    attempt: Callable[[int], None] | None = None
    parts: list[_Part] = field(default_factory=list)
    made: list[Prepared] = field(default_factory=list)
    kept: list[Held[Any]] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)
    over: dict[int, str] = field(default_factory=dict)
    again: int = 0
    unsure: bool = False
    in_doubt: bool = False
    littered: bool = False
    snapshot: Snapshot = field(init=False)
    loop: CommitLoop = field(init=False)
    adapter: Adapter[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.adapter = self.session.adapter
        self.loop = CommitLoop(self.events, self.options, self.clock, "the delete", "no row was deleted")

    def run(self) -> DeleteReport:
        started = self.clock.now_ms()
        first = self.session.files(self.where)
        if not len(first.blocks):  # no file can contain a match, so there is nothing to search
            return self._report(first, None, started)
        self.adapter.require_writable(self.options)
        timeout_ms = self.options.vacuum.lease_timeout_ms
        with (
            registered_run(self.adapter, self.run_id, first, self.clock, timeout_ms) as registration,
            self.runner.working(self.run_id, f"{self.adapter.table}: delete"),
        ):
            try:
                commit = self._commit(first, registration)
            except (Halted, Unknown):
                raise
            except BaseException:
                if not self.in_doubt:
                    self._discard()
                raise
            # A commit that lost may leave files whose names are not recorded anywhere.
            registration.clean = not self.loop.lost and not self.littered
        return self._report(first, commit, started)

    def _commit(self, first: Snapshot, registration: Registration) -> Commit | None:
        """The commit; None where no row matches (any more)."""
        self.snapshot = first
        self.search(first, None, registration)
        commit = self.loop.run(
            partial(self._attempt, registration), partial(self._after, registration), self._settle
        )
        if commit is None:
            self._discard()
            return None
        return self._done(commit)

    def _attempt(self, registration: Registration) -> Commit | None:
        prepared = [part.prepared for part in self.parts]
        if not any(each.rows for each in prepared):
            return None
        if self.attempt is not None:
            self.attempt(self._rows)
        self.events.emit("before_commit", attempt=self.loop.lost, rows=self._rows)

        def ready() -> None:
            registration.require()
            require_written(self.adapter, [path for each in prepared for path in each.written], self.clock)

        def send() -> Commit:
            self.in_doubt = True
            try:
                return self.adapter.deletes.delete(prepared, self.snapshot, self.run_id, self.where)
            except NOT_COMMITTED:
                self.in_doubt = False
                raise

        return sent(send, self.adapter.table, self.clock, ready)

    def _after(self, registration: Registration, lost: Conflict) -> Commit | Retry:
        """Our commit, if it did land; else how to bring the delete up to the newest version.

        An attempt that lost to appends is repeated immediately: the winner has just committed, so the time until its
        next commit is the longest possible. Only attempts that lost because files of ours changed are bounded by
        number.
        """
        try:
            now, changes = self._look(self.snapshot)
        except (OptionError, Unsupported):
            # The predicate no longer fits the table. Whether the attempt landed, only the log says.
            landed = self._landed(lost)
            if landed is not None:
                return self._proof(landed)
            self.in_doubt = False
            raise
        except Exception as error:
            raise self._unknown(lost) from error
        landed = changes.landed(self.run_id)
        if landed is not None:
            return self._proof(landed)
        self.in_doubt = False
        if self._touched(changes) or changes.obstacle:
            return Retry(resume=lambda: self._follow(*self._look(self.snapshot), registration))
        resume = partial(self._follow, now, changes, registration)
        return Retry(counts=False, wait=False, resume=resume)

    def _landed(self, lost: Conflict) -> int | None:
        try:
            return retried(lambda: self.adapter.changes_since(self.snapshot), self.clock).landed(self.run_id)
        except Exception as error:
            raise self._unknown(lost) from error

    def _follow(self, now: Snapshot, changes: Changes, registration: Registration) -> None:
        self._require_same_table(self.snapshot, now, changes)
        self.bring_up(self.snapshot, now, changes, registration)
        self.snapshot = now

    def _settle(self, doubt: Unknown) -> Commit:
        landed = settled_version(self.adapter, self.snapshot, self.run_id, self.clock)
        if landed is None:
            raise self._unknown(doubt) from doubt
        return self._proof(landed)

    def _require_same_table(self, before: Snapshot, now: Snapshot, changes: Changes) -> None:
        if now.table_uuid != before.table_uuid:
            raise Conflict(
                f"{self.adapter.table}: the table was replaced by another one; no row was deleted",
                ", ".join(map(str, changes.winners)),
            )

    def _done(self, commit: Commit) -> Commit:
        self.events.emit("committed", version=commit.version, rows=self._rows)
        used = {path for part in self.parts for path in part.prepared.written}
        left = dict.fromkeys(path for made in self.made for path in made.written if path not in used)
        if left:
            self._remove([Prepared(written=tuple(left))])
        return commit

    @property
    def _rows(self) -> int:
        return sum(sum(part.prepared.rows.values()) for part in self.parts)

    def search(self, snapshot: Snapshot, paths: Collection[str] | None, registration: Registration) -> int:
        """Find the rows in these files (None: in all) and prepare their delete; returns their number."""
        deletes, blocks = self.adapter.deletes, snapshot.blocks
        wanted = blocks.path.to_pylist() if paths is None else list(paths)
        covered = self._read(lambda: deletes.covered(snapshot, self.where, wanted))
        gone = only_blocks(blocks, covered)
        gone = gone.take(gone.live_rows != 0)  # one without a live row may stay
        whole = frozenset(gone.path.to_pylist())
        self.unsure |= bool((gone.live_rows < 0).any())
        rest = [path for path in wanted if path not in covered]
        held = self._hold(snapshot, rest) if rest else None
        self._prepare(held, whole, snapshot, registration)
        found = sum(held.per_file.values()) if held else 0
        return found + int(gone.least_live_rows.sum())

    def _read(self, call: Callable[[], T]) -> T:
        """What a call reads from the log, again if it fails: for longer once there is a search to lose.

        Not for calls that run jobs or write files: a job that failed has been tried again by Spark.
        """
        return retried(call, self.clock, LONG_PAUSES if self.kept else SHORT_PAUSES)

    def _hold(self, snapshot: Snapshot, paths: Collection[str]) -> Held[Any]:
        found = self._read(lambda: self.adapter.deletes.find(snapshot, self.where, paths))
        self.found.append(found)
        held = self.runner.hold(found)
        self.kept.append(held)
        return held

    def _prepare(
        self,
        held: Held[Any] | None,
        whole: frozenset[str],
        snapshot: Snapshot,
        registration: Registration,
    ) -> None:
        if not whole and (held is None or not any(held.per_file.values())):
            return
        registration.renew()
        prepared = self.adapter.deletes.prepare(held, whole, snapshot, self.run_id)
        self.made.append(prepared)
        self.parts.append(_Part(held, whole, prepared))

    def _look(self, before: Snapshot) -> tuple[Snapshot, Changes]:
        """The newest state, and the changes since ``before``, at least up to that state."""
        now = retried(lambda: self.session.files(self.where), self.clock)
        return now, retried(lambda: self.adapter.changes_since(before), self.clock)

    def _touched(self, changes: Changes) -> bool:
        return any(
            path in changes.removed or path in changes.delete_ids
            for part in self.parts
            for path in part.prepared.rows
        )

    def bring_up(self, before: Snapshot, now: Snapshot, changes: Changes, registration: Registration) -> None:
        """Unchanged files are not searched again; what was prepared for them is kept."""
        listed = now.blocks.path.to_pylist()
        gone = changes.removed | changes.delete_ids.keys()
        same = (set(before.blocks.path.to_pylist()) & set(listed)) - gone
        if now.schema_id != before.schema_id or changes.obstacle:
            same = set()  # the predicate may refer to other columns, or the files' fate is not known
        parts, self.parts = self.parts, []
        went = 0
        for part in parts:
            went += sum(rows for path, rows in part.prepared.rows.items() if path not in same)
            self._renew(part, same, now, registration)
        fresh = [path for path in listed if path not in same]
        found = self.search(now, fresh, registration) if fresh else 0
        # Under a changed schema, the predicate may mean other rows: their numbers need not agree.
        self.note(changes, went if now.schema_id == before.schema_id else None, found)

    def _renew(self, part: _Part, same: Collection[str], now: Snapshot, registration: Registration) -> None:
        """Keep what was prepared for unchanged files; prepare again what of it is no longer valid."""
        still = part.prepared.rows.keys() & same
        kept = self._read(lambda: self.adapter.deletes.keep(part.prepared, still, now))
        if kept.rows:
            self.parts.append(_Part(part.held, part.whole & kept.rows.keys(), kept))
        again = still - kept.rows.keys()
        if again:
            held = self.runner.only(part.held, again - part.whole) if part.held else None
            self._prepare(held, part.whole & again, now, registration)

    def note(self, changes: Changes, went: int | None, found: int) -> None:
        """Report the commits in between. Raises AdapterError if rewrites alone changed the rows to delete.

        ``went`` are the rows to delete in files that are gone; None if they cannot be compared with those ``found``.
        """
        self.again += found
        self.over |= {w.version: str(w) for w in changes.winners}
        layout = bool(changes.winners) and all(w.layout for w in changes.winners) and not changes.obstacle
        if layout and went not in (None, found) and not self.unsure:
            raise AdapterError(
                f"{self.adapter.table}: {went:,} rows to delete were in files that {', '.join(self.over.values())} "
                f"rewrote, but {found:,} are in the new files; no row was deleted. A rewrite has lost or doubled rows: "
                "compare the two versions before you change the table again"
            )

    def _unknown(self, why: Exception) -> Unknown:
        return unknown_outcome(self.adapter.table, self.run_id, "the delete", why, " before you delete again")

    def _proof(self, version: int) -> Commit:
        return Commit(version, self.run_id, (), ())

    def _discard(self) -> None:
        """Delete the files of a delete that is known not to have happened."""
        self._remove(self.made)

    def _remove(self, made: Sequence[Prepared]) -> None:
        self.littered |= not removed_parts(self.adapter, made)

    def _report(self, first: Snapshot, commit: Commit | None, started: int) -> DeleteReport:
        return DeleteReport(
            table=first.table,
            where=self.where,
            version_before=first.version,
            version_after=commit.version if commit else first.version,
            deleted_rows_count=self._rows if commit else 0,
            touched_data_files_count=sum(len(part.prepared.rows) for part in self.parts) if commit else 0,
            unread_data_files_count=sum(len(part.whole) for part in self.parts) if commit else 0,
            retries=self.loop.lost,
            followed_rows_count=self.again,
            winners=tuple(self.over.values()),
            run_id=self.run_id if commit else "",
            duration_ms=self.clock.now_ms() - started,
        )

    def release(self) -> None:
        """Forget the positions and free what the search holds: a lost part is searched again."""
        for held in self.kept:
            self.runner.release(held)
        for found in self.found:
            with suppress(Exception):  # memory that is not freed must not hide the outcome of the delete
                self.adapter.deletes.release(found)
