"""``ranges`` merges key ranges that are deeper than their level's average, one level of a partition a round."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.layout.depth import DepthCurve, depth_curve
from lakekeeper.core.layout.levels import Gates
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.planning.policies.ranges import RANGES, deeper_than_average
from lakekeeper.testing.drawing import parse_blocks, parse_key
from tests.core.planning.drawn import left, merged, plan
from tests.engine.scene import groups_apart

TWO_PEAKS = """\
L0 a 1----4 10MB
L0 b  2----5 10MB
L0 c   3----6 10MB
L0 d           7--8 10MB
L0 e              8--10 10MB
L0 f                 10----13 10MB
L0 g                  11----14 10MB
L0 h                   12----15 10MB
"""


def curve_of(drawn: str) -> DepthCurve:
    return depth_curve(table_line(parse_blocks(drawn, parse_key("k:int"))))


def hot(drawn: str, average: float) -> list[int]:
    curve = curve_of(drawn)
    gate = Gates(np.array([average]), np.array([1.0]), np.array([curve.folded.max()]))
    return np.flatnonzero(deeper_than_average(curve, gate)).tolist()


def test_ranges_above_the_average_are_merged_side_by_side() -> None:
    made = plan(RANGES, TWO_PEAKS)
    assert merged(made) == [(0, 1, ("a", "b", "c")), (0, 1, ("f", "g", "h"))]
    assert left(made) == {"d": "deeper_range_first", "e": "deeper_range_first"}
    assert [task.reason["depth"] for task in made.tasks] == [3, 3]


def test_points_at_the_average_are_not_above_it() -> None:
    #    1  2  3  4     depth 1, 2, 2, 1
    two = "L0 a 1--3 1MB\nL0 b 2--4 1MB"
    assert hot(two, 1.5) == [1, 2]
    assert hot(two, 1.99) == [1, 2]
    assert hot(two, 2.0) == [1, 2], "a flat curve is all plateau, and nothing would ever be above its average"
    assert hot(two + "\nL0 c 2--4 1MB", 2.0) == [1, 2]


@pytest.mark.parametrize("threshold, merges", [(2.49, 2), (2.5, 0)])
def test_a_level_at_its_threshold_is_left(threshold: float, merges: int) -> None:
    made = plan(RANGES, TWO_PEAKS, depth_threshold=threshold)
    assert len(made.tasks) == merges
    if not merges:
        [item] = made.left
        assert (item.reason.code, item.reason["depth"], item.reason["threshold"]) == ("shallow", 2.5, 2.5)


def test_a_threshold_may_be_a_share_of_the_blocks_of_a_level() -> None:
    assert merged(plan(RANGES, TWO_PEAKS, depth_threshold_ratio=0.5)) == []  # 8 blocks: 4
    assert len(merged(plan(RANGES, TWO_PEAKS, depth_threshold_ratio=0.2))) == 2


def test_a_partition_merges_its_deepest_level_first() -> None:
    deep = "".join(f"L1 x{n} 1--9 10MB\n" for n in range(5))
    shallow = "".join(f"L0 y{n} 1--9 10MB\n" for n in range(3))
    made = plan(RANGES, deep + shallow)
    assert merged(made) == [(1, 2, tuple(f"x{n}" for n in range(5)))]
    assert set(left(made).values()) == {"deeper_level_first"}
    apart = plan(RANGES, deep + shallow.replace("10MB", "10MB part=p=2"))
    assert sorted(task.input_level for task in apart.tasks) == [0, 1]


def test_rounds_end_below_the_threshold_with_the_same_rows() -> None:
    scene = groups_apart()
    rows = sorted(map(str, scene.table.rows()))
    report = scene.run("ranges", final=True)
    assert report.depth_before == 3
    assert report.depth_after is not None
    assert report.depth_after <= 2
    assert sorted(map(str, scene.table.rows())) == rows
    assert scene.run("ranges", final=True).ended.code == "nothing_to_do"
