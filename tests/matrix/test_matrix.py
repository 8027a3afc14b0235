"""Which writer races lakekeeper, when, at which verb, on which kind of table: outcomes are in data/outcomes.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.matrix.cells import Cell, every_cell, pairs, pairwise, play
from tests.matrix.expected import expected, lines

CELLS = every_cell()


def _param(cell: Cell) -> Any:
    return pytest.param(cell, id=str(cell), marks=getattr(pytest.mark, cell.kind.partition("-")[0]))


@dataclass(frozen=True)
class _Ground:
    """Where a race happens: on the path ``merged_by`` if the table admits it."""

    spark: SparkSession
    merged_by: str
    folder: Path
    outcomes: dict[Cell, str]

    def race(self, cell: Cell) -> None:
        before = self.outcomes.get(cell)
        self.outcomes[cell] = "failed"
        happened, report = play(self.spark, cell, self.folder)
        assert happened == expected(cell), report
        self.outcomes[cell] = before or happened
        for group in report.groups:
            if group.status == "dropped" and happened != "obstacle":
                assert "version" in str(group.detail), "the report lacks the winner"
            if group.status == "committed":
                elsewhere = "workers do not read from" in str(group.detail)
                assert elsewhere == (self.merged_by == "by rows"), group


@pytest.fixture
def ground(spark: SparkSession, merged_by: str, tmp_path: Path, outcomes: dict[Cell, str]) -> _Ground:
    return _Ground(spark, merged_by, tmp_path, outcomes)


@pytest.mark.parametrize("cell", [_param(c) for c in pairwise(CELLS)])
def test_every_pair(ground: _Ground, cell: Cell) -> None:
    ground.race(cell)


@pytest.mark.matrix
@pytest.mark.parametrize("cell", [_param(c) for c in CELLS])
def test_every_cell(ground: _Ground, cell: Cell) -> None:
    ground.race(cell)


def test_each_cell_has_an_outcome_and_each_line_a_cell() -> None:
    assert all(expected(cell) for cell in CELLS)
    assert [line for line in lines() if not any(line.about(cell) for cell in CELLS)] == []


def test_the_slice_is_small_and_has_every_pair() -> None:
    chosen = pairwise(CELLS)
    assert len(chosen) < len(CELLS) / 10
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, CELLS))
