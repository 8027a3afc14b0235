"""Sizes and times as text: ``128MiB``, ``20GB``, ``90s``, ``7d``; parsed exactly and printed so that they parse back.

A size with ``B`` alone is decimal (``1GB`` = 10⁹), with ``iB`` or without ``B`` binary (``1GiB`` = ``1g`` = 2³⁰, as in
Spark). A number without a unit is in bytes, or in the unit that the name of a time option ends with.
"""

from __future__ import annotations

import re
from fractions import Fraction

_LETTERS = ("", "k", "m", "g", "t", "p")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_TIMES = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE)

SIZE_EXAMPLES = "64MB, 128MiB, or a number of bytes"
TIME_EXAMPLES = "90s, 15m, 2h, 7d"


def parse_size(text: str) -> int:
    """Bytes; a fraction of a byte is cut off, but a number without a unit must be whole. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    number, letter, suffix = Fraction(match[1]), match[2].lower(), (match[3] or "").lower()
    if not letter and number.denominator != 1:
        raise ValueError(text)
    return int(number * (1000 if suffix == "b" else 1024) ** _LETTERS.index(letter))


def size_text(count: int) -> str:
    """The shortest exact text: ``128MiB``, ``500MB``, ``1234``."""
    texts = [str(count)]
    for base, suffix in ((1024, "iB"), (1000, "B")):
        power = 0
        while count and power + 1 < len(_LETTERS) and count % base ** (power + 1) == 0:
            power += 1
        if power:
            texts.append(f"{count // base**power}{_LETTERS[power].upper()}{suffix}")
    return min(texts, key=lambda text: (len(text), text.isdigit()))


def parse_time(text: str, bare_ms: int | None) -> int:
    """Milliseconds; a number without a unit counts ``bare_ms`` each, None: it needs a unit. Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    each = _TIMES[match[2].lower()] if match[2] else bare_ms
    if each is None:
        raise ValueError(text)
    exact = Fraction(match[1]) * each
    if each == 1 and exact.denominator != 1:
        raise ValueError(text)
    return int(exact)


def time_text(ms: int) -> str:
    """In the largest unit that divides it: ``7d``, ``90s``, ``250ms``."""
    if not ms:
        return "0s"
    unit = next(unit for unit, each in reversed(_TIMES.items()) if ms % each == 0)
    return f"{ms // _TIMES[unit]}{unit}"
