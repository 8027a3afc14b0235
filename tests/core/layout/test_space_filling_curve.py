from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.layout.space_filling_curve import CURVES, box_range, index
from lakekeeper.core.model.boundaries import BITS
from lakekeeper.core.units import Ints
from tests.sampling import fewer

SMALL = [(2, 1), (2, 2), (2, 4), (3, 1), (3, 3), (4, 2)]  # (columns, bits) of grids that fit on a page


def grid(columns: int, bits: int) -> list[Ints]:
    """Every cell of the grid, column by column."""
    cells = np.array(list(itertools.product(range(1 << bits), repeat=columns)), np.int64)
    return [cells[:, k].copy() for k in range(columns)]


@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("columns, bits", SMALL)
def test_every_cell_has_a_place_of_its_own(layout: str, columns: int, bits: int) -> None:
    places = index(layout, grid(columns, bits), bits)
    assert sorted(places.tolist()) == list(range(1 << (columns * bits)))


@pytest.mark.parametrize("columns, bits", SMALL)
def test_neighbours_on_the_hilbert_curve_differ_by_one_step_in_one_column(columns: int, bits: int) -> None:
    cells = np.stack(grid(columns, bits), axis=1)
    walk = cells[np.argsort(index("hilbert", grid(columns, bits), bits))]
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()


@settings(derandomize=True, max_examples=fewer(200))
@given(st.lists(st.integers(0, (1 << BITS) - 1), min_size=2, max_size=4))
def test_z_order_takes_bits_in_turn(cell: list[int]) -> None:
    woven = "".join(f"{v:0{BITS}b}"[i] for i in range(BITS) for v in cell)
    assert index("zorder", [np.array([v]) for v in cell]).tolist() == [int(woven, 2)]


@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("columns, bits", [(2, 3), (3, 2), (4, 1)])
def test_the_range_of_a_box_is_that_of_its_cells(layout: str, columns: int, bits: int) -> None:
    """Against all cells of all boxes: the range covers every cell, and is no wider than needed."""
    side = range(1 << bits)
    spans = [(a, b) for a in side for b in side if a <= b]
    boxes = list(itertools.product(spans, repeat=columns))[::3]
    lo = [np.array([box[k][0] for box in boxes], np.int64) for k in range(columns)]
    hi = [np.array([box[k][1] for box in boxes], np.int64) for k in range(columns)]
    first, last = box_range(layout, lo, hi, bits)
    for i, box in enumerate(boxes):
        cells = np.array(list(itertools.product(*(range(a, b + 1) for a, b in box))), np.int64)
        places = index(layout, [cells[:, k] for k in range(columns)], bits)
        assert (first[i], last[i]) == (places.min(), places.max()), box


@pytest.mark.parametrize("layout", CURVES)
def test_the_finest_grid_of_four_columns_fits(layout: str) -> None:
    top = np.array([(1 << BITS) - 1, 0], np.int64)
    places = index(layout, [top] * 4)
    assert places.min() >= 0
    assert places.max() < 1 << 40
