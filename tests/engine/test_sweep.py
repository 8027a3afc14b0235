"""A pass over fake tables: which verbs are due, off or failing, and when a pass stops."""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.coefficients import Coefficients
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.plan import Left, Plan, Prediction, Tasks
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling import queue
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.core.scheduling.live import LivePass, Progress
from lakekeeper.core.scheduling.queue import priority
from lakekeeper.core.scheduling.task import Task, failed
from lakekeeper.core.units import DAY_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.auto_settings import AutoSettings, settings_from
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoffs
from lakekeeper.engine.sweep import PassContext, sweep
from lakekeeper.engine.watch import Watch
from lakekeeper.errors import AdapterError, HeavyError, NotFound, OptionError, Rejected, RetentionError
from lakekeeper.history.status import Status, status_of
from lakekeeper.history.store import HistoryStore
from lakekeeper.recording import FleetMemory
from lakekeeper.spi import Observer

BOTH = AutoSettings(("*",), ("recluster", "compact"), 900)


@dataclass
class FakeTable:
    """Satisfies engine.table_turn.Maintained: answers each verb with the given report or error.

    outdated      files without statistics; expired: files with expired rows, for which the trash may be ``full``
    due           groups of 100 bytes in each plan; 0: as many as the answer has
    spent_today   bytes that were rewritten on it: its daily budget is used up
    looked, ran   the verbs that were planned, and those that ran, each with its arguments
    scores        of the plans, by verb
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, MergeReport | Exception] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    freed: VacuumReport | Exception = field(default_factory=lambda: VacuumReport("t", False, 1))
    outdated: int = 0
    expired: int = 0
    full: bool = False
    due: int = 0
    spent_today: int | None = None
    looked: list[str] = field(default_factory=list)
    ran: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def automatic(self) -> bool:
        return self.properties.get("lakekeeper.auto.enabled", "true") == "true"

    def options(self, call: Any = None) -> Options:
        return resolve(call, self.conf, self.properties)

    def recluster(self, *, final: bool, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
        return self._answer("recluster", options, final=final, **given)

    def compact(self, *, final: bool, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
        return self._answer("compact", options, final=final, **given)

    def merge_deletes(self, *, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
        return self._answer("merge_deletes", options, **given)

    def build_filters(self, *, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
        return self._answer("build_filters", options, **given)

    def expire_rows(self, *, dry_run: bool, observer: Observer | None) -> LifecycleReport:
        if not dry_run:
            self.ran.append(("expire_rows", {}))
        count, run = self.expired, "" if dry_run or self.full or not self.expired else "l-1"
        code = Code.ROWS_EXPIRED if count else Code.NONE_EXPIRED
        if self.full and not dry_run:
            code = Code.TRASH_FULL
        return LifecycleReport(
            "t",
            dry_run,
            "d < x",
            1,
            None,
            Reason.of(code, entries=48, most=48) if code == Code.TRASH_FULL else Reason.of(code, rows=count),
            due_data_files_count=count,
            run_id=run,
        )

    def compute_statistics(self, *, dry_run: bool, observer: Observer | None) -> StatisticsReport:
        if not dry_run:
            self.ran.append(("compute_statistics", {}))
            self.order.append(f"{self.name}.compute_statistics")
        count, runs = self.outdated, () if dry_run or not self.outdated else ("s-1",)
        code = Code.STATISTICS_COMPUTED if count else Code.NOTHING_TO_DO
        return StatisticsReport(
            "t",
            dry_run,
            1,
            None,
            Reason.of(code, files=count),
            described_data_files_count=count,
            run_ids=runs,
        )

    def vacuum(self, *, dry_run: bool, observer: Observer | None) -> VacuumReport:
        self.ran.append(("vacuum", {"dry_run": dry_run}))
        if isinstance(self.freed, Exception):
            raise self.freed
        return self.freed

    def empty_trash(self) -> None:
        self.ran.append(("empty_trash", {}))

    def _answer(self, verb: str, options: Any, **given: Any) -> MergeReport:
        answer = self.answers.get(verb, report(verb))
        if options == {"budget-bytes": "none"}:  # what the day's budget still allows
            if self.spent_today is None:
                return self._planned(verb, answer)
            over = Reason.of(Code.OVER_DAILY_BUDGET, spent_bytes=self.spent_today)
            left = Left(over, 3, 300, at=np.arange(3), named=pa.array(["a", "b", "c"]))
            return replace(report(verb), plan=Plan("t", 1, "k", ("ranges",), (), (left,), 3, 300, 1.0))
        if options is not None:  # a plan of everything that is due, whatever the budget
            assert options == {"budget-bytes": "none", "budget-bytes-per-day": "none"}
            assert given["dry_run"]
            self.looked.append(verb)
            if isinstance(answer, OptionError):
                raise answer
            return self._planned(verb, answer)
        self.ran.append((verb, given))
        self.order.append(f"{self.name}.{verb}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _planned(self, verb: str, answer: MergeReport | Exception) -> MergeReport:
        count = self.due or (1 if isinstance(answer, Exception) else len(answer.groups))
        made = report(verb, *["planned"] * count, dry_run=True)
        assert made.plan is not None
        worth: Any = SimpleNamespace(score=self.scores.get(verb, 0.0), seconds_saved=1.0)
        sizes, shares = np.zeros(0, np.int64), np.zeros(0)
        prediction = Prediction(
            worth, "", 0.0, Coefficients(), None, pa.array([], pa.string()), sizes, shares
        )
        tasks: Any = tuple(SimpleNamespace(input_bytes=100) for _ in range(count))
        return replace(made, plan=replace(made.plan, tasks=tasks, prediction=prediction))

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.ran]


def report(verb: str, *statuses: str, reason: Code = Code.NO_GAIN, **given: Any) -> MergeReport:
    """A report with one group for each status; without a status, an idle report with the reason."""
    groups = tuple(
        GroupResult(f"g{i}", s, 2, 100, detail=Reason.of(Code.FAILED, error=f"group {s}"))
        for i, s in enumerate(statuses)
    )
    committed = statuses.count("committed")
    left = Left(Reason.of(reason), 3, 300, at=np.arange(3), named=pa.array(["a", "b", "c"]))
    plan = Plan("t", 1, "k", ("ranges",), (), (left,), 3, 300, 1.0)
    facts: dict[str, Any] = {
        "commits": min(committed, 1),
        "rewritten_bytes_count": committed * 100,
        "rewritten_data_files_count": committed * 2,
        "added_data_files_count": committed,
        "run_ids": ("r-1",) if committed else (),
    }
    return MergeReport(
        "t", verb, given.pop("dry_run", False), 1, 2, groups=groups, plan=plan, **facts | given
    )


DUE = {verb: report(verb, "committed") for verb in ("recluster", "compact")}


def passed(tables: Mapping[str, FakeTable | Exception], **given: Any) -> AutoReport:
    """One pass over tables by name; each read of the clock advances it by a millisecond."""

    def opened(name: str) -> FakeTable:
        found = tables[name]
        if isinstance(found, Exception):
            raise found
        return found

    settings = given.pop("settings", BOTH)
    clock = given.pop("clock", Clock(now_ms=itertools.count().__next__))
    return sweep(list(tables), opened, settings, clock, PassContext(**given))


def statuses(result: AutoReport) -> dict[str, str]:
    return {t.table: t.status for t in result.tables}


def test_committed_work_is_counted_and_reported() -> None:
    done = report("recluster", "committed", "committed", depth_before=9.0, depth_after=1.5)
    result = passed({"a": FakeTable(answers={"recluster": done})})
    (one,) = result.tables
    assert (one.status, one.rewritten_bytes_count, one.run_ids) == ("done", 200, ("r-1",))
    assert one.reason == Reason.of(
        Code.REWROTE_DEPTH,
        verb="recluster",
        files_before=4,
        files_after=2,
        depth_before=9.0,
        depth_after=1.5,
    )
    assert result.exit_code == 0


def test_a_table_that_needs_nothing_says_why() -> None:
    (one,) = passed({"a": FakeTable()}).tables
    assert one.status == "idle"
    why = Reason.of(Code.NO_GAIN)
    compact = Reason.of(Code.VERB_NOT_DUE, verb="compact").plus(why)
    assert one.reason == Reason.of(Code.VERB_NOT_DUE, verb="recluster").plus(why, compact)
    assert str(one.reason) == f"recluster is not due: {why}; compact is not due: {why}"


@pytest.mark.parametrize("conf", [{}, {"spark.lakekeeper.auto.enabled": "true"}])
def test_switched_off_on_the_table_wins_over_any_conf(conf: Mapping[str, str]) -> None:
    table = FakeTable({"lakekeeper.auto.enabled": "false"}, conf)
    assert statuses(passed({"a": table})) == {"a": "off"}
    assert table.ran == []


def test_switched_off_by_conf_is_switched_off() -> None:
    table = FakeTable(conf={"spark.lakekeeper.auto.enabled": "false"})
    (one,) = passed({"a": table}).tables
    assert (one.status, table.ran) == ("off", [])
    assert one.reason.code == Code.DISABLED_BY_CONF


def test_switched_off_wins_over_any_error_on_the_table() -> None:
    table = FakeTable({"lakekeeper.auto.enabled": "false", "lakekeeper.max-level": "many"})
    assert statuses(passed({"a": table})) == {"a": "off"}


def test_a_format_without_adapter_fails_only_where_the_table_was_named() -> None:
    other = AdapterError("no adapter for format 'parquet' is installed", missing="parquet")
    (one,) = passed({"db.logs": other}).tables
    assert (one.status, one.reason) == ("off", Reason.of(Code.NO_ADAPTER, format="parquet"))
    settings = AutoSettings(("db.logs",), ("compact",), 900)
    named = passed({"db.logs": other}, settings=settings)
    assert statuses(named) == {"db.logs": "failed"}


@pytest.mark.parametrize(
    "error", [NotFound("b", "no such table"), RuntimeError("lost executor\nat …"), OSError()]
)
def test_one_bad_table_does_not_stop_the_rest(error: Exception) -> None:
    good, late = FakeTable(), FakeTable(answers={"compact": report("compact", "committed")})
    result = passed({"a": good, "b": error, "c": late})
    assert statuses(result) == {"a": "idle", "b": "failed", "c": "done"}
    assert result.exit_code == 1
    reason = result.tables[1].reason
    assert reason.code == Code.FAILED
    assert str(reason["error"]).startswith(type(error).__name__)
    assert "\n" not in str(reason)


def test_an_error_of_a_verb_fails_only_its_table() -> None:
    bad = FakeTable(answers={"recluster": RuntimeError("boom")})
    assert statuses(passed({"a": bad, "b": FakeTable()})) == {"a": "failed", "b": "idle"}


def test_a_verb_that_fails_does_not_hide_the_work_of_another() -> None:
    bad = FakeTable(answers={"recluster": report("recluster", "committed"), "compact": RuntimeError("boom")})
    (one,) = passed({"a": bad}).tables
    assert (one.status, one.rewritten_bytes_count, one.run_ids) == ("failed", 100, ("r-1",))
    assert one.reason["error"] == "RuntimeError: boom"
    assert [more["verb"] for more in one.reason.also] == ["recluster"]


def test_lost_groups_are_partial_if_others_commit_and_failed_otherwise() -> None:
    some = FakeTable(answers={"recluster": report("recluster", "committed", "dropped")})
    none = FakeTable(answers={"recluster": report("recluster", "failed", "failed")})
    result = passed({"some": some, "none": none})
    assert statuses(result) == {"some": "partial", "none": "failed"}
    assert result.tables[1].reason == Reason.of(Code.FAILED, error="group failed")


def test_a_table_without_a_key_is_still_compacted() -> None:
    no_key = OptionError("columns", None, "a cluster key")
    table = FakeTable(answers={"recluster": no_key, "compact": report("compact", "committed")})
    assert statuses(passed({"a": table})) == {"a": "done"}
    alone = FakeTable(answers={"recluster": no_key})
    only = AutoSettings(("*",), ("recluster",), 900)
    (one,) = passed({"a": alone}, settings=only).tables
    assert (one.status, one.reason) == ("idle", Reason.of(Code.NOTHING_REQUESTED))


def test_a_table_may_leave_out_verbs_of_the_pass_but_add_none() -> None:
    table = FakeTable({"lakekeeper.auto.verbs": "compact"})
    passed({"a": table})
    assert table.looked == ["compact"]
    greedy = FakeTable({"lakekeeper.auto.verbs": "vacuum,compact"})
    passed({"a": greedy})
    assert (greedy.looked, greedy.ran) == (["compact"], [])
    other = FakeTable({"lakekeeper.auto.verbs": "vacuum"})
    (one,) = passed({"a": other}).tables
    assert (one.status, other.ran) == ("off", [])
    freed = AutoSettings(("*",), ("vacuum", "compact"), 900)
    allowed = FakeTable({"lakekeeper.auto.verbs": "vacuum"})
    passed({"a": allowed}, settings=freed)
    assert allowed.verbs == ["vacuum", "empty_trash"]
    wrong = FakeTable({"lakekeeper.auto.verbs": "vacum"})
    (one,) = passed({"a": wrong}).tables
    assert (one.status, wrong.ran) == ("failed", [])
    assert "vacum" in str(one.reason)


def test_the_budget_is_one_for_all_verbs_of_a_table() -> None:
    done = {verb: report(verb, "committed") for verb in ("recluster", "compact")}
    table = FakeTable(conf={"spark.lakekeeper.budget-bytes": "150"}, answers=done)
    passed({"a": table})
    assert [(verb, given["budget_bytes"]) for verb, given in table.ran] == [
        ("recluster", 150),
        ("compact", 50),
    ]
    spent = FakeTable(conf={"spark.lakekeeper.budget-bytes": "100"}, answers=done)
    (one,) = passed({"a": spent}).tables
    assert spent.verbs == ["recluster"]
    assert (one.status, one.reason.codes) == ("done", (Code.REWROTE, Code.BUDGET_SPENT))


def test_merge_deletes_takes_no_final_and_reports_delete_files() -> None:
    assert settings_from(resolve({"auto.tables": "a"})).verbs == ("recluster", "compact", "merge_deletes")
    done = report("merge_deletes", "committed", removed_delete_files_count=4, added_delete_files_count=1)
    table = FakeTable(answers={"merge_deletes": done})
    every = AutoSettings(("*",), ("compact", "merge_deletes"), 900)
    (one,) = passed({"a": table}, settings=every).tables
    assert [(verb, set(given)) for verb, given in table.ran] == [
        ("merge_deletes", {"dry_run", "budget_bytes"})
    ]
    assert (one.status, str(one.reason)) == ("done", "merge_deletes: 2 -> 1 file, 4 -> 1 delete file")


def test_removed_delete_files_are_not_an_idle_pass() -> None:
    tidied = report("merge_deletes", commits=1, run_ids=("r-1",), removed_delete_files_count=4)
    table = FakeTable(answers={"merge_deletes": tidied})
    only = AutoSettings(("*",), ("merge_deletes",), 900)
    (one,) = passed({"a": table}, settings=only).tables
    assert (one.status, one.run_ids) == ("done", ("r-1",))
    assert str(one.reason) == "merge_deletes: 0 -> 0 files, 4 -> 0 delete files"


def test_vacuum_comes_last_and_only_where_it_is_set() -> None:
    freed = VacuumReport(
        "t", False, 1, deleted_files_count=3, deleted_bytes_count=1500, ended=Reason.of(Code.DONE)
    )
    table = FakeTable(freed=freed, answers={"compact": report("compact", "committed")})
    passed({"a": table})
    assert table.verbs == ["compact"]
    table.ran.clear()
    settings = AutoSettings(("*",), ("vacuum", "compact"), 900)
    (one,) = passed({"a": table}, settings=settings).tables
    assert table.verbs == ["compact", "vacuum", "empty_trash"]
    assert (one.status, one.deleted_files_count, one.deleted_bytes_count) == ("done", 3, 1500)
    assert one.reason.codes == (Code.REWROTE, Code.VACUUMED)
    table.ran.clear()
    passed({"a": table}, settings=settings, dry_run=True)
    assert table.verbs == ["compact", "vacuum"]


def test_statistics_are_computed_after_merges_and_before_the_vacuum() -> None:
    settings = AutoSettings(("*",), ("vacuum", "compute_statistics", "compact"), 900)
    table = FakeTable(answers={"compact": report("compact", "committed")}, outdated=3)
    (one,) = passed({"a": table}, settings=settings).tables
    assert table.verbs == ["compact", "compute_statistics", "vacuum", "empty_trash"]
    assert one.status == "done"
    assert one.reason.codes[:2] == (Code.REWROTE, Code.STATISTICS_COMPUTED)
    assert [(task.kind, task.state) for task in one.tasks] == [
        ("merge", "done"),
        ("statistics", "done"),
        ("gc", "skipped"),
    ]
    assert all(Task.from_json(task.to_json()) == task for task in one.tasks)


def test_expired_rows_go_first_and_only_where_there_is_a_rule() -> None:
    settings = AutoSettings(("*",), ("compact", "expire_rows"), 900)
    rule = {"lakekeeper.lifecycle.column": "d", "lakekeeper.lifecycle.retain": "90d"}
    table = FakeTable(rule, answers={"compact": report("compact", "committed")}, expired=2)
    (one,) = passed({"a": table}, settings=settings).tables
    assert table.verbs == ["expire_rows", "compact"]
    assert [(task.kind, task.state) for task in one.tasks] == [("lifecycle", "done"), ("merge", "done")]
    assert all(Task.from_json(task.to_json()) == task for task in one.tasks)
    for properties in ({}, {"lakekeeper.lifecycle.column": "d"}, {"lakekeeper.lifecycle.retain": "90d"}):
        bare = FakeTable(properties, expired=2)
        (left,) = passed({"a": bare}, settings=settings).tables
        assert (bare.verbs, left.status) == ([], "idle")
        assert left.tasks[0].reason == Reason.of(Code.NO_RULE)
        passed({"a": bare}, settings=settings, dry_run=True)
        assert "expire_rows" not in bare.verbs


def test_expired_rows_for_which_the_trash_has_no_slot_need_attention() -> None:
    settings = AutoSettings(("*",), ("expire_rows", "compact"), 900)
    rule = {"lakekeeper.lifecycle.column": "d", "lakekeeper.lifecycle.retain": "90d"}
    table = FakeTable(rule, answers={"compact": report("compact", "committed")}, expired=2, full=True)
    result = passed({"a": table}, settings=settings)
    (one,) = result.tables
    assert table.verbs == ["expire_rows", "compact"], "other verbs are not held up"
    assert (one.status, one.needs_attention, result.exit_code) == ("failed", True, 1)
    assert Code.TRASH_FULL in one.reason.codes
    assert [(task.kind, task.state) for task in one.tasks] == [("lifecycle", "failed"), ("merge", "done")]


def test_a_dry_run_says_which_rows_would_expire() -> None:
    settings = AutoSettings(("*",), ("expire_rows",), 900)
    rule = {"lakekeeper.lifecycle.column": "d", "lakekeeper.lifecycle.retain": "90d"}
    table = FakeTable(rule, expired=2)
    (one,) = passed({"a": table}, settings=settings, dry_run=True).tables
    assert (one.status, table.ran, one.reason.code) == ("idle", [], Code.ROWS_EXPIRED)


def test_statistics_that_are_not_due_are_not_computed() -> None:
    settings = AutoSettings(("*",), ("compute_statistics",), 900)
    table = FakeTable()
    (one,) = passed({"a": table}, settings=settings).tables
    assert (one.status, table.ran) == ("idle", [])
    assert one.tasks[0].state == "skipped"
    due = FakeTable(outdated=3)
    (planned,) = passed({"a": due}, settings=settings, dry_run=True).tables
    assert (planned.status, due.ran) == ("idle", [])
    assert planned.reason.code == Code.STATISTICS_COMPUTED


def test_a_vacuum_that_leaves_files_is_partial_and_says_how_many() -> None:
    freed = VacuumReport("t", False, 1, deleted_files_count=3, deleted_bytes_count=9, failed_files_count=2)
    freed = replace(freed, ended=Reason.of(Code.FILES_REMAIN, files=2))
    settings = AutoSettings(("*",), ("vacuum",), 900)
    (one,) = passed({"a": FakeTable(freed=freed)}, settings=settings).tables
    assert one.status == "partial"
    assert one.reason.codes[:2] == (Code.VACUUMED, Code.FILES_REMAIN)


def test_a_vacuum_that_deletes_nothing_of_what_it_should_fails_and_rests_if_it_does_so_again() -> None:
    """Without the permission to delete, a service counted as healthy, and tried again in each pass."""
    freed = VacuumReport("t", False, 1, failed_files_count=2, ended=Reason.of(Code.FILES_REMAIN, files=2))
    given: dict[str, Any] = {"settings": AutoSettings(("*",), ("vacuum",), 900), "clock": NOON}
    before: dict[tuple[str, str], Task] = {}
    found = []
    for _ in range(3):
        table = FakeTable(freed=freed)
        result = passed({"a": table}, before=before, **given)
        (one,) = result.tables
        before = {task.key: task for task in one.tasks}
        found.append((one.status, result.exit_code, "vacuum" in table.verbs))
    assert found == [("failed", 1, True), ("failed", 1, True), ("parked", 1, False)]
    assert "2 files" in str(one.reason)


def test_a_dry_run_says_what_a_vacuum_would_delete() -> None:
    due = VacuumReport("t", True, 1, deleted_files_count=3, deleted_bytes_count=9)
    settings = AutoSettings(("*",), ("compact", "vacuum"), 900)
    (one,) = passed({"a": FakeTable(freed=due)}, settings=settings, dry_run=True).tables
    assert (one.status, one.deleted_files_count) == ("idle", 0)
    assert Reason.of(Code.VACUUM_DUE, versions=0, files=3, bytes=9) in one.reason.also


def test_a_vacuum_that_is_refused_fails_its_table_and_hides_no_other_work() -> None:
    table = FakeTable(
        answers={"compact": report("compact", "committed")}, freed=RetentionError("t: gc.enabled is false")
    )
    other = FakeTable()
    settings = AutoSettings(("*",), ("compact", "vacuum"), 900)
    one, two = passed({"a": table, "b": other}, settings=settings).tables
    assert (one.status, two.status) == ("failed", "idle")
    assert "gc.enabled" in str(one.reason["error"])
    assert one.rewritten_bytes_count == 100


def test_tables_side_by_side_are_reported_in_order() -> None:
    met = threading.Barrier(2, timeout=60)

    class Meeting(FakeTable):
        def compact(self, **_: Any) -> MergeReport:
            met.wait()
            return report("compact", "committed")

    given = {"auto.tables": "*", "auto.verbs": "compact", "auto.max-concurrent-tables": 2}
    settings = settings_from(resolve(given))
    reported = passed({"a": Meeting(), "b": Meeting()}, settings=settings)
    assert [(t.table, t.status) for t in reported.tables] == [("a", "done"), ("b", "done")]


ENDING = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from lakekeeper.engine.auto_settings import AutoSettings
from tests.engine.test_sweep import FakeTable, passed

begun, pool = threading.Semaphore(0), ThreadPoolExecutor(1)

class Slow(FakeTable):
    def compact(self, **given):
        sys.stdout.write("planned\\n")
        begun.release()
        try:
            while True:
                pool.submit(int).result()
        except RuntimeError:  # the program ends
            return super().compact(**given)

tables = {f"t{i}": Slow() for i in range(8)}
settings = AutoSettings(("*",), ("compact",), 900, at_once=2)
threading.Thread(target=passed, args=[tables], kwargs={"settings": settings}, daemon=True).start()
assert begun.acquire(timeout=60) and begun.acquire(timeout=60)
"""


def test_a_program_that_ends_waits_for_no_table_that_is_not_begun() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert done.stdout.count("planned") == 2


def test_a_service_remembers_for_each_table_where_it_lost_races() -> None:
    backoffs = Backoffs.between(900)
    backoffs.of("a").raced("p=1", now_ms=0)
    assert backoffs.of("a").resting(1_799_999) == {"p=1"}
    assert backoffs.of("a").resting(1_800_000) == set()
    assert backoffs.of("b").resting(0) == set()


def test_a_dry_run_says_what_is_due() -> None:
    due = report("recluster", "planned", "planned", dry_run=True)
    table = FakeTable(answers={"recluster": due})
    result = passed({"a": table}, dry_run=True)
    assert (result.tables[0].status, result.tables[0].reason) == (
        "idle",
        Reason.of(Code.GROUPS_DUE, groups=2),
    )
    assert all(given["dry_run"] for _, given in table.ran)


def test_once_stopped_it_starts_no_other_verb_or_table() -> None:
    reported = threading.Event()

    class Stopping(FakeTable):
        def recluster(self, *, options: Any, **given: Any) -> MergeReport:
            if options is None:
                reported.set()
            return super().recluster(options=options, **given)

    first, second = Stopping(answers=DUE, scores={"recluster": 1.0}), FakeTable(answers=DUE)
    result = passed({"a": first, "b": second}, stopping=reported.is_set)
    assert statuses(result) == {"a": "done", "b": "stopped"}
    assert (first.verbs, second.ran, result.exit_code) == (["recluster"], [], 0)


def test_a_pass_is_one_line_of_json_with_its_exit_code() -> None:
    result = passed({"a": FakeTable(), "b": NotFound("b", "gone")})
    line = result.to_json()
    assert "\n" not in line
    said = json.loads(line)
    assert (said["idle"], said["failed"], said["exit_code"]) == (1, 1, 1)
    assert [t["table"] for t in said["tables"]] == ["a", "b"]
    assert "b" in str(result)
    assert said["tables"][1]["reason"]["code"] == "failed"
    assert said["tables"][1]["reason"]["text"] == "NotFound: b: gone"
    assert "gone" in result._repr_html_()
    assert str(AutoReport((), 0)) == "no table matches"


def test_settings_are_checked() -> None:
    given = {"auto.tables": "ice.db.*, /p/t", "auto.verbs": "compact", "auto.every": "2h"}
    alert = resolve(given, {"spark.lakekeeper.auto.alert-command": "/bin/page ops"})
    assert settings_from(alert).alert_command == "/bin/page ops"
    assert settings_from(resolve(given)) == AutoSettings(("ice.db.*", "/p/t"), ("compact",), 7200)
    with pytest.raises(OptionError, match=r"spark\.lakekeeper\.auto\.tables"):
        settings_from(resolve())
    with pytest.raises(OptionError, match="recluster, compact"):
        settings_from(resolve({**given, "auto.verbs": "vacum"}))
    with pytest.raises(OptionError, match="recluster, compact"):
        settings_from(resolve({**given, "auto.verbs": " , "}))


@pytest.mark.parametrize(
    "text, expected", [("30s", 30), ("15m", 900), ("2h", 7200), (" 1d ", 86400), ("1.5h", 5400)]
)
def test_pauses(text: str, expected: float) -> None:
    assert settings_from(resolve({"auto.tables": "a", "auto.every": text})).pause_seconds == expected


@pytest.mark.parametrize("text", ["", "15", "0m", "-1m", "m", "15 minutes"])
def test_bad_pauses(text: str) -> None:
    with pytest.raises(OptionError, match="15m"):
        resolve({"auto.every": text})


NOON = Clock(now_ms=lambda: 1_767_614_400_000)  # Monday, 5 January 2026, 12:00 UTC


def test_tasks_of_all_tables_run_in_the_order_of_their_worth() -> None:
    order: list[str] = []

    def made(name: str, weight: float, **scores: float) -> FakeTable:
        conf = {"spark.lakekeeper.auto.weight": str(weight)}
        return FakeTable(conf=conf, answers=DUE, scores=scores, order=order, name=name)

    tables = {
        "low": made("low", 1, recluster=10, compact=5),
        "heavy": made("heavy", 10, recluster=9, compact=1),
        "late": made("late", 1, recluster=2, compact=80),
    }
    report = passed(tables, clock=NOON)
    assert order == [
        "heavy.recluster", "late.recluster", "late.compact", "low.recluster", "heavy.compact", "low.compact",
    ]  # fmt: skip
    assert [table.table for table in report.tables] == ["low", "heavy", "late"]


def test_the_work_of_choosing_tasks_grows_like_the_number_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over 5,000 tables took half a minute of CPU to find that each has nothing to vacuum."""
    ranked: list[str] = []

    def counted(task: Task, now_ms: int) -> float:
        ranked.append(task.table)
        return priority(task, now_ms)

    monkeypatch.setattr(queue, "priority", counted)
    for count in (100, 200):
        ranked.clear()
        tables = {f"t{i}": FakeTable() for i in range(count)}
        passed(tables, settings=AutoSettings(("*",), ("vacuum",), 900))
        assert len(ranked) == count


def test_a_pass_that_cron_starts_after_exactly_the_pause_tries_again() -> None:
    """The failure comes minutes after the start of its pass, and the next pass starts some seconds early."""
    began = 10**12
    table = FakeTable(answers={"recluster": RuntimeError("boom")})
    (one,) = passed({"a": table}, clock=Clock(now_ms=itertools.count(began, 60_000).__next__)).tables
    (task,) = (task for task in one.tasks if task.verb == "recluster")
    for start, tried in ((began + 890_000, True), (began + 800_000, False)):
        again = FakeTable(answers={"recluster": RuntimeError("boom")})
        clock = Clock(now_ms=itertools.repeat(start).__next__)
        passed({"a": again}, before={task.key: task}, clock=clock)
        assert ("recluster" in again.verbs) is tried


def test_a_verb_that_fails_is_parked_longer_each_time_and_the_others_run() -> None:
    now = 10**12
    before: dict[tuple[str, str], Task] = {}
    waits, tried = [], []
    for _ in range(12):
        table = FakeTable(answers={"recluster": RuntimeError("boom"), "compact": DUE["compact"]})
        (one,) = passed(
            {"a": table}, before=before, clock=Clock(now_ms=itertools.repeat(now).__next__)
        ).tables
        before = {task.key: task for task in one.tasks}
        tried.append("recluster" in table.verbs)
        assert "compact" in table.verbs
        assert one.status == ("failed" if tried[-1] else "parked")
        waits.append((before["a", "recluster"].parked_until_ms - now) // 60_000)
        now += 15 * 60_000
    # 15 minutes, then 30, an hour, two …, counted down by the passes between
    assert tried == [True, True, False, True, False, False, False, True, *[False] * 4]
    assert waits[:8] == [15, 30, 15, 60, 45, 30, 15, 120]
    assert one.reason.code == Code.REWROTE
    held = one.reason.also[0]
    assert (held.code, held["verb"], held["failures"]) == (Code.PARKED, "recluster", 4)
    assert "boom" in str(held)


def test_a_parked_table_is_not_healthy() -> None:
    task = failed(Task("merge", "a", "recluster"), "boom", 1_767_614_400_000, 900_000)
    report = passed({"a": FakeTable(answers=DUE)}, before={task.key: task}, clock=NOON)
    assert (report.tables[0].status, report.exit_code) == ("parked", 1)


def test_a_task_that_succeeds_or_is_no_longer_due_is_no_longer_parked() -> None:
    past = failed(Task("merge", "a", "recluster"), "boom", 0, 900_000)
    (good,) = passed({"a": FakeTable(answers=DUE)}, before={past.key: past}, clock=NOON).tables
    assert [(task.state, task.failures) for task in good.tasks] == [("done", 0), ("done", 0)]
    parked = failed(past, "boom", 1_767_614_400_000, 900_000)
    (idle,) = passed({"a": FakeTable()}, before={parked.key: parked}, clock=NOON).tables
    assert (idle.status, [task.failures for task in idle.tasks]) == ("idle", [0, 0])


BROKEN = Reason.of(Code.ENDED_BY_ERROR, error="Unsupported: variant")


@pytest.mark.parametrize("verb", ["compact", "compute_statistics"])
def test_a_verb_that_ends_by_an_error_after_a_commit_rests_and_its_work_counts(verb: str) -> None:
    class Breaking(FakeTable):
        def compute_statistics(self, **given: Any) -> StatisticsReport:
            made = super().compute_statistics(**given)
            return made if given["dry_run"] else replace(made, ended=made.ended.plus(BROKEN))

    answers = {"compact": report("compact", "committed", ended=BROKEN)}
    before: dict[tuple[str, str], Task] = {}
    now = NOON.now_ms()
    for failures, minutes in ((1, 15), (2, 30), (3, 60)):
        table = Breaking(answers=answers, outdated=3)
        given = {"clock": Clock(now_ms=partial(int, now)), "settings": AutoSettings(("*",), (verb,), 900)}
        result = passed({"a": table}, before=before, **given)
        (one,), (task,) = result.tables, result.tables[0].tasks
        assert (one.status, one.rewritten_bytes_count) == ("partial", 100 if verb == "compact" else 0)
        assert (task.state, task.failures, task.parked_until_ms) == (
            "failed",
            failures,
            now + minutes * 60_000,
        )
        assert "Unsupported: variant" in str(task.reason)
        assert (one.needs_attention, result.exit_code) == (True, 1)
        before, now = {task.key: task}, task.parked_until_ms


def test_a_table_needs_attention_while_a_verb_fails_again_and_again_though_another_commits() -> None:
    before = {task.key: task for task in (failed(Task("merge", "a", "recluster"), "boom", 0, 900_000),)}
    table = FakeTable(answers={"recluster": report("recluster", "failed"), "compact": DUE["compact"]})
    (one,) = passed({"a": table}, before=before, clock=NOON).tables
    assert (one.status, one.needs_attention) == ("partial", True)
    lost = FakeTable(answers={"recluster": report("recluster", "dropped"), "compact": DUE["compact"]})
    (once,) = passed({"a": lost}, clock=NOON).tables
    assert (once.status, once.needs_attention) == ("partial", False), "a lost race is no failure"


def test_groups_that_only_lose_races_do_not_park_the_table() -> None:
    lost = FakeTable(answers={"compact": report("compact", "dropped")})
    (one,) = passed({"a": lost}, clock=NOON).tables
    task = one.tasks[-1]
    assert (one.status, task.state, task.is_parked(NOON.now_ms())) == ("failed", "failed", False)


def test_groups_that_lose_again_and_again_rest_like_those_that_fail() -> None:
    before, now = Task("merge", "a", "compact"), NOON.now_ms()
    for failures, rests in ((1, False), (2, True), (3, True)):
        lost = FakeTable(answers={"compact": report("compact", "dropped")})
        (one,) = passed(
            {"a": lost}, clock=Clock(now_ms=partial(int, now)), before={before.key: before}
        ).tables
        before = next(task for task in one.tasks if task.verb == "compact")
        assert (before.failures, before.is_parked(now + 900_000)) == (failures, rests)
        now = max(now, before.parked_until_ms)


class Losing(FakeTable):
    """Rewrites 100 bytes in each call, and then loses all of them."""

    def compact(self, *, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
        if options is None and observer is not None:
            observer("read", {"run_id": "r-1", "task": "g0", "bytes": 100})
        return super().compact(options=options, observer=observer, **given)


@pytest.mark.parametrize("end", ["dropped", "failed", "committed", "raised"])
def test_work_that_is_lost_is_charged_to_every_budget(end: str) -> None:
    """A day of passes in which a table's groups lose each time: it is rewritten once, as the day's budget allows."""
    conf = {"auto.tables": "*", "auto.verbs": "compact", "auto.budget-bytes-per-day": "100"}
    settings, memory, ran = settings_from(resolve(conf)), FleetMemory(), 0
    answer = Rejected("403 Forbidden") if end == "raised" else report("compact", end)
    times = range(NOON.now_ms(), NOON.now_ms() + DAY_MS, 15 * 60 * 1000)
    for now in times:
        table = Losing(answers={"compact": answer})
        given = {"before": memory.tasks(), "spent_today_bytes": memory.rewritten_bytes(now)}
        result = passed({"a": table}, settings=settings, clock=Clock(now_ms=partial(int, now)), **given)
        memory.keep(result, now)
        ran += len(table.ran)
    assert ran == 1
    assert memory.rewritten_bytes(times[-1]) == 100


def test_work_that_is_lost_is_charged_to_the_table_too() -> None:
    class Failing(Losing):
        def recluster(self, *, options: Any, observer: Observer | None, **given: Any) -> MergeReport:
            if options is None and observer is not None:
                observer("read", {"run_id": "r-1", "task": "g0", "bytes": 100})
            return super().recluster(options=options, observer=observer, **given)

    answers = {"recluster": report("recluster", "dropped"), "compact": report("compact", "committed")}
    table = Failing(conf={"spark.lakekeeper.budget-bytes": "100"}, answers=answers)
    (one,) = passed({"a": table}).tables
    assert table.verbs == ["recluster"]
    assert (one.rewritten_bytes_count, one.attempted_bytes_count) == (0, 100)


def test_in_quiet_hours_no_table_is_opened() -> None:
    settings = settings_from(
        resolve({"auto.tables": "*", "auto.quiet-hours": "Mon 13:00-13:30 Europe/Berlin"})
    )
    table = FakeTable(answers=DUE)
    report = passed({"a": table}, settings=settings, clock=NOON)
    (one,) = report.tables
    assert (one.status, table.looked, table.ran) == ("waiting", [], [])
    assert one.reason == Reason.of(Code.QUIET_HOURS, window="Mon 13:00-13:30 Europe/Berlin")
    assert (report.exit_code, report.cut_short) == (0, False)


@pytest.mark.parametrize("why", ["quiet hours", "stopped"])
def test_a_pass_that_plans_nothing_forgets_nothing(why: str) -> None:
    now, memory = NOON.now_ms(), FleetMemory()
    bad = failed(failed(Task("merge", "a", "recluster", bytes=5), "boom", now, 900_000), "boom", now, 900_000)
    waits = Task("merge", "a", "compact", since_ms=now - DAY_MS, score=7.0, bytes=9)
    idle = Task("merge", "b", "compact", state="skipped", reason=Reason.of(Code.NO_GAIN))
    left = TableResult("a", "waiting", Reason.of(Code.DONE), tasks=(bad, waits, idle))
    memory.keep(AutoReport((left,), 1), now)
    known, watch = memory.tasks(), Watch()
    hours = {"auto.quiet-hours": "00:00-24:00"} if why == "quiet hours" else {}
    settings = settings_from(resolve({"auto.tables": "*", "auto.verbs": "recluster,compact", **hours}))
    given = {"before": known, "stopping": lambda: why == "stopped", "watch": watch}
    result = passed({"a": FakeTable(), "b": FakeTable()}, settings=settings, clock=NOON, **given)
    memory.keep(result, now)
    assert memory.tasks() == known
    assert set(statuses(result).values()) == {"waiting" if why == "quiet hours" else "stopped"}
    assert {task.key: task for task in watch.now().tasks} == known, "the page shows what was known"


def test_with_quiet_hours_nothing_waits_forever() -> None:
    """A budget for one table a pass: the one of no worth runs too, though each day has hours without a pass."""
    conf = {"auto.tables": "*", "auto.verbs": "compact", "auto.budget-bytes": 100}
    settings = settings_from(resolve(conf | {"auto.quiet-hours": "08:00-18:00"}))
    memory, ran = FleetMemory(), 0
    for now in range(NOON.now_ms(), NOON.now_ms() + 4 * DAY_MS, DAY_MS // 24):
        low, high = (FakeTable(answers=DUE, scores={"compact": score}) for score in (1, 80))
        clock = Clock(now_ms=partial(int, now))
        given = {"settings": settings, "clock": clock, "before": memory.tasks()}
        memory.keep(passed({"high": high, "low": low}, **given), now)
        ran += len(low.ran)
    assert ran >= 3


def test_quiet_hours_that_begin_during_a_pass_let_the_running_task_finish() -> None:
    now = [1_767_614_399_000]  # one second to noon

    class Slow(FakeTable):
        def recluster(self, *, options: Any, **given: Any) -> MergeReport:
            now[0] += 5_000 if options is None else 0
            return super().recluster(options=options, **given)

    settings = settings_from(resolve({"auto.tables": "*", "auto.quiet-hours": "12:00-13:00"}))
    slow, other = Slow(answers=DUE, scores={"recluster": 90}), FakeTable(answers=DUE)
    result = passed({"a": slow, "b": other}, settings=settings, clock=Clock(now_ms=lambda: now[0]))
    assert (slow.verbs, other.verbs) == (["recluster"], [])
    assert statuses(result) == {"a": "done", "b": "waiting"}
    assert result.tables[0].tasks[1].state == "queued"


@pytest.mark.parametrize("text", ["at night", "25:00-26:00", "Mon-Fry 08:00-09:00", "08:00-09:00 Mars/Base"])
def test_hours_that_cannot_be_read_are_an_error_before_any_pass(text: str) -> None:
    with pytest.raises(OptionError, match=r"auto\.quiet-hours"):
        settings_from(resolve({"auto.tables": "*", "auto.quiet-hours": text}))


def test_the_budget_of_the_fleet_is_spent_on_the_most_valuable_tasks() -> None:
    settings = settings_from(resolve({"auto.tables": "*", "auto.verbs": "compact", "auto.budget-bytes": 150}))
    tables = {
        name: FakeTable(answers=DUE, scores={"compact": score})
        for name, score in zip("abc", (1, 9, 5), strict=True)
    }
    result = passed(tables, settings=settings, clock=NOON)
    assert {name: dict(table.ran) for name, table in tables.items()} == {
        "a": {},
        "b": {"compact": {"final": False, "dry_run": False, "budget_bytes": 100}},
        "c": {"compact": {"final": False, "dry_run": False, "budget_bytes": 50}},
    }
    assert statuses(result) == {"a": "waiting", "b": "done", "c": "done"}
    assert result.tables[0].reason == Reason.of(Code.FLEET_BUDGET_SPENT, limit="auto.budget-bytes")


def test_a_task_reserves_no_more_of_the_fleets_budget_than_its_table_may_spend() -> None:
    met = threading.Barrier(3, timeout=10)

    class Meeting(FakeTable):
        def compact(self, **given: Any) -> MergeReport:
            if not given["dry_run"]:
                met.wait()
            return super().compact(**given)

    given = {"auto.tables": "*", "auto.verbs": "compact", "auto.budget-bytes": 600}
    settings = settings_from(resolve(given | {"auto.max-concurrent-tables": 3}))
    own = {"spark.lakekeeper.budget-bytes": "100"}
    tables = {name: Meeting(conf=own, answers=DUE, due=6) for name in "abcdef"}
    result = passed(tables, settings=settings)
    assert statuses(result) == dict.fromkeys("abcdef", "done")
    assert [table.rewritten_bytes_count for table in result.tables] == [100] * 6


def test_a_task_waits_for_what_running_tasks_leave_of_the_budget() -> None:
    freed, looks = threading.Event(), []

    class Slow(FakeTable):
        def compact(self, **given: Any) -> MergeReport:
            assert given["dry_run"] or freed.wait(10)
            return super().compact(**given)

    class Freeing(FakeTable):
        def vacuum(self, **given: Any) -> VacuumReport:
            freed.set()
            return super().vacuum(**given)

    given = {"auto.tables": "*", "auto.verbs": "compact,vacuum", "auto.budget-bytes": 600}
    settings = settings_from(resolve(given | {"auto.max-concurrent-tables": 3}))
    compacted = {"lakekeeper.auto.verbs": "compact"}
    tables = {
        "large": Slow(compacted, answers=DUE, due=6),
        "later": FakeTable(compacted, answers=DUE, due=6),
        "vacuumed": Freeing({"lakekeeper.auto.verbs": "vacuum"}),
    }

    def looked() -> bool:
        looks.append(0)
        return False

    result = passed(tables, settings=settings, stopping=looked)
    assert statuses(result) == {"large": "done", "later": "done", "vacuumed": "idle"}
    assert [given["budget_bytes"] for _, given in tables["later"].ran] == [500]
    assert len(looks) < 12, "a thread without a task waits until another one ends"


def test_bytes_rewritten_today_count_for_the_daily_budget() -> None:
    given = {"auto.tables": "*", "auto.verbs": "compact", "auto.budget-bytes-per-day": 1000}
    settings = settings_from(resolve(given))
    table = FakeTable(answers=DUE)
    (one,) = passed({"a": table}, settings=settings, spent_today_bytes=1000, clock=NOON).tables
    assert (one.status, table.ran) == ("waiting", [])
    assert one.reason == Reason.of(Code.FLEET_BUDGET_SPENT, limit="auto.budget-bytes-per-day")


def test_no_task_starts_on_a_table_that_has_used_up_its_daily_budget() -> None:
    own = {"lakekeeper.budget-bytes-per-day": "500"}
    tables = {
        "a": FakeTable(own, answers=DUE, spent_today=600),
        "b": FakeTable(own, answers=DUE),
        "c": FakeTable(answers=DUE, spent_today=600),
    }
    result = passed(tables)
    assert statuses(result) == {"a": "waiting", "b": "done", "c": "done"}
    assert tables["a"].ran == []
    assert result.tables[0].reason == Reason.of(Code.OVER_DAILY_BUDGET, spent_bytes=600)
    assert result.tables[0].debt.bytes == 200


@dataclass
class Running(FakeTable):
    """A table whose compaction shows up as a run."""

    def compact(self, *, observer: Observer | None, **given: Any) -> MergeReport:
        if observer is not None:
            observer("committed", {"run_id": f"{self.name}-1"})
        return super().compact(observer=observer, **given)


CORES = {"auto.tables": "*", "auto.verbs": "compact"}


def test_no_task_starts_once_the_core_seconds_of_a_pass_are_used_up() -> None:
    settings = settings_from(resolve(CORES | {"auto.budget-core-seconds": 100}))
    tables = {name: Running(answers=DUE, name=name) for name in "abc"}
    result = passed(tables, settings=settings, clock=NOON, core_seconds=lambda runs: 60.0 * len(runs))
    assert statuses(result) == {"a": "done", "b": "done", "c": "waiting"}
    assert [table.core_seconds for table in result.tables] == [60.0, 60.0, 0.0]
    assert result.tables[2].reason == Reason.of(Code.FLEET_BUDGET_SPENT, limit="auto.budget-core-seconds")


def test_core_seconds_used_today_count_for_the_day_and_for_the_table() -> None:
    settings = settings_from(resolve(CORES | {"auto.budget-core-seconds-per-day": 1000}))
    table = Running(answers=DUE)
    today = {"settings": settings, "clock": NOON, "spent_today_core_seconds": lambda _: 1000.0}
    (one,) = passed({"a": table}, **today).tables
    assert (one.status, table.ran) == ("waiting", [])
    assert one.reason == Reason.of(Code.FLEET_BUDGET_SPENT, limit="auto.budget-core-seconds-per-day")
    own = {"lakekeeper.budget-core-seconds-per-day": "50"}
    tables = {name: Running(own, answers=DUE) for name in "ab"}
    result = passed(
        tables,
        settings=settings_from(resolve(CORES)),
        clock=NOON,
        spent_today_core_seconds=lambda name: {"a": 50.0, "b": 49.0}[name or ""],
    )
    assert statuses(result) == {"a": "waiting", "b": "done"}
    assert result.tables[0].reason == Reason.of(Code.TABLE_BUDGET_SPENT, limit="budget-core-seconds-per-day")


def test_a_task_without_a_measurement_counts_as_its_time_on_all_cores() -> None:
    settings = settings_from(resolve(CORES | {"auto.budget-core-seconds": 80}))
    tables = {name: Running(answers=DUE, name=name) for name in "ab"}
    clock = Clock(now_ms=itertools.count(0, 10_000).__next__)
    result = passed(tables, settings=settings, clock=clock, cores=lambda: 8)
    assert statuses(result) == {"a": "done", "b": "waiting"}
    assert result.tables[0].core_seconds >= 80


@dataclass
class Phased(FakeTable):
    """A table whose ``merge_deletes`` goes through these phases."""

    phases: Sequence[tuple[str, Mapping[str, Any]]] = ()

    def merge_deletes(self, *, observer: Observer | None, **given: Any) -> MergeReport:
        if observer is not None:
            for phase, facts in self.phases:
                observer(phase, {"run_id": f"{self.name}-1", **facts})
        return super().merge_deletes(observer=observer, **given)


DELETES = AutoSettings(("*",), ("merge_deletes",), 900)
IDLE = [("planned", {"tasks": 0, "bytes": 0})]
BEGUN = [("planned", {"tasks": 1, "bytes": 100})]


def unmeasured(table: FakeTable, settings: AutoSettings = DELETES) -> float:
    """The core-seconds of the only task on a table, which Spark has not measured, on 64 cores and in 300 ms."""
    clock = Clock(now_ms=itertools.count(0, 300).__next__)
    return passed({"a": table}, settings=settings, clock=clock, cores=lambda: 64).tables[0].core_seconds


def test_looking_for_deletes_to_merge_uses_up_no_core_seconds() -> None:
    """A service of many tables spent its core-seconds of a day on finding nothing to do, and merges waited."""
    assert unmeasured(Phased(phases=IDLE)) == 0.0
    settings = replace(DELETES, budget_core_seconds=1)
    tables = {
        "a": Phased(name="a", phases=IDLE),
        "b": Phased(name="b", phases=BEGUN, answers={"merge_deletes": report("merge_deletes", "committed")}),
    }
    clock = Clock(now_ms=itertools.count(0, 300).__next__)
    found = passed(tables, settings=settings, clock=clock, cores=lambda: 64)
    assert statuses(found) == {"a": "idle", "b": "done"}


@pytest.mark.parametrize(
    "phases",
    [
        BEGUN,
        [*BEGUN, ("read", {"task": "g1", "bytes": 100}), *IDLE],
        [*IDLE, ("before_commit", {"attempt": 0, "rewrites": 0})],
    ],
    ids=["jobs", "rounds", "delete files"],
)
@pytest.mark.parametrize("answer", [report("merge_deletes", "committed"), RuntimeError("a lost executor")])
def test_work_that_was_not_measured_is_charged_even_if_it_fails(
    phases: Sequence[tuple[str, Mapping[str, Any]]], answer: MergeReport | Exception
) -> None:
    assert unmeasured(Phased(phases=phases, answers={"merge_deletes": answer})) == pytest.approx(19.2)


@dataclass
class Phasing(FakeTable):
    """A table whose statistics and vacuum are announced as their jobs announce them."""

    def compute_statistics(self, *, dry_run: bool, observer: Observer | None) -> StatisticsReport:
        if observer is not None:
            observer("planned", {"run_id": "s-1", "files": self.outdated, "bytes": 100})
        if not dry_run:
            raise RuntimeError("a lost executor")
        return super().compute_statistics(dry_run=dry_run, observer=observer)

    def vacuum(self, *, dry_run: bool, observer: Observer | None) -> VacuumReport:
        if observer is not None:
            observer("planned", {"run_id": "v-1", "files": 0, "bytes": 0})
        return super().vacuum(dry_run=dry_run, observer=observer)


@pytest.mark.parametrize("verb, expected", [("compute_statistics", 19.2), ("vacuum", 0.3)])
def test_other_verbs_that_were_not_measured_are_charged(verb: str, expected: float) -> None:
    settings = replace(DELETES, verbs=(verb,))
    assert unmeasured(Phasing(outdated=3), settings) == pytest.approx(expected)


def test_a_table_that_another_service_maintains_is_left_alone() -> None:
    tables = {"a": FakeTable(answers=DUE), "b": FakeTable(answers=DUE)}
    result = passed(tables, lease=lambda name: nullcontext("host:1" if name == "a" else ""), clock=NOON)
    assert statuses(result) == {"a": "waiting", "b": "done"}
    assert result.tables[0].reason == Reason.of(Code.LEASED, owner="host:1")


def test_a_lease_that_cannot_be_taken_stops_nothing() -> None:
    def broken(_: str) -> Any:
        raise AdapterError("the storage does not answer")

    assert statuses(passed({"a": FakeTable(answers=DUE)}, lease=broken, clock=NOON)) == {"a": "done"}


def test_the_debt_is_all_that_was_due_whatever_the_budget() -> None:
    conf = {"spark.lakekeeper.budget-bytes": "1"}
    result = passed({"a": FakeTable(answers=DUE, conf=conf), "b": FakeTable()}, dry_run=True)
    assert [table.debt.bytes for table in result.tables] == [200, 0]
    assert result.debt.query_seconds_per_day == 4 * 86_400
    assert result.to_dict()["debt"]["bytes"] == 200
    assert "maintenance debt: 345,600 query-seconds a day, 200 B to rewrite" in str(result)


def test_no_task_of_a_paused_table_starts() -> None:
    watch, paused, other = Watch(), FakeTable(answers=DUE), FakeTable(answers=DUE)
    watch.pause("a")
    result = passed({"a": paused, "b": other}, watch=watch)
    assert statuses(result) == {"a": "off", "b": "done"}
    assert result.tables[0].reason.code == Code.PAUSED
    assert (paused.looked, paused.ran) == ([], [])
    watch.resume("a")
    assert statuses(passed({"a": paused}, watch=watch)) == {"a": "done"}


def test_a_table_paused_during_a_pass_finishes_its_task_and_starts_no_other() -> None:
    watch = Watch()

    class Pausing(FakeTable):
        def recluster(self, **given: Any) -> MergeReport:
            if not given["dry_run"]:
                watch.pause("a")
            return super().recluster(**given)

    table = Pausing(answers=DUE)
    (one,) = passed({"a": table}, watch=watch).tables
    assert (table.verbs, one.status) == (["recluster"], "done")
    assert {task.verb: task.state for task in one.tasks} == {"recluster": "done", "compact": "queued"}
    assert "paused on the service page" in str(one.reason)


@pytest.mark.parametrize(
    "properties", [{"lakekeeper.auto.enabled": "false"}, {"lakekeeper.auto.verbs": "recluster"}]
)
def test_a_table_switched_off_during_a_pass_is_left_alone(properties: dict[str, str]) -> None:
    """A pass over thousands of tables takes hours: what it planned first still ran at its end."""
    now: dict[str, str] = {}

    class Switched(FakeTable):
        def recluster(self, **given: Any) -> MergeReport:
            if not given["dry_run"]:
                now.update(properties)
            return super().recluster(**given)

    table = Switched(answers=DUE, properties=now)
    (one,) = passed({"a": table}).tables
    assert (table.verbs, one.status) == (["recluster"], "done")
    assert {task.verb: task.state for task in one.tasks} == {"recluster": "done", "compact": "skipped"}


def test_a_pass_can_be_watched_from_another_thread() -> None:
    """Running tasks, their progress and the queue behind them; after the pass, its finished tasks."""
    watch = Watch(Clock(now_ms=lambda: 5))
    seen: list[LivePass] = []

    class Seen(FakeTable):
        def compact(self, **given: Any) -> MergeReport:
            observer = given["observer"]
            if observer is not None:
                observer("planned", {"run_id": "r-1", "table": "a", "tasks": 4, "bytes": 100, "round": 1})
                observer("written", {"run_id": "r-1", "table": "a", "rows": 5, "bytes": 30})
                seen.append(watch.now())
            return super().compact(**given)

    settings = AutoSettings(("*",), ("compact", "recluster"), 900)
    passed({"a": Seen(answers=DUE), "b": FakeTable(answers=DUE)}, watch=watch, settings=settings)
    ((task, progress),) = seen[0].running
    assert (task.key, progress) == (("a", "compact"), Progress(5, "rewriting", 1, 4, 30))
    assert (progress.share, seen[0].began_ms, seen[0].names) == (0.25, 5, ("a", "b"))
    assert {t.key for t in seen[0].queue(5)} == {("a", "recluster"), ("b", "compact"), ("b", "recluster")}
    left = watch.now()
    assert (left.began_ms, left.running) == (0, ())
    assert {t.state for t in left.tasks} == {"done"}


@dataclass
class Elsewhere:
    """Satisfies engine.table_turn.Heavy: runs tasks on another table, as another process would."""

    table: FakeTable

    def merge(self, task: Task, budget_bytes: int | None, observer: Observer) -> MergeReport:
        observer("planned", {"table": task.table, "run_id": f"{task.verb}-run"})
        act = self.table.recluster if task.verb == "recluster" else self.table.compact
        done = act(final=False, options=None, observer=observer, dry_run=False, budget_bytes=budget_bytes)
        return replace(done, plan=None)

    def other(self, task: Task, observer: Observer) -> StatisticsReport | LifecycleReport:
        act = self.table.expire_rows if task.verb == "expire_rows" else self.table.compute_statistics
        return act(dry_run=False, observer=observer)


def test_heavy_tasks_run_elsewhere_and_the_others_in_the_session() -> None:
    verbs = ("expire_rows", "recluster", "merge_deletes", "compute_statistics", "vacuum")
    settings = replace(BOTH, verbs=verbs, budget_bytes=500)
    rule = {"lakekeeper.lifecycle.column": "d", "lakekeeper.lifecycle.retain": "90d"}
    given: Any = {"answers": DUE, "scores": {"recluster": 7.0}, "outdated": 3, "expired": 2}
    here, there = FakeTable(rule, **given), FakeTable(**given)
    queried: list[set[str]] = []

    def used(runs: Any) -> float:
        queried.append(set(runs))
        return 2.0

    (one,) = passed({"a": here}, settings=settings, heavy=Elsewhere(there), core_seconds=used).tables
    assert there.verbs == ["expire_rows", "recluster", "compute_statistics"]
    assert here.verbs == ["merge_deletes", "vacuum", "empty_trash"], "these rewrite nothing"
    assert dict(there.ran)["recluster"]["budget_bytes"] == 100, "the budget that the fleet has granted"
    assert (one.status, one.rewritten_bytes_count, one.score) == ("done", 100, 7.0)
    assert {"recluster-run"} in queried, "the pass reads the core time of its runs"


def test_a_heavy_task_that_fails_elsewhere_is_parked_and_stops_no_other_table() -> None:
    broken = Elsewhere(
        FakeTable(answers={"recluster": HeavyError("a: it is gone"), "compact": DUE["compact"]})
    )
    tables = {"a": FakeTable(answers=DUE), "b": FakeTable(answers=DUE)}
    found = passed(tables, heavy=broken, clock=NOON)
    assert statuses(found) == {"a": "failed", "b": "failed"}
    for one in found.tables:
        assert "HeavyError: a: it is gone" in str(one.reason)
        assert [(task.verb, task.state) for task in one.tasks] == [
            ("recluster", "failed"),
            ("compact", "done"),
        ]
        assert one.tasks[0].parked_until_ms > 0


@pytest.mark.parametrize("verb", ["expire_rows", "compute_statistics"])
def test_a_bad_option_of_a_verb_that_merges_nothing_fails_that_verb_alone(verb: str) -> None:
    rule = {"lakekeeper.lifecycle.column": "gone", "lakekeeper.lifecycle.retain": "90d"}
    table = FakeTable(rule, answers={"compact": report("compact", "committed")}, expired=2)

    def refuse(**_: Any) -> Any:
        raise OptionError("columns", "gone", "a column of the table")

    setattr(table, verb, refuse)
    (result,) = passed({"a": table}, settings=AutoSettings(("*",), (verb, "compact", "vacuum"), 900)).tables
    assert result.status == "failed"
    assert f"{verb}: OptionError: columns: got 'gone'" in str(result.reason)
    assert table.verbs == ["compact", "vacuum", "empty_trash"]
    assert {task.verb: task.state for task in result.tasks} == {
        verb: "failed",
        "compact": "done",
        "vacuum": "skipped",
    }


class Unplannable(FakeTable):
    """Its recluster cannot be planned: the key is not a column, or the catalog does not respond."""

    error: Exception = OptionError("cluster-by", "nope", "a column of the table")

    def recluster(self, **given: Any) -> MergeReport:
        raise self.error


def test_a_verb_that_cannot_be_planned_hides_no_work_of_the_others() -> None:
    verbs = ("expire_rows", "compact", "recluster", "vacuum")
    rule = {"lakekeeper.lifecycle.column": "d", "lakekeeper.lifecycle.retain": "30d"}
    table, memory = Unplannable(rule, answers=DUE, expired=3), FleetMemory()
    result = passed({"a": table}, clock=NOON, settings=AutoSettings(("*",), verbs, 900))
    memory.keep(result, NOON.now_ms())
    (one,) = result.tables
    assert table.verbs == ["expire_rows", "compact", "vacuum", "empty_trash"]
    assert (one.status, one.rewritten_bytes_count, one.run_ids) == ("failed", 100, ("r-1",))
    assert memory.rewritten_bytes(NOON.now_ms()) == 100
    assert str(one.reason["error"]).startswith("recluster: OptionError: cluster-by: got 'nope'")
    assert {Code.REWROTE, Code.ROWS_EXPIRED} < set(one.reason.codes)
    assert [task.state for task in one.tasks] == ["done", "done", "failed", "skipped"]
    dry = passed({"a": table}, dry_run=True, settings=AutoSettings(("*",), verbs, 900)).tables[0]
    assert (dry.status, str(dry.reason).count("cluster-by"), dry.tasks[0].state) == ("failed", 1, "queued")


def test_an_error_of_several_plans_is_reported_once() -> None:
    down = OptionError("target-file-size", "nope", "a size")
    (one,) = passed({"a": FakeTable(answers={"recluster": down, "compact": down})}).tables
    assert str(one.reason["error"]).startswith("recluster, compact: OptionError: target-file-size")


def test_a_plan_that_fails_once_ends_no_pause() -> None:
    known = failed(
        failed(Task("merge", "a", "recluster"), "boom", 0, 900_000), "boom", NOON.now_ms(), 900_000
    )
    (one,) = passed({"a": Unplannable()}, before={known.key: known}, clock=NOON).tables
    (task,) = (task for task in one.tasks if task.verb == "recluster")
    assert (task.failures, task.parked_until_ms) == (2, known.parked_until_ms)
    waits = Task("merge", "a", "recluster", since_ms=5)
    (one,) = passed({"a": Unplannable()}, before={waits.key: waits}, clock=NOON).tables
    assert [(task.since_ms, task.failures) for task in one.tasks if task.verb == "recluster"] == [(5, 1)]


@pytest.mark.parametrize(
    "error", [NotFound("a", "no such table"), AdapterError("no adapter for 'x'", missing="x")]
)
def test_of_a_table_that_goes_while_it_is_planned_no_verb_runs(error: Exception) -> None:
    table = Unplannable(answers=DUE)
    table.error = error
    (one,) = passed({"a": table}, settings=AutoSettings(("*",), ("compact", "recluster"), 900)).tables
    assert (table.verbs, one.tasks) == ([], ())
    assert one.status == ("failed" if isinstance(error, NotFound) else "off")


@dataclass
class Remembered:
    """Passes over the table ``a`` that share a history, each of a process of its own; and ``lakekeeper status``."""

    store: HistoryStore
    settings: AutoSettings

    def after(self, table: FakeTable | Exception, **given: Any) -> Status:
        """The status of the tables after one more pass."""
        memory = FleetMemory(self.store)
        result = passed({"a": table}, settings=self.settings, clock=NOON, before=memory.tasks(), **given)
        memory.keep(result, NOON.now_ms())
        return status_of(self.store.tasks(), NOON.now_ms())


@pytest.fixture
def remembered(tmp_path: Path) -> Remembered:
    return Remembered(HistoryStore(tmp_path / "history.db"), replace(BOTH, tables=("a",)))


BAD = {"lakekeeper.max-level": "many"}
REFUSED: list[tuple[FakeTable | Exception, str]] = [
    (FakeTable(BAD), "OptionError: lakekeeper.max-level: got 'many'"),
    (AdapterError("the table has feature x"), "AdapterError: the table has feature x"),
    (NotFound("a", "no such table"), "NotFound: a: no such table"),
    (AdapterError("no adapter is installed", missing="parquet"), "AdapterError: no adapter is installed"),
]


@pytest.mark.parametrize("refused, said", REFUSED, ids=["property", "unsupported", "dropped", "no adapter"])
def test_the_status_of_a_table_that_cannot_be_opened_is_failed_until_it_can(
    remembered: Remembered, refused: FakeTable | Exception, said: str
) -> None:
    """It was `idle`, with the exit code 0, while each pass reported that the table failed."""
    assert remembered.after(FakeTable()).exit_code == 0
    for _pass in range(2):
        status = remembered.after(refused)
        assert [(each.table, each.status) for each in status.tables] == [("a", "failed")]
        assert (status.exit_code, said in str(status)) == (1, True)
    status = remembered.after(FakeTable())
    assert ([each.status for each in status.tables], status.exit_code) == (["idle"], 0)
    assert said not in str(status)


def test_a_table_that_has_never_been_opened_has_a_status(remembered: Remembered) -> None:
    """The misspelt name of a table was in no line of `lakekeeper status`."""
    assert remembered.after(NotFound("a", "no such table")).exit_code == 1


def test_a_table_that_is_dropped_after_a_pattern_listed_it_leaves_no_failure(remembered: Remembered) -> None:
    """No later pass lists it, so the status would be `failed` for a month."""
    remembered.settings = BOTH
    assert remembered.after(NotFound("a", "no such table")).tables == ()
    assert remembered.after(FakeTable(BAD)).exit_code == 1, "the next pass lists it too"


def test_a_pass_that_leaves_a_table_knows_nothing_new_of_it(remembered: Remembered) -> None:
    """Neither a paused table nor one in quiet hours has recovered."""
    watch = Watch()
    watch.pause("a")
    remembered.after(FakeTable(BAD))
    assert remembered.after(FakeTable(), watch=watch).exit_code == 1
    assert remembered.after(FakeTable(), stopping=lambda: True).exit_code == 1


OFF = {"lakekeeper.auto.enabled": "false"}


@pytest.mark.parametrize("broken", [FakeTable(BAD), FakeTable(answers={"compact": RuntimeError("boom")})])
def test_a_table_that_its_property_switches_off_needs_no_attention(
    remembered: Remembered, broken: FakeTable
) -> None:
    """Who switched a failing table off got the exit code 1 for another month."""
    assert remembered.after(broken).exit_code == 1
    status = remembered.after(FakeTable({**broken.properties, **OFF}))
    assert ([each.status for each in status.tables], status.exit_code) == (["idle"], 0)
    assert all(not task.failures for task in remembered.store.tasks())


def test_work_of_a_table_that_was_switched_off_is_not_due(remembered: Remembered) -> None:
    due = FakeTable(answers=DUE, spent_today=600, properties={"lakekeeper.budget-bytes-per-day": "500"})
    assert [each.status for each in remembered.after(due).tables] == ["waiting"]
    status = remembered.after(FakeTable(OFF))
    assert ([each.status for each in status.tables], status.debt.bytes) == (["idle"], 0)


@pytest.mark.parametrize(
    "left",
    [
        FakeTable(conf={"spark.lakekeeper.auto.enabled": "false"}),
        FakeTable({"lakekeeper.auto.verbs": "vacuum"}),
    ],
    ids=["conf", "verbs"],
)
def test_a_service_that_leaves_a_table_to_another_hides_none_of_its_failures(
    remembered: Remembered, left: FakeTable
) -> None:
    """A history may be shared by one service that merges and one that vacuums."""
    assert remembered.after(FakeTable(answers={"compact": RuntimeError("boom")})).exit_code == 1
    assert remembered.after(left).exit_code == 1


class Large(FakeTable):
    """Each plan and each report holds the paths of all blocks, to which ``refs`` refer."""

    refs: list[weakref.ref[pa.Array]]

    def compact(self, **given: Any) -> MergeReport:
        made = super().compact(**given)
        assert made.plan is not None
        paths = pa.array(["a", "b", "c"])
        self.refs.append(weakref.ref(paths))

        def make(_: int) -> Any:
            raise AssertionError(f"no task is made of {paths}")

        at, size = np.arange(len(made.groups)), [100] * len(made.groups)
        tasks = Tasks(make, size, at, np.arange(len(at) + 1), np.zeros(len(at), np.bool_))
        left = tuple(replace(each, named=paths) for each in made.plan.left)
        known = made.plan.prediction
        prediction = replace(known, path=paths, bytes=np.full(3, 100)) if known else None
        return replace(made, plan=replace(made.plan, tasks=tasks, left=left, prediction=prediction))


@pytest.mark.parametrize("due", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_pass_holds_no_snapshot_of_a_table_that_it_has_planned(due: bool, dry_run: bool) -> None:
    refs: list[weakref.ref[pa.Array]] = []
    held: list[int] = []

    def looked(_: str) -> None:
        gc.collect()
        held.append(sum(ref() is not None for ref in refs))

    tables = {name: Large(answers=DUE if due else {}, scores={"compact": 7.0}) for name in "ab"}
    for table in tables.values():
        table.refs = refs
    settings = AutoSettings(("*",), ("compact",), 900)
    result = passed(tables, settings=settings, planned=looked, ended=looked, dry_run=dry_run)
    assert set(held) == {0}
    assert len(held) == (4 if due and not dry_run else 2)
    for one in result.tables:
        assert one.debt.bytes == (100 if due else 0)
        assert one.score == (None if due or dry_run else 7.0)
    assert due or "compact is not due" in str(result.tables[0].reason)


class _Killed(BaseException):
    """The process ends."""


class Deadly(FakeTable):
    """Its compaction ends the process."""

    def compact(self, **given: Any) -> MergeReport:
        if not given.get("dry_run"):
            raise _Killed
        return super().compact(**given)


def test_a_task_that_ends_the_process_counts_as_failed(remembered: Remembered) -> None:
    """Nothing was recorded of it: each service that its supervisor started began with the same task, in a loop."""
    memory = FleetMemory(remembered.store)

    def one_pass(table: FakeTable, clock: Clock = NOON) -> AutoReport:
        return passed(
            {"a": table},
            settings=remembered.settings,
            clock=clock,
            before=memory.tasks(),
            note=lambda task: memory.note(task, clock.now_ms()),
        )

    def recorded() -> tuple[str, int]:
        (task,) = (task for task in remembered.store.tasks() if task.verb == "compact")
        return task.state, task.failures

    for times in (1, 2):
        with pytest.raises(_Killed):
            one_pass(Deadly(answers=DUE))
        assert recorded() == ("running", times)
        assert status_of(remembered.store.tasks(), NOON.now_ms()).exit_code == 0
    (one,) = one_pass(Deadly(answers=DUE)).tables
    assert recorded() == ("failed", 3)
    assert (one.status, one.needs_attention) == ("failed", True)
    assert "the service ended while it ran" in str(one.reason)
    healthy = FakeTable(answers=DUE)
    (one,) = one_pass(healthy).tables
    assert (one.status, "compact" in healthy.verbs) == ("parked", False)
    one_pass(healthy, Clock(lambda: NOON.now_ms() + DAY_MS))
    assert recorded() == ("done", 0)


def test_a_task_that_ended_the_process_once_runs_again(remembered: Remembered) -> None:
    memory = FleetMemory(remembered.store)
    memory.note(Task("merge", "a", "compact", state="running", failures=1), NOON.now_ms())
    healthy = FakeTable(answers=DUE)
    (one,) = passed({"a": healthy}, settings=remembered.settings, clock=NOON, before=memory.tasks()).tables
    assert (one.status, healthy.verbs.count("compact")) == ("done", 1)


class Resting(FakeTable):
    """Nothing is due but files whose merge failed."""

    def compact(self, **_: Any) -> MergeReport:
        return report("compact", reason=Code.FAILED_BEFORE, dry_run=True)

    def recluster(self, **_: Any) -> MergeReport:
        return report("recluster", reason=Code.FAILED_BEFORE, dry_run=True)


def test_a_table_of_which_only_files_are_due_whose_merge_failed_is_parked() -> None:
    """It was idle until the next failure, so that its alert came again and again."""
    (one,) = passed({"a": Resting()}).tables
    assert (one.status, one.needs_attention) == ("parked", True)
    assert {task.state for task in one.tasks} == {"queued"}


def test_files_whose_merge_failed_need_attention_while_others_are_merged() -> None:
    done = report("compact", "committed", reason=Code.FAILED_BEFORE)
    (one,) = passed({"a": FakeTable(answers={"compact": done, "recluster": done})}).tables
    assert (one.status, one.needs_attention) == ("partial", True)
    assert "a merge failed; a later pass tries again" in str(one.reason)
