"""``expire_rows``: delete the rows that a lifecycle rule expires, into the trash.

    rule ─► cutoff ─► blocks that may have such rows ─┬─ none, or dry run: that is all
                                                      ├─ deleted before in this day, or the trash is full: they wait
                                                      └─► drop_rows ─► note: searched up to this cutoff

The note spares the next call a search in files whose bounds include expired rows that are deleted already. Without the
note, the files are searched again. Each expiry takes a slot of the trash until it expires there, so a table has one a
day: rows that come later than it go with those of the next day.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DeleteReport
from lakekeeper.core.planning.expired_rows import LATE_MS, ExpiredRows, before, cutoff_ms, expired_rows
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.drop_partition import drop_rows, settle_drops
from lakekeeper.engine.trash.entries import PENDING, TrashEntry
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter, Observer, Runner

_NOTE = "lifecycle.json"


def expire_rows(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    options: Options,
    checked: Callable[[str], str] = str,
    *,
    dry_run: bool = False,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> LifecycleReport:
    """Delete the rows that are older than the table's rule; ``checked`` resolves their predicate.

    Raises OptionError without a rule, and for a column that is unknown, has no statistics or is no date or time; else
    as :func:`lakekeeper.engine.trash.drop_partition.drop_rows`.
    """
    session, clock = session_of(table), clock or Clock()
    adapter, started_ms = session.adapter, clock.now_ms()
    column, retain_ms = _rule(options)
    snapshot = retried(lambda: session.snapshot([column]), clock, SHORT_PAUSES)
    cutoff = cutoff_ms(retain_ms, started_ms)
    where = before(snapshot.key.columns[0], cutoff) if snapshot.key else f"{column} is expired"
    last = _last(adapter, snapshot, cutoff)
    found = expired_rows(snapshot, cutoff, last.at_ms if last else None)
    report = LifecycleReport(
        table=adapter.table,
        dry_run=dry_run,
        where=where,
        version_before=snapshot.version,
        version_after=None,
        ended=Reason.of(Code.NONE_EXPIRED),
    )
    earlier = None
    if found.files:
        earlier = _earlier(adapter, where, last, None if dry_run else options, started_ms)
    if earlier is not None:
        # They wait in any case, so that only the files that came after the expiry are worth a word.
        late = expired_rows(snapshot, cutoff, last.at_ms + LATE_MS if last else None).files
        if late:
            report = replace(report, ended=Reason.of(Code.ROWS_CAME_LATE, files=late, entry=earlier.name))
    elif found.files:
        report = _due(report, found)
        full = None if dry_run else _full(adapter, options, started_ms)
        if full is not None:
            report = replace(report, ended=full)
        elif not dry_run:
            done = drop_rows(session, runner, checked(where), options, observer=observer, clock=clock)
            # The delete itself has added files; with them go those that others added meanwhile, until the next day.
            until_ms = clock.now_ms() if done.changed else started_ms
            _note(adapter, snapshot, cutoff, _Search(until_ms, done.run_id))
            report = _done(report, done)
    return replace(report, duration_ms=clock.now_ms() - started_ms)


def _due(report: LifecycleReport, found: ExpiredRows) -> LifecycleReport:
    return replace(
        report,
        ended=Reason.of(Code.ROWS_DUE, files=found.files),
        due_data_files_count=found.files,
        due_bytes_count=found.bytes,
        due_whole_files_count=found.whole_files,
        due_rows_count=found.rows,
    )


def _done(report: LifecycleReport, done: DeleteReport) -> LifecycleReport:
    code = Code.ROWS_EXPIRED if done.changed else Code.NONE_EXPIRED
    return replace(
        report,
        version_after=done.version_after,
        ended=Reason.of(code, rows=done.deleted_rows_count),
        deleted_rows_count=done.deleted_rows_count,
        touched_data_files_count=done.touched_data_files_count,
        unread_data_files_count=done.unread_data_files_count,
        run_id=done.run_id,
    )


def _rule(options: Options) -> tuple[str, int]:
    rule = options.lifecycle
    if rule.column is None or rule.retain_ms is None:
        missing = "lifecycle.column" if rule.column is None else "lifecycle.retain"
        raise OptionError(
            missing,
            None,
            "a rule: set the table properties lakekeeper.lifecycle.column and lakekeeper.lifecycle.retain",
        )
    return rule.column, rule.retain_ms


@dataclass(frozen=True, slots=True)
class _Search:
    """The last search for rows before a cutoff: when, and the run that deleted them (empty: there were none)."""

    at_ms: int
    run_id: str


def _last(adapter: Adapter[Any], snapshot: Snapshot, cutoff: int) -> _Search | None:
    """The last search for rows before this cutoff; None if that is not known."""
    with suppress(Exception):  # a lost or damaged note costs a search
        note = json.loads(adapter.notes.read(_NOTE) or "")
        if note["rule"] == _mark(snapshot, cutoff):
            return _Search(int(note["at_ms"]), str(note.get("run_id", "")))
    return None


def _note(adapter: Adapter[Any], snapshot: Snapshot, cutoff: int, search: _Search) -> None:
    with suppress(Exception):  # the rows are gone
        note = {"rule": _mark(snapshot, cutoff), "at_ms": search.at_ms, "run_id": search.run_id}
        adapter.notes.replace(_NOTE, json.dumps(note))


def _mark(snapshot: Snapshot, cutoff: int) -> str:
    return f"{snapshot.table_uuid}/{snapshot.key.key_id if snapshot.key else ''}/{cutoff}"


def _earlier(
    adapter: Adapter[Any], where: str, last: _Search | None, options: Options | None, now_ms: int
) -> TrashEntry | None:
    """The entry of an earlier expiry of the same rows; None without one, and once they are restored.

    One of which the outcome is not known is no obstacle; with ``options``, it is settled from the log first.
    """
    run_id = (last and last.run_id) or None

    def made() -> list[TrashEntry]:
        return [
            entry
            for entry in trash_entries.entries(adapter).values()
            if entry.kind == "partition" and (entry.where == where or entry.run_id == run_id)
        ]

    found = made()
    if options is not None and any(entry.state == PENDING for entry in found):
        settle_drops(adapter, options, now_ms)
        found = made()
    return next((entry for entry in found if entry.state != PENDING), None)


def _full(adapter: Adapter[Any], options: Options, now_ms: int) -> Reason | None:
    """Why the trash has no slot for an expiry: a quarter of them is left to calls that cannot wait for a day."""
    most = trash_entries.SLOTS - trash_entries.SLOTS // 4
    held = trash_entries.count_held(adapter.notes, options.vacuum.trash_retention_ms, now_ms)
    return None if held < most else Reason.of(Code.TRASH_FULL, entries=held, most=most)
