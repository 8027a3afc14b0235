"""What the default costs against the best in hindsight: a slice of the benchmark of regret (tests/bench/regret.py)."""

from __future__ import annotations

import pytest

from tests.bench.regret import CONTENDERS, DEFAULT, RATES, Job, run

SLICE = ("windows", "hot range", "drift", "rest", "2 columns")


@pytest.mark.parametrize("stream", SLICE)
def test_the_default_costs_little_more_than_the_best_choice_in_hindsight(stream: str) -> None:
    """At 0.1 to 100 queries a commit; before rent decided, a hot range was 860 times too dear at the lowest rate."""
    others = [run(Job(stream, name)) for name in CONTENDERS]
    ratios = [
        run(Job(stream, DEFAULT, rate)).cost(rate) / min(course.cost(rate) for course in others)
        for rate in RATES
    ]
    assert max(ratios) <= 1.4, ratios
    assert min(ratios) <= 1.0, ratios
