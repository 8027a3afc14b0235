"""``peaks`` merges only the deepest points of each level."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.layout.depth import depth_curve
from lakekeeper.core.layout.levels import Gates
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.planning.policies.peaks import PEAKS, deepest
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.testing.drawing import parse_blocks, parse_key
from tests.core.planning.drawn import left, merged, plan
from tests.engine.scene import groups_apart, overlapping

STEPS = """\
L0 a 1--------------9 10MB
L0 b 1--------------9 10MB
L0 c 1----4 10MB
L0 d         5------9 10MB
L0 e         5------9 10MB
"""


def test_only_the_deepest_range_of_a_level_is_merged() -> None:
    made = plan(PEAKS, STEPS)
    assert merged(made) == [(0, 1, ("a", "b", "d", "e"))]
    assert made.tasks[0].reason["depth"] == 4
    assert left(made) == {"c": "deeper_range_first"}
    assert merged(plan(RANGES, STEPS)) == [(0, 1, ("a", "b", "d", "e"))]


def test_equally_deep_ranges_are_separate_groups() -> None:
    apart = "".join(
        f"L0 {name}{n} {low}--{low + 2} 10MB\n" for name, low in (("a", 1), ("b", 7)) for n in range(3)
    )
    assert merged(plan(PEAKS, apart)) == [(0, 1, ("a0", "a1", "a2")), (0, 1, ("b0", "b1", "b2"))]
    deeper = apart + "L0 b3 8--9 10MB\n"
    assert merged(plan(PEAKS, deeper)) == [(0, 1, ("b0", "b1", "b2", "b3"))]


def test_every_level_above_its_threshold_is_merged_at_once_the_lowest_first() -> None:
    levels = "".join(
        f"L{level} {name}{n} 1--9 10MB\n" for level, name in ((1, "x"), (0, "y")) for n in range(3)
    )
    assert merged(plan(PEAKS, levels)) == [(0, 1, ("y0", "y1", "y2")), (1, 2, ("x0", "x1", "x2"))]


@pytest.mark.parametrize("ratio, merges", [(0.5, 1), (0.8, 0)])
def test_a_threshold_may_be_a_share_of_the_blocks_of_a_level(ratio: float, merges: int) -> None:
    assert (
        len(merged(plan(PEAKS, STEPS, depth_threshold_ratio=ratio))) == merges
    )  # of 5 blocks, average depth 3.5


def test_the_peak_of_one_group_says_nothing_about_another() -> None:
    snapshot = parse_blocks("L0 a 1--3 1MB\nL0 b 2--4 1MB", parse_key("k:int"))
    curve = depth_curve(table_line(snapshot))
    gate = Gates(np.array([1.5]), np.array([1.0]), np.array([2]))
    assert np.flatnonzero(deepest(curve, gate)).tolist() == [1, 2]
    gate = Gates(np.array([1.5]), np.array([1.0]), np.array([3]))
    assert not deepest(curve, gate).any()


@pytest.mark.parametrize("make", [overlapping, groups_apart])
def test_with_final_it_ends_under_the_same_threshold_as_ranges(make: type) -> None:
    ends = {}
    for policy in ("peaks", "ranges"):
        scene = make()
        rows = sorted(map(str, scene.table.rows()))
        ends[policy] = scene.run(policy, final=True)
        assert sorted(map(str, scene.table.rows())) == rows
    assert all(report.depth_after is not None and report.depth_after <= 2 for report in ends.values())
    assert ends["peaks"].depth_before == ends["ranges"].depth_before
