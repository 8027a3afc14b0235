"""Sentences with named values: ``{size:bytes}``, ``{share:percent}``, ``{wait_ms:ms}``, ``{files:count file}``.

Other format specifications are Python's. A pair of numbers is a range (``5% to 18%``), several texts are a list.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any

from lakekeeper.core.text.formatting import counted, duration, percent, size

_UNITS: Mapping[str, Callable[[Any], str]] = {
    "bytes": size,
    "percent": percent,
    "ms": lambda ms: duration(ms / 1000),
}


class _Template(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        kind, _, noun = format_spec.partition(" ")
        if isinstance(value, tuple):
            *others, last = value
            before = [each for each in others if each != last]
            parts = [self.format_field(each, "," if noun else format_spec) for each in before]
            parts.append(self.format_field(last, format_spec))
            return (", " if isinstance(last, str) else " to ").join(dict.fromkeys(parts))
        if kind == "count":
            return counted(value, noun)
        return _UNITS[kind](value) if kind in _UNITS else format(value, format_spec)


def names_in(template: str) -> frozenset[str]:
    """The names that a template asks for; raises ValueError for one that cannot be parsed."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The sentence with its values; more values than it names are fine."""
    return _Template().vformat(template, (), values)
