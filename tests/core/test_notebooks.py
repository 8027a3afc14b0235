"""Information, plans and reports in a notebook: the numbers of their text, escaped, small, without scripts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.text.result import Result
from tests.core.paper import BEGAN, HOUR_MS, MB, at, snapshot_of

HOSTILE = "<script>alert(1)</script>"
TABLE = replace(snapshot_of([(i % 3, 90 + i % 5, MB, 0) for i in range(40)]), table=HOSTILE)


def planned() -> Plan:
    options = resolve()
    plan = make_plan(TABLE, [FULL], options, at(1))
    return explained(plan, TABLE, options, BEGAN + HOUR_MS)


def report(**given: object) -> MergeReport:
    plain = MergeReport(
        table=HOSTILE, verb="recluster", dry_run=False, version_before=7, version_after=8, commits=1, conflicts=2,
        rewritten_data_files_count=40, rewritten_bytes_count=40 * MB, added_data_files_count=1, added_bytes_count=MB,
        depth_before=40.0, depth_after=1.0, replayed_rows_count=3,
        groups=(GroupResult("abc", "dropped", 5, 5, detail=Reason.of(Code.FAILED, error=HOSTILE)),),
    )  # fmt: skip
    return replace(plain, **given)  # type: ignore[arg-type]


def words(page: str) -> str:
    """The page as a reader sees it."""
    return " ".join(re.sub("<[^>]*>", " ", page).split())


@pytest.mark.parametrize(
    "result",
    [measure(TABLE), planned(), report(), report(dry_run=True, plan=planned()), report(commits=0, groups=())],
    ids=["information", "plan", "report", "dry run", "idle"],
)
def test_a_result_is_a_small_table_without_scripts(result: Result) -> None:
    page = result._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<table>" in page
    assert len(page) < 10_000


def test_information_shows_its_numbers() -> None:
    info = measure(TABLE)
    shown = words(info._repr_html_())
    assert f"average depth {info.average_depth:.3g} per block" in shown
    assert f"max depth {info.max_depth}" in shown
    assert "levels L0: 40" in shown
    assert dict(re.findall(r'data-name="depth_(\d+)" value="(\d+)"', info._repr_html_()))["64"] == "40"


def test_a_plan_shows_each_group_and_why_and_the_blocks_that_it_leaves() -> None:
    plan = planned()
    shown = words(plan._repr_html_())
    assert f"to merge 1 group: {plan.input_files} files" in shown
    assert str(plan.tasks[0].reason) in shown
    left = make_plan(snapshot_of([(0, 1, MB, 0), (5, 9, MB, 0)]), [RANGES], resolve(), at(1))
    assert str(left.left[0].reason) in words(left._repr_html_())


def test_of_many_groups_twenty_are_shown_and_the_others_counted() -> None:
    plan = planned()
    many = replace(plan, tasks=[*plan.tasks] * 50)
    assert many._repr_html_().count("<code>") == 20
    assert "The first 20 groups; the plan has 30 more." in words(many._repr_html_())


def test_a_report_shows_before_and_after_and_what_was_lost() -> None:
    shown = words(report()._repr_html_())
    for part in (
        "version 7 → 8",
        "average depth 40 → 1",
        "conflicts 2, 3 deleted rows replayed",
        "abc dropped 5",
    ):
        assert part in shown
