"""What overlaps have cost queries, against sums written out over plain numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.snapshot_index import order_of
from lakekeeper.core.model.coefficients import MIB
from lakekeeper.core.planning.ski_rental import DUE, field_of, oldest_over, weigh
from tests.core.paper import BEGAN, HOUR_MS, TARGET, snapshot_of


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_block_over_each_point_and_each_gap(seed: int) -> None:
    rng = random.Random(seed)
    points = rng.randint(2, 40)
    found = [(*sorted((rng.randrange(points), rng.randrange(points))), rng.randint(1, 9)) for _ in range(12)]
    lo, hi, age = (np.array(column) for column in zip(*found, strict=True))
    over, at_point = oldest_over(lo, hi, age.astype(np.float64), points)
    for x in range(points):
        assert at_point[x] == max([c for a, b, c in found if a <= x <= b], default=0)
        assert over[x] == max([c for a, b, c in found if a <= x and b > x], default=0)


@pytest.mark.parametrize("seed", range(60))
def test_the_rent_of_a_batch_is_what_its_blocks_cost_beyond_one_run(seed: int) -> None:
    """On lines of few points and of many: for a few blocks, the code does not walk a long line."""
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
    age = [60 * (10 - hours) for _, _, _, hours in some]  # queries since it was added, one a minute
    cost = [4 * MIB + 0.2 * size for _, _, size, _ in some]
    paid = sum(s * c * a for s, c, a in zip(share, cost, age, strict=True))
    size = sum(size for _, _, size, _ in some)
    files = -(-size // TARGET)
    first, last = min(a for a, _, _, _ in some), max(b for _, b, _, _ in some)
    met = _mass(rows, first, last) / sum(size for _, _, size, _ in rows)
    one = met if first < last else met * files  # all of the files hold the one key
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
    """The age of the oldest of ``some`` at each point of [first, last], averaged over the bytes there."""
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


# ------------------------------------------------------------------------------------------------ one sorted run
