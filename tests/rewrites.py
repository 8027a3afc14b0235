"""Rewrites of real tables without a planner: tasks over all blocks, run and committed through an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from pyspark.sql import SparkSession

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import successors_of
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Adapter, Commit, Followed
from lakekeeper.testing.harness import merged, task_for


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


def rewritten(
    adapter: Adapter[Any], task: MergeTask, run_id: str = "run-1", *, columnar: bool = True
) -> Rewrite:
    """The task's rows in new files: written by columnar workers where the adapter allows it, otherwise by Spark."""
    return merged(SparkRunner(SparkSession.active()), adapter, task, run_id, columnar=columnar)


def recluster(
    table: Opened,
    columns: Sequence[str] | None = ("k",),
    *,
    level: int = 1,
    run_id: str = "run-1",
    columnar: bool = True,
    **changed: Any,
) -> Commit:
    """Rewrite and commit all blocks."""
    adapter = table.adapter()
    snapshot = adapter.snapshot(columns)
    tasks = tasks_of(snapshot, level=level, **changed)
    done = [rewritten(adapter, task, run_id, columnar=columnar) for task in tasks]
    return adapter.commit(done, snapshot, run_id)


def followed(
    adapter: Adapter[Any], spark: SparkSession, rewrite: Rewrite, snapshot: Snapshot, changes: Changes
) -> tuple[Followed | None, bool]:
    """What became of inputs that are gone, the same by both comparisons; whether the driver could compare."""
    files = successors_of(rewrite, changes)
    if not files:
        return (Followed() if rewrite.successors is None else None), False
    remains = adapter.deletes.remains(rewrite, snapshot, changes, files)
    found = Followed() if remains is None else SparkRunner(spark).follow(remains, 10**6)
    here = adapter.deletes.compared(rewrite, snapshot, changes, files)
    if here is not None:
        assert (set(here.files), _counts(here)) == (set(found.files), _counts(found))
    return here or found, here is not None


def _counts(found: Followed) -> tuple[int, ...]:
    return tuple(sum(map(len, side.values())) for side in (found.missing, found.gained))
