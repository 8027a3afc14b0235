"""``full`` sorts everything, however well it is clustered: the other policies are compared with it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.draws import Shape, draw_snapshot
from tests.core.planning.drawn import left, merged, plan
from tests.engine.scene import overlapping

APART = """\
L0 a 1--2 10MB
L2 b     3--4 10MB
L0 c         5--6 10MB
"""


def test_a_partition_is_one_group_one_level_above_its_highest_input() -> None:
    assert merged(plan(FULL, APART)) == [(2, 3, ("a", "b", "c"))]
    assert merged(plan(FULL, APART, max_level=2)) == [(2, 2, ("a", "b", "c"))]
    assert merged(plan(FULL, APART.replace("10MB\nL2", "10MB part=p=1\nL2"))) == [
        (0, 1, ("a",)),
        (2, 3, ("b", "c")),
    ]


@pytest.mark.parametrize(
    "bound, groups",
    [
        ({"max_file_group_size_bytes": 20_000_000}, [("a", "b"), ("c",)]),
        ({"max_file_group_input_files": 2}, [("a", "b"), ("c",)]),
    ],
    ids=["bytes", "files"],
)
def test_groups_that_exceed_a_bound_are_cut_along_the_key(
    bound: dict[str, int], groups: list[tuple[str, ...]]
) -> None:
    drawn = "\n".join(reversed(APART.splitlines()))  # the order of the input does not matter
    assert sorted(names for _, _, names in merged(plan(FULL, drawn, **bound))) == groups


def test_without_a_key_there_is_no_order_to_sort_by() -> None:
    snapshot = replace(parse_blocks(APART, parse_key("k:int")), key=None)
    made = plan(FULL, snapshot)
    assert merged(made) == []
    assert set(left(made).values()) == {"no_key"}


def test_every_block_of_any_table_is_sorted_exactly_once() -> None:
    for seed in range(50):
        snapshot = draw_snapshot(random.Random(seed), Shape(most=30))
        inputs = [
            path
            for _, _, names in merged(plan(FULL, snapshot, max_file_group_size_bytes=1 << 50))
            for path in names
        ]
        assert sorted(inputs) == sorted(snapshot.blocks.path.to_pylist())


def test_it_sorts_its_own_output_again() -> None:
    scene = overlapping()
    rows = sorted(map(str, scene.table.rows()))
    first, second = scene.run("full"), scene.run("full")
    assert (first.depth_before, first.depth_after) == (6, 1)
    assert second.rewritten_data_files_count == first.added_data_files_count > 0
    assert sorted(map(str, scene.table.rows())) == rows
