"""What overlaps have cost: against sums written out over plain numbers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.apparent_depth import RunLook
from lakekeeper.core.layout.snapshot_index import order_of
from lakekeeper.core.model.coefficients import MIB
from lakekeeper.core.planning.block_age import ages, delete_ages
from lakekeeper.core.planning.ski_rental import DUE, field_of, oldest_over, weigh
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.simulation.simulated_table import World
from tests.core.paper import BEGAN, HOUR_MS, TARGET, snapshot_of


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_block_over_each_point_and_each_stretch(seed: int) -> None:
    rng = random.Random(seed)
    points = rng.randint(2, 40)
    found = [(*sorted((rng.randrange(points), rng.randrange(points))), rng.randint(1, 9)) for _ in range(12)]
    lo, hi, age = (np.array(column) for column in zip(*found, strict=True))
    over, at_point = oldest_over(lo, hi, age.astype(np.float64), points)
    for x in range(points):
        assert at_point[x] == max([c for a, b, c in found if a <= x <= b], default=0)
        assert over[x] == max([c for a, b, c in found if a <= x and b > x], default=0)


@pytest.mark.parametrize("seed", range(60))
def test_the_rent_of_a_batch_is_what_its_blocks_have_cost_beyond_one_run(seed: int) -> None:
    """On lines of few points and of many: between the bounds of a few blocks a long line is not walked."""
    rng = random.Random(seed)
    width, count = rng.choice([8, 30, 400]), rng.randint(2, 8)
    ends = [sorted((rng.randrange(width), rng.randrange(width))) for _ in range(count)]
    if seed % 2:
        ends = [[a, b + 1] for a, b in ends]  # no block of a single value: another branch
    rows = [(a, b, rng.choice([5, 100, 300]) * MIB, float(rng.randint(1, 9))) for a, b in ends]
    snapshot, now, options = snapshot_of(rows), BEGAN + 10 * HOUR_MS, resolve()
    scale = scale_of(snapshot, options, now)
    at = order_of(snapshot)
    field = field_of(snapshot, at, scale, options, now, {})
    members = np.flatnonzero([rng.random() < 0.8 for _ in range(count)] + np.eye(1, count, 0)[0])
    found = weigh(field, members, np.array([0, len(members)]))
    some = [rows[i] for i in at[members]]
    share = scale.reads.share[at[members]]
    age = [60 * (10 - hours) for _, _, _, hours in some]  # queries since it was born, at one a minute
    cost = [4 * MIB + 0.2 * size for _, _, size, _ in some]
    paid = sum(s * c * a for s, c, a in zip(share, cost, age, strict=True))
    size = sum(size for _, _, size, _ in some)
    files = -(-size // TARGET)
    first, last = min(a for a, _, _, _ in some), max(b for _, b, _, _ in some)
    met = _mass(rows, first, last) / sum(size for _, _, size, _ in rows)
    one = met if first < last else met * files  # rows of one key lie in all of the files
    more = min(one + files * 0.01, files) - met
    mean = sum(s[2] * a for s, a in zip(some, age, strict=True)) / size
    kept = (4 * MIB + 0.2 * size / files) * (met * _oldest(rows, some, age, first, last) + more * mean)
    assert found.rent[0] == pytest.approx(paid - kept, rel=1e-6, abs=1)
    assert found.work[0] == 5 * size + 4 * MIB * len(some)
    assert found.due[0] == pytest.approx(max(paid - kept, 0) / (DUE * found.work[0]), rel=1e-6, abs=1e-9)


def _mass(rows: list[tuple[int, int, int, float]], first: int, last: int) -> float:
    """Bytes in [first, last], each block's spread evenly over its range."""
    inside = 0.0
    for a, b, size, _ in rows:
        inside += size * (max(0, min(b, last) - max(a, first)) / (b - a) if b > a else first <= a <= last)
    return inside


def _oldest(
    rows: list[tuple[int, int, int, float]],
    some: list[tuple[int, int, int, float]],
    age: list[float],
    first: int,
    last: int,
) -> float:
    """The age of the oldest of ``some`` at each place of [first, last], averaged over the bytes there."""
    total = 0.0
    for x in range(first, last + 1):
        points = sum(size for a, b, size, _ in rows if a == b == x)
        total += points * max(
            [t for (a, b, _, _), t in zip(some, age, strict=True) if a <= x <= b], default=0
        )
        gap = sum(size / (b - a) for a, b, size, _ in rows if a <= x < b) if x < last else 0
        total += gap * max([t for (a, b, _, _), t in zip(some, age, strict=True) if a <= x < b], default=0)
    held = _mass(rows, first, last)
    return total / held if held else 0.0


# ------------------------------------------------------------------------------------------------ ages


def test_an_age_is_the_time_since_the_birth_whoever_wrote_the_block() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 4)], level=[0, 1])
    assert ages(snapshot, BEGAN + 5 * HOUR_MS).tolist() == [4 * 3600, 3600]


def test_an_unknown_birth_is_as_old_as_the_oldest_known_and_one_to_come_is_fresh() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 3), (1, 2, MIB, 9)])
    blocks = replace(snapshot.blocks, added_at=np.array([0, *snapshot.blocks.added_at[1:].tolist()]))
    assert ages(replace(snapshot, blocks=blocks), BEGAN + 5 * HOUR_MS).tolist() == [2 * 3600, 2 * 3600, 0]


def test_without_a_clock_it_is_as_late_as_the_newest_moment_known() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 3)])
    assert ages(snapshot, 0).tolist() == [2 * 3600, 0]
    later = replace(snapshot, commits_ms=np.array([BEGAN, BEGAN + 7 * HOUR_MS]))
    assert ages(later, 0).tolist() == [6 * 3600, 4 * 3600]
    assert ages(snapshot_of([]), 0).tolist() == []


def test_deletes_that_came_one_by_one_are_half_as_old_as_the_first() -> None:
    rows = [(1, 2, MIB, 0.0)] * 3
    more: dict[str, Any] = {
        "delete_id": ["x", "y", "z"],
        "delete_files": [1, 99, 2],
        "deleted_at": [BEGAN + HOUR_MS, BEGAN + HOUR_MS, 0],
    }
    found = delete_ages(snapshot_of(rows, **more), BEGAN + 3 * HOUR_MS)
    assert found.tolist() == pytest.approx([7200, 7200 * 100 / 198, 0])


# ------------------------------------------------------------------------------------------------ one sorted run


@pytest.mark.parametrize("digits", [(20, 1000), (200, 1000), (12, 20, 1000), (6, 10, 20, 1000)])
@pytest.mark.parametrize("files", [5, 60, 300])
def test_a_sorted_run_looks_as_deep_as_predicted(digits: tuple[int, ...], files: int) -> None:
    """A-09: bounds kept column by column. Point queries against the boxes of one perfect run."""
    rng = np.random.default_rng(files)
    keys = np.sort(rng.integers(0, int(np.prod(digits)), files * 64).astype(np.float64)).reshape(files, 64)
    arrivals = Arrivals(
        name="run", edges=np.array([0, files]), lo=keys[:, 0].copy(), hi=keys[:, -1].copy(),
        rows=np.full(files, 64), bytes=np.full(files, TARGET), place=np.zeros(files, np.int64), keys=keys,
        level=np.ones(files, np.int64), digits=digits,
    )  # fmt: skip
    world = World.empty(arrivals)
    world.arrive(0)
    asked = np.stack(np.unravel_index(keys.ravel()[::7].astype(np.int64), digits), axis=1)
    met = np.ones((len(asked), files), dtype=np.bool_)
    for c in range(len(digits)):
        met &= (world.low[:, c] <= asked[:, None, c]) & (asked[:, None, c] <= world.high[:, c])
    predicted = RunLook(world.snapshot()).of(np.array([float(files)]), np.ones(1))[0]
    assert met.sum(axis=1).mean() - 0.3 <= predicted <= 1.5 * met.sum(axis=1).mean()


def test_a_run_of_one_exact_column_looks_as_deep_as_it_is() -> None:
    snapshot = snapshot_of([(10 * i, 10 * i + 9, TARGET, 0) for i in range(20)], level=1)
    assert RunLook(snapshot).of(np.array([20.0]), np.ones(1)).tolist() == [1.0]
