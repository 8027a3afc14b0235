from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.layout.levels import frozen
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.draws import Shape, draw_snapshot

KEY = ClusterKey((KeyColumn(("k",), "string", "1"),))


def columns(**changed: Any) -> dict[str, Any]:
    plain = {
        "path": ["a", "b"],
        "rows": [1000, 4],
        "bytes": [100, 50],
        "lo": [["x", None]],
        "hi": [["y", None]],
        "null_count": [[0, 4]],
        "exact": [[True, True]],
    }
    return plain | changed


def test_defaults_stand_in_for_what_a_format_does_not_know() -> None:
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


def test_levels_count_under_their_own_key_only() -> None:
    other = ClusterKey((KeyColumn(("k",), "string", "2"),))
    blocks = make_blocks(columns(level=[3, 2], key_id=[KEY.key_id, "of another"]), KEY)
    assert blocks.level_under(KEY).tolist() == [3, 0]
    assert blocks.level_under(other).tolist() == [0, 0]
    assert blocks.level_under(None).tolist() == [0, 0]


def test_live_bytes_are_the_share_of_live_rows() -> None:
    blocks = make_blocks(columns(deleted_rows=[250, 4]), KEY)
    assert blocks.live_bytes.tolist() == [75, 0]
    assert make_blocks(columns(deleted_rows=[-1, 9], rows=[0, 4]), KEY).live_bytes.tolist() == [100, 0]


def test_memory_is_counted_and_linear() -> None:
    blocks = draw_snapshot(random.Random(1), Shape(most=40)).blocks
    twice = blocks.take(np.concatenate([np.arange(len(blocks))] * 2))
    assert 0 < blocks.nbytes < twice.nbytes
    assert {f.name for f in fields(blocks)} >= {"path", "lo", "hi", "null_count", "exact"}


@pytest.mark.parametrize(
    "lo, hi, exact, constant",
    [
        ("same", "same", True, True),
        ("same", "samf", False, True),  # cut after four characters, the last raised
        ("same", "same", False, True),
        ("same", "same and more", False, True),
        ("same", "samg", False, False),
        ("same", "samf", True, False),
        ("", "a", False, False),
        ("a", "b", True, False),
    ],
)
def test_what_counts_as_constant_at_the_resolution_of_its_statistics(
    lo: str, hi: str, exact: bool, constant: bool
) -> None:
    blocks = make_blocks(columns(lo=[[lo, lo]], hi=[[hi, hi]], null_count=[[0, 1]], exact=[[exact] * 2]), KEY)
    options = resolve({"max-rows-per-file": 10})
    assert frozen(blocks, rank_blocks(blocks), options).tolist() == [constant, False]


def test_a_block_that_is_not_full_is_not_frozen() -> None:
    blocks = make_blocks(columns(lo=[["x", "x"]], hi=[["x", "x"]], null_count=[[0, 0]]), KEY)
    options = resolve({"max-rows-per-file": 1000})
    assert frozen(blocks, rank_blocks(blocks), options).tolist() == [True, False]
    grown = replace(blocks, bytes=np.array([100, 120 << 20]))
    assert frozen(grown, rank_blocks(grown), options).tolist() == [True, True]
