"""What the default costs against the best choice in hindsight: a slice of tests/bench/regret.py."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakekeeper.core.units import Floats
from tests.bench.bounds import Files, files_of, unknown, worst_table, wrong_by_ten
from tests.bench.ingests import ALL
from tests.bench.regret import CONTENDERS, DEFAULT, RATES, Job
from tests.bench.regret import run as run_once

SLICE = ("windows", "hot range", "drift", "rest", "2 columns")
run = cache(run_once)


@pytest.mark.sampled("streams of the regret")
@pytest.mark.parametrize("stream", SLICE)
def test_the_default_costs_little_more_than_the_best_choice_in_hindsight(stream: str) -> None:
    """At 0.1 to 100 queries per commit; without the rent rule, a hot range cost 860 times as much at the lowest."""
    others = [run(Job(stream, name)) for name in CONTENDERS]
    ratios = [
        run(Job(stream, DEFAULT, rate)).cost(rate) / min(course.cost(rate) for course in others)
        for rate in RATES
    ]
    assert max(ratios) <= 1.2, ratios
    assert min(ratios) <= 0.9, ratios


@pytest.mark.sampled("streams of the regret")
@pytest.mark.parametrize("stream", SLICE)
def test_a_rate_that_is_wrong_by_ten_costs_a_few_times_the_best_choice(stream: str) -> None:
    """Ten times too low stays within three times the best; ten times too high does not on a hot range."""
    others = [run(Job(stream, name)) for name in CONTENDERS]

    def regret(stated: float, true: float) -> float:
        return run(Job(stream, DEFAULT, stated)).cost(true) / min(course.cost(true) for course in others)

    assert max(regret(low, high) for low, high in pairwise(RATES)) <= 3.0
    assert max(regret(high, low) for low, high in pairwise(RATES)) <= 4.3


@pytest.mark.sampled
@pytest.mark.parametrize("stream", ["drift", "2 columns"])
def test_no_course_costs_less_than_the_bound_on_all_policies(stream: str) -> None:
    """For any weight of a scan against a rewrite; if no rewrite is worth it, doing nothing costs exactly the bound."""
    files = files_of(ALL[stream]())
    played = [run(Job(stream, name)) for name in CONTENDERS] + [run(Job(stream, DEFAULT, r)) for r in RATES]
    for scan in (0.0, *np.geomspace(1e-4, 1e4, 33).tolist()):
        assert files.cost(scan, 1.0) <= min(course.cost(scan) for course in played) * (1 + 1e-9)
    assert files.cost(1e-9, 1.0) == pytest.approx(played[0].cost(1e-9))


def test_the_bound_on_all_policies_by_hand() -> None:
    """Keeping a file costs 10 in reads at one query per commit, rewriting it 100; 0.1 and 100 queries per commit.

    The contenders pay 1 and 100. Weigh the two regrets by 1/12 and 11/12: keeping the file costs 1/12 · 1/1 +
    11/12 · 1,000/100 = 9.25, rewriting it 1/12 · 100/1 + 11/12 · 100/100 = 9.25. At 0.1 and 10 queries per commit
    the contenders' best choice is also to keep it.
    """
    files = Files(0.0, np.array([10.0]), np.array([100.0]))
    least = {0.1: 1.0, 100.0: 100.0}
    assert files.bound(least) == pytest.approx(9.25, abs=0.05)
    assert unknown(files, least) == files.bound(least)
    assert wrong_by_ten(files, {0.1: 1.0, 10.0: 100.0}) == pytest.approx(1.0)


def test_no_policy_without_the_rate_is_within_three_times_the_best_on_drift() -> None:
    played = [run(Job("drift", name)) for name in CONTENDERS]
    least = {rate: min(course.cost(rate) for course in played) for rate in RATES}
    assert unknown(files_of(ALL["drift"]()), least) > 3


def test_without_the_rate_no_policy_is_within_three_times_the_best_on_every_table() -> None:
    """A known rate: e/(e − 1). Ten times too high or too low: 3.1 if only one of them is possible, else 7.9."""
    assert worst_table(1) == pytest.approx(np.e / (np.e - 1))
    assert worst_table(10) == pytest.approx(3.09, abs=0.005)
    assert worst_table(100) == pytest.approx(7.91, abs=0.005)


@pytest.mark.parametrize("spread", [1, 10, 100])
@settings(deadline=None)
@given(times=st.lists(st.floats(1e-3, 2), min_size=1, max_size=12), data=st.data())
@example(times=[1.0], data=None)
def test_no_way_to_merge_has_less_regret_on_the_worst_table(
    spread: float, times: list[float], data: st.DataObject | None
) -> None:
    """Any share of the merge at any time; the regret is looked at right after each, and in the end."""
    shares = (
        data.draw(st.lists(st.floats(0.01, 1), min_size=len(times), max_size=len(times))) if data else [1.0]
    )
    assert worst_regret(np.array(times), np.array(shares) / sum(shares), spread) >= worst_table(spread) - 1e-6


@pytest.mark.parametrize("spread", [1, 10, 100])
def test_one_way_to_merge_has_no_more_regret(spread: float) -> None:
    """F(t) = (c − 1)·(eᵗ − 1), in 2,000 steps."""
    c = worst_table(spread)
    done = np.linspace(0, 1, 2001)[1:]
    assert worst_regret(np.log1p(done / (c - 1)), np.full(2000, 1 / 2000), spread) == pytest.approx(
        c, rel=0.01
    )


def worst_regret(times: Floats, shares: Floats, spread: float) -> float:
    """The regret of doing these shares of a merge at these times, at the worst rate and end of the queries."""
    ends = np.append(times, np.inf)[:, None]
    costs = (
        np.where(times <= ends, times + 1 / r, ends) @ shares / np.minimum(ends, 1 / r)[:, 0]
        for r in (1, spread)
    )
    return max(float(each.max()) for each in costs)
