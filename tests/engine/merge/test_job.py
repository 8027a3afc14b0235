"""One merge from its request to its report."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.scheduling.spending import Spending
from lakekeeper.engine.state.leases import registered
from lakekeeper.errors import AdapterError, Unsupported
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.scene import IN_PARTS, ReadOnly, Scene, groups_apart


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


def test_a_policy_that_never_runs_out_of_work_does_one_round() -> None:
    """It reported that max-rounds was reached, an option that has no effect on it."""
    scene = groups_apart(3)
    report = scene.run("full", final=True)
    assert (report.rounds, report.ended.codes) == (1, ("one_round",))


def test_in_a_table_that_may_not_be_written_nothing_is_merged() -> None:
    scene = groups_apart(3)
    scene.adapter = ReadOnly(scene.table)
    scene.refused(scene.run)
    assert scene.run(dry_run=True).plan is not None


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


@pytest.mark.parametrize("phase", ["planned", "before_commit", "committed"])
def test_an_interrupt_during_an_observer_is_no_crash(phase: str) -> None:
    """Ctrl-C while a terminal holds the progress back: the run stayed registered for a day, and its files with it."""
    scene = groups_apart(2)
    rows = scene.table.fingerprint()

    def interrupted(at: str, _: Mapping[str, Any]) -> None:
        if at == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.run(observer=interrupted)
    assert scene.table.fingerprint() == rows
    assert all(run.ended for run in registered(scene.adapter.notes).values())
    assert bool(scene.table.leftovers()) == (phase == "before_commit"), (
        "a vacuum finds them: the run has ended"
    )
    assert scene.run().commits == (0 if phase == "committed" else 1)


class _Refuses(MemoryAdapter):
    """An adapter that learns after a commit that the table cannot be maintained, while three other groups are read."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.landed, self._refused = threading.Event(), threading.Event()
        self._numbers = itertools.count(1)

    def write(self, rows: Any, task: MergeTask, run_id: str) -> Rewrite:
        number = next(self._numbers)
        if number > 4:
            assert self.landed.wait(60)
        if number == 8:
            self._refused.set()
            raise Unsupported(self.table, "variant", "of a column")
        if number > 4:
            assert self._refused.wait(60)
        return super().write(rows, task, run_id)


@pytest.mark.parametrize("outcomes", [[], ["unknown, lost"]], ids=["landed", "one unknown"])
def test_a_call_that_an_error_ends_reports_each_group_that_was_read(outcomes: list[Any]) -> None:
    scene, spending = groups_apart(8), Spending()
    adapter = scene.adapter = _Refuses(scene.table)
    adapter.faults.outcomes += outcomes

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        spending(phase, info)
        if phase == "committed":
            adapter.landed.set()

    report = scene.run(options={**IN_PARTS, "max-concurrent-file-group-rewrites": 4}, observer=observer)
    assert report.status == "partial"
    assert "variant" in str(report.ended), "the error that ended the call, whatever happened before"
    assert report.attempted_bytes_count == spending.bytes
    assert {group.id for group in report.groups} == spending.groups
    assert scene.table.leftovers() == set() or outcomes


def test_the_error_that_ends_a_call_is_logged_with_its_causes_and_without_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own traceback in a log record shows the message of each cause as it is."""
    caplog.set_level(logging.DEBUG, "lakekeeper")
    scene = groups_apart(2)

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "committed":
            monkeypatch.setattr(scene.adapter, "refresh", refuse)

    def refuse(*_: object) -> Any:
        raise AdapterError("the catalog does not respond") from OSError("jdbc:x://db/?password=hunter2")

    report = scene.run(options={**IN_PARTS, "max-rounds": 3}, final=True, observer=observer)
    assert report.ended.code == "ended_by_error"
    assert "OSError: jdbc:x://db/?password=***" in caplog.text
    assert "hunter2" not in caplog.text
