"""The budget of a fleet: whichever tasks run side by side, grants stay within the limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.scheduling.budget import FleetBudget

sizes = st.integers(0, 100)


@given(
    st.none() | st.integers(1, 200),
    st.none() | st.integers(1, 200),
    st.integers(0, 200),
    st.lists(st.tuples(sizes, sizes, st.booleans()), max_size=12),
)
def test_grants_never_exceed_the_limits(
    per_pass: int | None, per_day: int | None, today: int, steps: list[tuple[int, int, bool]]
) -> None:
    """Tasks start and end in any order; each rewrites at most its grant."""
    budget = FleetBudget(per_pass, per_day, spent_today_bytes=today)
    running: list[tuple[int | None, int]] = []
    spent = 0
    for wanted, rewrites, ends in steps:
        budget, granted = budget.grant(wanted)
        if granted != 0:
            running.append((granted, rewrites if granted is None else min(granted, rewrites)))
        if ends and running:
            given_bytes, rewritten = running.pop(0)
            budget = budget.settle(given_bytes, rewritten)
            spent += rewritten
        reserved = sum(each or 0 for each, _ in running)
        assert (budget.spent_bytes, budget.reserved_bytes) == (spent, reserved)
        if per_pass is not None:
            assert spent + reserved <= per_pass
        if per_day is not None:
            assert spent + reserved <= max(per_day - today, 0)


def test_a_task_gets_what_it_wants_as_far_as_the_budget_lasts() -> None:
    budget, first = FleetBudget(per_pass_bytes=100).grant(70)
    budget, second = budget.grant(70)
    budget, third = budget.grant(70)
    assert (first, second, third, budget.left_bytes) == (70, 30, 0, 0)
    budget = budget.settle(70, 10)
    assert (budget.left_bytes, budget.spent_bytes) == (60, 10)


def test_what_is_reserved_may_come_back_and_what_is_spent_does_not() -> None:
    budget, granted = FleetBudget(per_pass_bytes=100, per_day_bytes=150, spent_today_bytes=60).grant(70)
    assert not budget.all_reserved
    budget, rest = budget.grant(70)
    assert (granted, rest, budget.all_reserved) == (70, 20, True)
    assert not budget.settle(granted, 10).all_reserved
    assert not budget.settle(granted, 90).all_reserved, "nothing that comes back could be granted"
    assert not FleetBudget().all_reserved


def test_an_overrun_of_one_task_leaves_nothing() -> None:
    budget, granted = FleetBudget(per_pass_bytes=100).grant(100)
    over = budget.settle(granted, 900)
    assert (over.left_bytes, over.grant(1)[1]) == (0, 0)


def test_once_core_seconds_are_used_up_no_task_starts() -> None:
    budget = FleetBudget(per_pass_core_seconds=100, per_day_core_seconds=150, spent_today_core_seconds=60)
    assert budget.used_up == ""
    budget = budget.settle(None, 0, 89.5)
    assert (budget.used_up, budget.spent_core_seconds) == ("", 89.5)
    assert budget.settle(None, 0, 0.5).used_up == "auto.budget-core-seconds-per-day"
    pass_alone = FleetBudget(per_pass_core_seconds=100)
    assert pass_alone.settle(None, 0, 100).used_up == "auto.budget-core-seconds"
    assert FleetBudget().settle(None, 0, 1e9).used_up == ""


def test_without_limits_everything_is_granted() -> None:
    budget, granted = FleetBudget().grant(10**12)
    assert (granted, budget.left_bytes, budget.settle(None, 7).spent_bytes) == (None, None, 7)
