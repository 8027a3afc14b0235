from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings

from lakekeeper.core.layout.depth import block_depth, depth_curve, histogram, overlaps
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.testing.draws import Shape, draw_snapshot
from lakekeeper.testing.strategies import snapshots
from tests.core import oracle
from tests.core.model.block_columns import whole
from tests.sampling import fewer

WELL_KNOWN = Shape(missing=0.0)
EVERYTHING = Shape()


def check(snapshot: Snapshot) -> None:
    """The fast code and brute force agree on a snapshot."""
    blocks = whole(snapshot.blocks)
    if not len(blocks):
        return
    groups = blocks.partition.astype(np.int64)
    covered = [oracle.cover(b, int(g)) for b, g in zip(blocks, groups, strict=True)]
    intervals = rank_blocks(blocks, groups)
    curve = depth_curve(intervals)
    for i, block in enumerate(covered):
        if block.missing:
            assert intervals.missing[i]
            continue
        ends = [(intervals.lo[i], block.intervals[0].lo), (intervals.hi[i], block.intervals[0].hi)]
        if len(block.intervals) == 2:
            ends += [
                (intervals.null_lo[i], block.intervals[1].lo),
                (intervals.null_hi[i], block.intervals[1].hi),
            ]
        for point, value in ends:
            assert curve.depth[point] == oracle.depth_at(covered, block.group, value)
            if not intervals.missing.any():
                assert curve.folded[point] == oracle.folded_at(covered, block.group, value)
    assert block_depth(curve, intervals).tolist() == [oracle.block_depth(covered, b) for b in covered]
    assert overlaps(intervals).tolist() == [oracle.overlaps(covered, i) for i in range(len(covered))]
    if not intervals.missing.any():
        assert len(curve.group) == len(oracle.points(covered))
        assert curve.average == pytest.approx(oracle.average(covered))


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(8))
def test_depth_equals_brute_force_on_2000_random_cases(part: int) -> None:
    for seed in range(250 * part, 250 * (part + 1)):
        shape = WELL_KNOWN if seed % 2 else EVERYTHING
        snapshot = draw_snapshot(random.Random(seed), shape)
        try:
            check(snapshot)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong


@settings(max_examples=fewer(100), derandomize=True, deadline=None)
@given(snapshots())
def test_depth_equals_brute_force_on_what_hypothesis_draws(snapshot: Snapshot) -> None:
    check(snapshot)


@pytest.mark.sampled
def test_the_cases_are_mixed() -> None:
    """The loop above proves something only if it meets the cases that it is written for."""
    drawn = [draw_snapshot(random.Random(seed)) for seed in range(2000)]
    keys = [s.key for s in drawn if s.key is not None]
    filled = [s for s in drawn if len(s.blocks) > 1]
    assert {c.kind for k in keys for c in k.columns} == set(EVERYTHING.kinds)
    assert {len(k.columns) for k in keys} == {1, 2, 3, 4}
    assert sum(rank_blocks(s.blocks).missing.any() for s in filled) > 200
    assert sum(bool((rank_blocks(s.blocks).null_lo >= 0).any()) for s in filled) > 200
    assert sum(bool((depth_curve(rank_blocks(s.blocks)).depth > 3).any()) for s in filled) > 200


def test_histogram_buckets_double_after_sixteen() -> None:
    found = histogram(np.array([0, 1, 16, 17, 32, 33, 64, 65], np.int32))
    assert {name: count for name, count in found.items() if count} == {
        "00000": 1, "00001": 1, "00016": 1, "00032": 2, "00064": 2, "00128": 1,
    }  # fmt: skip
    assert list(found)[:17] == [f"{i:05d}" for i in range(17)]
