"""A change of the key: each round rewrites a bounded share of the table, and eventually all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.key_migration import bounded, share_of
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Policy
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.lake import MemoryTable
from tests.core.planning.drawn import plan
from tests.engine.scene import Scene

MB = 10**6


def options(ratio: float = 0.25, task_mb: int = 1, **more: Any) -> Any:
    return resolve({"key-change-ratio": ratio, "single-task-bytes": task_mb * MB, **more})


def blocks(*keys: str, size: int = 10) -> Any:
    """Overlapping blocks clustered by these keys; ``k`` is the table's own, empty a block that was never clustered."""
    drawn = "\n".join(
        f"L1 b{n:02d} 1--9 {size}MB{f' key={key}' if key != 'k' else ''}"
        if key
        else f"L0 b{n:02d} 1--9 {size}MB"
        for n, key in enumerate(keys)
    )
    return parse_blocks(drawn, parse_key("k:int"))


def test_blocks_of_another_key_are_foreign_and_unclustered_ones_are_not() -> None:
    share = share_of(blocks("other", "k", "", "other"), [RANGES], options())
    assert share.foreign.tolist() == [True, False, False, True]
    assert (share.most, share.left) == (10 * MB, 10 * MB), "a quarter of 40 MB"
    assert str(share.reason) == "clustered by another key; 9.5 MiB per round (key-change-ratio)"


@pytest.mark.parametrize(
    "keys, policies",
    [(("k", "", "k"), [RANGES]), (("other", "other"), [FULL]), (("other", "other"), [RANGES, FULL])],
    ids=["no other key", "full", "full among others"],
)
def test_otherwise_nothing_is_held_back(keys: tuple[str, ...], policies: list[Policy]) -> None:
    share = share_of(blocks(*keys), policies, options())
    assert not share.foreign.any()
    assert share.takes(RANGES, 1 << 60)
    assert share.needed(np.arange(len(keys)), np.array([0])) == [0]


def test_a_share_is_at_least_what_one_task_sorts() -> None:
    assert share_of(blocks("other", "other"), [RANGES], options(0.01, task_mb=15)).most == 15 * MB


def test_the_first_group_always_fits_and_the_next_only_into_what_is_left() -> None:
    share = share_of(blocks(*["other"] * 4), [RANGES], options(0.5))
    assert share.most == 20 * MB
    assert share.takes(RANGES, 30 * MB), "otherwise a single large group would never be merged"
    assert not share.takes(RANGES, 1)
    assert share.takes(SIZES, 10 * MB), "packing is not held back"
    other = share_of(blocks(*["other"] * 4), [RANGES], options(0.5))
    assert [other.takes(RANGES, size * MB) for size in (10, 11, 10, 0)] == [True, False, True, True]
    over = share_of(blocks(*["other"] * 4), [RANGES], options(0.5))
    assert [over.takes(RANGES, size * MB) for size in (30, 1, 0)] == [True, False, True], "0: new data only"


def test_bytes_of_other_keys_in_each_group() -> None:
    share = share_of(blocks("other", "k", "other", "other"), [RANGES], options())
    assert share.needed(np.array([1, 0, 2, 3]), np.array([0, 2])) == [10 * MB, 20 * MB]


def test_groups_are_no_larger_than_the_share_for_policies_that_lay_data_out() -> None:
    share = share_of(blocks(*["other"] * 8), [RANGES], options())
    assert bounded(options(), share, RANGES).groups.max_bytes == 20 * MB
    assert bounded(options(), share, SIZES) == options()
    none = share_of(blocks("k", "k"), [RANGES], options())
    assert bounded(options(), none, RANGES) == options()


def test_a_plan_takes_its_share_and_gives_the_reason_for_the_rest() -> None:
    snapshot = blocks(*["other"] * 12)
    made = plan(RANGES, snapshot, key_change_ratio=0.25, single_task_bytes=MB)
    assert sum(task.input_bytes for task in made.tasks) <= 30 * MB
    assert made.tasks
    assert "key_change" in {item.reason.code for item in made.left}
    everything = plan(FULL, snapshot, key_change_ratio=0.25, single_task_bytes=MB)
    assert sum(len(task.inputs) for task in everything.tasks) == 12


def test_round_by_round_the_whole_table_moves_to_a_new_key() -> None:
    """Files sorted by k each span all of w, which is unrelated to k."""
    table = MemoryTable("db.t", {"k": "int", "w": "int"})
    for start in range(0, 1200, 10):
        table.append([{"k": k, "w": k * 37 % 1200} for k in range(start, start + 10)])
    table.set_key(["k"])
    scene = Scene(table)
    scene.run("full")
    before, taken = sorted(map(str, table.rows())), []
    table.set_key(["w"])
    key = scene.adapter.snapshot().key
    assert key is not None
    given = {"key-change-ratio": 0.25, "single-task-bytes": 1024, "depth-threshold": 1}
    while foreign := [block.bytes for block in scene.adapter.snapshot().blocks if block.key_id != key.key_id]:
        total = int(scene.adapter.snapshot().blocks.bytes.sum())
        report = scene.run("ranges", options=given)
        if not report.changed:
            break
        left = [block.bytes for block in scene.adapter.snapshot().blocks if block.key_id != key.key_id]
        taken.append((sum(foreign) - sum(left)) / total)
    assert len(taken) >= 4
    assert max(taken) <= 0.25
    assert foreign == []
    assert sorted(map(str, table.rows())) == before
