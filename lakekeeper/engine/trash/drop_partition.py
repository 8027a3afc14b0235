"""``drop_partition``: delete rows in one commit, and retain the version before it until the trash expires.

    pending ─┬─► dropped (by version v) ──► restoring (since version w) ──► gone: the rows are back
             └─► gone: the delete is known not to have happened

An entry is pending from before the delete until the log shows the run id of the delete; a pending entry cannot be
restored. Each look at the trash settles pending entries: the log shows whether the delete has happened, and a delete
whose lease has expired never will, as such a run commits nothing.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.report import DeleteReport
from lakekeeper.core.model.run_name import restore_id
from lakekeeper.core.planning.changes import Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows, new_run_id
from lakekeeper.engine.retries import NOT_COMMITTED, SHORT_PAUSES, retried
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.entries import DROPPED, PENDING, RESTORING, TrashEntry
from lakekeeper.engine.trash.put import put
from lakekeeper.errors import Conflict, Unknown
from lakekeeper.spi import Adapter, Observer, Runner


def drop_rows(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    where: str,
    options: Options,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> DeleteReport:
    """Delete the rows that match ``where``; the trash gets an entry from which they can be restored.

    Raises as :func:`lakekeeper.engine.delete.row_delete.delete_rows`; AdapterError where the trash is full. After an
    error, an entry is left only if the log shows the delete, as where an observer has raised after it, or cannot show
    that it did not happen, as after Unknown.
    """
    clock = clock or Clock()
    session = session_of(table)
    adapter = session.adapter
    seen = adapter.version()
    if seen.version is None:
        return DeleteReport(adapter.table, where, None, None)
    adapter.require_writable(options)
    entry = TrashEntry(
        uuid.uuid4().hex[:16],
        "partition",
        clock.now_ms(),
        seen.version,
        where=where,
        table_uuid=seen.table_uuid,
        state=PENDING,
        run_id=new_run_id(),
    )
    slot = put(adapter, entry, options)

    def count(rows: int) -> None:
        """Note the number before the commit: a restore compares it, and a run that dies could not note it later."""
        nonlocal entry
        if rows != entry.rows:
            counted = replace(entry, rows=rows)
            retried(lambda: trash_entries.change(adapter.notes, slot, entry, counted), clock)
            entry = counted

    try:
        report = delete_rows(
            session,
            runner,
            where,
            options,
            observer=observer,
            clock=clock,
            run_id=entry.run_id,
            attempt=count,
        )
    except Unknown:
        raise
    except Exception as error:
        with suppress(Exception):  # it stays pending, until the log shows what has happened
            undone = isinstance(error, (Conflict, *NOT_COMMITTED))
            retried(lambda: _settle(adapter, slot, entry, alive=False, undone=undone), clock, SHORT_PAUSES)
        raise
    with suppress(Exception):  # the rows are gone: a note that cannot be written does not fail the drop
        if report.changed:
            if all(each.name != entry.name for each in trash_entries.entries(adapter).values()):
                # Another session took this run for dead: its entry holds the version before the drop again.
                put(adapter, entry, options)
            settle_drops(adapter, options, clock.now_ms())
        else:
            trash_entries.forget(adapter, entry.name)
    return replace(report, trash=entry.name) if report.changed else report


def settle(adapter: Adapter[Any], options: Options, now_ms: int) -> None:
    """Update the trash to what the log shows of drops and restores; reads nothing if all of them are settled.

    Several sessions may do so at once.

    Raises AdapterError or NotFound if the log or the storage does not respond.
    """
    settle_drops(adapter, options, now_ms)
    for slot, entry in trash_entries.entries(adapter).items():
        if entry.state == RESTORING:
            changes = since(adapter, entry.since, entry)
            if changes is not None and changes.landed(restore_run(entry)) is not None:
                trash_entries.forget_at(adapter.notes, slot, entry)


def note_descendants(adapter: Adapter[Any]) -> None:
    """Record of each drop the newest version made on top of it, before a vacuum expires those in between.

    Without them, a restore could not distinguish a table that was rolled back to before the drop from one that was not.
    """
    for entry in trash_entries.entries(adapter).values():
        if entry.state in (DROPPED, RESTORING):
            known = trash_entries.later_of(adapter.notes, entry)
            later = adapter.restores.descendant_of(known) if known is not None else None
            if later is None:  # or a rollback to a version between the two
                later = adapter.restores.descendant_of(entry.dropped)
            if later not in (None, known, entry.dropped):
                trash_entries.note_later(adapter.notes, entry, later)


def settle_drops(adapter: Adapter[Any], options: Options, now_ms: int) -> None:
    """Like :func:`settle`, for drops alone."""
    for slot, entry in trash_entries.entries(adapter).items():
        if entry.state != PENDING:
            continue
        # Before the log is read: a delete that ends in between is in the log.
        _settle(adapter, slot, entry, alive=_may_commit(adapter, entry, options, now_ms))


def _settle(
    adapter: Adapter[Any], slot: str, entry: TrashEntry, *, alive: bool, undone: bool = False
) -> None:
    """Settle one pending entry: ``alive``, its delete may still commit; ``undone``, an error says that it did not."""
    changes = since(adapter, entry.version, entry)
    version = changes.landed(entry.run_id) if changes else None
    if changes is not None and version is not None:
        trash_entries.change(adapter.notes, slot, entry, _dropped(entry, changes, version))
    elif undone or (changes is not None and not changes.obstacle and not alive):
        trash_entries.forget_at(adapter.notes, slot, entry)


def _may_commit(adapter: Adapter[Any], entry: TrashEntry, options: Options, now_ms: int) -> bool:
    """Whether the delete of a pending entry may still commit: it renews its lease as long as it works."""
    timeout_ms = options.vacuum.lease_timeout_ms
    if now_ms < entry.expires_ms(timeout_ms):
        return True  # it may not have registered yet
    intents = registered(adapter.notes).values()
    return any(each.run_id == entry.run_id and each.alive(timeout_ms, now_ms) for each in intents)


def since(adapter: Adapter[Any], version: int, entry: TrashEntry) -> Changes | None:
    """The commits after ``version``; None if another table has replaced that of the entry."""
    seen = adapter.version()
    if seen.table_uuid != entry.table_uuid:
        return None
    return adapter.changes_since(seen.at_version(version))


def restore_run(entry: TrashEntry) -> str:
    """The run id of the commit that restores an entry's rows."""
    return restore_id(entry.name)


def _dropped(entry: TrashEntry, changes: Changes, version: int) -> TrashEntry:
    """The entry of a delete that has happened: rows added before it are in the version that it was based on.

    A commit in between may have deleted some of the rows that the drop counted: Iceberg does not treat that as a
    conflict.
    """
    before = list(takewhile(lambda winner: winner.version != version, changes.winners))
    upon = before[-1].version if before else entry.version
    fewer = int(any(winner.changes_rows for winner in before))
    return replace(entry, state=DROPPED, version=upon, dropped=version, fewer=fewer)
