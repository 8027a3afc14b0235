"""Equal rows paired along the order of two sequences: what is paired is equal, and long runs are found."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.columnar.aligned import unpaired


def left_of(before: str, *files: str, masked: tuple[int, ...] = ()) -> tuple[str, list[str]]:
    """The letters that are in no pair, compared as numbers and as text, where ``_`` is NULL."""
    letters = [None if c == "_" else c for c in before + "".join(files)]
    columns = [
        pa.array([None if c is None else ord(c) for c in letters], pa.int64()),
        pa.array(letters, pa.string()),
    ]
    free = np.array([i not in masked for i in range(len(before))], np.bool_)
    starts = np.cumsum([len(before), *map(len, files)]).tolist()
    ranges = [range(start, stop) for start, stop in pairwise(starts)]
    left = unpaired(columns, free, ranges)
    kept = [before, *files]
    flags = [left[: len(before)], *(left[r.start : r.stop] for r in ranges)]
    texts = [
        "".join(c for c, f in zip(text, flag, strict=True) if f)
        for text, flag in zip(kept, flags, strict=True)
    ]
    return texts[0], texts[1:]


@pytest.mark.parametrize(
    "before, files, left",
    [
        ("abcdefg", ["abcdefg"], ("", [""])),
        ("abcdefg", ["abdeg"], ("cf", [""])),
        ("abcdefg", ["abXdefg"], ("c", ["X"])),
        ("abcdefg", ["Xabcdefg"], ("", ["X"])),
        ("abcdefg", ["efgabc"], ("d", [""])),
        ("abcdefg", ["efg", "abd"], ("c", ["", ""])),
        ("ab_d_f", ["ab_d_f"], ("", [""])),
        ("ab_d", ["abXd"], ("_", ["X"])),
        ("aaa", ["aaaa"], ("", ["a"])),
        ("abc", [""], ("abc", [""])),
        ("", ["abc"], ("", ["abc"])),
        ("abc", [], ("abc", [])),
    ],
)  # fmt: skip
def test_pairs(before: str, files: list[str], left: tuple[str, list[str]]) -> None:
    assert left_of(before, *files) == left


def test_rows_that_are_not_free_are_in_no_pair() -> None:
    assert left_of("abcd", "abcd", masked=(1,)) == ("", ["b"])


def test_long_runs_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    before = "".join(chr(0x4E00 + i) for i in range(20_000))
    after = before[:7_000] + before[7_003:13_000] + "x" + before[13_001:]
    left, (new,) = left_of(before, after)
    assert (left, new) == (before[7_000:7_003] + before[13_000], "x")


@pytest.mark.parametrize("seed", range(100))
def test_paired_rows_are_equal_rows(seed: int) -> None:
    rng = random.Random(seed)
    before = "".join(
        rng.choice("abc_" if seed % 2 else "abcdefghijklmnop") for _ in range(rng.randint(0, 60))
    )
    files = ["".join(c for c in before if rng.random() < 0.8) + rng.choice(["", "x", "ab"]) for _ in range(2)]
    masked = tuple(rng.sample(range(len(before)), min(3, len(before))))
    left, new = left_of(before, *files, masked=masked)
    live = "".join(c for i, c in enumerate(before) if i not in masked)
    paired = Counter(live) - Counter(left)
    assert paired == Counter("".join(files)) - Counter("".join(new))
    assert not Counter(left) - Counter(live)
