"""The time factor: the threshold at each age, and that a block never becomes less due with age."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.planning.time_decay import youth_of
from lakekeeper.errors import OptionError
from lakekeeper.testing.draws import MIB, Shape, draw_snapshot
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from tests.core.drawn_deletes import with_deletes
from tests.sampling import fewer

DAY = 86_400_000
NOW = 100 * DAY
SHAPE = Shape(most=40, columns=1, kinds=("int",), partitions=2)
OPTIONS = resolve()
POLICIES: tuple[Policy, ...] = (DELETES, SIZES)


def aged(seed: int, days: list[float]) -> Snapshot:
    """Drawn blocks with few or many deleted rows, added so many days ago (in turn); -1: unknown."""
    rng = random.Random(seed)
    drawn = with_deletes(rng, draw_snapshot(rng, SHAPE))
    n = len(drawn.blocks)
    share = np.array([rng.choice([0.0, 0.04, 0.06, 0.1, 0.2, 0.29, 0.5]) for _ in range(n)])
    known = drawn.blocks.deleted_rows > 0
    deleted = np.where(known, (share * drawn.blocks.rows).astype(np.int64), drawn.blocks.deleted_rows)
    small = np.array([rng.choice([MIB, 8 * MIB, 200 * MIB]) for _ in range(n)], np.int64)
    files = (drawn.blocks.delete_files > 0) & (deleted != 0)
    blocks = replace(drawn.blocks, deleted_rows=deleted, delete_files=files.astype(np.int64), bytes=small)
    return with_ages(replace(drawn, blocks=blocks), days)


def with_ages(snapshot: Snapshot, days: list[float]) -> Snapshot:
    of_each = np.resize(np.array(days), len(snapshot.blocks))
    at = np.where(of_each < 0, 0, NOW - of_each * DAY).astype(np.int64)
    return replace(snapshot, blocks=replace(snapshot.blocks, added_at=at))


def taken(snapshot: Snapshot, policy: Policy, now: int = NOW) -> set[str]:
    plan = make_plan(snapshot, [policy], OPTIONS, Env(now_ms=now))
    return {path for task in plan.tasks for path in task.inputs}


def test_the_decay_curve() -> None:
    """Databend gives one point, 5% at seven days, and the end: all marked rows are cleaned up."""
    snapshot = with_ages(draw_snapshot(random.Random(3), SHAPE), [0, 3.5, 7, 30, -1])
    young = youth_of(snapshot.blocks, NOW)
    expected = [0.3, (0.3 * 0.05) ** 0.5, 0.05, 0.3 / 6 ** (30 / 7), 0.0]
    ahead = replace(snapshot.blocks, added_at=np.full(len(snapshot.blocks), NOW + DAY))
    assert young.between(0.3, 0.05)[:5].tolist() == pytest.approx(expected)
    assert youth_of(ahead, NOW).between(0.3, 0.05)[0] == 0.3
    assert set(young.between(0.02, 0.05).tolist()) == {0.02}, (
        "a threshold for old files above the fresh one has no effect"
    )


@settings(max_examples=fewer(60), derandomize=True, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.tuples(st.floats(0, 30), st.floats(0, 30)), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from(POLICIES),
)
def test_an_older_block_is_never_judged_more_leniently(
    seed: int, days: list[tuple[float, float]], unknown: bool, policy: Policy
) -> None:
    young = aged(seed, [age for age, _ in days])
    old = with_ages(young, [-1 if unknown else age + more for age, more in days])
    assert taken(young, policy) <= taken(old, policy)


@pytest.mark.parametrize("deleted, days", [(60, 7), (40, 9), (10, 14), (1, 30)])
def test_marked_rows_are_all_removed_eventually(deleted: int, days: int) -> None:
    """Shares below 5% used to stay forever, as did the 6% of a file seven days old."""
    drawn = draw_snapshot(random.Random(3), SHAPE)
    n = len(drawn.blocks)
    blocks = replace(
        drawn.blocks,
        rows=np.full(n, 1000),
        deleted_rows=np.full(n, deleted),
        delete_files=np.ones(n, np.int64),
        bytes=np.full(n, 100 * MIB),
    )
    snapshot = replace(drawn, blocks=blocks)
    assert not taken(with_ages(snapshot, [0]), DELETES)
    assert len(taken(with_ages(snapshot, [days]), DELETES)) == n


def test_age_makes_a_difference() -> None:
    """The property above holds even without a time factor."""
    for policy in POLICIES:
        pairs = [(taken(aged(seed, [0]), policy), taken(aged(seed, [9]), policy)) for seed in range(20)]
        assert sum(young < old for young, old in pairs) > 5, policy.name


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_without_a_clock_there_is_no_time_factor(policy: Policy) -> None:
    for seed in range(20):
        fresh = aged(seed, [0])
        assert (
            taken(aged(seed, [40, -1]), policy, now=0) == taken(fresh, policy) == taken(fresh, policy, now=0)
        )


def test_outputs_are_fresh_and_a_second_run_does_nothing() -> None:
    landed = 0
    for seed in range(25):
        rng = random.Random(seed)
        table = MemoryTable("db.t", {"k": "int"})
        table.set_key(["k"])
        for _ in range(rng.randint(3, 9)):
            start = rng.randrange(200)
            table.append([{"k": start + i} for i in range(rng.choice([2, 10, 30]))])
            table.delete(f"k >= {start} and k < {start + rng.choice([1, 2, 8])}")
        adapter, runner, rounds = MemoryAdapter(table), MemoryRunner(), 0
        now = table.current.at_ms + 4 * DAY
        while (plan := _plan(adapter, now)).tasks:
            snapshot = adapter.snapshot()
            made = [
                adapter.write(runner.merge(adapter.read(task), task), task, "run-1") for task in plan.tasks
            ]
            adapter.commit(made, snapshot, f"run-{rounds}")
            rounds += 1
            assert rounds < 4, seed
        landed += rounds
    assert landed > 10


@pytest.mark.parametrize(
    "option,value,expected",
    [
        ("delete-ratio-threshold", 1.5, "a share of a file's rows from 0 to 1"),
        ("delete-ratio-threshold", -0.1, "a share of a file's rows from 0 to 1"),
        ("min-input-files", 1, "a whole number of files, at least 2"),
        ("budget-bytes-per-day", 0, "a size .*, at least 1"),
    ],
)
def test_a_value_out_of_range_is_refused(option: str, value: object, expected: str) -> None:
    with pytest.raises(OptionError, match=expected) as refused:
        resolve({option: value})
    assert option in str(refused.value)


def _plan(adapter: MemoryAdapter, now: int) -> Plan:
    options = resolve({"min-input-files": 4, "max-rows-per-file": 40})
    return make_plan(adapter.snapshot(), [SIZES, DELETES], options, Env(now_ms=now))
