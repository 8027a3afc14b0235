"""The daily slice of expensive tests: small, the same for all workers, and complete over the days."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import ALL, MARKER, VARIABLE, chosen_day, fewer, named, of_other_days, selects, sliced

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


def test_a_slice_takes_different_cases_of_different_families() -> None:
    tests = [((family, n), family) for family in map(str, range(40)) for n in range(3)]
    taken, _ = sliced(tests, days(1)[0])
    assert len(taken) == 40
    assert {n for _, n in taken} == {0, 1, 2}


@pytest.mark.parametrize(
    "cases, on_each_day, period",
    [(3, {1}, 3), (4, {1, 2}, 3), (5, {1}, 5), (9, {1, 2}, 5), (10, {1}, 10), (24, {2, 3}, 10)],
)
def test_large_families_are_spread_over_more_days(cases: int, on_each_day: set[int], period: int) -> None:
    tests = [(n, "family") for n in range(cases)]
    slices = [sliced(tests, day)[0] for day in days(period)]
    assert {len(taken) for taken in slices} == on_each_day
    assert sorted(n for taken in slices for n in taken) == list(range(cases))


def test_all_takes_every_case() -> None:
    assert sliced([(1, "a"), (2, "a")], ALL) == ([1, 2], [])


def test_the_workers_get_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-02-03")
    assert chosen_day() == "2026-02-03"
    monkeypatch.delenv(VARIABLE)
    assert chosen_day() == datetime.now(timezone.utc).date().isoformat()


def test_a_named_test_always_runs() -> None:
    assert named(["tests/core/model/test_keys.py::test_x"])
    assert not named(["tests/core", "-q"])


class Item:
    """A test as pytest collects it, sampled or not marked at all."""

    def __init__(self, nodeid: str, *args: str, sampled: bool = True) -> None:
        self.nodeid = nodeid
        self._mark = pytest.mark.sampled(*args).mark if sampled else None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._mark if name == MARKER else None


def test_cases_of_sampled_tests_take_turns_and_tests_without_cases_run_with_all() -> None:
    cases: list[Any] = [Item(f"test_a[{n}]") for n in range(5)]
    whole: Any = Item("test_all")
    plain: Any = Item("test_b[0]", sampled=False)
    left = [of_other_days([*cases, whole, plain], day) for day in days(5)]
    assert all(len(each) == 5 and whole in each and plain not in each for each in left)
    assert all(sum(case not in each for each in left) == 1 for case in cases)
    assert of_other_days([*cases, whole, plain], ALL) == []


def test_tests_of_one_family_take_equal_slices() -> None:
    items: list[Any] = [Item(f"{name}[{n}]", "streams") for name in "ab" for n in range(7)]
    left = {item.nodeid for item in of_other_days(items, days(1)[0])}
    assert {name[1:] for name in left if name[0] == "a"} == {name[1:] for name in left if name[0] == "b"}


def test_tests_without_cases_take_turns_as_one_family() -> None:
    items: list[Any] = [Item(f"test_{name}", "one family") for name in "abc"]
    left = [of_other_days(items, day) for day in days(3)]
    assert all(len(each) == 2 for each in left)
    assert all(sum(item not in each for each in left) == 1 for item in items)


@pytest.mark.parametrize(
    "expression, asks",
    [
        ("", False),
        ("not spark", False),
        ("not spark and (not delta)", False),
        ("deep", True),
        ("not spark or deep", True),
    ],
)
def test_an_expression_that_only_leaves_tests_out_selects_none(expression: str, asks: bool) -> None:
    assert selects(expression) == asks


def test_a_daily_run_draws_a_third_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-02-03")
    assert [fewer(n) for n in (1, 3, 100)] == [1, 1, 34]
    monkeypatch.setenv(VARIABLE, ALL)
    assert fewer(100) == 100
