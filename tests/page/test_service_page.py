"""The page of a service: its numbers are those of the service, names are escaped, and a browser shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakekeeper.core.scheduling.live import LivePass
from lakekeeper.core.scheduling.metrics import ServiceMetrics
from lakekeeper.history.history import Recorded
from lakekeeper.page.service_page import control_page, service_page, table_page
from tests.page.browser import dom, needs_browser, rendered
from tests.page.pages import HOSTILE, Page
from tests.page.service_views import LONG, service_view

VIEW = service_view()
PAGES = {
    "service": service_page(VIEW),
    "table": table_page(VIEW, "ice.db.events", VIEW.recorded),
    "hostile": table_page(VIEW, LONG, Recorded()),
    "control": control_page(VIEW, f"wrong {HOSTILE}"),
    "empty": service_page(
        service_view(metrics=ServiceMetrics(), live=LivePass(), recorded=Recorded(), controls=False)
    ),
}


def test_tables_that_need_attention_come_first_and_others_by_debt() -> None:
    assert VIEW.names == (LONG, "ice.db.events", "ice.db.small", "ice.db.fresh")
    assert [task.table for task in VIEW.live.queue(VIEW.now_ms)] == ["ice.db.small", LONG]


def test_the_page_says_what_runs_what_waits_and_what_was_done() -> None:
    text = Page(PAGES["service"]).text
    for shown in (
        "2 passes", "10 minutes ago", "a pass over 4 tables began 95 seconds ago", "1 failed or parked", "3 of 8",
        "295.6 MiB", "24.5", "09:00-18:00 UTC", "paused (idle)", "not planned yet", "832", "863.1 MiB", "11.2 GiB",
        "ice.gone.*: no table matches", "The newest 25 of 30.", HOSTILE,
    ):  # fmt: skip
        assert shown in text, shown


def test_before_the_first_pass_the_page_says_so() -> None:
    text = Page(PAGES["empty"]).text
    assert "No table is known before the first pass." in text
    assert "No history is configured" in text
    assert "Pause" not in text


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_script_or_loads_anything(name: str) -> None:
    page = Page(PAGES[name])
    assert page.count("script") == page.count("img") == page.count("link") == 0
    for tag, attributes in page.tags:
        assert not {"src", "onclick", "onload", "action"} & attributes.keys() or tag == "form"
        assert str(attributes.get("href", "/")).startswith("/")


def test_the_form_offers_for_each_table_the_possible_actions() -> None:
    page = Page(PAGES["control"])
    buttons = {given["value"]: given["name"] for tag, given in page.tags if tag == "button"}
    assert buttons == {
        LONG: "pause",
        "ice.db.events": "pause",
        "ice.db.small": "resume",
        "ice.db.fresh": "pause",
    }
    assert not any(given.get("http-equiv") == "refresh" for _, given in page.tags), (
        "a reload would clear the token"
    )


@needs_browser
@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_it_at_each_width_without_console_messages(name: str, tmp_path: Path) -> None:
    place = tmp_path / f"{name}.html"
    place.write_text(PAGES[name].replace('content="10"', 'content="600"'))
    seen, console = dom(place)
    assert console == []
    assert Page(seen.replace("<!DOCTYPE html>", "")).text.split() == Page(PAGES[name]).text.split()
    for width in (390, 1280):
        wide, light = rendered(place, width)
        assert wide <= width
        assert light == "rgb(246, 247, 249)"
        assert rendered(place, width, dark=True) == (wide, "rgb(14, 17, 22)")
