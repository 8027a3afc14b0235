"""Ranks order as the values do, for every kind, against brute force over Python values."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.layout.ranks import rank_blocks, stable_order
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.testing.draws import draw_snapshot
from lakekeeper.testing.strategies import snapshots
from tests.core import oracle
from tests.core.model.block_columns import whole
from tests.sampling import fewer


def check(snapshot: Snapshot) -> None:
    blocks = whole(snapshot.blocks)
    if not len(blocks):
        return
    groups = blocks.partition.astype(np.int64)
    covered = [oracle.cover(b, int(g)) for b, g in zip(blocks, groups, strict=True)]
    intervals = rank_blocks(blocks, groups)
    assert intervals.missing.tolist() == [block.missing for block in covered]
    known = [(i, b) for i, b in enumerate(covered) if not b.missing]
    for i, a in known:
        for j, b in known:
            if a.group == b.group:
                mine, theirs = a.intervals[0], b.intervals[0]
                assert (intervals.lo[i] < intervals.lo[j]) == (mine.lo < theirs.lo), snapshot
                assert (intervals.lo[i] <= intervals.hi[j]) == (mine.lo <= theirs.hi), snapshot


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(8))
def test_ranks_order_as_values_do_in_2000_random_cases(part: int) -> None:
    for seed in range(250 * part, 250 * (part + 1)):
        check(draw_snapshot(random.Random(seed)))


@settings(max_examples=fewer(100), derandomize=True, deadline=None)
@given(snapshots())
def test_ranks_order_as_values_do_in_what_hypothesis_draws(snapshot: Snapshot) -> None:
    check(snapshot)


@given(st.lists(st.integers(0, 2**62) | st.integers(0, 5), max_size=60))
def test_a_stable_order_is_that_of_numpy(codes: list[int]) -> None:
    """Codes with too many distinct values use NumPy's sort."""
    of = np.array(codes, np.int64)
    assert stable_order(of).tolist() == np.argsort(of, kind="stable").tolist()
