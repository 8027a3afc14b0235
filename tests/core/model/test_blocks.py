from __future__ import annotations

import math
import random
from dataclasses import fields
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
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


@pytest.mark.parametrize(
    "kind, least, greatest",
    [
        ("int", 4, 2), ("float", 0.5, -0.5), ("float", math.nan, 1.0), ("date", date(2026, 1, 2), date(2026, 1, 1)),
        ("timestamp", datetime(2026, 1, 2, tzinfo=timezone.utc), datetime(2026, 1, 1, tzinfo=timezone.utc)),
        ("string", "b", "a"), ("binary", b"b", b"a"), ("boolean", True, False),
        ("decimal(4,2)", Decimal(2), Decimal(1)),
    ],
)  # fmt: skip
def test_bounds_the_wrong_way_round_are_missing(kind: str, least: Any, greatest: Any) -> None:
    """One such file ended every plan of its table with an error of numpy, or hid what overlaps."""
    key = ClusterKey((KeyColumn(("c",), kind, "1"),))
    given = {"path": ["a", "b", "c"], "rows": [1] * 3, "bytes": [1] * 3}
    bounds = {"lo": [[least, greatest, least]], "hi": [[greatest, least, least]]}
    blocks = make_blocks({**given, **bounds, "null_count": [[0] * 3], "exact": [[True] * 3]}, key)
    assert blocks.lo[0].is_valid().to_pylist() == blocks.hi[0].is_valid().to_pylist() == [False, True, True]


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
