"""A heavy task and its report survive the trip to another process and back."""

from __future__ import annotations

import json

import pytest

from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.heavy_call import HeavyCall

WHY = Reason.of(Code.REPLAYED, rows=3).plus(Reason.of(Code.FAILED, error="boom"))
GROUPS = (
    GroupResult("g", "committed", 3, 30, 1, 20, 2, "day=1", WHY, None, 3, 10, 7, 50.0),
    GroupResult("h", "dropped", 2, 20, detail=WHY),
)


def test_a_call() -> None:
    call = HeavyCall(
        "ice.db.t", "recluster", 500, ("a", "b"), ("f",), '{"v": 1}', {"spark.lakekeeper.x": "1"}
    )
    assert HeavyCall.from_dict(json.loads(json.dumps(call.to_dict()))) == call
    assert HeavyCall.from_dict(json.loads(json.dumps(HeavyCall("t", "compact").to_dict()))) == HeavyCall(
        "t", "compact"
    )


@pytest.mark.parametrize(
    "report",
    [
        MergeReport("t", "compact", dry_run=False, version_before=1, version_after=None, ended=WHY),
        MergeReport(
            "t", "recluster", dry_run=False, version_before=1, version_after=2, rewritten_data_files_count=3,
            depth_before=2.5, commits=1, run_ids=("a-1", "a-2"), groups=GROUPS, files_per_query_after=1.5,
        ),
        StatisticsReport("t", False, 1, 2, WHY, 3, 40, ("a.puffin",), 1, ("r-1",), 5),
        LifecycleReport("t", False, "d < 1", 1, 2, WHY, 3, 40, 1, None, 7, 3, 1, "r-1", 5),
    ],
    ids=["nothing due", "merge", "statistics", "lifecycle"],
)  # fmt: skip
def test_a_report(report: MergeReport | StatisticsReport | LifecycleReport) -> None:
    again = type(report).from_dict(json.loads(report.to_json()))
    assert again == report
    assert again.to_dict() == report.to_dict()
    assert str(again) == str(report)
