"""``expire_rows``: delete the rows that a lifecycle rule expires, into the trash.

    rule ─► cutoff ─► blocks that may have such rows ─┬─ none, or dry run: that is all
                                                      └─► drop_rows ─► note: searched up to this cutoff

The note spares the next call a search in files whose bounds include expired rows that are deleted already. Without the
note, the files are searched again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.expired_rows import before, cutoff_ms, expired_rows
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.engine.trash.drop_partition import drop_rows
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
    found = expired_rows(snapshot, cutoff, _searched_ms(adapter, snapshot, cutoff))
    report = LifecycleReport(
        table=adapter.table,
        dry_run=dry_run,
        where=where,
        version_before=snapshot.version,
        version_after=None,
        ended=Reason.of(Code.ROWS_DUE, files=found.files) if found.files else Reason.of(Code.NONE_EXPIRED),
        due_data_files_count=found.files,
        due_bytes_count=found.bytes,
        due_whole_files_count=found.whole_files,
        due_rows_count=found.rows,
    )
    if not dry_run and found.files:
        done = drop_rows(session, runner, checked(where), options, observer=observer, clock=clock)
        _note(adapter, snapshot, cutoff, started_ms)
        report = replace(
            report,
            version_after=done.version_after,
            ended=Reason.of(
                Code.ROWS_EXPIRED if done.changed else Code.NONE_EXPIRED, rows=done.deleted_rows_count
            ),
            deleted_rows_count=done.deleted_rows_count,
            touched_data_files_count=done.touched_data_files_count,
            unread_data_files_count=done.unread_data_files_count,
            run_id=done.run_id,
        )
    return replace(report, duration_ms=clock.now_ms() - started_ms)


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


def _searched_ms(adapter: Adapter[Any], snapshot: Snapshot, cutoff: int) -> int | None:
    """The time of the last search for rows before this cutoff; None if that is not known."""
    with suppress(Exception):  # a lost or damaged note costs a search
        note = json.loads(adapter.notes.read(_NOTE) or "")
        if note["rule"] == _mark(snapshot, cutoff):
            return int(note["at_ms"])
    return None


def _note(adapter: Adapter[Any], snapshot: Snapshot, cutoff: int, at_ms: int) -> None:
    with suppress(Exception):  # the rows are gone
        adapter.notes.replace(_NOTE, json.dumps({"rule": _mark(snapshot, cutoff), "at_ms": at_ms}))


def _mark(snapshot: Snapshot, cutoff: int) -> str:
    return f"{snapshot.table_uuid}/{snapshot.key.key_id if snapshot.key else ''}/{cutoff}"
