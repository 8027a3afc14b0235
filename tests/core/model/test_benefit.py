"""The score of a merge."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakekeeper.core.model.benefit import (
    WEEK_S,
    Load,
    Worth,
    score_of,
    worth,
)
from lakekeeper.core.model.coefficients import DEFAULTS
from tests.sampling import fewer


@settings(max_examples=fewer(100), derandomize=True, deadline=None)
@given(st.floats(0, 1e12), st.floats(1, 1e15), st.floats(1.01, 100))
@example(323896650646.0102, 1.0, 15.6875)  # 100 and above, in doubles
@example(5e-324, 1e15, 2.0)
def test_a_score_grows_with_the_gain_and_falls_with_the_work(gain: float, work: float, more: float) -> None:
    score = score_of(gain, work)
    assert 0 <= score <= 100
    assert score_of(gain * more, work) >= score >= score_of(gain, work * more)


def test_a_merge_that_pays_back_in_a_week_scores_fifty() -> None:
    assert score_of(10.0, 10.0 * WEEK_S) == 50.0


def test_a_worth_survives_its_data() -> None:
    one = worth(Load(3.0, 30.0, 300.0), Load(1.0, 10.0, 100.0), 1000.0, 0.1, DEFAULTS)
    assert Worth.from_dict(one.to_dict()) == one
    assert one.pays_back_seconds == 50.0
