"""What the depth policies share: from hot points to bounded, disjoint groups."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.layout.depth import DepthCurve, depth_curve
from lakekeeper.core.layout.levels import Gates
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.model.blocks import Bools
from lakekeeper.core.model.plan import Freeze, Merge, Skip
from lakekeeper.core.planning.depth_selection import assign, select_by_depth
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.draws import Shape, draw_snapshot


def everywhere(curve: DepthCurve, _: Gates) -> Bools:
    """Hot wherever two blocks overlap."""
    return np.asarray(curve.folded > 1)


def nowhere(curve: DepthCurve, _: Gates) -> Bools:
    return np.zeros(len(curve.folded), dtype=np.bool_)


def choose(drawn: str, hot: Any = everywhere, *, one_level: bool = False, **options: Any) -> list[Any]:
    snapshot = parse_blocks(drawn, parse_key("k:int"))
    named = {"depth-threshold": 1.0, **{name.replace("_", "-"): value for name, value in options.items()}}
    every = np.arange(len(snapshot.blocks))
    return list(select_by_depth(snapshot, every, resolve(named), hot, one_level=one_level))


def groups(choices: list[Any]) -> list[list[int]]:
    return [sorted(each.blocks.tolist()) for each in choices if isinstance(each, Merge)]


def reasons(choices: list[Any]) -> dict[str, list[int]]:
    return {each.reason.code: sorted(each.blocks.tolist()) for each in choices if isinstance(each, Skip)}


def test_blocks_that_touch_one_hot_range_are_one_group() -> None:
    chain = "L0 a 1--4 1MB\nL0 b 3--7 1MB\nL0 c 6--9 1MB\nL0 d 20--25 1MB"
    choices = choose(chain)
    # The hot points of a and b, and of b and c, are joined by b, which spans the range between them.
    assert groups(choices) == [[0, 1, 2]] or groups(choices) == [[0, 1]]
    assert 3 in reasons(choices)["deeper_range_first"]
    assert reasons(choose(chain, nowhere))["deeper_range_first"] == [0, 1, 2, 3]


def test_a_block_belongs_to_the_deepest_range_that_it_touches() -> None:
    #        a a a           two blocks overlap on the left
    #            b b b b b
    #                  c c   three on the right
    #                  d d
    snapshot = parse_blocks("L0 a 1--3 1MB\nL0 b 2--9 1MB\nL0 c 8--9 1MB\nL0 d 8--9 1MB", parse_key("k:int"))
    line = table_line(snapshot)
    curve = depth_curve(line)
    run, depth = assign(curve, line.lo, line.hi, np.asarray(curve.folded > 1) & (curve.folded != 1))
    assert run[1] == run[2] == run[3]
    assert depth[run[1]] == 3


def test_without_hot_points_no_block_is_in_a_run() -> None:
    line = table_line(parse_blocks("L0 a 1--3 1MB\nL0 b 2--4 1MB", parse_key("k:int")))
    curve = depth_curve(line)
    run, depth = assign(curve, line.lo, line.hi, np.zeros(len(curve.folded), dtype=np.bool_))
    assert (run.tolist(), depth.tolist()) == ([-1, -1], [])


def test_levels_of_a_partition_wait_for_the_deepest() -> None:
    two = "".join(f"L0 a{n} 1--9 1MB\n" for n in range(3)) + "".join(f"L1 b{n} 1--9 1MB\n" for n in range(5))
    assert groups(choose(two)) == [[0, 1, 2], [3, 4, 5, 6, 7]]
    one = choose(two, one_level=True)
    assert groups(one) == [[3, 4, 5, 6, 7]]
    assert reasons(one) == {"deeper_level_first": [0, 1, 2]}


def test_blocks_at_the_highest_level_are_done() -> None:
    choices = choose("L2 a 1--9 1MB\nL2 b 1--9 1MB\nL2 c 1--9 1MB", max_level=2)
    assert (groups(choices), reasons(choices)) == ([], {"max_level": [0, 1, 2]})


def test_full_files_of_one_value_are_frozen() -> None:
    choices = choose("L0 a 5 200MB\nL0 b 5 200MB\nL0 c 5--6 200MB")
    assert [each.blocks.tolist() for each in choices if isinstance(each, Freeze)] == [[0, 1]]


def test_a_shallow_level_gives_its_depth_and_the_threshold() -> None:
    [skip] = choose("L0 a 1--4 1MB\nL0 b 3--7 1MB", depth_threshold=2.5)
    assert (skip.reason.code, skip.reason["depth"], skip.reason["threshold"]) == ("shallow", 2.0, 2.5)


def test_a_file_that_fits_into_no_group_is_left() -> None:
    choices = choose("L0 a 1--9 6MB\nL0 b 1--9 6MB", max_file_group_size_bytes=8_000_000)
    assert groups(choices) == []
    assert reasons(choices) == {"no_room": [0, 1]}


@pytest.mark.parametrize("one_level", [True, False])
def test_groups_are_disjoint_bounded_and_of_one_level_and_partition(one_level: bool) -> None:
    options = resolve(
        {"depth-threshold": 1.0, "max-file-group-size-bytes": 1 << 30, "max-file-group-input-files": 6}
    )
    merges = 0
    for seed in range(120):
        snapshot = draw_snapshot(random.Random(seed), Shape(most=30))
        blocks, every = snapshot.blocks, np.arange(len(snapshot.blocks))
        choices = select_by_depth(snapshot, every, options, everywhere, one_level=one_level)
        named = np.concatenate([each.blocks for each in choices]) if choices else every
        assert sorted(named.tolist()) == every.tolist(), "each block is chosen or left exactly once"
        level = blocks.level_under(snapshot.key)
        for each in choices:
            if isinstance(each, Merge):
                at, merges = each.blocks, merges + 1
                assert len({(blocks.partition[n], blocks.spec[n], level[n]) for n in at.tolist()}) == 1
                assert 2 <= len(at) <= 6
                assert int(blocks.bytes[at].sum()) <= 1 << 30
    assert merges > 50


def test_merged_blocks_without_bounds_are_not_merged_again() -> None:
    """Such values get no bounds in any file: merge after merge found the whole range deep, up to the last level."""
    blind = "\n".join(f"L1 f{n} ? 1MB" for n in range(4))
    choices = choose(blind)
    assert groups(choices) == []
    assert reasons(choices) == {"no_statistics": [0, 1, 2, 3]}
    assert groups(choose(blind.replace("L1", "L0"))) == [[0, 1, 2, 3]], "the first merge may write bounds"
