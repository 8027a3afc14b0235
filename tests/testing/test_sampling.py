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


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=30))
def test_every_test_runs_once_in_as_many_days_as_share_it(drawn: list[tuple[str, int]]) -> None:
    shares = dict(drawn)
    tests = [(number, family, shares[family]) for number, (family, _) in enumerate(drawn)]
    for number, _, share in tests:
        ran = [number in sliced(tests, day)[0] for day in days(share)]
        assert sum(ran) == 1
    for taken, left in (sliced(tests, day) for day in days(3)):
        assert sorted(taken + left) == list(range(len(tests)))


def test_a_slice_takes_other_arguments_of_other_families() -> None:
    tests = [((family, n), family, 3) for family in map(str, range(40)) for n in range(3)]
    taken, _ = sliced(tests, days(1)[0])
    assert len(taken) == 40
    assert {n for _, n in taken} == {0, 1, 2}


def test_all_takes_every_test() -> None:
    assert sliced([(1, "a", 5), (2, "a", 5)], ALL) == ([1, 2], [])


def test_the_day_is_handed_to_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-02-03")
    assert chosen_day() == "2026-02-03"
    monkeypatch.delenv(VARIABLE)
    assert chosen_day() == datetime.now(timezone.utc).date().isoformat()


def test_a_named_test_always_runs() -> None:
    assert named(["tests/core/test_keys.py::test_x"])
    assert not named(["tests/core", "-q"])
