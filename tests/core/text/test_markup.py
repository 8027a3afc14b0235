from __future__ import annotations

from html.parser import HTMLParser

import pytest

from lakekeeper.core.text.markup import escaped, facts_table, joined, rows_table, tag

HOSTILE = "<script>alert('x')</script>\"&amp;"


class Seen(HTMLParser):
    """Elements with their attributes, and texts, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_texts_and_attributes_are_escaped_and_read_back_as_they_were() -> None:
    seen = Seen(tag("p", HOSTILE, title=HOSTILE, data_name="x"))
    assert seen.tags == [("p", {"title": HOSTILE, "data-name": "x"})]
    assert "".join(seen.texts) == HOSTILE


def test_markup_is_not_escaped_again() -> None:
    inner = tag("b", "1 < 2")
    assert tag("p", inner) == "<p><b>1 &lt; 2</b></p>"
    assert escaped(escaped("<")) == "&lt;"
    assert joined(["<", None, inner]) == "&lt;<b>1 &lt; 2</b>"


@pytest.mark.parametrize("text", ["<b>", "a & b"])
def test_a_plain_text_made_of_markup_is_text_again(text: str) -> None:
    """Only tag and joined make markup: formatting one yields plain text, which is escaped."""
    assert tag("p", f"{tag('b', text)}!").count("&lt;b&gt;") == 1


def test_empty_elements_and_absent_attributes() -> None:
    assert tag("meta", charset="utf-8", content=None) == '<meta charset="utf-8"/>'
    assert tag("div") == "<div></div>"


def test_a_table_names_its_columns_for_screen_readers() -> None:
    page = rows_table([("name", "n"), (HOSTILE, "1")], right=frozenset({1}))
    seen = Seen(page)
    heads = [given for name, given in seen.tags if name == "th"]
    assert [given["scope"] for given in heads] == ["col", "col"]
    assert [given["style"] for name, given in seen.tags if name == "td"] == [
        "text-align:left",
        "text-align:right",
    ]
    assert HOSTILE in "".join(seen.texts)


def test_facts_leave_out_what_is_not_known() -> None:
    seen = Seen(facts_table([("a", "1"), ("b", None)]))
    assert seen.texts == ["a", "1"]
