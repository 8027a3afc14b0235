"""Candidate merges: which sizes are tried, and which merges are chosen."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.snapshot_index import overlapping
from lakekeeper.core.planning.merge_candidates import find, ladder, large
from lakekeeper.core.planning.ski_rental import DUE, field_of, weigh
from lakekeeper.testing.draws import Shape, draw_snapshot
from tests.core.paper import BEGAN, DAY_MS
from tests.sampling import fewer


def test_the_ladder_goes_down_past_every_run_size_but_the_smallest() -> None:
    sizes = np.array([0.01, 0.5, 0.5, 900.0])
    steps = list(ladder(sizes))
    assert steps[0] > 900
    held = [int((sizes < theta).sum()) for theta in steps]
    assert held == sorted(set(held), reverse=True) == [4, 3, 1]


@settings(max_examples=fewer(100), derandomize=True, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 1000))
def test_chosen_merges_are_due_connected_and_in_bounds_and_no_due_merge_is_left(
    seed: int, rate: float
) -> None:
    """By its own model every task pays, and no candidate set makes a remaining block due."""
    rng = random.Random(seed)
    snapshot = draw_snapshot(rng, Shape(most=40, columns=1, kinds=("int",), partitions=2, missing=0.0))
    if not len(snapshot.blocks):
        return
    added = np.array([BEGAN + rng.randrange(DAY_MS) for _ in range(len(snapshot.blocks))])
    snapshot = replace(snapshot, blocks=replace(snapshot.blocks, added_at=added))
    options = resolve({"queries-per-hour": rate, "max-file-group-input-files": rng.choice([4, 2000])})
    now = BEGAN + 2 * DAY_MS
    scale = scale_of(snapshot, options, now)
    field = field_of(snapshot, np.arange(len(snapshot.blocks)), scale, options, now, {})
    found = find(field)
    assert len(set(found.members.tolist())) == len(found.members)
    if found.count:
        weighed = weigh(field, found.members, found.edges)
        assert (weighed.rent >= DUE * weighed.work * (1 - 1e-9)).all()
        assert (weighed.gain > 0).all()
        assert np.diff(found.edges).max() <= options.groups.max_files
    free = np.setdiff1d(np.arange(len(field)), found.members)
    assert (found.wait[free] >= 0).all()
    # A plan leaves these out before it weighs anything: no merge has a use for them, now or later.
    alone = ~(overlapping(snapshot) | large(snapshot.blocks, options))
    assert not alone[found.members].any()
    assert np.isinf(found.wait[alone]).all()
