"""Numbers, tables and bars as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import takewhile

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST = 30  # characters, the least width of a wrapped column


def size(count: float) -> str:
    """``1536`` → ``1.5 KiB``."""
    for unit, digits in (("B", 0), ("KiB", 1), ("MiB", 1), ("GiB", 1), ("TiB", 1)):
        if abs(round(count, digits)) < 1024 or unit == "TiB":
            return f"{count:.{digits}f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def percent(share: float) -> str:
    """``0.125`` → ``12.5%``; rounded down, so that a share below a threshold never reads as equal to it."""
    return f"{math.floor(share * 1000 + 1e-9) / 10:g}%" if share >= 0.001 or not share else "under 0.1%"


def bar(value: float, top: float, width: int = 30) -> str:
    """A bar in eighths of a character, ``width`` characters for ``top``; any value above zero is visible."""
    if top <= 0 or value <= 0:
        return ""
    eighths = max(1, round(value / top * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), width: int = 0) -> str:
    """Rows (the first is the heading) as aligned columns; columns in ``right`` are right-aligned.

    With ``width``, the last column is wrapped so that lines are no wider, as far as its words allow.
    """
    rows = _wrapped_last(rows, width) if width else rows
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        )
        for r in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)


def _wrapped_last(rows: Sequence[Sequence[str]], width: int) -> list[Sequence[str]]:
    others = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    room = max(width - sum(others) - 2 * len(others), _NARROWEST)
    blank = [""] * len(others)
    return [
        (*(row[:-1] if number == 0 else blank), part)
        for row in rows
        for number, part in enumerate(wrapped(row[-1], room).splitlines() or [""])
    ]


def wrapped(text: str, width: int = 80, *, first: str = "", rest: str = "") -> str:
    """Text in lines of at most ``width``, words whole, the first line after ``first`` and the others after ``rest``."""
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def bars(counts: Mapping[str, int]) -> str:
    """A histogram, one bar per line, without the empty buckets at both ends."""
    filled = [i for i, n in enumerate(counts.values()) if n]
    if not filled:
        return "  (empty)"
    items = list(counts.items())[filled[0] : filled[-1] + 1]
    top = max(n for _, n in items)
    return "\n".join(f"  {name}  {n:>7,}  {bar(n, top)}" for name, n in items)


def duration(seconds: float) -> str:
    """``93600`` → ``26 hours``: in the largest unit that gives at least two; a negative one, of two clocks, is zero."""
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return "more than 100 years" if seconds > 100 * 31_557_600 else f"{seconds / length:,.0f} {unit}"
    return counted(max(round(seconds), 0), "second")


def significant(number: float) -> str:
    """``3600.0`` → ``3,600``, ``0.12345`` → ``0.123``: three significant digits without an exponent."""
    if 0 < abs(number) < 1e-4:
        return "under 0.0001" if number > 0 else "above -0.0001"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def indent(text: str, by: int = 4) -> str:
    """Indent each line by this number of spaces."""
    return "\n".join(" " * by + line for line in text.splitlines())


def labels(texts: Sequence[str], longest: int) -> list[str]:
    """The texts in at most ``longest`` characters each; where cut texts would look alike, their common start is cut.

    ``2026-01-01 10:00`` and ``2026-01-01 11:30`` in at most 8: ``…10:00`` and ``…11:30``
    """

    def cut(start: int) -> list[str]:
        return [
            text if len(text) <= longest else _cut("…" * (start > 0) + text[start:], longest)
            for text in texts
        ]

    long = [text for text in texts if len(text) > longest]
    shared = sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, zip(*long, strict=False)))
    word = shared
    while word and long[0][word - 1].isalnum():
        word -= 1
    return max((cut(start) for start in (0, word, shared)), key=lambda found: len(set(found)))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def counted(count: int, what: str) -> str:
    """``3 files``, ``1 file``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
