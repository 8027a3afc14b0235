"""HTML and SVG whose texts are always escaped: what is not :class:`Markup` is text.

tag("p", "a < b", tag("b", "!"))      <p>a &lt; b<b>!</b></p>
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_VOID = frozenset({"meta", "rect", "path", "line", "col", "input"})


class Markup(str):
    """Text that is HTML already. Made by :func:`tag` and :func:`joined`, or of a constant."""

    __slots__ = ()


Child = str | int | Markup | None


def escaped(text: object) -> Markup:
    """Text as HTML, in an element or in a quoted attribute; what is HTML already stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(str(text)))


def joined(children: Iterable[Child]) -> Markup:
    """Elements and texts one after the other; None is nothing."""
    return Markup("".join(escaped(child) for child in children if child is not None))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. In names of attributes ``_`` means ``-``, and one at the end is dropped (``class_``)."""
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def rows_table(
    rows: Sequence[Sequence[Child]], *, right: frozenset[int] = frozenset(), caption: str | None = None
) -> Markup:
    """A table whose first row is the heading and whose columns in ``right`` are aligned to the right."""
    head, *body = rows
    classes = ["r" if at in right else None for at in range(len(head))]
    style = ["text-align:right" if each else "text-align:left" for each in classes]
    return tag(
        "table",
        tag("caption", caption) if caption else None,
        tag(
            "thead",
            tag("tr", *(tag("th", c, scope="col", style=s) for c, s in zip(head, style, strict=True))),
        ),
        tag(
            "tbody",
            *(tag("tr", *(tag("td", c, style=s) for c, s in zip(row, style, strict=True))) for row in body),
        ),
    )


def facts_table(facts: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values, one pair in a row; a value of None is left out."""
    style = "text-align:left"
    return tag(
        "table",
        tag(
            "tbody",
            *(
                tag("tr", tag("th", name, scope="row", style=style), tag("td", value, style=style))
                for name, value in facts
                if value is not None
            ),
        ),
    )
