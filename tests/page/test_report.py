"""The page: its numbers are those of the API, its texts are escaped, and its size is bounded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.debt import Debt, debt_of
from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.workload.workload import Scan, Workload
from lakekeeper.history.costs import Prices, costs_of
from lakekeeper.history.operation import Operation
from lakekeeper.history.status import status_of
from lakekeeper.history.table_id import TableId
from lakekeeper.page.history_part import history_part
from lakekeeper.page.report import HtmlReport, combined, ranked
from lakekeeper.page.table_view import TableView
from tests.bench.plan_scale import blocks_of
from tests.core.paper import MB, snapshot_of
from tests.history.operations import DAY_MS, GROUP, operation
from tests.page.pages import HOSTILE, Page, small_table, view

METRICS = {
    "rewritten_bytes_count": 3 << 20, "added_bytes_count": 1 << 20, "depth_before": 40.0, "depth_after": 2.0,
    "files_per_query_before": 38.5, "files_per_query_predicted": 1.5, "files_per_query_after": 1.25,
}  # fmt: skip


def report(*views: TableView) -> HtmlReport:
    return HtmlReport(views, (), ranked(views, None), 1_800_000_000_000)


def test_the_numbers_of_the_page_are_those_of_information_and_plan() -> None:
    snapshot = small_table()
    shown = view(snapshot)
    info, plan = measure(snapshot), shown.plan
    assert plan.prediction is not None
    assert len(plan.tasks) > 0
    (numbers,) = Page(report(shown).html()).numbers
    assert numbers["files"] == info.total_partition_count
    assert numbers["average_depth"] == info.average_depth
    assert numbers["max_depth"] == info.max_depth
    assert numbers["files_per_query_before"] == plan.prediction.worth.before.files
    assert numbers["files_per_query_after"] == plan.prediction.worth.after.files
    assert numbers["groups"] == len(plan.tasks)
    assert numbers["query_seconds_per_day"] == debt_of([plan]).query_seconds_per_day
    shown_depths = {
        name.removeprefix("depth_"): n for name, n in numbers.items() if name.startswith("depth_")
    }
    assert {int(depth): n for depth, n in shown_depths.items() if n} == {
        int(depth): n for depth, n in info.partition_depth_histogram.items() if n
    }


def test_each_group_and_each_reason_is_on_the_page() -> None:
    shown = view()
    text = Page(report(shown).html()).text
    for task in shown.plan.tasks:
        assert task.id in text
        assert str(task.reason) in text
    assert shown.plan.left
    assert all(str(item.reason) in text for item in shown.plan.left)


def test_every_text_is_escaped() -> None:
    rows = [(HOSTILE + str(i % 3), HOSTILE + "z", MB, 0.0) for i in range(9)]
    snapshot = replace(snapshot_of(rows, kind="string"), table=HOSTILE)
    why = Reason.of(Code.FAILED, error=HOSTILE)
    failed = operation("x", operation_status="failed", reason=why, operation_type=HOSTILE)
    raced = operation("y", operation_metrics={"conflicts": 1}, groups=(replace(GROUP, detail=why),))
    made = replace(report(view(snapshot, (failed, raced))), failures=((HOSTILE, HOSTILE),))
    page = Page(made.html())
    assert page.count("script") == 0
    assert page.text.count(HOSTILE) >= 6
    assert Page(made._repr_html_()).tags[0][0] == "iframe"


def test_the_page_loads_nothing_and_allows_no_script() -> None:
    page = Page(report(view()).html())
    policy = next(given for name, given in page.tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert not [given for _, given in page.tags if {"src", "onclick", "onload"} & given.keys()]
    assert all(str(given["href"]).startswith("#") for name, given in page.tags if "href" in given)
    assert [given["lang"] for name, given in page.tags if name == "html"] == ["en"]
    assert [given["content"] for _, given in page.tags if given.get("name") == "viewport"]


def test_charts_and_tables_have_names_for_screen_readers() -> None:
    page = Page(report(view(operations=(operation("a", operation_metrics=METRICS),))).html())
    charts = [given for name, given in page.tags if name == "svg"]
    assert len(charts) >= 5
    assert all(given["role"] == "img" and given["aria-label"] for given in charts)
    assert page.count("figure") == page.count("figcaption")
    assert all(given["scope"] for name, given in page.tags if name == "th")


def test_history_shows_operations_costs_and_lost_races() -> None:
    done = [
        operation(
            f"o{n}",
            end_ms=1_000 + n * DAY_MS,
            operation_metrics={**METRICS, "conflicts": n % 2, "replayed_rows_count": 7},
        )
        for n in range(100)
    ]
    shown = view(operations=tuple(reversed(done)), prices=Prices(core_hour=36.0))
    assert shown.costs.total == pytest.approx(100 * 1.25 * 36 / 3600)
    page = Page(report(shown).html())
    assert page.numbers[0]["cost"] == shown.costs.total
    for text in (
        "40 → 2",
        "38.5 → 1.25",
        "total 300.0 MiB",
        "The newest 12 of 100",
        "Total cost 1.25",
        "total 1.25",
    ):
        assert text in page.text, text
    assert str(GROUP.detail) in page.text
    bars = [given for name, given in page.tags if given.get("class") == "column"]
    assert 48 <= len(bars) <= 2 * 48  # for bytes and for money


def test_the_scale_of_the_depth_includes_the_depth_after_the_plan() -> None:
    shown = view()
    assert shown.profile is not None
    deeper = replace(shown.profile, after=shown.profile.depth * 2)
    html = report(replace(shown, profile=deeper)).html()
    title = "Depth along the key, at most 40 files over one point, 80 after the plan"
    assert re.findall(rf'class="y"><span>([^<]*)</span>[^|]*?aria-label="{title}"', html) == ["80"]


def test_a_chart_of_depth_has_the_dates_and_verbs_of_the_operations_that_changed_it() -> None:
    def done(verb: str, day: int, **metrics: float) -> Operation:
        return operation(f"{verb}{day}", operation_type=verb, end_ms=day * DAY_MS, operation_metrics=metrics)

    vacuums = [done("vacuum", day) for day in range(150)]
    merges = [
        done(verb, 200 + n, depth_before=9.0 - n, depth_after=2.0)
        for n, verb in enumerate(("recluster", "compact"))
    ]
    html = history_part([*reversed([*vacuums, *merges])], costs_of(vacuums, Prices()), Prices())
    assert re.findall("<title>(.*?)</title>", html) == [
        title
        for verb, when, depth in (("recluster", "1970-07-20", 9), ("compact", "1970-07-21", 8))
        for title in [f"{verb}, {when} 00:00: {depth} to 2"] * 2
    ]
    assert re.findall('class="x"><span>(.*?)</span><span>(.*?)</span>', html) == [
        ("1970-07-20", "1970-07-21")
    ]
    assert "before and after each operation" in html


def test_a_line_of_several_operations_names_all_their_verbs() -> None:
    verbs = ("recluster", "compact")
    done = [
        operation(str(n), operation_type=verbs[n % 2], end_ms=n * DAY_MS, operation_metrics=METRICS)
        for n in range(96)
    ]
    html = history_part(done[::-1], costs_of(done, Prices()), Prices())
    titles = re.findall("<title>(.*?)</title>", html)
    assert len(titles) == 5 * 48  # two charts of lines with dots, one of columns
    assert all(title.startswith("recluster, compact, 1970-") for title in titles)
    assert "before the first and after the last of several operations" in html


def test_an_unknown_cost_is_not_zero() -> None:
    done = (operation("a"), operation("b", core_seconds=None))
    page = Page(report(view(operations=done, prices=Prices(core_hour=3600.0))).html())
    assert "total 1.25, without 1 operation of unknown cost" in page.text
    assert "1 operation without measured core-seconds" in page.text
    assert "cost" not in page.numbers[0]


@pytest.mark.parametrize(
    "operations, said", [(None, "spark.lakekeeper.history.path"), ((), "No operation on this table")]
)
def test_without_a_history_the_page_says_why(operations: tuple[()] | None, said: str) -> None:
    assert said in Page(report(view(operations=operations)).html()).text


def test_a_table_without_a_key_has_a_plan_and_no_depth() -> None:
    bare = replace(small_table(), key=None)
    shown = view(bare)
    assert (shown.information, shown.profile) == (None, None)
    page = Page(report(shown).html())
    assert page.numbers[0]["files"] == 41
    assert "average_depth" not in page.numbers[0]
    assert "Without a cluster key there is no depth" in page.text


def test_an_empty_table_has_a_page() -> None:
    empty = snapshot_of([])
    assert "The table has no files." in Page(report(view(empty)).html()).text


def test_measured_files_are_those_that_scans_reported() -> None:
    scans = (Scan(1, {}, files_read=10, weight=3.0), Scan(2, {}, files_read=2), Scan(3, {}))
    shown = view(workload=Workload("t", scans, 0, 10))
    assert shown.measured is not None
    assert (shown.measured.files, shown.measured.scans) == (8.0, 2)
    assert Page(report(shown).html()).numbers[0]["measured_files_per_query"] == 8.0
    assert view(workload=Workload("t", scans[2:], 0, 10)).measured is None


def test_a_hundred_thousand_files_give_a_page_below_a_megabyte() -> None:
    history = tuple(operation(f"o{n}", operation_metrics=METRICS) for n in range(3_000))
    shown = view(blocks_of(100_000, 50), history)
    assert shown.plan.blocks == 100_000
    html = report(shown).html()
    assert len(html.encode()) < 200_000
    assert Page(html).numbers[0]["files"] == 100_000


def named(name: str, snapshot: Snapshot | None = None) -> HtmlReport:
    one = replace(view(snapshot), table=name)
    return HtmlReport((one,), (), ranked((one,), STATUS, TableId("cat", *name.split("."))), 0)


STATUS = status_of(
    [
        Task("merge", "db.late", "recluster", bytes=5, query_seconds_per_day=1e12),
        Task("merge", "cat.db.a", "recluster", bytes=5, query_seconds_per_day=1e12),
        Task("merge", "db.none", "recluster", state="skipped"),
    ],
    0,
)


def test_the_fleet_is_ranked_by_debt_and_lists_no_table_twice() -> None:
    flat = snapshot_of([(0, 1, MB, 0), (5, 9, MB, 0)])
    made = combined([named("db.b", flat), named("db.a")], [("db.x", "gone")], 5)
    assert [(each.table, each.known) for each in made.fleet] == [
        ("db.late", "waiting"),  # known from automatic runs, and not on the page
        ("db.a", "now"),  # automatic runs call it cat.db.a
        ("db.b", "now"),
    ]
    assert made.fleet[-1].debt == Debt()
    page = Page(made.html())
    total = sum(each.debt.query_seconds_per_day for each in made.fleet)
    assert f"Total: {total:,.0f} query-seconds a day" in page.text
    assert "db.x: gone" in page.text
    assert (made.exit_code, made.made_ms) == (1, 5)


@pytest.mark.parametrize(
    "view_name, table, other, listed",
    [
        ("ice.db.t", TableId("ice", "db", "t"), "db.t", False),
        ("db.t", TableId("ice", "db", "t"), "ice.db.t", False),
        ("db.t", TableId("ice", "db", "t"), "lake.db.t", True),
        ("ice.db.`my-table`", TableId("ice", "db", "my-table"), "ice.db.`my-table`", False),
        ("ice.db.`my-table`", TableId("ice", "db", "my-table"), "db.`my-table`", False),
        ("/data/t", TableId("", "", "/data/t"), "delta.`/data/t`", False),
        ("delta.`/data/t`", TableId("", "", "/data/t"), "file:/data/t", False),
        ("/data/t", TableId("", "", "/data/t"), "/data/t2", True),
    ],
)
def test_a_table_of_the_report_is_not_listed_again_by_another_of_its_names(
    view_name: str, table: TableId, other: str, listed: bool
) -> None:
    due = status_of([Task("merge", other, "recluster", bytes=5, query_seconds_per_day=7.0)], 0)
    fleet = ranked((replace(view(), table=view_name),), due, table)
    assert [each.table for each in fleet if each.known != "now"] == ([other] if listed else [])


def test_a_report_is_text_json_and_a_file(tmp_path: Path) -> None:
    made = combined([named("db.a")], [("db.x", "gone")], 1_800_000_000_000)
    plain = json.loads(made.to_json())
    assert plain["tables"][0]["information"]["max_depth"] == 40
    assert plain["failures"] == [{"table": "db.x", "reason": "gone"}]
    assert plain["made_at"].startswith("2027-01-15")
    assert "failed: db.x: gone" in str(made)
    assert max(map(len, str(made).splitlines())) <= 80
    assert made.save(tmp_path / "r.html").read_text() == made.html()
