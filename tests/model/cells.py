"""The scopes of the search: programs of the engine, tables, and the events that may occur."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakekeeper.core.config.options import overridden, resolve
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Policy
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.quiet_window import WATCH_MS
from lakekeeper.engine.merge.request import Request
from lakekeeper.spi import Observer
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.runner import MemoryRunner
from tests.model.asking import COMMIT_FAULTS
from tests.model.program import Run, Scripted
from tests.model.users import ACTS
from tests.model.world import LONG, PARTS, Scope

SMALL: Mapping[str, Any] = {
    "max-rows-per-file": 3,
    "target-file-size-bytes": 1024,
    "commit.retry.num-retries": 1,
    "commit.quiet-window-ms": 0,
    "replay.max-deleted-ratio": 0.75,
}
ALL = tuple(act for act in ACTS if act not in ("load", "delete_widest", "tag", "untag"))
ROWS = ("delete_equal", "delete_first", "delete_last", "drop_file", "cow_delete", "cow_update")
STOPS = ("error", "error after", "stop before", "stop after")
TABLES = {
    "masks": Settings(),
    "masks by value": Settings(row_ids=False, finds_rows=False),
    "files": Settings(row_deletes=False, finds_rows=False),
    "files by value": Settings(row_deletes=False, row_ids=False),
}
UNCOUNTED = {"uncounted": Settings(measured=False, location="lake/a%20b", finds_rows=False)}
"""The log records no row counts, and a scan spells the folder as ``a%2520b``."""


def rewrite(policy: Policy = FULL, *, final: bool = False, watchful: bool = False, **options: Any) -> Run:
    """A call of ``maintain``; options as in Python. ``watchful``: it checks for conflicts as often as it may."""
    resolved = resolve(overridden(SMALL, options))
    request = Request("recluster", (policy,), resolved, final=final)

    def run(adapter: Scripted, observer: Observer, clock: Clock) -> Any:
        if watchful:
            looks, now_ms = itertools.count(), clock.now_ms
            clock = Clock(now_ms=lambda: now_ms() + WATCH_MS * next(looks), wait=clock.wait)
        return maintain(adapter, MemoryRunner(), request, observer=observer, clock=clock)

    return run


def delete(where: str = "k = 1", **options: Any) -> Run:
    """A call of ``delete_rows``."""
    resolved = resolve(overridden(SMALL, options))

    def run(adapter: Scripted, observer: Observer, clock: Clock) -> Any:
        return delete_rows(adapter, MemoryRunner(), where, resolved, observer=observer, clock=clock)

    return run


def scopes(depth: int = 0) -> list[Scope]:
    """All scopes; each further ``depth`` adds one user action."""
    found: list[Scope] = []
    for name, settings in TABLES.items():
        found += [
            Scope(f"recluster, {name}", settings, {"r": rewrite()}, ALL, users=2 + depth),
            Scope(
                f"recluster with faults, {name}", settings, {"r": rewrite()}, ROWS, users=1 + depth, faults=1,
                crashes=1, restarts=1, fault_kinds=(*COMMIT_FAULTS, *STOPS),
            ),
            Scope(
                f"delete and recluster, {name}", settings, {"d": delete(), "r": rewrite()},
                ("append", *ROWS[:4]), users=depth, faults=1,
            ),
            Scope(
                f"delete, recluster and users, {name}", settings, {"d": delete(), "r": rewrite()},
                ("append", *ROWS[:4], "undo"), users=1 + depth,
            ),
            Scope(
                f"two rewrites, {name}", settings,
                {"r": rewrite(), "s": rewrite(SIZES, max_rows_per_file=10)}, ROWS, users=1 + depth,
            ),
            Scope(
                f"partitions, {name}", settings,
                {"r": rewrite(watchful=True)},
                ("delete_equal", "drop_file", "restore", "foreign"), users=2 + depth, files=PARTS, partitioned=True,
            ),
            Scope(
                f"delete beside another engine, {name}", settings, {"d": delete()},
                ("append", "delete_equal", "cow_delete", "cow_update", "foreign"), users=1 + depth, faults=1,
            ),
        ]  # fmt: skip
    for name, settings in UNCOUNTED.items():
        found += [
            Scope(f"recluster, {name}", settings, {"r": rewrite()}, (*ROWS, "foreign", "undo"), users=2 + depth),
            Scope(
                f"delete and recluster, {name}", settings, {"d": delete(), "r": rewrite(SIZES, max_rows_per_file=10)},
                ("append", *ROWS[:4]), users=1 + depth,
            ),
        ]  # fmt: skip
    found += [
        replace(
            found[0],
            name="three winners, masks",
            acts=("delete_first", "delete_widest"),
            users=3 + depth,
            files=LONG,
            programs={"r": rewrite(commit_retry_num_retries=3)},
        )
    ]
    return found
