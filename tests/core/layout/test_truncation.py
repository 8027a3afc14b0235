"""Truncated bounds: files cut from one sorted run never overlap, and no bound falls below a value's prefix."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.layout.ranks import column_ranks
from lakekeeper.core.layout.truncation import upper_bounds
from lakekeeper.core.model.blocks import BlockSet, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.values import statistics

_LENGTH = 3
_TEXTS = [
    "",
    "a",
    "ab",
    "b",
    "abc",
    "abcd",
    "abce",
    "abd",
    "abdz",
    "\ud7ff" * 4,
    "\ue000" * 4,
    "a\x7f",
    "zzzz",
    "é" * 5,
]
_BYTES = [
    b"",
    b"a",
    b"abc",
    b"abcd",
    b"abd",
    b"ab\xff",
    b"ab\xff\xff",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
]


def blocks_of(files: list[list[Any]], kind: str, tie_breaker: str = "") -> BlockSet:
    """Files with these values. With a ``tie_breaker``, truncated upper bounds end in it, as Delta's do."""
    found = [statistics(file, _LENGTH) for file in files]
    hi = [
        max(file)[:_LENGTH] + tie_breaker if tie_breaker and len(max(file)) > _LENGTH else each.hi
        for file, each in zip(files, found, strict=True)
    ]
    columns = {
        "path": [f"f{i:03d}" for i in range(len(files))],
        "rows": [len(file) for file in files],
        "bytes": [1000] * len(files),
        "lo": [[each.lo for each in found]],
        "hi": [hi],
        "null_count": [[0] * len(files)],
        "exact": [[each.exact for each in found]],
    }
    return make_blocks(columns, ClusterKey((KeyColumn(("k",), kind, "1"),)))


@pytest.mark.sampled
@pytest.mark.parametrize("tie_breaker", ["", "\x7f", "\U0010ffff"])
def test_texts_cut_from_one_sorted_run_meet_at_most_in_a_prefix(tie_breaker: str) -> None:
    _check_runs(_TEXTS, "string", tie_breaker)


@pytest.mark.sampled
def test_bytes_cut_from_one_sorted_run_meet_at_most_in_a_prefix() -> None:
    """A prefix that ends in the greatest byte has a shorter upper bound, which counts as it is."""
    _check_runs([value for value in _BYTES if value[_LENGTH - 1 : _LENGTH] != b"\xff"], "binary", "")


def _check_runs(samples: list[Any], kind: str, tie_breaker: str) -> None:
    rng = random.Random(len(samples))
    order = (lambda text: text.encode("utf-8", "surrogatepass")) if kind == "string" else None
    usable = [value for value in samples if "\ud7ff" not in value] if kind == "string" else samples
    for _ in range(300):
        values = sorted((rng.choice(usable) for _ in range(rng.randint(2, 20))), key=order)
        cuts = sorted(rng.sample(range(1, len(values)), rng.randint(1, min(5, len(values) - 1))))
        files = [values[a:b] for a, b in itertools.pairwise([0, *cuts, len(values)])]
        blocks = blocks_of(files, kind, tie_breaker)
        lo, hi, _ = column_ranks(blocks, 0)
        assert (lo <= hi).all(), files
        for i, (before, after) in enumerate(itertools.pairwise(files)):
            prefix = after[0][:_LENGTH]
            if before[-1][:_LENGTH] <= prefix:
                assert hi[i] <= lo[i + 1], files


def test_bounds_that_no_other_block_begins_with_stay_as_they_are() -> None:
    blocks = blocks_of([["a", "c"], ["e", "g"]], "string")
    assert upper_bounds(blocks, 0) is blocks.hi[0]
    assert upper_bounds(replace(blocks, exact=(np.array([False, False]),)), 0).to_pylist() == ["c", "g"]


def test_a_timestamp_counts_by_its_millisecond() -> None:
    key = ClusterKey((KeyColumn(("k",), "timestamp", "1"),))
    ms = 1_700_000_000_000_000
    columns = {
        "path": ["a", "b"],
        "rows": [1, 1],
        "bytes": [1, 1],
        "lo": [[ms, ms]],
        "hi": [[ms + 999, ms + 1999]],
        "null_count": [[0, 0]],
        "exact": [[False, False]],
    }
    lo, hi, _ = column_ranks(make_blocks(columns, key), 0)
    assert lo.tolist() == [1, 1]
    assert hi.tolist() == [1, 2]
