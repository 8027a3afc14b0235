from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.layout.depth import block_depth, depth_curve
from lakekeeper.core.layout.rank_boundaries import (
    buckets,
    curve_index,
    derive,
    newest_generation,
    outgrown,
    placed,
    refined,
)
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.model.boundaries import MOST, Boundaries
from lakekeeper.core.model.keys import (
    ClusterKey,
    arrow_type,
    to_json_value,
)
from lakekeeper.core.units import Ints
from lakekeeper.testing.draws import as_snapshot
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import token
from tests.core.layout.curve_files import HILBERT, even, files_of, key_of


@pytest.mark.parametrize("kind", SAMPLES)
def test_buckets_equal_a_search_by_hand(kind: str) -> None:
    values = sorted((v for v in SAMPLES[kind] if str(v) != "nan"), key=token)
    chosen = [v for a, v in zip([None, *values], values, strict=False) if token(a) != token(v)][::2]
    kept = Boundaries("k", 0, (kind,), (tuple(to_json_value(v, kind) for v in chosen),))
    requested = [*SAMPLES[kind], None]
    by_hand = [0 if v is None else 1 + bisect_right([token(c) for c in chosen], token(v)) for v in requested]
    assert buckets(kept, 0, pa.array(requested, arrow_type(kind))).tolist() == by_hand


def test_minus_zero_is_zero_and_nan_comes_last() -> None:
    kept = Boundaries("k", 0, ("float",), (("0.0", "1.0", "inf"),))
    found = buckets(kept, 0, pa.array([-1.0, -0.0, 0.0, 1.0, float("nan"), None], pa.float64()))
    assert found.tolist() == [1, 2, 2, 3, 4, 0]


def test_boundaries_of_narrow_blocks_share_skewed_rows_evenly() -> None:
    rng = np.random.default_rng(1)
    values = np.sort((rng.lognormal(0, 2, 200_000) * 1000).astype(np.int64))
    blocks = files_of(
        HILBERT, [[(int(part[0]), 0), (int(part[-1]), 9)] for part in np.array_split(values, 2000)]
    )
    kept = derive(blocks, HILBERT)
    share = np.bincount(buckets(kept, 0, pa.array(values))) / len(values)
    assert len(kept.columns[0]) > 900
    assert share.max() < 0.01


def test_the_order_of_the_blocks_changes_nothing() -> None:
    rng = random.Random(3)
    files = [[(rng.randrange(10**6), rng.randrange(50)) for _ in range(3)] for _ in range(300)]
    blocks = files_of(HILBERT, files)
    order = np.array(rng.sample(range(300), 300))
    assert derive(blocks.take(order), HILBERT) == derive(blocks, HILBERT)


def rows_at_random(rng: random.Random, kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [tuple(rng.choice([*SAMPLES[kind], None]) for kind in kinds) for _ in range(rng.randint(1, 6))]


@pytest.mark.parametrize("layout", CURVES)
def test_the_range_of_a_block_covers_all_its_rows(layout: str) -> None:
    """Whatever the kinds, with NULL, NaN and −0.0: a row outside its block's range would be an overlap unseen."""
    kinds = sorted(SAMPLES)
    for seed in range(60):
        rng = random.Random(seed)
        own = tuple(rng.choice(kinds) for _ in range(rng.randint(2, 4)))
        key = key_of(layout, *own)
        files = [rows_at_random(rng, own) for _ in range(rng.randint(1, 8))]
        on_curve = placed(as_snapshot(files_of(key, files), key))
        assert on_curve.boundaries is not None
        for i, rows in enumerate(files):
            at = places(on_curve.boundaries, key, rows)
            assert on_curve.blocks.curve_lo[i] <= at.min()
            assert at.max() <= on_curve.blocks.curve_hi[i]


def places(boundaries: Boundaries, key: ClusterKey, rows: list[tuple[Any, ...]]) -> Ints:
    columns = [pa.array([r[k] for r in rows], arrow_type(c.kind)) for k, c in enumerate(key.columns)]
    return curve_index(boundaries, key.layout, columns)


def test_a_range_that_was_kept_counts_under_its_own_boundaries_only() -> None:
    kept = replace(even(2), key_id=HILBERT.key_id)
    files = [[(0, 0), (900, 900)]] * 3
    blocks = files_of(
        HILBERT, files, curve_lo=[5, 5, -1], curve_hi=[9, 9, -1], curve_id=[kept.id, "0-00000000", ""]
    )
    on_curve = placed(replace(as_snapshot(blocks, HILBERT), boundaries=kept)).blocks
    assert (on_curve.curve_lo[0], on_curve.curve_hi[0]) == (5, 9)
    assert on_curve.curve_id.tolist() == [0, -1, -1]
    assert on_curve.curve_hi[1] == on_curve.curve_hi[2] > 9


def test_placing_again_changes_nothing() -> None:
    once = placed(as_snapshot(files_of(HILBERT, [[(1, 2), (8, 9)], [(4, 4)]]), HILBERT))
    assert placed(once) is once
    linear = as_snapshot(files_of(key_of("linear", "int"), [[(1,)]]), key_of("linear", "int"))
    assert placed(linear) is linear


@pytest.mark.parametrize("runs", [1, 4, 8])
def test_depth_on_kept_ranges_is_the_number_of_runs(runs: int) -> None:
    """Reference §3: depth over stored curve ranges is exactly the number of sorted runs."""
    kept = replace(even(2), key_id=HILBERT.key_id)
    rng = np.random.default_rng(runs)
    lo: list[int] = []
    hi: list[int] = []
    for _ in range(runs):
        columns = [pa.array(rng.integers(0, MOST, 5000)) for _ in range(2)]
        for part in np.array_split(np.sort(curve_index(kept, "hilbert", columns)), 50):
            lo.append(int(part[0]))
            hi.append(int(part[-1]))
    blocks = files_of(
        HILBERT, [[(0, 0), (1, 1)]] * len(lo), curve_lo=lo, curve_hi=hi, curve_id=[kept.id] * len(lo)
    )
    intervals = rank_blocks(placed(replace(as_snapshot(blocks, HILBERT), boundaries=kept)).blocks)
    assert depth_curve(intervals).folded.max() == runs
    assert block_depth(depth_curve(intervals), intervals).max() <= 2 * runs


def test_a_block_without_statistics_covers_everything() -> None:
    blocks = files_of(HILBERT, [[(0, 0), (9, 9)], [(5, 5)]])
    blind = replace(blocks, lo=(blocks.lo[0], pa.array([0, None])), hi=(blocks.hi[0], pa.array([9, None])))
    intervals = rank_blocks(placed(as_snapshot(blind, HILBERT)).blocks)
    assert intervals.missing.tolist() == [False, True]
    assert (intervals.lo[1], intervals.hi[1]) == (0, intervals.points - 1)


def test_growing_values_outgrow_their_boundaries() -> None:
    def table(days: int) -> BlockSet:
        return files_of(
            HILBERT, [[(day * 100, i), (day * 100 + 99, i + 50)] for day in range(days) for i in range(4)]
        )

    old = derive(table(100), HILBERT)
    assert not outgrown(old, derive(table(105), HILBERT, 1), 420)
    assert outgrown(old, derive(table(200), HILBERT, 1), 800)


def test_a_column_of_few_values_is_not_outgrown() -> None:
    few = files_of(HILBERT, [[(i % 20, i % 7), (i % 20, i % 7)] for i in range(4000)])
    assert not outgrown(derive(few, HILBERT), derive(few, HILBERT, 1), 4000)


def test_skew_that_a_first_clustering_reveals_outgrows_its_boundaries() -> None:
    """Blocks that all cover everything do not show the skew; sorted ones do."""
    rng = np.random.default_rng(2)
    values = (rng.lognormal(0, 2, 40_000) * 1000).astype(np.int64)
    raw = files_of(HILBERT, [[(int(p.min()), 0), (int(p.max()), 9)] for p in np.array_split(values, 400)])
    done = files_of(
        HILBERT, [[(int(p[0]), 0), (int(p[-1]), 9)] for p in np.array_split(np.sort(values), 400)]
    )
    assert outgrown(derive(raw, HILBERT), derive(done, HILBERT, 1), 400)
    assert not outgrown(derive(done, HILBERT, 1), derive(done, HILBERT, 2), 400)


def test_the_next_boundaries_resolve_what_the_last_ones_did() -> None:
    def boundaries(generation: int, *columns: tuple[int, ...]) -> Boundaries:
        return Boundaries(HILBERT.key_id, generation, ("int", "int"), columns)

    old, new = (
        boundaries(0, (1, 5, 9), tuple(range(MOST))),
        boundaries(1, (4, 5, 6), tuple(range(MOST, 2 * MOST))),
    )
    both = refined(old, new)
    assert (both.generation, both.columns[0]) == (1, (1, 4, 5, 6, 9))
    assert len(both.columns[1]) == MOST
    for one in (old, new):
        assert not outgrown(both, one, 1_000)
    assert outgrown(old, new, 1_000)
    assert outgrown(new, old, 1_000)


def test_the_newest_generation_is_known_by_the_blocks_of_the_key() -> None:
    files = [[(0, 0)]] * 4
    names = ["0-aaaaaaaa", "2-bbbbbbbb", "7-cccccccc", ""]
    keys = [HILBERT.key_id, HILBERT.key_id, "another", ""]
    blocks = files_of(HILBERT, files, curve_id=names, key_id=keys, curve_lo=[0] * 4, curve_hi=[0] * 4)
    assert newest_generation(blocks, HILBERT) == 2
    assert newest_generation(files_of(HILBERT, files), HILBERT) == 0
