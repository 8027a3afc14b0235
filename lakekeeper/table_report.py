"""The report on one table: its layout, plan and history. Reads no data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.errors import reason
from lakekeeper.history.history import Recorded
from lakekeeper.history.status import Status, status_of
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.page.report import HtmlReport, ranked
from lakekeeper.page.table_view import view_of
from lakekeeper.recording import prices_of
from lakekeeper.table_context import TableContext
from lakekeeper.workloads import Queries


def report_of(
    context: TableContext,
    columns: Sequence[str] | str | None,
    workload: Queries | None,
    options: Mapping[str, Any] | None,
) -> HtmlReport:
    """The report on one table; for a table without a key, with the plan of a compaction."""
    request = context.request("recluster", columns, options=options)
    if look(context.session, replace(request, needs_key=False)).key is None:
        request = context.request("compact", options=options)
    weighed = context.with_workload(request, workload)
    snapshot, plan = plan_for(context.session, weighed, context.clock)
    history = context.options(lenient=True).history
    now_ms = context.clock.now_ms()
    recorded, status = _recorded(history, context.recorder.table, now_ms)
    name = (context.name.text, context.name.provider)
    view = view_of(name, snapshot, plan, weighed.workload, recorded, prices_of(history))
    return HtmlReport((view,), (), ranked((view,), status, context.recorder.table), now_ms)


def _recorded(history: HistoryOptions, table: TableId, now_ms: int) -> tuple[Recorded, Status | None]:
    """The operations on the table, and the status of all tables."""
    if history.file is None:
        return Recorded(), None
    try:
        store = HistoryStore(history.file)
        return Recorded(store.operations(table)), status_of(store.tasks(), now_ms)
    except Exception as error:  # the report shows everything else
        return Recorded(error=reason(error)), None
