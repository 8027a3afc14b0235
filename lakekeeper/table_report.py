"""The report on one table: its layout, plan and history. Reads no data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.history.status import status_of
from lakekeeper.page.report import HtmlReport, ranked
from lakekeeper.page.table_view import view_of
from lakekeeper.recording import configured_store, prices_of
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
    store = None if history.file is None else configured_store(history)
    done = None if store is None else store.operations(context.recorder.table)
    name = (context.name.text, context.name.provider)
    view = view_of(name, snapshot, plan, weighed.workload, done, prices_of(history))
    now_ms = context.clock.now_ms()
    status = None if store is None else status_of(store.tasks(), now_ms)
    return HtmlReport((view,), (), ranked((view,), status, context.recorder.table), now_ms)
