"""Charts as SVG shapes between axes of HTML: they stretch to any width, and their labels keep their size.

365 ┤▇▇▇▆▆▆▅▅▅        labels are text of the page: they follow its font, colours and zoom
  0 └──────────       shapes have classes, which the page's style sheet colours
    AA1   ZZ9
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakekeeper.core.text.markup import Child, Markup, joined, tag

_WIDTH = 1000
_LANE, _WIDE_LANE, _FEW = 6, 10, 4
_NARROWEST = 2.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A bar from ``first`` to ``last`` (0 to 1) in a lane, of a class of the style sheet."""

    first: float
    last: float
    lane: int
    class_: str


def steps(
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    title: str,
    left: tuple[str, str],
    ticks: Sequence[str],
    height: int = 120,
) -> Markup:
    """Series (class, values) over the same bins, as filled steps from zero; ``left`` labels the highest and zero."""
    highest = max((value for _, values in series for value in values), default=0) or 1
    shapes = [tag("path", class_=name, d=_outline(values, highest, height)) for name, values in series]
    return _framed(shapes, title, left, ticks, height)


def intervals(
    bars: Sequence[Interval], lanes: int, *, title: str, label: str, ticks: Sequence[str] = ()
) -> Markup:
    """Bars in their lanes, with a label at the left."""
    lane = _WIDE_LANE if lanes <= _FEW else _LANE
    shapes = [
        tag(
            "rect",
            class_=bar.class_,
            x=f"{bar.first * _WIDTH:.1f}",
            y=bar.lane * lane + 1,
            width=f"{max((bar.last - bar.first) * _WIDTH - 1, _NARROWEST):.1f}",
            height=lane - 2,
        )
        for bar in bars
    ]
    return _framed(shapes, title, [label], ticks, lanes * lane)


def columns(
    values: Sequence[tuple[float, str]], *, title: str, top: str, ticks: Sequence[str], height: int = 90
) -> Markup:
    """One column for each (value, text); the text is shown where a pointer rests."""
    highest = max((value for value, _ in values), default=0) or 1
    slot = _WIDTH / max(len(values), 1)
    width = min(slot * 0.8, 60.0)
    shapes = []
    for at, (value, text) in enumerate(values):
        tall = value / highest * height
        x = at * slot + (slot - width) / 2
        place = {
            "x": f"{x:.1f}",
            "y": f"{height - tall:.1f}",
            "width": f"{width:.1f}",
            "height": f"{tall:.1f}",
        }
        shapes.append(tag("rect", tag("title", text), class_="column", **place))
    return _framed(shapes, title, [top, "0"], ticks, height)


def spans(
    values: Sequence[tuple[float, float, str]],
    *,
    title: str,
    top: str,
    ticks: Sequence[str],
    height: int = 90,
) -> Markup:
    """For each (before, after, text) a line from the one to the other, which ends in a mark."""
    highest = max((max(before, after) for before, after, _ in values), default=0) or 1
    slot = _WIDTH / max(len(values), 1)
    shapes = []
    for at, (before, after, text) in enumerate(values):
        x = at * slot + slot / 2
        upper, lower = (4 + (1 - value / highest) * (height - 8) for value in (before, after))
        drawn = {"x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": f"{upper:.1f}", "y2": f"{lower:.1f}"}
        dot = {"x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": f"{lower:.1f}", "y2": f"{lower:.1f}"}
        shapes += [
            tag("line", tag("title", text), class_="fall", **drawn),
            tag("line", tag("title", text), class_="mark", **dot),
        ]
    return _framed(shapes, title, [top, "0"], ticks, height)


def bar(share: float) -> Markup:
    """A bar of this share of the cell's width; any share above zero is visible."""
    width = f"{max(share, 0.01):.1%}" if share > 0 else "0"
    return tag(
        "div",
        style=f"width:{width};height:.7em;background:var(--then,#1f6feb);border-radius:2px",
        class_="bar",
    )


def _outline(values: Sequence[float], highest: float, height: int) -> str:
    """Steps as a closed path; neighbours of equal height are one step."""
    width = _WIDTH / max(len(values), 1)
    path = [f"M0,{height}"]
    for at, value in enumerate(values):
        if at == 0 or value != values[at - 1]:
            path.append(f"H{at * width:.1f}V{height - value / highest * height:.1f}")
    return "".join([*path, f"H{_WIDTH}V{height}Z"])


def _framed(
    shapes: Sequence[Markup], title: str, left: Sequence[Child], below: Sequence[Child], height: int
) -> Markup:
    svg = tag(
        "svg",
        joined(shapes),
        role="img",
        aria_label=title,
        viewBox=f"0 0 {_WIDTH} {height}",
        preserveAspectRatio="none",
        style=f"height:{height}px",
    )
    axis = tag("div", *(tag("span", text) for text in below), class_="x") if below else None
    return tag("div", tag("div", *(tag("span", text) for text in left), class_="y"), svg, axis, class_="plot")
