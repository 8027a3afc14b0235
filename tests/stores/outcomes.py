"""What each verb came to on each store, as the table that ``make stores`` prints."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

Outcomes = dict[tuple[str, str], str]
"""(kind, verb) → what it came to."""

OUTCOMES: pytest.StashKey[Outcomes] = pytest.StashKey()
SAME_ROWS = "same rows"


def shown(outcomes: Outcomes) -> list[str]:
    """A Markdown table: a row for each verb, a column for each kind."""
    kinds = list(dict.fromkeys(kind for kind, _ in outcomes))
    verbs = list(dict.fromkeys(verb for _, verb in outcomes))
    cells = [["verb", *kinds]]
    cells += [[verb, *(outcomes.get((kind, verb), "") for kind in kinds)] for verb in verbs]
    return [_line(cells[0]), _line("---" for _ in cells[0]), *map(_line, cells[1:])]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
