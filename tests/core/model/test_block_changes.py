from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lakekeeper.core.model.block_changes import changed_blocks, with_deletes
from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.draws import draw_blocks

KEY = ClusterKey((KeyColumn(("k",), "int", "1"), KeyColumn(("s",), "string", "2")))


def drawn(seed: int) -> BlockSet:
    return draw_blocks(random.Random(seed), KEY)


@pytest.mark.parametrize("seed", range(30))
def test_remaining_blocks_come_before_added_ones_whatever_the_codes_of_each(seed: int) -> None:
    rng = random.Random(seed)
    blocks, other = drawn(seed), drawn(seed + 1_000)
    # The same names under other codes, and names that are not in the first set.
    added = replace(
        other,
        partitions=(*blocks.partitions[::-1], *(f"{name}+" for name in other.partitions)),
        partition=other.partition + np.int32(len(blocks.partitions)),
        key_ids=("unused", *other.key_ids),
        key_id=np.where(other.key_id < 0, other.key_id, other.key_id + 1).astype(np.int32),
    )
    gone = [path for path in blocks.path.to_pylist() if rng.random() < 0.4]
    made = changed_blocks(blocks, [*gone, "never there"], added)
    came = [replace(block, partition=f"{block.partition}+") for block in other]
    assert list(made) == [*(block for block in blocks if block.path not in gone), *came]


def test_without_a_change_the_blocks_are_the_same() -> None:
    blocks = drawn(1)
    nothing = blocks.take(np.zeros(len(blocks), np.bool_))
    assert len(blocks) > 1
    assert list(changed_blocks(blocks, (), nothing)) == list(blocks)
    assert list(changed_blocks(nothing, (), blocks)) == list(blocks)
    assert len(changed_blocks(blocks, blocks.path.to_pylist(), nothing)) == 0


def test_changed_deletes_count_unless_the_caller_says_otherwise() -> None:
    blocks = make_blocks({"path": ["a", "b"], "rows": [10, 10], "bytes": [1, 1]}, None)
    given = (["d1", "d2"], np.array([4, 4], np.int64), np.array([1, 1], np.int64))
    assert with_deletes(blocks, *given).live_rows.tolist() == [6, 6]
    assert with_deletes(blocks, *given, np.array([True, False])).live_rows.tolist() == [6, UNKNOWN]


def test_blocks_under_keys_of_different_columns_are_not_joined() -> None:
    other = draw_blocks(random.Random(2), ClusterKey(KEY.columns[:1]))
    with pytest.raises(ValueError, match="under one key"):
        changed_blocks(drawn(1), (), other)


@pytest.mark.parametrize("seed", range(10))
def test_changed_deletes_equal_those_of_blocks_read_with_them(seed: int) -> None:
    rng, blocks = random.Random(seed), drawn(seed)
    n = len(blocks)
    ids = [rng.choice(["", "d1", "d2"]) for _ in range(n)]
    rows = np.array([rng.choice([UNKNOWN, 1, 5]) if each else 0 for each in ids], np.int64)
    size = np.array([7 if each else 0 for each in ids], np.int64)
    plain = {"path": blocks.path, "rows": blocks.rows, "bytes": blocks.bytes}
    read = make_blocks(plain | {"delete_id": ids, "deleted_rows": rows, "delete_bytes": size}, None)
    made = with_deletes(make_blocks(plain, None), ids, rows, size)
    assert list(made) == list(read)
    for name in ("delete_files", "delete_rows", "deleted_rows", "delete_bytes", "delete_id"):
        one, other = getattr(made, name), getattr(read, name)
        assert (one.tolist(), one.dtype if name != "delete_id" else one.type) == (
            other.tolist(),
            other.dtype if name != "delete_id" else other.type,
        )
