"""The report of real tables: the numbers on the page are those of the API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.cli import main
from lakekeeper.errors import NotFound, OptionError
from tests.formats.lakes import Lake
from tests.page.browser import dom, needs_browser
from tests.page.pages import Page


@pytest.fixture
def name(lake: Lake, confs: RuntimeConfig, tmp_path: Path) -> str:
    """A table that was clustered and then appended to, with a history that has prices."""
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    confs.set("spark.lakekeeper.cost.per-core-hour", "3600")
    made = lake.overlapping(4, 50)
    table = lk.table(lake.spark, made)
    table.cluster_by("k")
    table.recluster(policy="full")
    lake.append(made, lake.spark.range(200, 260).selectExpr("id", "id % 40 AS k", "'<script>' AS v"))
    return made


def expected(table: lk.Table) -> dict[str, float]:
    """The numbers of a page, each from the API call that returns it."""
    info, plan = table.clustering_information(), table.plan()
    assert plan.prediction is not None
    worth, total = plan.prediction.worth, table.cost().total
    # Core-seconds, and with them the cost, are unknown if Spark's events arrive too late.
    costs = {} if total is None else {"cost": total}
    depths = {f"depth_{int(depth)}": float(n) for depth, n in info.partition_depth_histogram.items() if n}
    groups = {"groups": float(len(plan.tasks))} if plan.tasks else {}
    after = {"files_per_query_after": worth.after.files} if plan.tasks else {}
    return {
        "files": info.total_partition_count, "average_depth": info.average_depth, "max_depth": info.max_depth,
        "files_per_query_before": worth.before.files, **costs, **groups, **after, **depths,
    }  # fmt: skip


def shown(page: Page) -> dict[str, float]:
    """The numbers of a page with one table, without empty buckets and values that depend on the time."""
    (numbers,) = page.numbers
    return {n: v for n, v in numbers.items() if n != "query_seconds_per_day" and (v or "depth_" not in n)}


@needs_browser
def test_the_numbers_in_the_browser_are_those_of_the_api(lake: Lake, name: str, tmp_path: Path) -> None:
    table = lk.table(lake.spark, name)
    before = table.clustering_information().version
    page, console = dom(table.report().save(tmp_path / "report.html"))
    assert console == []
    read = Page(page.replace("<!DOCTYPE html>", ""))
    assert shown(read) == pytest.approx(expected(table))
    (operation,) = table.history().operations
    assert str(operation.reason) in read.text
    assert table.clustering_information().version == before


def test_many_tables_one_of_them_missing(lake: Lake, name: str, tmp_path: Path) -> None:
    bare = lake.create("id BIGINT, k BIGINT, v STRING")
    gone = name.rpartition(".")[0] + ".no_such_table"
    report = lk.report(lake.spark, [name, bare, gone, "nowhere.db.*"])
    assert [view.table for view in report.tables] == [name, bare]
    assert [failed for failed, _ in report.failures] == ["nowhere.db.*", gone]
    assert shown(Page(lk.report(lake.spark, name).html())) == pytest.approx(
        expected(lk.table(lake.spark, name))
    )
    assert report.exit_code == 1
    with pytest.raises(NotFound, match="no such table"):
        lk.report(lake.spark, gone)
    with pytest.raises(OptionError, match="names, paths or patterns of tables"):
        lk.report(lake.spark, " , ")


@pytest.mark.parametrize("columns, shown_as", [("id", "(id)"), ("hilbert(id, k)", "hilbert(id, k)")])
def test_columns_of_the_call_replace_the_key(lake: Lake, name: str, columns: str, shown_as: str) -> None:
    report = lk.table(lake.spark, name).report(columns)
    (view,) = report.tables
    assert view.plan.key == shown_as
    assert view.information == lk.table(lake.spark, name).clustering_information(columns)
    assert view.profile is not None
    assert int(view.profile.depth.max()) == Page(report.html()).numbers[0]["max_depth"]


def test_the_command_writes_the_page_and_its_exit_code_reports_unreadable_tables(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", name, "-o", str(page), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["tables"][0]["table"] == name
    assert f"wrote {page}" in err
    assert (
        Page(page.read_text()).numbers[0]["files"]
        == json.loads(out)["tables"][0]["information"]["total_partition_count"]
    )
    assert main(["report", name, "ice.db.no_such_table", "-o", str(page), "-q"]) == 1
    assert "failed: ice.db.no_such_table" in capsys.readouterr().out
    assert main(["report", name, "-o", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "expected a file in a directory that exists" in capsys.readouterr().err
