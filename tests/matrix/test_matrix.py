"""Which writer races lakekeeper, when, at which verb, on which kind of table: outcomes are in data/outcomes.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.matrix.cells import Cell, every_cell, pairs, pairwise, play
from tests.matrix.expected import expected, lines

CELLS = every_cell()


def _param(cell: Cell) -> Any:
    return pytest.param(cell, id=str(cell), marks=getattr(pytest.mark, cell.kind.partition("-")[0]))


def _race(spark: SparkSession, cell: Cell, folder: Path, outcomes: dict[Cell, str]) -> None:
    outcomes[cell] = "failed"
    happened, report = play(spark, cell, folder)
    outcomes[cell] = happened
    assert happened == expected(cell), report
    for group in report.groups:
        if group.status == "dropped" and happened != "obstacle":
            assert "version" in str(group.detail), "the report lacks the winner"


@pytest.mark.parametrize("cell", [_param(c) for c in pairwise(CELLS)])
def test_every_pair(spark: SparkSession, cell: Cell, tmp_path: Path, outcomes: dict[Cell, str]) -> None:
    _race(spark, cell, tmp_path, outcomes)


@pytest.mark.matrix
@pytest.mark.parametrize("cell", [_param(c) for c in CELLS])
def test_every_cell(spark: SparkSession, cell: Cell, tmp_path: Path, outcomes: dict[Cell, str]) -> None:
    _race(spark, cell, tmp_path, outcomes)


def test_each_cell_has_an_outcome_and_each_line_a_cell() -> None:
    assert all(expected(cell) for cell in CELLS)
    assert [line for line in lines() if not any(line.about(cell) for cell in CELLS)] == []


def test_the_slice_is_small_and_has_every_pair() -> None:
    chosen = pairwise(CELLS)
    assert len(chosen) < len(CELLS) / 10
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, CELLS))
