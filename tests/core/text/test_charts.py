from __future__ import annotations

import re

import pytest

from lakekeeper.core.text.charts import Interval, bar, columns, intervals, spans, steps


def numbers(page: str, name: str) -> list[float]:
    """The values of an attribute of the chart's shapes."""
    return [float(value) for value in re.findall(rf'(?<=\s){name}="([\d.]+)"', page)]


def test_steps_reach_the_top_where_the_value_is_highest_and_join_equal_neighbours() -> None:
    page = steps([("now", [1, 1, 4, 4])], title="depth", left=("4", "0"), ticks=["a", "z"], height=100)
    assert 'd="M0,100H0.0V75.0H500.0V0.0H1000V100Z"' in page
    assert re.findall(r"<span>(.*?)</span>", page) == ["4", "0", "a", "z"]


def test_two_series_share_their_scale() -> None:
    page = steps([("now", [8]), ("then", [2])], title="depth", left=("8", "0"), ticks=[], height=100)
    assert re.findall(r'class="(\w+)" d="M0,100H0.0V([\d.]+)', page) == [("now", "0.0"), ("then", "75.0")]


def test_intervals_have_their_place_and_are_never_too_narrow_to_see() -> None:
    bars = [Interval(0.0, 0.5, 0, "merge"), Interval(0.5, 0.5, 1, "leave")]
    page = intervals(bars, 2, title="level 0", label="L0")
    assert numbers(page, "x") == [0.0, 500.0]
    assert numbers(page, "width")[1] >= 2
    assert numbers(page, "y")[0] < numbers(page, "y")[1]


def test_columns_are_as_high_as_their_values() -> None:
    page = columns(
        [(10.0, "ten"), (5.0, "five"), (0.0, "zero")], title="bytes", top="10", ticks=[], height=90
    )
    assert numbers(page, "height") == [90.0, 45.0, 0.0]
    assert [y + h for y, h in zip(numbers(page, "y"), numbers(page, "height"), strict=True)] == [90.0] * 3
    assert re.findall("<title>(.*?)</title>", page) == ["ten", "five", "zero"]


def test_a_span_falls_from_before_to_after() -> None:
    page = spans([(40.0, 2.0, "x")], title="depth", top="40", ticks=[])
    assert numbers(page, "y1")[0] < numbers(page, "y2")[0]


@pytest.mark.parametrize(
    "made",
    [steps([("now", [])], title="t", left=("", ""), ticks=[]), columns([], title="t", top="", ticks=[])],
)
def test_nothing_to_draw_is_an_empty_chart(made: str) -> None:
    assert "<svg" in made


def test_the_title_of_a_chart_is_escaped_and_read_out() -> None:
    page = columns([(1.0, "<i>")], title='"<b>"', top="<u>", ticks=["<s>"])
    assert not re.search("<[ibus]>", page)
    assert 'role="img"' in page
    assert 'aria-label="&quot;&lt;b&gt;&quot;"' in page


def test_a_bar_of_any_share_is_visible() -> None:
    assert "width:50.0%" in bar(0.5)
    assert "width:1.0%" in bar(1e-9)
    assert "width:0;" in bar(0)
