"""How deep one sorted run appears by the bounds of each column."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.layout.apparent_depth import RunLook
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.simulation.simulated_table import World
from tests.core.paper import TARGET, snapshot_of


@pytest.mark.parametrize("digits", [(20, 1000), (200, 1000), (12, 20, 1000), (6, 10, 20, 1000)])
@pytest.mark.parametrize("files", [5, 60, 300])
def test_a_sorted_run_appears_as_deep_as_predicted(digits: tuple[int, ...], files: int) -> None:
    """A-09: bounds are stored column by column. Point queries against the boxes of one perfect run."""
    rng = np.random.default_rng(files)
    keys = np.sort(rng.integers(0, int(np.prod(digits)), files * 64).astype(np.float64)).reshape(files, 64)
    arrivals = Arrivals(
        name="run", edges=np.array([0, files]), lo=keys[:, 0].copy(), hi=keys[:, -1].copy(),
        rows=np.full(files, 64), bytes=np.full(files, TARGET), place=np.zeros(files, np.int64), keys=keys,
        level=np.ones(files, np.int64), digits=digits,
    )  # fmt: skip
    world = World.empty(arrivals)
    world.arrive(0)
    points = np.stack(np.unravel_index(keys.ravel()[::7].astype(np.int64), digits), axis=1)
    met = np.ones((len(points), files), dtype=np.bool_)
    for c in range(len(digits)):
        met &= (world.low[:, c] <= points[:, None, c]) & (points[:, None, c] <= world.high[:, c])
    predicted = RunLook(world.snapshot()).of(np.array([float(files)]), np.ones(1))[0]
    assert met.sum(axis=1).mean() - 0.3 <= predicted <= 1.5 * met.sum(axis=1).mean()


def test_a_run_of_one_exact_column_appears_as_deep_as_it_is() -> None:
    snapshot = snapshot_of([(10 * i, 10 * i + 9, TARGET, 0) for i in range(20)], level=1)
    assert RunLook(snapshot).of(np.array([20.0]), np.ones(1)).tolist() == [1.0]
