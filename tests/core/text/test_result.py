from __future__ import annotations

import json
from typing import Any

from lakekeeper.core.text.result import Result


class Found(Result):
    def to_dict(self) -> dict[str, Any]:
        return {"where": "k < 3", "files": 2}

    def __str__(self) -> str:
        return "k < 3 & <b>\n2 files"


def test_a_result_is_one_line_of_json() -> None:
    assert json.loads(Found().to_json()) == Found().to_dict()
    assert "\n" not in Found().to_json()


def test_a_notebook_shows_the_text_and_interprets_no_markup_in_it() -> None:
    shown = Found()._repr_html_()
    assert shown.startswith("<pre")
    assert "k &lt; 3 &amp; &lt;b&gt;\n2 files" in shown


def test_no_integer_loses_digits_in_a_reader_with_floats() -> None:
    class Large(Found):
        def to_dict(self) -> dict[str, Any]:
            return {"most": 2**53 - 1, "id": 2**53 + 1, "all": [{"ids": (-(2**60), True)}]}

    text = Large().to_json()
    read = json.loads(text, parse_int=lambda digits: int(float(digits)))
    assert read == {"most": 2**53 - 1, "id": str(2**53 + 1), "all": [{"ids": [str(-(2**60)), True]}]}
