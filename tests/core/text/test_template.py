"""Sentences with values in their units."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.core.text.template import fill, names_in


@pytest.mark.parametrize(
    "template, value, text",
    [
        ("{x:bytes}", 1536, "1.5 KiB"),
        ("{x:ms}", 7_200_000, "2 hours"),
        ("{x:percent}", 0.29999, "29.9%"),
        ("{x:percent}", 0.0001, "under 0.1%"),
        ("{x:count small file}", 1, "1 small file"),
        ("{x:count small file}", 1200, "1,200 small files"),
        ("{x:,.3g}", 0.5, "0.5"),
        ("{x:percent}", (0.0001, 0.29999), "under 0.1% to 29.9%"),
        ("{x:percent}", (0.4001, 0.4002), "40%"),
        ("{x:count small file}", (1, 1200), "1 to 1,200 small files"),
        ("{x:count small file}", (1, 1), "1 small file"),
        ("{x}", ("version 8", "version 9"), "version 8, version 9"),
        ("{x}", ("version 8",), "version 8"),
    ],
)
def test_a_value_in_its_unit(template: str, value: Any, text: str) -> None:
    assert fill(template, {"x": value, "more": 1}) == text


def test_the_names_of_a_template() -> None:
    assert names_in("{a:bytes} of {b:count row}, {a}") == {"a", "b"}
    assert names_in("no value") == set()
