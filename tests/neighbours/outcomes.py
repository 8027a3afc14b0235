"""What was tested with each engine and its outcome, as the table of docs/works-with.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "works-with.md"
_BEGIN, _END = "<!-- make neighbours: begin -->\n", "<!-- make neighbours: end -->"
_HEAD = "| engine | format | what was tried | outcome |\n|---|---|---|---|\n"
_FAILED = "**failed**"


@dataclass
class Outcome:
    """One row of the table; the test sets its outcome."""

    engine: str
    format: str
    tried: str
    outcome: str = _FAILED

    def cells(self) -> tuple[str, str, str, str]:
        return self.engine, self.format, self.tried, self.outcome


class Outcomes:
    """Rows of one run."""

    def __init__(self) -> None:
        self.rows: list[Outcome] = []

    @contextmanager
    def tried(self, engine: str, kind: str, what: str) -> Iterator[Outcome]:
        """A row that reads "failed" unless the block sets its outcome and ends."""
        row = Outcome(engine, kind, what)
        self.rows.append(row)
        try:
            yield row
        except BaseException:
            row.outcome = _FAILED
            raise
        assert row.outcome != _FAILED, f"{what}: no outcome"


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """As Markdown."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in sorted(rows))


def merged(page: str, rows: Iterable[Outcome]) -> str:
    """The page, with the rows of this run replacing those of the same test."""
    before, _, rest = page.partition(_BEGIN)
    old, _, after = rest.partition(_END)
    kept = {
        tuple(line.strip("| ").split(" | ")) for line in re.findall(r"(?m)^\| .*", old.removeprefix(_HEAD))
    }
    new = {row.cells() for row in rows}
    again = {row[:3] for row in new}
    return f"{before}{_BEGIN}{table({row for row in kept if row[:3] not in again} | new)}{_END}{after}"
