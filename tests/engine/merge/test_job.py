"""One merge from its request to its report."""

from __future__ import annotations

from typing import Any

from tests.engine.scene import Scene, groups_apart


def test_a_dry_run_writes_nothing_and_predicts_the_real_call() -> None:
    scene = groups_apart(3)
    dry: list[Any] = []
    scene.untouched(lambda: dry.append(scene.run(dry_run=True)))
    (planned,) = dry
    real = scene.run()
    assert planned.plan is not None
    assert real.plan is not None
    assert [group.id for group in planned.groups] == [task.id for task in planned.plan.tasks]
    assert {group.id for group in planned.groups} == {group.id for group in real.groups}
    assert {group.status for group in planned.groups} == {"planned"}
    assert planned.plan.tasks == real.plan.tasks
    assert (planned.commits, planned.version_after) == (0, planned.version_before)


def test_a_final_dry_run_is_one_round() -> None:
    scene = groups_apart(3)
    scene.untouched(lambda: scene.run(dry_run=True, final=True))


def test_where_limits_what_is_rewritten() -> None:
    scene = groups_apart(3)
    report = scene.run(where="k >= 1000 and k < 2000")
    assert report.rewritten_data_files_count == 3
    assert Scene(scene.table).run(where="k >= 1000 and k < 2000").ended.code == "nothing_to_do"


def test_a_report_without_a_commit_says_why_the_files_were_left() -> None:
    scene = groups_apart(3)
    assert scene.run().commits == 1
    again = Scene(scene.table).run()
    assert again.plan is not None
    assert again.commits == 0
    first, *lines = str(again).splitlines()
    assert first == f"{again.table}: recluster committed nothing (nothing to do)"
    reasons = " ".join(" ".join(lines).split())
    assert again.plan.left
    for each in again.plan.left:
        assert str(each.reason) in reasons
        assert str(each.reason) in again._repr_html_()
    assert max(map(len, lines)) <= 80
