"""Delete rows so that maintenance never makes it fail (seed 001, case 1).

The rows are found by position once. Where a commit came between, only what changed is looked at again: files that
somebody's rewrite put in the place of ours hold the same rows with the same values, so the predicate finds them
there. Where nothing but rewrites came between, exactly as many rows must be found as were in the files that went.

    register ─► find ─► commit ─┬─ done
                                ├─ Conflict ─► find in new and changed files only, keep the rest ─► commit (bounded)
                                └─ Unknown  ─► look for our run id: done, or raise and keep every file
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.options import Options
from lakekeeper.core.rebase import Changes
from lakekeeper.core.report import DeleteReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit import pause_seconds, settled_version
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.intents import Registration, at_work
from lakekeeper.errors import AdapterError, Conflict, Unknown
from lakekeeper.spi import Adapter, Commit, Held, Observer, Runner


def delete_rows(
    adapter: Adapter[Any],
    runner: Runner[Any],
    where: str,
    options: Options,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> DeleteReport:
    """Delete the rows that match ``where`` as the table stands when the delete commits.

    Raises the errors of the adapter before anything is written; Conflict naming the winner when the retries are
    used up, Rejected or Unknown for a commit that failed, Rejected where a vacuum may have taken it for dead.
    """
    run_id = f"{uuid.uuid4().hex[:16]}-1"
    work = _Delete(
        adapter, runner, where, options, run_id, Events(adapter.table, run_id, observer), clock or Clock()
    )
    try:
        return work.run()
    except Halted as halted:
        raise halted.cause from None
    finally:
        work.release()


@dataclass(slots=True)
class _Delete:
    """One delete under way: where its rows lie in ``snapshot``, in parts that were found one after the other."""

    adapter: Adapter[Any]
    runner: Runner[Any]
    where: str
    options: Options
    run_id: str
    events: Events
    clock: Clock
    parts: list[Held[Any]] = field(default_factory=list)
    kept: list[Held[Any]] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)
    over: dict[int, str] = field(default_factory=dict)
    again: int = 0

    def run(self) -> DeleteReport:
        started = self.clock.now_ms()
        first = self.adapter.snapshot(where=self.where)
        if not len(first.blocks):  # no file can hold a match, and there is nothing to look for it in
            return self._report(first, None, 0, started)
        self.adapter.require_writable(self.options)
        folders = self.adapter.storage.folders(())
        timeout_ms = self.options.ms("vacuum.intent-timeout-hours")
        with at_work(
            self.adapter, self.run_id, first.version, folders, self.clock, timeout_ms
        ) as registration:
            report = self._commit(first, registration, started)
            # A commit that lost may leave files whose names nobody knows.
            registration.clean = not report.retries
        return report

    def _commit(self, first: Snapshot, registration: Registration, started: int) -> DeleteReport:
        snapshot = first
        self._find(snapshot, None)
        allowed = self.options.integer("commit.retry.num-retries")
        for attempt in range(allowed + 1):
            if not self._rows:
                return self._report(first, None, attempt, started)
            self.events.tell("before_commit", attempt=attempt, rows=self._rows)
            registration.require()
            try:
                commit = self.adapter.deletes.delete(self.parts, snapshot, self.run_id, self.where)
                return self._report(first, commit, attempt, started)
            except Conflict as lost:
                changes = self.adapter.changes_since(snapshot)
                landed = changes.landed(self.run_id)
                if landed is not None:
                    return self._report(first, self._proof(landed), attempt, started)
                self.events.tell("conflict", attempt=attempt, reason=str(lost))
                if attempt == allowed:
                    raise Conflict(
                        f"{self.adapter.table}: the delete gave up after {attempt + 1} attempts, the last lost to "
                        f"{lost.winner or lost}; no row was deleted. Raise commit.retry.num-retries",
                        lost.winner,
                    ) from lost
                self.clock.wait(pause_seconds(attempt, self.options))
                snapshot = self._moved(snapshot)
            except Unknown as doubt:
                return self._report(first, self._settled(snapshot, doubt), attempt, started)
        raise AssertionError("the loop returns or raises")

    @property
    def _rows(self) -> int:
        return sum(sum(part.per_file.values()) for part in self.parts)

    def _find(self, snapshot: Snapshot, paths: Collection[str] | None) -> Held[Any]:
        found = self.adapter.deletes.find(snapshot, self.where, paths)
        self.found.append(found)
        held = self.runner.hold(found)
        self.kept.append(held)
        self.parts.append(held)
        return held

    def _moved(self, before: Snapshot) -> Snapshot:
        """Bring the places up to the newest version; files that are as they were are not looked at again."""
        now = self.adapter.snapshot(where=self.where)
        changes = self.adapter.changes_since(before)
        if now.table_uuid != before.table_uuid:
            raise Conflict(
                f"{self.adapter.table}: the table was made anew meanwhile; no row was deleted",
                ", ".join(map(str, changes.winners)),
            )
        was, is_now = _logical_files(before), _logical_files(now)
        same = {path for path, deletes in was.items() if is_now.get(path) == deletes}
        if now.schema_id != before.schema_id:
            same = set()  # the predicate may mean other columns now
        fresh = [path for path in is_now if path not in same]
        went = self._rows
        self.parts = [self.runner.only(part, same) for part in self.parts]
        went -= self._rows
        found = self._find(now, fresh) if fresh else None
        self._note(changes, went, sum(found.per_file.values()) if found else 0)
        return now

    def _note(self, changes: Changes, went: int, found: int) -> None:
        """Say what we went over. Raises AdapterError where rewrites alone changed which rows there are to delete."""
        self.again += found
        self.over |= {w.version: str(w) for w in changes.winners}
        if changes.winners and all(w.layout for w in changes.winners) and went != found:
            raise AdapterError(
                f"{self.adapter.table}: {went:,} rows to delete were in files that {', '.join(self.over.values())} "
                f"rewrote, and {found:,} are in the new ones; no row was deleted. Somebody's rewrite lost or doubled "
                "rows: compare the two versions before anything else is done to the table"
            )

    def _settled(self, snapshot: Snapshot, doubt: Unknown) -> Commit:
        landed = settled_version(self.adapter, snapshot, self.run_id, self.clock)
        if landed is not None:
            return self._proof(landed)
        raise Unknown(
            f"{self.adapter.table}: the outcome of the delete of run {self.run_id} is not known ({doubt}); look for "
            "the run id in the table's history before you delete again"
        ) from doubt

    def _proof(self, version: int) -> Commit:
        return Commit(version, self.run_id, (), ())

    def _report(self, first: Snapshot, commit: Commit | None, retries: int, started: int) -> DeleteReport:
        if commit is not None:
            self.events.tell("committed", version=commit.version, rows=self._rows)
        return DeleteReport(
            table=first.table,
            where=self.where,
            version_before=first.version,
            version_after=commit.version if commit else first.version,
            deleted_rows_count=self._rows,
            touched_data_files_count=sum(len(part.per_file) for part in self.parts),
            retries=retries,
            followed_rows_count=self.again,
            winners=tuple(self.over.values()),
            run_id=self.run_id if commit else "",
            duration_ms=self.clock.now_ms() - started,
        )

    def release(self) -> None:
        """Forget the places, and what the search for them holds: they are worked out again where a part is lost."""
        for held in self.kept:
            self.runner.release(held)
        for found in self.found:
            with suppress(Exception):  # memory that is not freed must not hide what became of the delete
                self.adapter.deletes.release(found)


def _logical_files(snapshot: Snapshot) -> dict[str, str]:
    blocks = snapshot.blocks
    return dict(zip(blocks.path.to_pylist(), blocks.delete_id.to_pylist(), strict=True))
