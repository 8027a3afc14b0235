"""The daily budget: bytes rewritten in the last 24 hours count, whichever process rewrote them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.units import DAY_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.daily_budget import note_spent, spent_bytes
from lakekeeper.engine.merge.job import maintain
from lakekeeper.errors import Rejected, Unknown
from lakekeeper.testing.lake import MemoryTable
from tests.engine.scene import Scene, rows

START = 400 * DAY_MS


def fresh(batches: int = 8) -> Scene:
    """Four partitions of overlapping files, in a table that no other test uses."""
    table = MemoryTable(
        f"db.t{uuid.uuid4().hex}", {"p": "int", "k": "int", "v": "string"}, partition_by=["p"]
    )
    for b in range(batches):
        table.append([{"p": p, **row} for p in range(4) for row in rows(*range(b, 80, 8))])
    table.set_key(["k"])
    return Scene(table)


def test_bytes_that_other_processes_recorded_count() -> None:
    scene = fresh()
    request = scene.request("ranges", options={"budget-bytes-per-day": 1_000_000, "depth-threshold": 1})
    recorded = replace(request, recorded_bytes=1_000_000)
    report = maintain(scene.adapter, scene.runner, recorded, clock=Clock(now_ms=lambda: START))
    assert report.rewritten_bytes_count == 0
    assert report.plan is not None
    assert {"over_daily_budget"} <= {code for item in report.plan.left for code in item.reason.codes}
    assert maintain(scene.adapter, scene.runner, request, clock=Clock(now_ms=lambda: START)).changed


def run_at(scene: Scene, now_ms: int, day: int) -> MergeReport:
    request = scene.request("ranges", options={"budget-bytes-per-day": day, "depth-threshold": 1})
    return maintain(scene.adapter, scene.runner, request, clock=Clock(now_ms=lambda: now_ms))


def test_a_daily_budget_outlives_the_call_and_is_free_again_after_24_hours() -> None:
    scene = fresh()
    whole = int(scene.adapter.snapshot().blocks.bytes.sum())
    day = whole // 2
    first = run_at(scene, START, day)
    assert 0 < first.rewritten_bytes_count <= day
    second = run_at(scene, START + DAY_MS // 2, day - first.rewritten_bytes_count // 2)
    spent = first.rewritten_bytes_count + second.rewritten_bytes_count
    assert spent <= day + max(group.bytes_in for group in first.groups)
    third = run_at(scene, START + DAY_MS // 2 + 1, spent)
    assert third.rewritten_bytes_count == 0
    assert third.plan is not None
    assert any("over_daily_budget" in item.reason.codes for item in third.plan.left)
    later = run_at(scene, START + 3 * DAY_MS, day)
    assert later.rewritten_bytes_count > 0


@pytest.mark.parametrize("error", [Rejected("403 Forbidden"), Unknown("no answer")])
def test_what_was_rewritten_for_a_commit_that_failed_counts(error: Exception) -> None:
    """Otherwise a catalog that refuses each commit makes a service rewrite the table all day."""
    scene = fresh()
    written: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        raise error

    def seen(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "read":
            written.append(info["bytes"])

    scene.adapter.commit = refuse  # type: ignore[method-assign, assignment]
    day = int(scene.adapter.snapshot().blocks.bytes.sum()) // 2
    request = scene.request("ranges", options={"budget-bytes-per-day": day, "depth-threshold": 1})
    clock = Clock(now_ms=lambda: START, wait=lambda _: None)
    with pytest.raises(type(error)):
        maintain(scene.adapter, scene.runner, request, clock=clock, observer=seen)
    assert spent_bytes(scene.adapter.snapshot(), START + 1) == sum(written) > 0
    left = day - sum(written)
    for _ in range(4):
        with suppress(type(error)):
            maintain(scene.adapter, scene.runner, request, clock=clock, observer=seen)
    assert sum(written) <= day + left


def test_the_log_counts_where_it_has_more_than_this_process_recorded() -> None:
    snapshot = fresh(2).adapter.snapshot()
    summaries = np.array([[START - DAY_MS, START - 5, START], [1000, 20, 7]], np.int64)
    assert spent_bytes(replace(snapshot, rewritten=summaries), START) == 27
    note_spent(snapshot, START - 1, 300)
    assert spent_bytes(replace(snapshot, rewritten=summaries), START) == 300
    assert spent_bytes(replace(snapshot, rewritten=summaries), START + DAY_MS) == 0


@pytest.mark.parametrize("ahead_ms, counts", [(60_000, True), (3_650 * DAY_MS, False)])
def test_work_of_a_clock_that_is_far_ahead_uses_up_no_budget(ahead_ms: int, counts: bool) -> None:
    snapshot, at = fresh(2).adapter.snapshot(), START + ahead_ms
    logged = replace(snapshot, rewritten=np.array([[at], [1000]], np.int64))
    assert spent_bytes(logged, START) == 1000 * counts
    size = len(snapshot.blocks)
    written = replace(snapshot.blocks, key_id=np.zeros(size, np.int32), added_at=np.full(size, at, np.int64))
    bytes_written = int(written.bytes.sum())
    assert spent_bytes(replace(snapshot, blocks=written), START) == bytes_written * counts
    note_spent(snapshot, at, 300)
    assert spent_bytes(snapshot, START) == 300 * counts


def test_without_a_log_the_blocks_that_we_wrote_count() -> None:
    scene = fresh(4)
    assert spent_bytes(scene.adapter.snapshot(), START) == 0
    scene.run("ranges", options={"depth-threshold": 1})
    made = scene.adapter.snapshot()
    ours = made.blocks.key_id >= 0
    recreated = replace(made, table_uuid=uuid.uuid4().hex)  # as seen by another process
    assert ours.any()
    newest = int(made.blocks.added_at[ours].max())
    assert spent_bytes(recreated, newest) == int(made.blocks.bytes[ours].sum())
    assert spent_bytes(recreated, newest + DAY_MS) == 0
