"""How bytes are distributed along the key, against brute force over plain numbers."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.layout.key_distribution import Line, places
from lakekeeper.core.layout.snapshot_index import data_line, table_line
from lakekeeper.testing.draws import Shape, as_snapshot, draw_snapshot
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import token
from tests.core.paper import MB, TARGET, snapshot_of


@pytest.mark.parametrize("seed", range(40))
def test_the_mass_in_a_range_is_the_sum_of_what_each_block_has_there(seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for i in range(rng.randint(1, 12)):
        lo = rng.randrange(50)
        rows.append((lo, lo + rng.choice([0, 0, 1, 7, 40]), rng.choice([1, 10, 100]) * MB, i))
    snapshot = snapshot_of(rows)
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    assert mass.total == pytest.approx(sum(size for _, _, size, _ in rows))
    for i, (a, b, _, _) in enumerate(rows):
        wanted = sum(size * _inside(lo, hi, a, b) for lo, hi, size, _ in rows)
        assert mass.inside(line.lo[i : i + 1], line.hi[i : i + 1])[0] == pytest.approx(float(wanted))


def _inside(lo: int, hi: int, a: int, b: int) -> Fraction:
    """The share of an even spread over [lo, hi] that is in [a, b]; a single value is in it or not."""
    if lo == hi:
        return Fraction(a <= lo <= b)
    return Fraction(max(0, min(hi, b) - max(lo, a)), hi - lo)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_the_line_never_descends_whatever_the_values(kind: str) -> None:
    """Infinities, NaN, the largest and smallest numbers, text: shares stay between 0 and 1."""
    values = sorted(SAMPLES[kind], key=token)
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i:]]
    snapshot = snapshot_of([(a, b, MB, 1) for a, b in pairs], kind=kind)
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    share = mass.share(line.lo, line.hi)
    assert np.isfinite(mass.upto).all()
    assert (np.diff(mass.upto) >= -1e-6 * mass.total).all()
    assert (share * len(pairs) >= 1 - 1e-6).all()  # its range holds its own bytes
    widest = [i for i, pair in enumerate(pairs) if pair == (values[0], values[-1])]
    assert share[widest].min() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(30))
def test_each_partition_has_its_own_line_and_all_of_them_add_up(seed: int) -> None:
    snapshot = draw_snapshot(random.Random(seed), Shape(most=30, columns=2))
    if not len(snapshot.blocks):
        return
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    assert mass.total == pytest.approx(float(snapshot.blocks.live_bytes.sum()))
    starts = np.flatnonzero(np.diff(line.group, prepend=-1))
    ends = np.append(starts[1:], line.points) - 1
    group = line.group[line.lo]
    for first, last in zip(starts, ends, strict=True):
        own = snapshot.blocks.live_bytes[group == line.group[first]].sum()
        assert mass.inside(np.array([first]), np.array([last]))[0] == pytest.approx(
            float(own), rel=1e-6, abs=1
        )


def test_text_is_placed_by_its_values() -> None:
    rows = [("user-000", "user-999", TARGET, 1), ("user-500", "user-501", TARGET, 1)]
    snapshot = snapshot_of(rows, kind="string")
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    inside = mass.inside(line.lo, line.hi)
    assert inside[0] == pytest.approx(2 * TARGET)
    assert inside[1] == pytest.approx(TARGET * 1.001, rel=0.01)
    assert pa.types.is_string(snapshot.blocks.lo[0].type)


def test_a_part_of_a_total_that_cancelled_out_is_all_of_it() -> None:
    """Sums of large sizes may cancel to zero while a range does not: its share is still at most 1."""
    line = Line(np.zeros(1), np.zeros(1), 0.0)
    assert line.part(np.array([0.0, 1.0, 1e300])).tolist() == [0.0, 1.0, 1.0]
    assert Line(np.zeros(1), np.zeros(1), 4.0).part(np.array([0.0, 1.0, 5.0])).tolist() == [0.0, 0.25, 1.0]


def test_ends_of_a_block_without_statistics_of_a_later_column_are_no_points_of_the_line() -> None:
    """It covers its group, and the bounds of its first column are not the group's: the order of blocks once decided."""
    for seed in (1073, 1080, 1110, 1222):
        snapshot = draw_snapshot(random.Random(seed), Shape(most=40, columns=2, partitions=2))
        order = np.random.default_rng(seed).permutation(len(snapshot.blocks))
        shuffled = as_snapshot(snapshot.blocks.take(order.astype(np.intp)), snapshot.key)
        one, other = (places(each.blocks, table_line(each)) for each in (snapshot, shuffled))
        assert one.tolist() == other.tolist()
