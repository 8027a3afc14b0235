"""Files compared with those that were written in their place, without Spark: the missing rows, against a count."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.copied import Copies, compare
from lakekeeper.columnar.find import Column, Declined, Identity, Source, Written
from lakekeeper.columnar.rows import Budget

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(18, 2)),
        ("t", pa.timestamp("us", tz="UTC")),
        ("s", pa.struct([("a", pa.string()), ("b", pa.int32())])),
        ("v", pa.string()),
    ]
)
IDENTITY = Identity(tuple(Column(((name, None),)) for name in SCHEMA.names), whole=True)
NAN, ZERO = float("nan"), 0.0


def stored(folder: Path, name: str, rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Source:
    path = folder / name
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path, row_group_size=7)
    return Source(name, lambda: str(path))


def row(k: int, **values: Any) -> dict[str, Any]:
    return {"k": k, "x": k / 2, "d": k, "t": k, "s": {"a": str(k), "b": k}, "v": f"v{k}", **values}


def compared(
    folder: Path,
    read: Sequence[Sequence[dict[str, Any]]],
    left: Sequence[Sequence[dict[str, Any]]],
    **more: Any,
) -> Copies:
    masked = more.pop("masked", {})
    before = [
        Written(stored(folder, f"in{i}", rows), np.array(masked.get(i, ()), np.int64))
        for i, rows in enumerate(read)
    ]
    after = [stored(folder, f"out{i}", rows) for i, rows in enumerate(left)]
    return compare(before, after, more.pop("identity", IDENTITY), {}, more.pop("budget", None))


def missing(found: Copies) -> dict[str, list[int]]:
    return {name: places.tolist() for name, places in found.missing.items()}


def gained(found: Copies) -> dict[str, list[int]]:
    return {name: places.tolist() for name, places in found.gained.items()}


def test_the_rows_that_a_copy_lacks(tmp_path: Path) -> None:
    rows = [row(i) for i in range(20)]
    found = compared(tmp_path, [rows], [[r for r in reversed(rows) if r["k"] not in (3, 19)]])
    assert (found.files, missing(found)) == (("out0",), {"in0": [3, 19]})


def test_of_equal_rows_the_last_make_the_difference(tmp_path: Path) -> None:
    read = [[row(1), row(2), row(1)], [row(1), row(3)]]
    found = compared(tmp_path, read, [[row(1), row(3)], [row(2)]])
    assert (found.files, missing(found), gained(found)) == (("out0", "out1"), {"in0": [2], "in1": [0]}, {})
    more = compared(tmp_path, read, [[row(1)] * 3, [row(2), row(1), row(2), row(3)]])
    assert (missing(more), gained(more)) == ({}, {"out1": [1, 2]})


def test_rows_that_were_deleted_before_count_on_neither_side(tmp_path: Path) -> None:
    read = [[row(1), row(2), row(3)]]
    found = compared(tmp_path, read, [[row(2)]], masked={0: [0]})
    assert (found.files, missing(found)) == (("out0",), {"in0": [2]})
    back = compared(tmp_path, read, [[row(1), row(2)]], masked={0: [0]})
    assert (missing(back), gained(back)) == ({"in0": [2]}, {"out0": [0]})


@pytest.mark.parametrize(
    "changed",
    [
        {"v": "V1"}, {"v": None}, {"x": None}, {"d": None}, {"t": 2}, {"t": None}, {"s": None},
        {"s": {"a": None, "b": 1}}, {"s": {"a": "1", "b": None}},
    ],
    ids=str,
)  # fmt: skip
def test_a_changed_row_is_missing_and_gained(tmp_path: Path, changed: dict[str, Any]) -> None:
    found = compared(tmp_path, [[row(0), row(1), row(2)]], [[row(0)], [row(1, **changed), row(2)]])
    assert (missing(found), gained(found)) == ({"in0": [1]}, {"out1": [0]})


def test_a_file_of_mostly_other_rows_is_left_out(tmp_path: Path) -> None:
    found = compared(tmp_path, [[row(0), row(1), row(2)]], [[row(0)], [row(1), row(8), row(9)]])
    assert (found.files, missing(found), gained(found)) == (("out0",), {"in0": [1, 2]}, {})


@pytest.mark.parametrize("one, other, same", [(ZERO, -ZERO, False), (NAN, -NAN, True), (NAN, None, False)])
def test_floats_are_compared_by_their_bits(tmp_path: Path, one: Any, other: Any, same: bool) -> None:
    found = compared(tmp_path, [[row(1, x=one)]], [[row(1, x=other)]])
    assert bool(found.files) == same


def test_a_copy_without_rows(tmp_path: Path) -> None:
    found = compared(tmp_path, [[row(1)], []], [[]])
    assert (found.files, missing(found)) == (("out0",), {"in0": [0]})


@pytest.mark.parametrize("seed", range(30))
def test_like_a_count_by_hand(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = [row(i % 3, v=rng.choice(["a", None]), x=rng.choice([ZERO, -ZERO, None])) for i in range(8)]
    read = [[rng.choice(kinds) for _ in range(rng.randint(0, 30))] for _ in range(3)]
    kept = rng.sample([r for file in read for r in file], sum(map(len, read)) * 2 // 3)
    left = [kept[::2], [*kept[1::2], *rng.sample(kept, min(3, len(kept)))], [row(9), row(8), *kept[:1]]]
    followed = left[:2]
    found = compared(tmp_path, read, left)
    assert found.files == ("out0", "out1")
    assert missing(found) == by_hand(read, followed, "in")
    assert gained(found) == by_hand(followed, read, "out")


def by_hand(files: Sequence[Any], others: Sequence[Any], name: str) -> dict[str, list[int]]:
    """The last of equal rows of which the others have fewer."""
    have, expected = Counter(str(r) for file in others for r in file), dict[str, list[int]]()
    for number, file in enumerate(files):
        for at, each in enumerate(file):
            have[str(each)] -= 1
            if have[str(each)] < 0:
                expected.setdefault(f"{name}{number}", []).append(at)
    return expected


def test_what_cannot_be_compared_exactly_is_declined(tmp_path: Path) -> None:
    rows = [row(1)]
    with pytest.raises(Declined, match="too many bytes"):
        compared(tmp_path, [rows], [rows], budget=Budget(10))
    with pytest.raises(Declined, match="values alone"):
        compared(tmp_path, [rows], [rows], identity=Identity(IDENTITY.columns, whole=False))
    old = [row(1, t=-3_000_000_000_000_000)]
    with pytest.raises(Declined, match="before 1900"):
        compared(tmp_path, [old], [old])
    narrow = stored(tmp_path, "narrow", [row(1)], SCHEMA.set(0, pa.field("k", pa.int32())))
    with pytest.raises(Declined, match="not stored in the same way"):
        compare([Written(stored(tmp_path, "wide", rows), np.zeros(0, np.int64))], [narrow], IDENTITY, {})
    lacking = stored(tmp_path, "lacking", [{"k": 1}], pa.schema([("k", pa.int64())]))
    with pytest.raises(Declined):
        compare([Written(stored(tmp_path, "wide", rows), np.zeros(0, np.int64))], [lacking], IDENTITY, {})
