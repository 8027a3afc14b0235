from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from lakekeeper.core.layout.split_points import range_cuts
from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.draws import Shape, draw_snapshot
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import from_json_value, token

EVERY = slice(None)


def cuts_of(text: str, parts: int) -> tuple[Any, ...]:
    key = parse_key("k:int")
    return range_cuts(parse_blocks(text, key).blocks, EVERY, key, parts)[1]


def test_even_spreads_are_cut_at_equal_shares() -> None:
    assert cuts_of("L0 a 0---100 1MB\nL0 b 0---100 1MB", 4) == (25, 50, 75)


def test_dense_stretches_get_more_cuts() -> None:
    assert cuts_of("L0 a 0---100 1MB rows=100\nL0 b 0---10 1MB rows=300", 4) == (3, 6, 9)


def test_a_constant_block_is_a_step() -> None:
    assert cuts_of("L0 a 0---10 1MB rows=10\nL0 b 5 1MB rows=1000", 3) == (5,)


def test_without_usable_statistics_there_are_no_cuts() -> None:
    assert cuts_of("L0 a 5 1MB\nL0 b 5 1MB", 3) == ()
    assert cuts_of("L0 a ? 1MB\nL0 b NULL 1MB", 3) == ()


@pytest.mark.parametrize("kind", SAMPLES)
def test_cuts_of_every_kind_ascend_within_the_bounds(kind: str) -> None:
    """No overflow at the largest and smallest doubles, no cut outside the bounds, none twice."""
    for seed in range(200):
        rng = random.Random(seed)
        snapshot = draw_snapshot(rng, Shape(kinds=(kind,), columns=2, most=8))
        key = snapshot.key
        assert key is not None
        column, cuts = range_cuts(snapshot.blocks, EVERY, key, rng.randint(2, 9))
        places = [token(from_json_value(cut, key.columns[column].kind)) for cut in cuts]
        assert places == sorted(set(places))
        ends = [
            token(bound)
            for b in snapshot.blocks
            for bound in (b.lo[column], b.hi[column])
            if bound is not None and b.lo[column] is not None
        ]
        assert all(min(ends) <= place <= max(ends) for place in places)


def test_the_first_column_that_differs_is_cut() -> None:
    key = ClusterKey((KeyColumn(("c",), "int", "1"), KeyColumn(("k",), "int", "2")))
    columns = {
        "path": ["a", "b"],
        "rows": [10, 10],
        "bytes": [10, 10],
        "lo": [[1, 1], [0, 50]],
        "hi": [[1, 1], [50, 100]],
        "null_count": [[0, 0], [0, 0]],
        "exact": [[True, True], [True, True]],
    }
    assert range_cuts(make_blocks(columns, key), EVERY, key, 2) == (1, (50,))


def test_times_beyond_pythons_own_years_are_cut_and_shown() -> None:
    """Delta and Iceberg hold timestamps up to the year 294247, and dates as far."""
    key = ClusterKey((KeyColumn(("k",), "timestamp", "1"),))
    lo, hi = [0, 2**61], [2**61, 2**62]
    timestamps = [pa.array(side, pa.int64()).cast(pa.timestamp("us", tz="UTC")) for side in (lo, hi)]
    blocks = make_blocks(
        {
            "path": ["a", "b"],
            "rows": [10, 10],
            "bytes": [10, 10],
            "lo": [timestamps[0]],
            "hi": [timestamps[1]],
            "null_count": [[0, 0]],
            "exact": [[True, True]],
        },
        key,
    )
    column, cuts = range_cuts(blocks, EVERY, key, 4)
    assert (column, len(cuts)) == (0, 3)
    assert list(cuts) == sorted(cuts)
    assert blocks.block(1).hi[0] == f"{2**62} µs since 1970"
