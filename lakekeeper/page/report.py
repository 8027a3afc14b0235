"""The result of ``report``: tables with their plans and history, their debt, and the HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakekeeper.core.scheduling.debt import NO_DEBT, Debt
from lakekeeper.core.text.controls import visible
from lakekeeper.core.text.formatting import significant, size
from lakekeeper.core.text.formatting import table as aligned
from lakekeeper.core.text.markup import tag
from lakekeeper.core.text.result import Result
from lakekeeper.history.operation import utc
from lakekeeper.history.status import Status
from lakekeeper.history.table_id import TableId
from lakekeeper.page.document import document
from lakekeeper.page.table_view import TableView

NOW = "now"


@dataclass(frozen=True, slots=True)
class TableDebt:
    """The debt of one table of a fleet; ``known`` is ``now``, or the status that automatic runs gave the table."""

    table: str
    debt: Debt
    known: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"table": self.table, "known": self.known, **self.debt.to_dict()}


@dataclass(frozen=True, slots=True, eq=False)
class HtmlReport(Result):
    """A report on tables as one HTML page, without scripts, external fonts or images.

    tables      in the order of the call
    failures    (name or pattern, reason) of tables that could not be read
    fleet       tables by debt, largest first: those of the report and those of automatic runs
    made_ms     time of the report, in ms since the epoch
    """

    tables: tuple[TableView, ...]
    failures: tuple[tuple[str, str], ...]
    fleet: tuple[TableDebt, ...]
    made_ms: int

    @property
    def exit_code(self) -> int:
        """1 if a table could not be read, else 0."""
        return 1 if self.failures else 0

    def html(self) -> str:
        """The page."""
        return str(document(self))

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path. Raises OSError."""
        file = Path(path)
        file.write_text(self.html(), encoding="utf-8")
        return file

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the numbers of the page."""
        return {
            "made_at": utc(self.made_ms),
            "tables": [view.to_dict() for view in self.tables],
            "failures": [{"table": name, "reason": why} for name, why in self.failures],
            "fleet": [each.to_dict() for each in self.fleet],
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("files", "size", "depth", "files/query", "query-s/day", "table")]
        rows += [_row(view) for view in self.tables]
        failed = [f"failed: {name}: {why}" for name, why in self.failures]
        page = [aligned(rows, right=frozenset(range(5)))] if self.tables else []
        notes = dict.fromkeys(view.recorded.error for view in self.tables if view.recorded.error)
        return "\n".join([*page, *(f"without history: {why}" for why in notes), *failed]) or "no table"

    def _repr_html_(self) -> str:
        page = self.html()
        style = "width:100%;height:80vh;border:0"
        return str(
            tag("iframe", srcdoc=page, sandbox="allow-same-origin", title="lakekeeper report", style=style)
        )


def _row(view: TableView) -> tuple[str, ...]:
    opened = view.files_per_query
    files = "" if opened is None else f"{significant(opened[0])} -> {significant(opened[1])}"
    depth = "" if view.information is None else significant(view.information.average_depth)
    gain = f"{view.debt.query_seconds_per_day:,.0f}"
    return f"{view.plan.blocks:,}", size(view.plan.bytes), depth, files, gain, visible(view.table)


def ranked(views: tuple[TableView, ...], status: Status | None, *known: TableId) -> tuple[TableDebt, ...]:
    """All tables by debt. ``known`` are the tables of the views, which automatic runs may call by another name."""
    mine = {view.table for view in views}
    others = [
        each
        for each in (status.tables if status else ())
        if each.table not in mine and not any(table.is_called(each.table) for table in known)
    ]
    now = [TableDebt(view.table, view.debt, NOW) for view in views]
    return _sorted([*now, *(TableDebt(each.table, each.debt, each.status) for each in others)])


def combined(parts: Sequence[HtmlReport], failures: Sequence[tuple[str, str]], made_ms: int) -> HtmlReport:
    """Combine reports on single tables. A table of automatic runs is in the fleet if no part shows it."""
    now = [each for part in parts for each in part.fleet if each.known == NOW]
    left = [{each for each in part.fleet if each.known != NOW} for part in parts]
    others = set.intersection(*left) if left else set()
    views = tuple(view for part in parts for view in part.tables)
    return HtmlReport(views, tuple(failures), _sorted([*now, *others]), made_ms)


def _sorted(debts: Iterable[TableDebt]) -> tuple[TableDebt, ...]:
    """Largest first; tables without debt are included only if the page shows them."""
    shown = [each for each in debts if each.known == NOW or each.debt != NO_DEBT]
    return tuple(sorted(shown, key=lambda d: (-d.debt.query_seconds_per_day, -d.debt.bytes, d.table)))
