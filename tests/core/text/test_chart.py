from __future__ import annotations

import numpy as np

from lakekeeper.core.text.chart import chart


def drawn(*values: float, width: int = 60) -> list[str]:
    return chart(np.array(values), np.arange(1, len(values) + 1), height=2, width=width).splitlines()


def test_heights_are_eighths_of_a_line_and_the_top_is_the_highest_column() -> None:
    assert drawn(0.0, 1.0, 2.0, 4.0) == [
        "4.0 ┤   █",
        "    │ ▄██",
        "  0 └────",
        "     1  4",
    ]


def test_values_that_share_a_column_are_averaged() -> None:
    assert drawn(1.0, 3.0, 4.0, 4.0, width=2) == [
        "4.0 ┤ █",
        "    │██",
        "  0 └──",
        "     1 4",
    ]


def test_a_chart_of_nothing_but_zero_has_an_empty_field() -> None:
    assert drawn(0.0, 0.0)[:2] == ["0.0 ┤", "    │"]
