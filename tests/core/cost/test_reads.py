"""The read model of a snapshot without a workload: queries are uniform."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.workload.workload import Span
from tests.core.cost.boxes import ONE, as_snapshot, one_column, workload


def test_without_a_workload_a_block_is_read_by_its_share_of_the_data_and_a_range() -> None:
    snapshot = as_snapshot(
        [one_column(0, 99), one_column(0, 99), one_column(100, 199)], ONE, sizes=[100, 100, 200]
    )
    shares = reads_of(snapshot, None, 0).share
    assert shares == pytest.approx([0.51, 0.51, 0.51], abs=0.01)
    merged = reads_of(snapshot, None, 0).outputs(Groups(np.arange(2), np.array([0, 2]), np.array([1.0])))
    assert merged.files[0] == pytest.approx(0.51, abs=0.01)


def test_without_a_workload_a_query_reads_one_partition() -> None:
    snapshot = as_snapshot([one_column(0, 99)] * 4, ONE, partition=["p", "p", "q", "q"])
    shares = reads_of(snapshot, None, 0).share
    assert shares == pytest.approx([0.5] * 4)


def test_without_a_key_every_query_reads_everything() -> None:
    blocks = make_blocks({"path": ["a", "b"], "rows": [1, 1], "bytes": [1, 1]}, None)
    snapshot = Snapshot("t", "memory", 1, "uuid", "schema", None, blocks)
    assert reads_of(snapshot, workload({"a": Span(1, 1)}), 0).share.tolist() == [1.0, 1.0]
