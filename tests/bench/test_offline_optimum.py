"""The exact optimum against all possible merges."""

from __future__ import annotations

from functools import cache

import pytest

from tests.bench.offline_optimum import courses, nearest_optimum, optimum


def _cheapest(commits: int, price: float, every: int) -> float:
    """Cost of the cheapest course, by trying every merge of the newest components after every commit."""

    @cache
    def after(number: int, components: tuple[int, ...]) -> float:
        if number == commits:
            return 0.0
        grown = (*components, 1)
        merges = range(2, len(grown) + 1) if (number + 1) % every == 0 else range(0)
        courses = [(0, grown)] + [(sum(grown[-k:]), (*grown[:-k], sum(grown[-k:]))) for k in merges]
        return min(paid + price * len(left) + after(number + 1, left) for paid, left in courses)

    return after(0, ())


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("price", [0.1, 0.5, 2.0, 10.0])
def test_no_course_is_cheaper_and_one_is_as_cheap(price: float, every: int) -> None:
    for commits in (1, 2, 5, 9):
        found = optimum(commits, [price], every=every)[0]
        cost = (found.rewritten + price * found.depth) * commits
        assert cost == pytest.approx(_cheapest(commits, price, every))


def test_a_longer_horizon_without_maintenance_is_as_deep_as_its_interval() -> None:
    found = optimum(90, [0.1, 20.0], every=90)
    assert [o.rewritten for o in found] == [0.0, 1.0], "at the very end a merge saves one scan of 89 files"
    assert found[0].depth == pytest.approx(45.5)


def test_the_ratio_of_the_optimum_to_itself_is_one() -> None:
    best = optimum(60, [2.0], every=5)[0]
    ratio, nearest = nearest_optimum(best.rewritten, best.depth, 60, every=5)
    assert ratio == pytest.approx(1.0)
    assert nearest.price == 2.0


def test_nothing_beats_the_optimum_at_any_price() -> None:
    assert nearest_optimum(0.0, 30.5, 60)[0] >= 1.0
    assert nearest_optimum(30.5, 1.0, 60)[0] >= 1.0


@pytest.mark.parametrize("every", [1, 4])
def test_a_long_course_includes_the_optimum_of_each_shorter_one(every: int) -> None:
    rewritten, depth = courses(40, [0.5], every=every)
    for commits in (1, 7, 40):
        short = optimum(commits, [0.5], every=every)[0]
        assert (rewritten[0, commits], depth[0, commits]) == pytest.approx(
            (short.rewritten * commits, short.depth * commits)
        )
