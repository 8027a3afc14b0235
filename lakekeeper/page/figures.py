"""The elements that the parts of a page consist of."""

from __future__ import annotations

from collections.abc import Iterable

from lakekeeper.core.text.markup import Child, Markup, tag


def figure(caption: Child, content: Child, below: Child = "") -> Markup:
    """Content under a caption, if there is one, with an explanation below it."""
    return tag(
        "figure",
        tag("figcaption", caption) if caption else None,
        content,
        tag("p", below, class_="note") if below else None,
    )


def scrolled(table: Markup) -> Markup:
    """A table that scrolls horizontally, also by keyboard, if the page is narrower."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="table")


def note(text: str) -> Markup:
    """A remark, as a paragraph."""
    return tag("p", text, class_="note")


def unreadable(error: str) -> Markup | None:
    """A note that takes the place of a history that cannot be read; None without an error."""
    return tag("p", error, class_="error") if error else None


def number(name: str, value: float | None, text: str) -> Markup:
    """A number as text, with the exact value for programs that read the page."""
    return tag("data", text, data_name=name, value="" if value is None else f"{value!r}")


def tiles(shown: Iterable[tuple[str, Child, str]]) -> Markup:
    """Numbers side by side: what each one is, its value, and a remark."""
    return tag(
        "dl", *(tag("div", tag("dt", what), tag("dd", value), tag("dd", more)) for what, value, more in shown)
    )
