"""A simulation as text."""

from __future__ import annotations

from lakekeeper.core.planning.policies.ranges import RANGES
from tests.core.simulation.paper_runs import run


def test_the_report_reads_as_a_page() -> None:
    report = run("wide", RANGES, 50)
    page = str(report)
    for words in (
        "stream wide",
        "ranges after every 10",
        "bytes per byte ingested",
    ):
        assert words in page
    assert "<pre" in report._repr_html_()
    assert max(map(len, page.splitlines())) <= 120
