"""What is cached with a snapshot is what a new snapshot would give."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.layout.snapshot_index import overlapping, table_line
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.testing.draws import DRAWN_MS, Shape, draw_snapshot
from lakekeeper.testing.strategies import snapshots
from tests.sampling import fewer

SHAPE = Shape(most=30, columns=2, partitions=2)


@settings(max_examples=fewer(150), derandomize=True, deadline=None)
@given(st.integers(0, 10_000))
def test_blocks_that_overlap(seed: int) -> None:
    """Against the definition, point by point: a block that ends where another one begins counts once.

    a  |-----|                a  |-----|
    b        |-----|  no      b        |    yes: b is inside a
    """
    snapshot = draw_snapshot(random.Random(seed), SHAPE)
    line = table_line(snapshot, null_region=False)
    lo, hi = line.lo, line.hi
    for number, found in enumerate(overlapping(snapshot).tolist()):
        deep = False
        for point in range(lo[number], hi[number] + 1):
            begin, end, only = lo == point, hi == point, (lo == point) & (hi == point)
            over = ((lo <= point) & (hi >= point)).sum() - min(begin.sum(), end.sum()) + only.sum()
            deep |= bool(over > 1)
        assert found == deep


def _plan(snapshot: Snapshot, now_ms: int, rate: float) -> Plan:
    options = resolve({"queries-per-hour": rate})
    return explained(
        make_plan(snapshot, [DELETES, ADAPTIVE], options, Env(now_ms=now_ms)), snapshot, options, now_ms
    )


@settings(max_examples=fewer(60), derandomize=True, deadline=None)
@given(snapshots(SHAPE), st.lists(st.tuples(st.integers(0, 60), st.sampled_from([1, 60, 10_000]))))
def test_a_later_plan_on_the_same_snapshot(snapshot: Snapshot, calls: list[tuple[int, float]]) -> None:
    for days, rate in calls:
        now_ms = DRAWN_MS + days * DAY_MS + HOUR_MS
        new = replace(snapshot)
        assert str(_plan(snapshot, now_ms, rate)) == str(_plan(new, now_ms, rate))
        assert _plan(snapshot, now_ms, rate).to_dict() == _plan(new, now_ms, rate).to_dict()
        assert measure(snapshot) == measure(new)
