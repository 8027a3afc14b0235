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


def test_without_a_file_that_is_left_each_row_is_missing(tmp_path: Path) -> None:
    found = compared(tmp_path, [[row(1), row(1), row(2)], [row(3)]], [], masked={0: [1]}, budget=Budget(0))
    assert (found.files, missing(found), gained(found)) == ((), {"in0": [0, 2], "in1": [0]}, {})


@pytest.mark.parametrize("seed", range(30))
def test_like_a_count_by_hand(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = [row(i % 3, v=rng.choice(["a", None]), x=rng.choice([ZERO, -ZERO, None])) for i in range(8)]
    read = [[rng.choice(kinds) for _ in range(rng.randint(0, 30))] for _ in range(3)]
    kept = rng.sample([r for file in read for r in file], sum(map(len, read)) * 2 // 3)
    left = [kept[::2], [*kept[1::2], *rng.sample(kept, min(3, len(kept)))], [row(9), row(8), *kept[:1]]]
    found = compared(tmp_path, read, left)
    assert found.files == ("out0", "out1")
    before, after = counted(read), counted(left[:2])
    assert counted([read], missing(found), "in") == before - after
    assert counted([left], gained(found), "out") == after - before


def counted(files: Sequence[Any], places: dict[str, list[int]] | None = None, name: str = "") -> Counter[str]:
    """The rows of files, or those at some places."""
    if places is None:
        return Counter(str(r) for file in files for r in file)
    assert all(len(set(at)) == len(at) for at in places.values())
    (of_name,) = files
    return Counter(str(of_name[int(file.removeprefix(name))][i]) for file, at in places.items() for i in at)


@pytest.mark.parametrize("seed", range(20))
def test_copies_with_the_order_of_what_they_copy(tmp_path: Path, seed: int) -> None:
    """Long runs of equal rows, several files in one copy, and rows that are deleted, changed or added."""
    rng = random.Random(seed)
    read = [[row(1000 * i + j // 3) for j in range(rng.randint(300, 900))] for i in range(3)]
    masked = {i: sorted(rng.sample(range(len(file)), 5)) for i, file in enumerate(read)}
    live = [[r for j, r in enumerate(file) if j not in masked[i]] for i, file in enumerate(read)]
    kept = [[r for r in file if rng.random() > 0.01] for file in live]
    left = [[*kept[1], *kept[0]], [({**r, "v": "new"} if rng.random() < 0.01 else r) for r in kept[2]]]
    left[1].insert(rng.randrange(100), row(7))
    found = compared(tmp_path, read, left, masked=masked)
    assert found.files == ("out0", "out1")
    assert counted([read], missing(found), "in") == counted(live) - counted(left)
    assert counted([left], gained(found), "out") == counted(left) - counted(live)
    assert not any(set(at) & set(masked[int(file[2:])]) for file, at in missing(found).items())


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
