"""The report around its tables: the title, and the debt of the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.scheduling.debt import NO_DEBT
from lakekeeper.core.text.charts import bar
from lakekeeper.core.text.formatting import counted, size
from lakekeeper.core.text.markup import Child, Markup, rows_table, tag
from lakekeeper.history.operation import utc
from lakekeeper.page.figures import figure, scrolled
from lakekeeper.page.head import whole_page
from lakekeeper.page.sections import table_section

if TYPE_CHECKING:
    from lakekeeper.page.report import HtmlReport

_MOST_RANKED = 50


def document(report: HtmlReport) -> Markup:
    """The whole page."""
    title = f"{report.tables[0].table}: lakekeeper report" if len(report.tables) == 1 else "lakekeeper report"
    anchors = {view.table: f"table-{number}" for number, view in enumerate(report.tables, start=1)}
    made = f"{counted(len(report.tables), 'table')}, {utc(report.made_ms)[:16].replace('T', ' ')} UTC"
    body = tag(
        "main",
        tag("h1", "lakekeeper report"),
        tag("p", made, class_="facts"),
        *(tag("p", f"{name}: {why}", class_="error") for name, why in report.failures),
        _fleet(report, anchors) if len(report.fleet) > 1 else None,
        *(table_section(view, anchors[view.table]) for view in report.tables),
    )
    return whole_page(title, body)


def _fleet(report: HtmlReport, anchors: dict[str, str]) -> Markup:
    total = sum((each.debt for each in report.fleet), NO_DEBT)
    top = report.fleet[0].debt.query_seconds_per_day or 1.0
    rows: list[Sequence[Child]] = [("table", "query-s/day", "to rewrite", "as of", "")]
    for each in report.fleet[:_MOST_RANKED]:
        anchor = anchors.get(each.table)
        name = tag("a", each.table, href=f"#{anchor}") if anchor else each.table
        share = each.debt.query_seconds_per_day / top
        known = each.known if anchor else f"last pass ({each.known})"
        rows.append(
            (
                tag("span", name, class_="name"),
                f"{share * top:,.0f}",
                size(each.debt.bytes),
                known,
                bar(share),
            )
        )
    more = len(report.fleet) - _MOST_RANKED
    gain = f"{total.query_seconds_per_day:,.0f} query-seconds a day"
    below = f"Total: {gain}, {size(total.bytes)} to rewrite." + (
        f" Not shown: {counted(more, 'more table')} with less debt." if more > 0 else ""
    )
    table = scrolled(rows_table(rows, right=frozenset({1, 2})))
    return tag("section", figure("Maintenance debt, largest first", table, below), class_="fleet")
