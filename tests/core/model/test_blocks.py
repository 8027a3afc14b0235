from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.testing.draws import Shape, draw_snapshot
from tests.core.model.block_columns import KEY, columns


def test_defaults_replace_what_a_format_does_not_record() -> None:
    first, second = make_blocks(columns(), KEY)
    assert (first.partition, first.spec, first.level, first.key_id, first.delete_id) == ("", 0, 0, "", "")
    assert (first.lo, first.hi, second.lo, second.null_count) == (("x",), ("y",), (None,), (4,))


@pytest.mark.parametrize("name", ["rows", "bytes", "level", "key_id", "partition", "delete_id"])
def test_columns_of_unequal_length_are_refused(name: str) -> None:
    values: list[Any] = ["x"] if name in ("key_id", "partition", "delete_id") else [1]
    with pytest.raises(ValueError, match=r"has \d+ values"):
        make_blocks(columns(**{name: values}), KEY)
    with pytest.raises(ValueError, match="lo has 1 values, path has 2"):
        make_blocks(columns(lo=[["x"]]), KEY)


def test_take_keeps_order_and_values() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        blocks = draw_snapshot(rng).blocks
        at = np.array([rng.randrange(len(blocks)) for _ in range(5)] if len(blocks) else [], np.intp)
        assert list(map(repr, blocks.take(at))) == [repr(blocks.block(int(i))) for i in at]
        mask = np.array([rng.random() < 0.5 for _ in range(len(blocks))], np.bool_)
        assert list(map(repr, blocks.take(mask))) == [repr(b) for b, m in zip(blocks, mask, strict=True) if m]


def test_live_bytes_are_the_share_of_live_rows() -> None:
    blocks = make_blocks(columns(deleted_rows=[250, 4]), KEY)
    assert blocks.live_bytes.tolist() == [75, 0]
    assert make_blocks(columns(deleted_rows=[-1, 9], rows=[0, 4]), KEY).live_bytes.tolist() == [100, 0]


def test_at_least_so_many_rows_are_live() -> None:
    assert make_blocks(columns(deleted_rows=[250, 4]), KEY).least_live_rows.tolist() == [750, 0]
    # an unknown number of deleted rows; deletes that overlap count twice
    assert make_blocks(columns(deleted_rows=[-1, 5]), KEY).least_live_rows.tolist() == [0, 0]


def test_memory_is_counted_and_linear() -> None:
    blocks = draw_snapshot(random.Random(1), Shape(most=40)).blocks
    twice = blocks.take(np.concatenate([np.arange(len(blocks))] * 2))
    assert 0 < blocks.nbytes < twice.nbytes
    assert {f.name for f in fields(blocks)} >= {"path", "lo", "hi", "null_count", "exact"}
