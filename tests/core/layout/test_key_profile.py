"""Profiles of the key against brute force, and their bounded size."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.layout.key_profile import (
    BINS,
    BLOCKS_PER_LEVEL,
    LANES,
    KeyProfile,
    Lanes,
    LevelProfile,
    key_profile,
)
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Tasks
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policy import Policy
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.draws import draw_snapshot
from tests.bench.plan_scale import blocks_of
from tests.core.paper import MB, at, snapshot_of


def profile_of(snapshot: Snapshot, policy: Policy = FULL) -> KeyProfile:
    plan = make_plan(snapshot, [policy], resolve(), at(1))
    assert isinstance(plan.tasks, Tasks)
    found = key_profile(snapshot, plan.tasks)
    assert found is not None
    return found


def lanes_of(level: LevelProfile) -> Lanes:
    assert level.lanes is not None
    return level.lanes


def test_the_deepest_bin_and_the_levels_are_those_of_the_clustering_information() -> None:
    checked = 0
    for seed in range(300):
        snapshot = draw_snapshot(random.Random(seed))
        if snapshot.key is None or snapshot.key.curved or not len(snapshot.blocks):
            continue
        info, profile = measure(snapshot), profile_of(snapshot)
        assert int(profile.depth.max()) == info.max_depth, seed
        assert {level.level: level.blocks for level in profile.levels} == info.levels, seed
        drawn = [lanes_of(level) for level in profile.levels]
        assert sum(len(each.first) for each in drawn) == info.total_partition_count, seed
        assert all((each.first >= 0).all() and (each.last <= 1).all() for each in drawn), seed
        assert all((each.first <= each.last).all() for each in drawn), seed
        checked += 1
    assert checked > 150


def test_depth_and_positions_of_a_drawn_table() -> None:
    """Each block spreads its bytes evenly over its values: a and b cover 0 to 50, c the second half of the data."""
    text = "L0 a 0--50 10MB\nL0 b 0--50 10MB\nL1 c 50--100 20MB"
    profile = profile_of(parse_blocks(text, parse_key("k:int")), RANGES)
    half = BINS // 2
    assert profile.depth[: half - 1].tolist() == [2] * (half - 1)
    assert profile.depth[half] == 3  # at 50, which all three hold
    assert profile.depth[half + 1 :].tolist() == [1] * (half - 1)
    assert [(t[0], t[1]) for t in profile.ticks] == [
        (0, "0"),
        (0.25, ""),
        (0.5, "50"),
        (0.75, ""),
        (1, "100"),
    ]
    low, high = map(lanes_of, profile.levels)
    assert [level.depth.max() for level in profile.levels] == [2, 1]
    assert (low.first.tolist(), low.last.tolist(), low.lane.tolist()) == ([0, 0], [0.5, 0.5], [0, 1])
    assert (high.first.tolist(), high.last.tolist(), high.count) == ([0.5], [1.0], 1)


def test_after_the_plan_each_group_is_one_block_deep_and_other_blocks_stay() -> None:
    mixed = snapshot_of([(0, 50, MB, 0), (0, 50, MB, 0), (0, 50, MB, 0), (60, 100, MB, 0)])
    profile = profile_of(mixed, RANGES)
    assert [lanes_of(level).merged.tolist() for level in profile.levels] == [[True, True, True, False]]
    assert (int(profile.depth.max()), int(profile.after.max())) == (3, 1)
    (level,) = profile.levels
    assert (
        level.merged_depth.tolist()
        == [3] * (level.merged_depth == 3).sum() + [0] * (level.merged_depth == 0).sum()
    )
    assert profile.after.tolist()[-10:] == [1] * 10


def test_a_sorted_run_takes_one_lane_although_its_files_share_their_bounds() -> None:
    run = snapshot_of([(10 * i, 10 * (i + 1), MB, 0) for i in range(20)])
    assert lanes_of(profile_of(run).levels[0]).count == 1


def test_blocks_of_a_lane_do_not_overlap() -> None:
    rng = random.Random(3)
    starts = [rng.randrange(1000) for _ in range(200)]
    (level,) = profile_of(snapshot_of([(s, s + 1 + rng.randrange(90), MB, 0) for s in starts])).levels
    lanes = lanes_of(level)
    assert 1 < lanes.count <= level.depth.max()
    for lane in range(lanes.count):
        of = np.flatnonzero(lanes.lane == lane)
        assert (lanes.first[of][1:] >= lanes.last[of][:-1] - 1e-9).all()


def test_the_order_of_the_blocks_does_not_matter() -> None:
    snapshot = draw_snapshot(random.Random(11))
    order = np.random.default_rng(1).permutation(len(snapshot.blocks))
    shuffled = replace(snapshot, blocks=snapshot.blocks.take(order))
    one, other = profile_of(snapshot), profile_of(shuffled)
    assert one.depth.tolist() == other.depth.tolist()
    assert one.after.tolist() == other.after.tolist()
    assert [lanes_of(level).first for level in one.levels] == [
        pytest.approx(lanes_of(level).first) for level in other.levels
    ]


def test_a_profile_of_a_hundred_thousand_files_has_a_bounded_size() -> None:
    snapshot = blocks_of(100_000, 50)
    profile = profile_of(snapshot, RANGES)
    assert len(profile.depth) == len(profile.after) == BINS
    assert int(profile.depth.max()) == measure(snapshot).max_depth
    assert all(level.lanes is None and len(level.depth) == BINS for level in profile.levels)
    assert sum(level.blocks for level in profile.levels) == 100_000


def test_a_level_is_drawn_whole_or_not_at_all() -> None:
    """A sample of overlapping blocks looks like a sorted run."""
    many = [(i, i + 3, MB, 0) for i in range(BLOCKS_PER_LEVEL + 1)]
    deep = [(0, 9, MB, 0)] * (LANES + 1)
    for rows, depth in ((many, 4), (deep, LANES + 1)):
        (level,) = profile_of(snapshot_of(rows)).levels
        assert (level.lanes, int(level.depth.max())) == (None, depth)
        (fits,) = profile_of(snapshot_of(rows[:-1])).levels
        assert len(lanes_of(fits).first) == len(rows) - 1


def test_without_blocks_or_without_a_key_there_is_no_profile() -> None:
    snapshot = snapshot_of([(0, 1, MB, 0)])
    plan = make_plan(snapshot, [FULL], resolve(), at(1))
    assert isinstance(plan.tasks, Tasks)
    assert key_profile(replace(snapshot, key=None), plan.tasks) is None
    assert (
        key_profile(replace(snapshot, blocks=snapshot.blocks.take(np.zeros(0, np.intp))), plan.tasks) is None
    )


def test_partitions_follow_one_another_and_label_the_axis() -> None:
    text = "L0 a 0--9 10MB part=day=1\nL0 b 0--9 10MB part=day=2"
    profile = profile_of(parse_blocks(text, parse_key("k:int")))
    assert profile.ticks[0][1] == "day=1"
    assert profile.ticks[-1][1] == "day=2"
    assert int(profile.depth.max()) == 1


def test_the_region_of_null_is_labelled() -> None:
    text = "L0 a 5--9 10MB nulls=3\nL0 b 7--9 10MB"
    assert profile_of(parse_blocks(text, parse_key("k:int"))).ticks[0][1] == "NULL"
