"""Partitions where a merge lost a race rest, longer each time, and not once they are quiet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.partition_backoff import Backoff, held_blocks
from tests.engine.scene import Scene


def test_raced_partitions_rest_longer_each_time_until_they_are_quiet() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.raced("p=1", 0)
    assert backoff.resting(99) == {"p=1"}
    assert not backoff.resting(100)
    backoff.raced("p=1", 100)
    assert backoff.resting(299) == {"p=1"}
    for _ in range(10):
        backoff.raced("p=1", 1000)
    assert backoff.resting(1799) == {"p=1"}
    assert not backoff.resting(1800)
    backoff.landed("p=1")
    backoff.raced("p=1", 5000)
    assert backoff.resting(5100) == frozenset()
    backoff.raced("", 5000)
    assert "" not in backoff.resting(5001), "a table without partitions never rests"


def test_no_partition_rests_until_a_clock_that_was_set_back_catches_up() -> None:
    backoff = Backoff(pause_ms=100)
    backoff.raced("p=1", 1_000_000)
    assert backoff.resting(1_000_099) == {"p=1"}
    assert not backoff.resting(1_000)


def partitioned() -> Scene:
    from lakekeeper.testing.lake import MemoryTable

    table = MemoryTable("db.t", {"k": "int", "p": "int"}, partition_by=["p"])
    for f in range(3):
        table.append([{"k": 3 * i + f, "p": p} for i in range(6) for p in (1, 2)])
    table.set_key(["k"])
    return Scene(table)


def test_a_raced_partition_is_left_alone_in_the_next_pass() -> None:
    scene = partitioned()
    backoff = Backoff(pause_ms=1 << 40)
    request = replace(scene.request(), backoff=backoff)

    def once() -> Callable[[str, Mapping[str, Any]], None]:
        left = [1]

        def observe(phase: str, _: Mapping[str, Any]) -> None:
            if phase == "written" and left:
                left.pop()
                scene.table.delete("p = 2 and k < 2")

        return observe

    first = maintain(scene.adapter, scene.runner, request, observer=once(), clock=scene.clock)
    assert sum(g.replayed_rows for g in first.groups if g.partition == "p=2") == 2
    for f in range(3):
        scene.table.append([{"k": 3 * i + f, "p": p} for i in range(6) for p in (1, 2)])
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
