"""Views of tables on paper, and pages as a browser reads them."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.workload.workload import Workload
from lakekeeper.history.costs import Prices
from lakekeeper.history.history import Recorded
from lakekeeper.history.operation import Operation
from lakekeeper.page.table_view import TableView, view_of
from tests.core.paper import BEGAN, HOUR_MS, MB, at, snapshot_of

HOSTILE = "<script>alert('&\"')</script>"
_VOID = {"meta", "rect", "path", "line", "input"}


def small_table(name: str = "db.t") -> Snapshot:
    """Forty overlapping blocks, and one apart from them."""
    rows = [(i % 3, 90 + i % 5, MB, 0.0) for i in range(40)]
    return replace(snapshot_of([*rows, (200, 300, MB, 0)]), table=name)


def view(
    snapshot: Snapshot | None = None,
    operations: tuple[Operation, ...] | None = None,
    prices: Prices | None = None,
    workload: Workload | None = None,
) -> TableView:
    """The view of a table, with the plan of ``ranges`` for it."""
    table = snapshot or small_table()
    plan = make_plan(table, [RANGES], resolve(), at(1))
    plan = explained(plan, table, resolve(), BEGAN + HOUR_MS)
    return view_of((table.table, "memory"), table, plan, workload, Recorded(operations), prices or Prices())


class Page(HTMLParser):
    """A parsed page: numbers by name for each table, texts, elements. Raises for elements that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.numbers: list[dict[str, float]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        if self._open:
            raise ValueError(f"not closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "section" and "id" in given:
            self.numbers.append({})
        if tag == "data" and self.numbers:
            self.numbers[-1][str(given["data-name"])] = float(str(given["value"]))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        last = self._open.pop()
        if last != tag:
            raise ValueError(f"{last} is closed by {tag}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)
