"""Partitions where a merge lost a race rest, longer each time, and not once they are quiet; so do files that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult
from lakekeeper.engine.merge.backoff import Backoff, held_blocks
from lakekeeper.engine.merge.job import maintain
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter, Parts
from tests.engine.scene import Scene, groups_apart


def test_raced_partitions_rest_longer_each_time_until_they_are_quiet() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.raced("p=1", 0)
    assert backoff.resting(199) == {"p=1"}
    assert not backoff.resting(200)
    backoff.raced("p=1", 200)
    assert backoff.resting(499) == {"p=1"}
    for _ in range(10):
        backoff.raced("p=1", 1000)
    assert backoff.resting(1899) == {"p=1"}
    assert not backoff.resting(1900)
    backoff.landed("p=1")
    backoff.raced("p=1", 5000)
    assert backoff.resting(5200) == frozenset()
    backoff.raced("", 5000)
    assert "" not in backoff.resting(5001), "a table without partitions never rests"


def test_passes_are_skipped_though_each_starts_a_pause_after_the_end_of_the_one_before() -> None:
    pause_ms, now, passes = 900_000, 0, ""
    backoff = Backoff(pause_ms)
    while len(passes) < 29:
        rests = backoff.resting(now)
        passes += "-" if rests else "r"
        if not rests:
            backoff.raced("p=1", now + 20_000)
        now += 60_000 + pause_ms
    assert passes == "r-r--r----r--------r--------r"


def ended(partition: str, status: str, replayed: int = 0) -> GroupResult:
    return GroupResult("g", status, 2, 10, partition=partition, replayed_rows=replayed)


def test_a_partition_with_a_race_rests_whatever_else_of_it_landed() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.note([ended("p=1", "dropped"), ended("p=1", "committed"), ended("p=2", "committed")], 0)
    assert backoff.resting(199) == {"p=1"}
    backoff.note([ended("p=1", "committed"), ended("p=1", "committed", replayed=3)], 200)
    assert backoff.resting(499) == {"p=1"}
    backoff.note([ended("p=1", "committed"), ended("p=1", "committed")], 500)
    assert not backoff.resting(500)


def test_several_groups_that_lose_at_once_are_one_race() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.note([ended("p=1", "dropped")] * 4, 0)
    assert not backoff.resting(200)


def test_no_partition_rests_until_a_clock_that_was_set_back_catches_up() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.raced("p=1", 1_000_000)
    assert backoff.resting(1_000_099) == {"p=1"}
    assert not backoff.resting(1_000)


def partitioned(apart: int = 0) -> Scene:
    """Two partitions; with ``apart``, each has further files with keys that are as far from the others."""
    table = MemoryTable("db.t", {"k": "int", "p": "int"}, partition_by=["p"])
    for first in {0, apart}:
        add_files(table, first)
    table.set_key(["k"])
    return Scene(table)


def add_files(table: MemoryTable, first: int = 0) -> None:
    for f in range(3):
        table.append([{"k": first + 3 * i + f, "p": p} for i in range(6) for p in (1, 2)])


@pytest.mark.parametrize(
    "apart, where, ended",
    [
        (0, "p = 2 and k < 2", [("committed", 2)]),
        (1000, "p = 2 and k < 1000", [("committed", 0), ("dropped", 0)]),
    ],
    ids=["replayed", "dropped beside one that lands"],
)
def test_a_raced_partition_is_left_alone_in_the_next_pass(
    apart: int, where: str, ended: list[tuple[str, int]]
) -> None:
    scene = partitioned(apart)
    request, left = replace(scene.request(), backoff=Backoff(pause_ms=1 << 40)), [where]

    def once(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit" and left:
            scene.table.delete(left.pop())

    first = maintain(scene.adapter, scene.runner, request, observer=once, clock=scene.clock)
    assert sorted((g.status, g.replayed_rows) for g in first.groups if g.partition == "p=2") == ended
    add_files(scene.table)
    second = maintain(scene.adapter, scene.runner, request, clock=scene.clock)
    assert {g.partition for g in second.groups} == {"p=1"}
    assert second.plan is not None
    assert any(item.reason.code == "backing_off" for item in second.plan.left)


def test_held_blocks_are_those_of_the_partitions() -> None:
    snapshot = partitioned().adapter.snapshot()
    held = held_blocks(snapshot, {"p=2"})
    assert held == {b.path for b in snapshot.blocks if b.partition == "p=2"}
    assert len(held) == 3
    assert held_blocks(snapshot, set()) == frozenset()
    assert isinstance(snapshot.blocks.added_at, np.ndarray)


def test_files_of_a_group_that_fails_again_rest_longer_each_time() -> None:
    backoff, files = Backoff(pause_ms=100), {"g": ["a", "b"], "h": ["c"]}
    failed, landed = GroupResult("g", "failed", 2, 10), GroupResult("h", "committed", 2, 10)
    stopped = GroupResult("h", "failed", 2, 10, detail=Reason.of(Code.STOPPED_EARLY))
    backoff.note([failed, landed], 0, files)
    assert backoff.failing(199) == {"a", "b"}
    assert not backoff.failing(200)
    backoff.note([failed, stopped], 200, files)
    assert backoff.failing(499) == {"a", "b"}
    assert not backoff.failing(500)
    backoff.failed(["a"], 10_000)
    assert backoff.failing(10_199) == {"a"}, "its failures of long ago are forgotten"
    assert not backoff.failing(10_200)


class _Damaged(MemoryAdapter):
    """Files with a key below 1,000 cannot be read."""

    def read(self, task: MergeTask) -> Parts:
        parts = super().read(task)
        if min(row["k"] for part in parts for row in part) < 1_000:
            raise OSError("a damaged file")
        return parts


def test_a_group_that_fails_is_not_rewritten_in_each_pass_and_the_others_are() -> None:
    """While another group committed, its verb counted as done: it was tried in each pass, with all that it wrote."""
    scene = groups_apart(2)
    scene.adapter = _Damaged(scene.table)
    request = replace(scene.request(), backoff=Backoff(pause_ms=1 << 40))
    first = maintain(scene.adapter, scene.runner, request, clock=scene.clock)
    assert sorted(group.status for group in first.groups) == ["committed", "failed"]
    for number in range(3):
        scene.table.append([{"k": 1_000 * (number + 2) + i} for i in range(0, 6, 2)])
        scene.table.append([{"k": 1_000 * (number + 2) + i} for i in range(1, 6, 2)])
        scene.table.append([{"k": 1_000 * (number + 2) + i} for i in range(6)])
        again = maintain(scene.adapter, scene.runner, request, clock=scene.clock)
        assert {group.status for group in again.groups} == {"committed"}
        assert again.plan is not None
        assert sum(len(item.paths) for item in again.plan.left if item.reason.code == "failed_before") == 3


def test_a_group_that_fails_and_takes_the_whole_budget_does_not_hold_up_the_others() -> None:
    """The best group came first in each pass, and what it left of the budget allowed no other."""
    scene = groups_apart(3)
    scene.adapter = _Damaged(scene.table)
    request = replace(scene.request(options={"budget-bytes": 1}), backoff=Backoff(pause_ms=1 << 40))
    ended = [
        group.status
        for _ in range(3)
        for group in maintain(scene.adapter, scene.runner, request, clock=scene.clock).groups
    ]
    assert sorted(ended) == ["committed", "committed", "failed"]
