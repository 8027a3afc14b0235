"""``adaptive``: what it buys, what it leaves, and that it ends. Its parts against brute force over plain numbers."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.ages import ages
from lakekeeper.core.blocks import Snapshot, make_blocks
from lakekeeper.core.keys import ClusterKey, KeyColumn
from lakekeeper.core.lines import data_line, table_line
from lakekeeper.core.mass import Line
from lakekeeper.core.options import resolve
from lakekeeper.core.plan import Plan
from lakekeeper.core.planner import make_plan
from lakekeeper.core.policies import Env
from lakekeeper.core.policies.adaptive import ADAPTIVE, SETTINGS, level_of, price_of
from lakekeeper.core.ranks import Intervals
from lakekeeper.core.rent import Field, ladder, oldest_over, weigh
from lakekeeper.core.sections import fill
from lakekeeper.testing.draws import Shape, draw_snapshot
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import token

MB = 1_000_000
TARGET = 128 << 20


def snapshot_of(
    rows: list[tuple[Any, Any, int, int]], *, kind: str = "int", level: int = 0, commits: tuple[int, ...] = ()
) -> Snapshot:
    """Blocks as (lo, hi, bytes, added at), named a, b, c …"""
    key = ClusterKey((KeyColumn(("k",), kind, "1"),))
    n = len(rows)
    columns: dict[str, Any] = {
        "path": [chr(97 + i % 26) + str(i // 26 or "") for i in range(n)],
        "rows": [1000] * n,
        "bytes": [size for _, _, size, _ in rows],
        "added_at": [born for _, _, _, born in rows],
        "level": [level] * n,
        "key_id": [key.key_id if level else ""] * n,
        "lo": [[lo for lo, _, _, _ in rows]],
        "hi": [[hi for _, hi, _, _ in rows]],
        "null_count": [[0] * n],
        "exact": [[True] * n],
    }
    known = np.array(commits, np.int64)
    return Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key), commits_ms=known)


def plan_of(snapshot: Snapshot, env: Env | None = None, **options: Any) -> Plan:
    return make_plan(snapshot, [ADAPTIVE], resolve(options), env or Env())


def inputs(plan: Plan) -> list[str]:
    return sorted("".join(sorted(task.inputs)) for task in plan.tasks)


# --- the mass line


@pytest.mark.parametrize("seed", range(40))
def test_the_mass_in_a_range_is_the_sum_of_what_each_block_has_there(seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for i in range(rng.randint(1, 12)):
        lo = rng.randrange(50)
        rows.append((lo, lo + rng.choice([0, 0, 1, 7, 40]), rng.choice([1, 10, 100]) * MB, i))
    snapshot = snapshot_of(rows)
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    assert mass.total == pytest.approx(sum(size for _, _, size, _ in rows))
    for i, (a, b, _, _) in enumerate(rows):
        wanted = sum(size * _inside(lo, hi, a, b) for lo, hi, size, _ in rows)
        assert mass.inside(line.lo[i : i + 1], line.hi[i : i + 1])[0] == pytest.approx(float(wanted))


def _inside(lo: int, hi: int, a: int, b: int) -> Fraction:
    """The share of an even spread over [lo, hi] that lies in [a, b]; one value lies in it or not."""
    if lo == hi:
        return Fraction(a <= lo <= b)
    return Fraction(max(0, min(hi, b) - max(lo, a)), hi - lo)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_the_line_never_goes_back_whatever_the_values(kind: str) -> None:
    """Infinities, NaN, the ends of the numbers, text: shares stay shares."""
    values = sorted(SAMPLES[kind], key=token)
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i:]]
    snapshot = snapshot_of([(a, b, MB, 1) for a, b in pairs], kind=kind)
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    share = mass.share(line.lo, line.hi)
    assert np.isfinite(mass.upto).all()
    assert (np.diff(mass.upto) >= -1e-6 * mass.total).all()
    assert (share * len(pairs) >= 1 - 1e-6).all()  # its own bytes lie in its range
    widest = [i for i, pair in enumerate(pairs) if pair == (values[0], values[-1])]
    assert share[widest].min() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(30))
def test_each_partition_has_its_own_line_and_all_of_them_add_up(seed: int) -> None:
    snapshot = draw_snapshot(random.Random(seed), Shape(most=30, columns=2))
    if not len(snapshot.blocks):
        return
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    assert mass.total == pytest.approx(float(snapshot.blocks.live_bytes.sum()))
    starts = np.flatnonzero(np.diff(line.group, prepend=-1))
    ends = np.append(starts[1:], line.points) - 1
    group = line.group[line.lo]
    for first, last in zip(starts, ends, strict=True):
        own = snapshot.blocks.live_bytes[group == line.group[first]].sum()
        assert mass.inside(np.array([first]), np.array([last]))[0] == pytest.approx(
            float(own), rel=1e-6, abs=1
        )


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_block_over_each_point_and_each_stretch(seed: int) -> None:
    rng = random.Random(seed)
    points = rng.randint(2, 40)
    found = [(*sorted((rng.randrange(points), rng.randrange(points))), rng.randint(1, 9)) for _ in range(12)]
    lo, hi, age = (np.array(column) for column in zip(*found, strict=True))
    over, at_point = oldest_over(lo, hi, age.astype(np.float64), points)
    for x in range(points):
        assert at_point[x] == max([c for a, b, c in found if a <= x <= b], default=0)
        assert over[x] == max([c for a, b, c in found if a <= x and b > x], default=0)


@pytest.mark.parametrize("seed", range(60))
def test_the_rent_of_a_batch_is_what_its_blocks_cost_beyond_the_oldest_of_them(seed: int) -> None:
    """On lines of few points and of many: between the bounds of a few blocks a long line is not walked."""
    rng = random.Random(seed)
    points, count = rng.choice([8, 30, 400]), rng.randint(2, 8)
    ends = [sorted((rng.randrange(points), rng.randrange(points))) for _ in range(count)]
    lo, hi = (np.array(side) for side in zip(*ends, strict=True))
    atoms = [rng.choice([0, 0, 3]) if seed % 2 else 0 for _ in range(points)]
    gaps = [rng.randint(0, 5) for _ in range(points)]
    before = np.cumsum([0, *(a + g for a, g in zip(atoms, gaps, strict=True))])[:-1].astype(np.float64)
    upto = before + np.array(atoms) if any(atoms) else before
    queries = Line(upto, before, float(upto[-1]) or 1.0)
    age = np.array([float(rng.randint(1, 9)) for _ in range(count)])
    none, one = np.full(count, -1), np.ones(count)
    line = Intervals(lo, hi, np.zeros(points, np.int64), none, none, none >= 0)
    settled = np.zeros(count, np.bool_)
    field = Field(line, queries, queries.share(lo, hi), age, one, one, settled, alone=1)
    at = np.flatnonzero([rng.random() < 0.8 for _ in range(count)] + np.eye(1, count, 0)[0])
    batch = np.array([rng.randrange(2) for _ in at])
    found = weigh(field, at, batch, np.full(2, 2))
    for number in range(2):
        mine = [(int(lo[i]), int(hi[i]), float(age[i])) for i in at[batch == number]]
        if not mine:
            continue
        first, last = min(a for a, _, _ in mine), max(b for _, b, _ in mine)
        over = [(int(lo[i]), int(hi[i]), float(age[i])) for i in at]
        kept = sum(
            atoms[x] * max([c for a, b, c in over if a <= x <= b], default=0) for x in range(first, last + 1)
        )
        kept += sum(
            gaps[x] * max([c for a, b, c in over if a <= x < b], default=0) for x in range(first, last)
        )
        paid = sum((upto[b] - before[a]) * c for a, b, c in mine)
        assert found.rent[number] == pytest.approx((paid - kept) / queries.total)


# --- ages


def ages_of(born: list[int], commits: list[int], ours: list[bool]) -> list[float]:
    snapshot = snapshot_of([(1, 2, MB, b) for b in born])
    return ages(snapshot.blocks, np.array(commits, np.int64), np.array(ours)).tolist()


def test_an_age_is_commits_and_not_time() -> None:
    slow = [day * 86_400_000 for day in (10, 11, 12, 13)]
    fast = [10_000 + second for second in range(4)]
    for commits in (slow, fast):
        assert ages_of(commits, commits, [False] * 4) == [4, 3, 2, 1]


def test_what_a_merge_made_is_of_age_zero_until_somebody_commits() -> None:
    assert ages_of([100, 140], [100, 110, 120], [False, True]) == [3, 0]
    assert ages_of([100, 140], [100, 110, 120, 150], [False, True]) == [4, 1]


def test_births_before_the_known_commits_count_at_their_rate_but_not_for_ever() -> None:
    commits = [1000, 1010, 1020]
    assert ages_of([950, 1000, 0], commits, [False] * 3) == [8, 3, 3]
    assert ages_of([1], commits, [False]) == [3 + 9 * 3]


def test_where_no_commit_is_known_the_births_stand_for_them() -> None:
    assert ages_of([10, 10, 20, 30, 35], [], [False] * 4 + [True]) == [3, 3, 2, 1, 0]
    assert ages_of([0, 0], [], [False, True]) == [1, 0]


# --- what is bought


def test_wide_blocks_are_merged_at_once_and_narrow_ones_wait() -> None:
    wide = [(0, 1000, TARGET, t) for t in (1, 2)]
    assert inputs(plan_of(snapshot_of(wide, commits=(1, 2)))) == ["ab"]
    apart = [(1000 * i, 1000 * i + 999, TARGET, 0) for i in range(20)]
    narrow = [*apart, (100, 900, TARGET, 1), (200, 800, TARGET, 2)]
    waits = plan_of(snapshot_of(narrow, commits=(1, 2)))
    assert waits.tasks == ()
    assert any("not cost a rewrite yet" in left.reason and left.blocks == 3 for left in waits.left)
    later = snapshot_of(narrow, commits=tuple(range(1, 60)))
    assert inputs(plan_of(later)) == ["auv"]


def test_a_large_run_is_left_out_of_what_small_ones_pay_for() -> None:
    run = [(100 * i, 100 * i + 99, TARGET, 1) for i in range(50)]
    fresh = [(0, 4999, TARGET, t) for t in (90, 91, 92)]
    plan = plan_of(snapshot_of([*run, *fresh], commits=tuple(range(1, 93))), adaptive_lambda=1.2)
    assert [len(task.inputs) for task in plan.tasks] == [3]
    all_of_it = plan_of(snapshot_of([*run, *fresh], commits=tuple(range(1, 93))), adaptive_lambda=50)
    assert [len(task.inputs) for task in all_of_it.tasks] == [53]


def test_the_rent_of_fresh_blocks_does_not_buy_the_rewrite_of_what_lies_below_them() -> None:
    """All of it has paid, and so have the ten fresh ones: without the run of a hundred, far less is rewritten."""
    fresh = [(0, 9999, TARGET, 90 + t) for t in range(1, 11)]
    run = [(100 * i, 100 * i + 99, TARGET, 90) for i in range(100)]
    table = [*fresh, *run]
    commits = tuple(range(1, 101))
    plan = plan_of(snapshot_of(table, commits=commits), adaptive_lambda=3)
    assert [len(task.inputs) for task in plan.tasks] == [10]
    small = [*fresh, *((1000 * i, 1000 * i + 999, TARGET, 90) for i in range(10))]
    plan = plan_of(snapshot_of(small, commits=commits), adaptive_lambda=3)
    assert [len(task.inputs) for task in plan.tasks] == [20], (
        "ten files are little, to be rid of one more run"
    )


def test_data_that_comes_in_order_is_never_rewritten() -> None:
    rows = [(100 * i, 100 * i + 100, TARGET, i) for i in range(300)]
    plan = plan_of(snapshot_of(rows, commits=tuple(range(300))), adaptive_setting="aggressive")
    assert plan.tasks == ()
    assert [left.reason for left in plan.left] == [
        "no merge would spare a scan: what it overlaps is one sorted run, or nothing"
    ]


def test_partitions_are_weighed_each_by_itself_in_one_plan() -> None:
    key = ClusterKey((KeyColumn(("k",), "int", "1"),))
    n = 40
    columns: dict[str, Any] = {
        "path": [f"f{i:02d}" for i in range(n)],
        "partition": [f"p={i % 10}" for i in range(n)],
        "rows": [1000] * n,
        "bytes": [MB] * n,
        "lo": [[0] * n],
        "hi": [[9] * n],
        "null_count": [[0] * n],
        "exact": [[True] * n],
    }
    plan = plan_of(Snapshot("t", "memory", 7, "uuid", "0", key, make_blocks(columns, key)))
    assert sorted(task.partition for task in plan.tasks) == [f"p={i}" for i in range(10)]
    assert all(len(task.inputs) == 4 for task in plan.tasks)


def test_full_blocks_of_one_key_are_frozen_and_small_ones_packed_only_into_fewer() -> None:
    same = [(5, 5, size * TARGET // 100, t) for t, size in enumerate([90, 90, 30, 30, 30])]
    plan = plan_of(snapshot_of(same, commits=tuple(range(9))))
    assert inputs(plan) == ["cde"]
    assert any(left.level == -1 and left.blocks == 2 for left in plan.left)
    half = [(5, 5, 60 * TARGET // 100, t) for t in range(2)]
    assert plan_of(snapshot_of(half, commits=tuple(range(99)))).tasks == ()


def test_what_was_merged_and_has_no_statistics_is_not_merged_again() -> None:
    rows = [(None, None, MB, t) for t in range(4)]
    assert plan_of(snapshot_of(rows, level=1, commits=tuple(range(9)))).tasks == ()
    assert len(plan_of(snapshot_of(rows, commits=tuple(range(9)))).tasks) == 1


# --- too deep


def test_what_is_too_deep_does_not_wait_for_its_rent() -> None:
    """Forty blocks over one point of a long table: each query in a hundred pays for them."""
    run = [(10_000 * i, 10_000 * i + 9999, TARGET, 1) for i in range(2000)]
    heap = [(7 * i, 5_000 + 7 * i, TARGET, 90 + i) for i in range(40)]
    commits = tuple(range(1, 130))
    deep = plan_of(snapshot_of([*run, *heap], commits=commits), adaptive_lambda=0.05)
    assert sum(len(task.inputs) for task in deep.tasks) >= 40
    assert "too deep" in deep.tasks[0].reason
    few = plan_of(snapshot_of([*run, *heap[:6]], commits=commits), adaptive_lambda=0.05)
    assert few.tasks == ()


def test_nothing_is_forced_twice_between_two_commits() -> None:
    heap = [(7 * i, 5_000 + 7 * i, TARGET, 90 + i) for i in range(40)]
    merged = snapshot_of(heap, level=1, commits=tuple(range(1, 60)))
    assert plan_of(merged, adaptive_lambda=0.05).tasks == ()


# --- the workload


class Everywhere:
    """Queries that all ask for one stretch of the key."""

    def __init__(self, lo: int, hi: int) -> None:
        self.lo, self.hi = lo, hi

    def shares(self, snapshot: Snapshot, intervals: Intervals) -> Line | None:
        value = np.zeros(intervals.points)
        blocks = snapshot.blocks
        value[intervals.lo], value[intervals.hi] = blocks.lo[0].to_numpy(), blocks.hi[0].to_numpy()
        return Line((value >= self.lo).astype(np.float64), (value > self.hi).astype(np.float64), 1.0)


def test_what_is_asked_for_is_merged_first() -> None:
    """Two heaps of two, far apart, in a table of a hundred blocks: only one of them is ever read."""
    run = [(1000 * i, 1000 * i + 999, TARGET, 1) for i in range(100)]
    heaps = [(50_100, 50_900, TARGET, 2), (90_100, 90_900, TARGET, 2)]
    snapshot = snapshot_of([*run, *heaps], commits=(1, 2, 3))
    assert plan_of(snapshot).tasks == ()
    (task,) = plan_of(snapshot, Env(workload=Everywhere(90_300, 90_400))).tasks
    assert len(task.inputs) == 2
    assert plan_of(snapshot, Env(workload=Everywhere(10_300, 10_400))).tasks == ()


def test_the_price_is_the_calls_then_the_workloads_then_the_settings() -> None:
    assert price_of(resolve(), Env()) == SETTINGS["balanced"] == 6.25
    assert price_of(resolve(), Env(price=7.0)) == 7.0
    assert price_of(resolve({"adaptive.setting": "economy"}), Env(price=7.0)) == SETTINGS["economy"] == 1.0
    assert (
        price_of(resolve({"adaptive.lambda": "0.25", "adaptive.setting": "economy"}), Env(price=7.0)) == 0.25
    )


def test_the_level_that_is_shown_grows_with_the_run() -> None:
    assert [level_of(size) for size in (0.0, 0.3, 1, 3.9, 4, 16, 63, 64)] == [0, 0, 0, 0, 1, 2, 2, 3]


def test_the_ladder_goes_down_past_every_run_size_but_the_smallest() -> None:
    sizes = np.array([0.01, 0.5, 0.5, 900.0])
    steps = list(ladder(sizes))
    assert steps[0] > 900
    held = [int((sizes < theta).sum()) for theta in steps]
    assert held == sorted(set(held), reverse=True) == [4, 3, 1]


def test_a_text_key_is_weighed_by_its_values() -> None:
    rows = [("user-000", "user-999", TARGET, 1), ("user-500", "user-501", TARGET, 1)]
    snapshot = snapshot_of(rows, kind="string")
    line, mass = table_line(snapshot, null_region=False), data_line(snapshot)
    inside = mass.inside(line.lo, line.hi)
    assert inside[0] == pytest.approx(2 * TARGET)
    assert inside[1] == pytest.approx(TARGET * 1.001, rel=0.01)
    assert pa.types.is_string(snapshot.blocks.lo[0].type)


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_filled_one_block_after_another(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(30)
    owner = sorted(rng.randrange(4) for _ in range(count))
    size = [rng.randrange(12) for _ in range(count)]
    apart = [rng.random() < 0.2 for _ in range(count)]
    most, files = rng.randint(1, 30), rng.randint(2, 9)
    wanted: list[int] = []
    number, filled, held = -1, 0, 0
    for i in range(count):
        new = not i or owner[i] != owner[i - 1] or apart[i]
        if new or filled + size[i] > most or held + 1 > files:
            number, filled, held = number + 1, 0, 0
        filled, held = filled + size[i], held + 1
        wanted.append(number)
    parts = fill(
        np.array(owner, np.int64),
        np.array(size, np.int64),
        max_bytes=most,
        max_files=files,
        apart=np.array(apart, dtype=np.bool_),
    )
    assert (parts - (parts[0] if count else 0)).tolist() == wanted
