"""The snapshot that a request means, and the plan on it; reads no data file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.filters import Filters
from lakekeeper.core.planning.policy import Env, Part
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoff, held_blocks
from lakekeeper.engine.merge.boundary_store import on_its_curve
from lakekeeper.engine.merge.daily_budget import spent_bytes
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter

_LOG = logging.getLogger("lakekeeper")


def look(table: Adapter[Any] | TableSession, request: Request) -> Snapshot:
    """The newest snapshot under the key that the request means, placed on the curve of that key.

    Raises OptionError if the request needs a key and the table has none.
    """
    session = session_of(table)
    adapter = session.adapter
    snapshot = _laid_out(session.snapshot(request.columns, request.where), request.columns, request.layout)
    if snapshot.key is None and request.fallback_columns:
        snapshot = session.snapshot(request.fallback_columns, request.where)
        snapshot = _laid_out(snapshot, request.fallback_columns, request.fallback_layout)
    if snapshot.key_problem:
        _warn(
            f"{adapter.table}: {snapshot.key_problem}; cluster_by(...) sets another key, cluster_by(None) removes it"
        )
    if snapshot.key is None and request.needs_key:
        why = snapshot.key_problem or f"{adapter.table} stores none"
        remedy = "pass columns (on the command line: --columns), or store a key with cluster_by (lakekeeper cluster-by)"
        raise OptionError("columns", None, f"a cluster key; {why}: {remedy}")
    return on_its_curve(adapter, snapshot)


@lru_cache(maxsize=1024)
def _warn(text: str) -> None:
    """Log a message once per process: automatic runs read a table again and again."""
    _LOG.warning("%s", text)


def _laid_out(snapshot: Snapshot, columns: tuple[str, ...] | None, layout: str) -> Snapshot:
    """The snapshot with the layout given along with ``columns``; the table's own key keeps its own layout."""
    if snapshot.key is None or columns is None or layout == snapshot.key.layout:
        return snapshot
    return replace(snapshot, key=ClusterKey(snapshot.key.columns, layout))


def plan_for(
    table: Adapter[Any] | TableSession,
    request: Request,
    clock: Clock,
    parts: Mapping[str, Part] | None = None,
) -> tuple[Snapshot, Plan]:
    """The newest snapshot and the plan on it; reads no data file. ``parts`` as in :class:`Env`."""
    snapshot = retried(lambda: look(table, request), clock, SHORT_PAUSES)
    now = clock.now_ms()
    backoff = request.backoff or Backoff(0)
    env = Env(
        now_ms=now,
        parallelism=request.parallelism,
        busy=held_blocks(snapshot, backoff.resting(now)),
        failing=backoff.failing(now),
        workload=request.workload,
        parts=parts or {},
        spent_bytes=max(spent_bytes(snapshot, now), request.recorded_bytes),
    )
    plan = make_plan(snapshot, request.policies, request.options, env)
    plan = explained(plan, snapshot, request.options, now, request.workload)
    for policy in request.policies:
        if isinstance(policy, Filters):  # it saves what queries on other columns than the key read
            plan = policy.explained(plan, snapshot, request.options, env)
    return snapshot, plan
