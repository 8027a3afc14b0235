"""``sizes`` packs small neighbours: what counts as small, when a file waits, and how often a byte is packed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.time_decay import OLD_MS
from lakekeeper.testing.drawing import parse_blocks, parse_key
from lakekeeper.testing.lake import MemoryTable
from tests.core.planning.drawn import left, merged, plan
from tests.engine.scene import Scene, rows

MB = 10**6
TARGET = (128 << 20) / MB


def stream(*megabytes: int, at: int = 0) -> str:
    """Files of these sizes, one after the other along the key."""
    return "\n".join(f"L0 f{n:02d} {n} {size}MB at={at}" for n, size in enumerate(megabytes))


def test_a_large_file_between_two_small_ones_keeps_them_apart() -> None:
    between = "L0 a 1--2 10MB\nL0 big 3--7 200MB\nL0 b 8--9 10MB"
    assert merged(plan(SIZES, between)) == []
    assert left(plan(SIZES, between)) == {"a": "few_neighbours", "b": "few_neighbours", "big": "not_small"}
    over = between.replace("3--7", "1--9")
    assert merged(plan(SIZES, over)) == [(0, 0, ("a", "b"))], (
        "it overlaps both, so packing them widens nothing"
    )


def test_packing_keeps_the_level() -> None:
    assert merged(plan(SIZES, stream(10, 10).replace("L0", "L3"))) == [(3, 3, ("f00", "f01"))]


def test_levels_and_partitions_are_not_packed_together() -> None:
    mixed = "L0 a 1 10MB\nL1 b 2 10MB\nL0 c 3 10MB part=p=1\nL0 d 4 10MB spec=1"
    made = plan(SIZES, mixed)
    assert merged(made) == []
    assert set(left(made).values()) == {"few_neighbours"}


@pytest.mark.parametrize(
    "sizes, packed",
    [
        ((20, 10, 10), ("f00", "f01", "f02")),  # 40 is twice the largest
        ((21, 10, 10), ("f01", "f02")),  # 41 is not: the largest waits, and its neighbours are packed
        ((21, 10), ()),
        ((95, 10), ("f00", "f01")),  # the group fills a file, however little is added
    ],
)
def test_a_file_is_packed_where_its_group_is_twice_as_large_or_full(
    sizes: tuple[int, ...], packed: tuple[str, ...]
) -> None:
    made = plan(SIZES, stream(*sizes))
    assert [names for _, _, names in merged(made)] == ([packed] if packed else [])
    waiting = set(left(made)) - set(packed)
    assert {left(made)[name] for name in waiting} <= {"light_neighbours"}


def test_the_last_files_of_a_stream_are_packed_as_they_age() -> None:
    """The factor of 2 falls to 1 at seven days."""
    two = stream(21, 10, at=1)
    assert merged(plan(SIZES, two, now_ms=1000)) == []
    assert merged(plan(SIZES, two, now_ms=OLD_MS // 7)) == []
    assert merged(plan(SIZES, two, now_ms=OLD_MS)) == [(0, 0, ("f00", "f01"))]


def test_few_files_wait_for_as_many_neighbours_as_the_option_asks_for() -> None:
    made = plan(SIZES, stream(10, 10, 10), min_input_files=5)
    [item] = made.left
    assert (item.reason.code, item.reason["more"]) == ("few_neighbours", (2, 2))
    assert len(plan(SIZES, stream(10, 10, 10, 10, 10), min_input_files=5).tasks) == 1


def test_each_byte_of_a_stream_is_packed_a_logarithmic_number_of_times() -> None:
    """After each commit the table is packed; n commits cost n log n bytes, not n squared."""
    sizes: list[int] = []
    rewritten, commits = 0, 64
    for _ in range(commits):
        sizes.append(1)
        drawn = "\n".join(f"L0 f{n:03d} {n} {size}MB" for n, size in enumerate(sizes))
        for task in plan(SIZES, drawn).tasks:
            at = sorted(int(name[1:]) for name in task.inputs)
            rewritten += sum(sizes[n] for n in at)
            sizes[at[0] : at[-1] + 1] = [sum(sizes[n] for n in at)]
    assert sum(sizes) == commits
    assert rewritten <= commits * (math.log2(commits) + 1)
    assert len(sizes) <= math.log2(commits) + 1


def test_without_queries_nothing_pays_back() -> None:
    made = plan(SIZES, stream(10, 10), queries_per_hour=0)
    assert merged(made) == []
    assert set(left(made).values()) == {"no_queries"}


def test_a_table_without_a_key_is_packed_in_the_order_of_its_blocks() -> None:
    snapshot = replace(parse_blocks(stream(10, 10, 200, 10, 10), parse_key("k:int")), key=None)
    made = plan(SIZES, snapshot)
    assert sum(len(names) for _, _, names in merged(made)) == 4
    assert left(made) == {"f02": "not_small"}


def test_a_file_is_not_packed_into_two_files_of_its_own_size() -> None:
    """80 MB and ten of 8 MB would come out as two files of 80 MB: nothing gained for the first."""
    small = [8] * 10
    [(_, _, names)] = merged(plan(SIZES, stream(80, *small)))
    assert names == tuple(f"f{n:02d}" for n in range(1, 11))
    [(_, _, names)] = merged(plan(SIZES, stream(80, 80, *small)))
    assert len(names) == 12, "two files of 120 MB are full"


@pytest.mark.parametrize("size, most", [(3, 2.0), (8, 1.7), (16, 1.7), (40, 1.7)])
def test_a_byte_of_a_long_stream_is_packed_twice_at_most(size: int, most: float) -> None:
    """A pass after each tenth commit; the writer cuts outputs of equal size, near the target."""
    sizes: list[float] = []
    rewritten, commits = 0.0, 200
    for commit in range(1, commits + 1):
        sizes.append(size)
        if commit % 10:
            continue
        drawn = "\n".join(f"L0 f{n:03d} {n} {round(each)}MB" for n, each in enumerate(sizes))
        for task in sorted(
            plan(SIZES, drawn, min_input_files=2).tasks, key=lambda task: min(task.inputs), reverse=True
        ):
            at = sorted(int(name[1:]) for name in task.inputs)
            total = sum(sizes[n] for n in at)
            files = max(1, math.ceil(total / (1.1 * TARGET)))
            rewritten += total
            sizes[at[0] : at[-1] + 1] = [total / files] * files
    assert sum(sizes) == pytest.approx(commits * size)
    assert rewritten <= most * commits * size
    assert len(sizes) <= 1.3 * sum(sizes) / TARGET + 3


def test_packing_leaves_fewer_files_and_every_row() -> None:
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for start in range(0, 40, 2):
        table.append(rows(start, start + 1))
    before = sorted(map(str, table.rows()))
    report = Scene(table).run("sizes")
    assert report.added_data_files_count < report.rewritten_data_files_count == 20
    assert sorted(map(str, table.rows())) == before
    assert np.unique(Scene(table).adapter.snapshot().blocks.level).tolist() == [0]


@pytest.mark.parametrize("days, packs", [(0, False), (7, True)])
def test_rests_between_full_files_are_packed_once_they_are_old(days: int, *, packs: bool) -> None:
    """Each commit adds a full file and a remainder: without a key, no remainder has a small neighbour at any age."""
    drawn = "\n".join(
        f"L0 c{n:02d}-{part} 1 {(200, 10)[part]}MB at={n + 1}" for n in range(9) for part in (0, 1)
    )
    unkeyed = replace(parse_blocks(drawn, parse_key("k:int")), key=None)
    made = plan(SIZES, unkeyed, now_ms=9 + days * OLD_MS // 7)
    rests = tuple(f"c{n:02d}-1" for n in range(9))
    assert [inputs for _, _, inputs in merged(made)] == ([rests] if packs else [])
