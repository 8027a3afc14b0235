"""The daily slice of expensive tests: small, the same for all workers, and complete over the days."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import ALL, VARIABLE, chosen_day, named, sliced

FIRST = date(2026, 11, 24)


def days(number: int) -> list[str]:
    return [(FIRST + timedelta(days=n)).isoformat() for n in range(number)]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 5))
def test_every_case_runs_once_in_as_many_days_as_share_it(families: list[str], share: int) -> None:
    tests = list(enumerate(families))
    slices = [sliced(tests, day, share) for day in days(share)]
    for number, _ in tests:
        assert sum(number in taken for taken, _ in slices) == 1
    for taken, left in slices:
        assert sorted(taken + left) == list(range(len(tests)))


def test_a_slice_takes_other_cases_of_other_families() -> None:
    tests = [((family, n), family) for family in map(str, range(40)) for n in range(3)]
    taken, _ = sliced(tests, days(1)[0])
    assert len(taken) == 40
    assert {n for _, n in taken} == {0, 1, 2}


@pytest.mark.parametrize(
    "cases, on_each_day, period", [(3, {1}, 3), (4, {1, 2}, 3), (5, {1}, 5), (24, {4, 5}, 5)]
)
def test_large_families_are_spread_over_more_days(cases: int, on_each_day: set[int], period: int) -> None:
    tests = [(n, "family") for n in range(cases)]
    slices = [sliced(tests, day)[0] for day in days(period)]
    assert {len(taken) for taken in slices} == on_each_day
    assert sorted(n for taken in slices for n in taken) == list(range(cases))


def test_all_takes_every_case() -> None:
    assert sliced([(1, "a"), (2, "a")], ALL) == ([1, 2], [])


def test_the_day_is_handed_to_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-02-03")
    assert chosen_day() == "2026-02-03"
    monkeypatch.delenv(VARIABLE)
    assert chosen_day() == datetime.now(timezone.utc).date().isoformat()


def test_a_named_test_always_runs() -> None:
    assert named(["tests/core/model/test_keys.py::test_x"])
    assert not named(["tests/core", "-q"])
