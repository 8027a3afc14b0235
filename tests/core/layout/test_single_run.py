"""Which blocks can be one sorted run, by their bounds: files cut from one always can, overlapping files never."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.layout.single_run import Boxes
from lakekeeper.core.layout.snapshot_index import order_of
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.draws import as_snapshot

Row = tuple[Any, ...]


def snapshot_of(files: list[list[Row]]) -> Snapshot:
    """Files with these rows, by the bounds of each column."""
    width = len(files[0][0])
    key = ClusterKey(tuple(KeyColumn((f"c{c}",), "int", str(c + 1)) for c in range(width)))
    held = [[[row[c] for row in file if row[c] is not None] for file in files] for c in range(width)]
    sides = [[pick(v, default=None) for v in column] for column in held for pick in (min, max)]
    n = len(files)
    columns = {
        "path": [f"f{i:03d}" for i in range(n)],
        "rows": [len(file) for file in files],
        "bytes": [1000] * n,
        "lo": sides[::2],
        "hi": sides[1::2],
        "null_count": [
            [len(file) - len(v) for file, v in zip(files, column, strict=True)] for column in held
        ],
        "exact": [[True] * n] * width,
    }
    return as_snapshot(make_blocks(columns, key), key)


def one_run(files: list[list[Row]]) -> bool:
    snapshot = snapshot_of(files)
    at = order_of(snapshot)
    return bool(Boxes(snapshot).one_run(at, np.array([0, len(at)]))[0])


def nulls_first(row: Row) -> list[int]:
    return [-1 if value is None else value for value in row]


@pytest.mark.sampled
@pytest.mark.parametrize("values", [[0, 1, 2, 3], [None, 0, 1, 2]], ids=["values", "nulls"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_files_cut_from_one_sorted_run_are_one_run(width: int, values: list[int | None]) -> None:
    rng = random.Random(width)
    for _ in range(300):
        drawn = [tuple(rng.choice(values) for _ in range(width)) for _ in range(rng.randint(2, 30))]
        rows = sorted(drawn, key=nulls_first)
        cuts = sorted(rng.sample(range(1, len(rows)), rng.randint(1, min(6, len(rows) - 1))))
        files = [rows[a:b] for a, b in itertools.pairwise([0, *cuts, len(rows)])]
        rng.shuffle(files)
        assert one_run(files), files


@pytest.mark.sampled
@pytest.mark.parametrize("width", [1, 2, 3])
def test_files_that_are_one_run_can_be_ordered_without_overlap(width: int) -> None:
    """Files that count as one run can be cut from one: some rows within their boxes, sorted, have these bounds."""
    rng, seen = random.Random(10 + width), 0
    for _ in range(2000):
        files = [
            [tuple(rng.randrange(3) for _ in range(width)) for _ in range(rng.randint(1, 3))]
            for _ in range(rng.randint(2, 3))
        ]
        if one_run(files):
            seen += 1
            assert any(_in_order(order) for order in itertools.permutations(files)), files
    assert seen > 50


def _in_order(files: tuple[list[Row], ...]) -> bool:
    """Does each file begin, in the first column that differs, no lower than the file before it ends?"""
    for before, after in itertools.pairwise(files):
        for c in range(len(before[0])):
            ends, begins = [row[c] for row in before], [row[c] for row in after]
            if max(ends) > min(begins):
                return False
            if max(ends) < min(begins) or min(ends) < max(ends) or min(begins) < max(begins):
                break
    return True


def test_files_over_the_same_range_are_not_one_run() -> None:
    assert not one_run([[(0,), (9,)], [(0,), (9,)]])
    assert not one_run([[(5, 0), (5, 9)], [(5, 3), (5, 7)]])
    assert not one_run([[(4, 0), (6, 9)], [(5, 3), (7, 7)]])


def test_each_pair_of_edges_is_a_batch() -> None:
    snapshot = snapshot_of([[(0,), (4,)], [(4,), (9,)], [(20,), (25,)], [(22,), (30,)], [(50,), (60,)]])
    assert Boxes(snapshot).one_run(order_of(snapshot), np.array([0, 2, 4, 5])).tolist() == [
        True,
        False,
        False,
    ]
