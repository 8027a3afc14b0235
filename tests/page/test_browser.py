"""The page in a real browser: it renders without console messages, on a phone too, and in both colour schemes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakekeeper.history.costs import Prices
from lakekeeper.page.report import HtmlReport, ranked
from tests.history.operations import operation
from tests.page.browser import dom, needs_browser, rendered
from tests.page.pages import HOSTILE, Page, small_table, view

pytestmark = [needs_browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def report() -> HtmlReport:
    """Two tables, one of them with a long and hostile name, with a history."""
    long_name = replace(small_table(), table=HOSTILE + "a_name_without_a_break_" * 6)
    views = (view(operations=(operation(),), prices=Prices(core_hour=1.0)), view(long_name))
    return HtmlReport(views, (("db.gone", HOSTILE),), ranked(views, None), 1_800_000_000_000)


@pytest.fixture(scope="module")
def page(report: HtmlReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.save(tmp_path_factory.mktemp("page") / "report.html")


def test_the_browser_reads_the_page_as_written_without_console_messages(
    report: HtmlReport, page: Path
) -> None:
    seen, console = dom(page)
    assert console == []
    written = Page(report.html())
    read = Page(seen.replace("<!DOCTYPE html>", ""))
    assert read.numbers == written.numbers
    assert read.text.split() == written.text.split()
    assert read.count("script") == 0


def test_a_script_injected_into_the_page_would_be_blocked_and_noticed(page: Path) -> None:
    planted = page.with_name("planted.html")
    planted.write_text(
        page.read_text().replace("</main>", "</main><script>document.title = 'owned'</script>")
    )
    seen, console = dom(planted)
    assert "<title>owned" not in seen
    assert any("Content Security Policy" in line for line in console)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_width_and_follows_the_colour_scheme(page: Path, width: int) -> None:
    wide, light = rendered(page, width)
    assert wide <= width
    assert rendered(page, width, dark=True) == (wide, "rgb(14, 17, 22)")
    assert light == "rgb(246, 247, 249)"
