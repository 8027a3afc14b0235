"""Rewrites of real tables without a planner: tasks over all blocks, carried out and committed through an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Commit
from lakekeeper.testing.harness import task_for


class Opened(Protocol):
    """A table that has an adapter."""

    def adapter(self) -> Adapter[Any]: ...


def tasks_of(snapshot: Snapshot, *, level: int = 1, **changed: Any) -> list[MergeTask]:
    """One task for each partition and spec, over all its blocks."""
    places: dict[tuple[str, int], list[str]] = {}
    for block in snapshot.blocks:
        places.setdefault((block.partition, block.spec), []).append(block.path)
    tasks = [task_for(snapshot, paths, level=level) for paths in places.values()]
    return [replace(task, **changed) for task in tasks]


def rewritten(adapter: Adapter[Any], task: MergeTask, run_id: str = "run-1") -> Rewrite:
    """What the task wrote; nothing is committed."""
    rows = adapter.read(task)
    return adapter.write(SparkRunner(rows.sparkSession).merge(rows, task), task, run_id)


def recluster(
    table: Opened,
    columns: Sequence[str] | None = ("k",),
    *,
    level: int = 1,
    run_id: str = "run-1",
    **changed: Any,
) -> Commit:
    """Rewrite and commit all blocks."""
    adapter = table.adapter()
    snapshot = adapter.snapshot(columns)
    done = [rewritten(adapter, task, run_id) for task in tasks_of(snapshot, level=level, **changed)]
    return adapter.commit(done, snapshot, run_id)
