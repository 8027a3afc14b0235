"""Reading ahead: every result, in order, and never more in memory than is allowed."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar.read_ahead import read_ahead
from tests.sampling import fewer


@given(st.lists(st.integers(1, 9)), st.integers(1, 20))
@settings(max_examples=fewer(60), deadline=None)
def test_results_in_order_within_the_allowed_size(sizes: list[int], most: int) -> None:
    begun, lock = [0], threading.Lock()

    def work(number: int) -> int:
        with lock:
            begun[0] += sizes[number]
        return number

    taken = 0
    for expected, found in enumerate(read_ahead(work, range(len(sizes)), sizes.__getitem__, most)):
        assert found == expected
        with lock:
            assert begun[0] - taken - sizes[found] <= max(most, *sizes)
        taken += sizes[found]
    assert taken == sum(sizes)


def test_an_error_arrives_at_its_place_and_later_items_are_not_begun() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 2:
            raise OSError("no answer")
        return number

    found = read_ahead(work, range(1_000), lambda _: 1, 4)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(OSError, match="no answer"):
        next(found)
    assert max(begun) < 2 + 8
