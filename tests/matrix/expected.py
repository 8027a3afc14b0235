"""The expected outcome of each cell, read from ``data/outcomes.txt``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.matrix.cells import Cell
from tests.matrix.sides import KINDS

_TABLE = Path(__file__).parent / "data" / "outcomes.txt"


@dataclass(frozen=True)
class Line:
    """Outcomes by kind for the cells that match the line."""

    action: str
    when: str
    verb: str
    outcomes: dict[str, str]

    def about(self, cell: Cell) -> bool:
        return (
            fnmatch(cell.action, self.action)
            and fnmatch(cell.when, self.when)
            and fnmatch(cell.verb, self.verb)
            and self.outcomes[cell.kind] != "."
        )


def lines() -> list[Line]:
    found = []
    for text in _TABLE.read_text(encoding="utf-8").splitlines():
        if text.strip() and not text.startswith("#"):
            action, when, verb, *outcomes = (word.strip() for word in text.split("|"))
            found.append(Line(action, when, verb, dict(zip(KINDS, outcomes, strict=True))))
    return found


def expected(cell: Cell) -> str:
    """The last matching line applies."""
    return [line.outcomes[cell.kind] for line in lines() if line.about(cell)][-1]
