"""``drop_partition``: rows leave by a commit, and the version before it stays until the bin's retention ends.

    note the newest version ─► delete ─► note the version that the delete was made upon, forget the first note

Whatever fails in between, one of the notes is there, and a vacuum keeps what can be restored.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from lakekeeper.core.options import Options
from lakekeeper.core.report import DeleteReport
from lakekeeper.engine import trash
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete import delete_rows
from lakekeeper.engine.trash import TrashEntry
from lakekeeper.spi import Adapter, Observer, Runner


def drop_rows(
    adapter: Adapter[Any],
    runner: Runner[Any],
    where: str,
    options: Options,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> DeleteReport:
    """Delete the rows that match ``where``; the bin has an entry from which they can be put in again.

    Raises as :func:`lakekeeper.engine.delete.delete_rows`; AdapterError where the bin is full.
    """
    clock = clock or Clock()
    before = adapter.version().version
    if before is None:
        return DeleteReport(adapter.table, where, None, None)
    adapter.require_writable(options)
    entry = TrashEntry(uuid.uuid4().hex[:16], "partition", clock.now_ms(), before, where=where)
    trash.put(adapter.notes, adapter.table, entry)
    report = delete_rows(adapter, runner, where, options, observer=observer, clock=clock)
    if report.changed and report.version_after is not None:
        # Rows that came between the look and the delete are in the version that it was made upon, not in the first.
        parents = {v.id: v.parent for v in adapter.storage.versions(before).items}
        upon = parents.get(report.version_after)
        if upon is not None and upon != before:
            exact = replace(entry, name=uuid.uuid4().hex[:16], version=upon, files=report.deleted_rows_count)
            trash.put(adapter.notes, adapter.table, exact)
            trash.forget(adapter, entry.name)
    else:
        trash.forget(adapter, entry.name)
    return report
