"""Cuts from a sample divide rows evenly, however many of them were read together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.columnar.files import LocalFiles
from lakekeeper.columnar.footers import Group
from lakekeeper.columnar.inputs import Inputs
from lakekeeper.columnar.sampling import quantiles, sampled
from lakekeeper.core.model.file_merge import FileColumn
from tests.columnar.tasks import task_of


@given(
    lengths=st.lists(st.integers(1, 3_000), min_size=1, max_size=20),
    most=st.integers(20, 200),
    parts=st.integers(2, 8),
)
def test_each_range_has_its_share_of_the_rows(lengths: list[int], most: int, parts: int) -> None:
    """A short row group at the end of each file had as many samples as the long ones before it."""
    ends = np.cumsum(lengths)
    pieces = [np.arange(end - length, end, dtype=np.int64) for end, length in zip(ends, lengths, strict=True)]
    cuts = quantiles([each for piece in pieces for each in sampled(pa.array(piece), most)], parts)
    rows = np.diff([0, *cuts, ends[-1]])
    steps = max(max(1, length // most) for length in lengths)
    assert max(rows) <= ends[-1] / parts + 2 * steps + len(lengths) * steps
    assert cuts == sorted(set(cuts))


def test_long_row_groups_count_by_their_rows() -> None:
    long, short = pa.array(range(1_000_000)), pa.array(range(1_000_000, 1_010_000))
    assert quantiles(sampled(long) + sampled(short), 2) == [pytest.approx(505_000, rel=0.001)]


def test_equal_values_are_never_cut() -> None:
    assert quantiles(sampled(pa.array([7] * 100)), 4) == []
    assert quantiles(sampled(pa.array([None, None], pa.int64())), 4) == []


def test_row_groups_are_sampled_over_the_whole_key(tmp_path: Path) -> None:
    """Every second one of files with four row groups each is the first or third of its file."""
    for number in range(3):
        pq.write_table(
            pa.table({"k": np.arange(400, dtype=np.int64)}),
            tmp_path / f"{number}.parquet",
            row_group_size=100,
        )
    task = task_of(tmp_path, (FileColumn("k", "int64"), FileColumn("later", "int64")))
    opened = Inputs(task, LocalFiles(), 1 << 20)
    try:
        found = opened.footers.ascending(opened.footers.groups(), 0)
        assert [group.group for group in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
        assert opened.footers.ascending(opened.footers.groups(), 1) == opened.footers.groups()
        assert opened.footers.groups() == sorted(found, key=_place)
    finally:
        opened.close()


def _place(group: Group) -> tuple[int, int]:
    return group.file, group.group
