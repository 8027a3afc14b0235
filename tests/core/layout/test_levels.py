"""Blocks that may still be merged, and blocks that are frozen."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.layout.levels import frozen, partition_group
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from tests.core.model.block_columns import KEY, columns


def test_levels_count_under_their_own_key_only() -> None:
    other = ClusterKey((KeyColumn(("k",), "string", "2"),))
    blocks = make_blocks(columns(level=[3, 2], key_id=[KEY.key_id, "of another"]), KEY)
    assert blocks.level_under(KEY).tolist() == [3, 0]
    assert blocks.level_under(other).tolist() == [0, 0]
    assert blocks.level_under(None).tolist() == [0, 0]


@pytest.mark.parametrize(
    "lo, hi, exact, constant",
    [
        ("same", "same", True, True),
        ("same", "samf", False, True),  # cut after four characters, the last raised
        ("same", "same", False, True),
        ("same", "same\x7f", False, True),  # cut after four characters, with a tie-breaker
        ("same", "same\U0010ffff", False, True),
        ("same", "same and more", False, False),  # one flag for both bounds: the lower one is whole
        ("/", "/user/3/settingt", False, False),
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


def in_partitions(texts: list[str]) -> dict[str, list[Any]]:
    """A block in each partition."""
    ones = [1] * len(texts)
    return {"path": [str(n) for n in range(len(texts))], "rows": ones, "bytes": ones, "partition": texts}


def test_partitions_are_numbered_by_their_text_from_zero() -> None:
    texts = ["b", "a", "ä", "", "\U0001f600", "z"]
    blocks = make_blocks(in_partitions(texts), None)
    assert partition_group(blocks).tolist() == [sorted(texts).index(text) for text in texts]


def test_one_long_partition_does_not_widen_the_others() -> None:
    """It took 684 MB for 200,000 partitions of which one had 900 characters."""
    texts = [f'{{"p":"{n}"}}' for n in range(20_000)] + ["x" * 5_000]
    blocks = make_blocks(in_partitions(texts), None)
    tracemalloc.start()
    try:
        partition_group(blocks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20
