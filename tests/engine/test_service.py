"""Automatic runs on tables that are none: what is due, what is off, what fails, and when it stops."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.plan import Left, Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.partition_backoff import Backoffs
from lakekeeper.engine.service import AutoSettings, Service, ranked, settings_from, sweep
from lakekeeper.errors import AdapterError, NotFound, OptionError, RetentionError
from lakekeeper.spi import Observer

BOTH = AutoSettings(("*",), ("recluster", "compact"), 900)


@dataclass
class FakeTable:
    """Satisfies engine.auto.Maintained: answers each verb with the reports or errors it was given."""

    properties: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, MergeReport | Exception] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    freed: VacuumReport | Exception = field(default_factory=lambda: VacuumReport("t", False, 1))

    @property
    def automatic(self) -> bool:
        return self.properties.get("lakekeeper.auto.enabled", "true") == "true"

    def options(self, call: Any = None) -> Options:
        return resolve(call, self.conf, self.properties)

    def recluster(
        self, *, final: bool, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport:
        return self._answer("recluster", final=final, dry_run=dry_run, budget_bytes=budget_bytes)

    def compact(
        self, *, final: bool, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport:
        return self._answer("compact", final=final, dry_run=dry_run, budget_bytes=budget_bytes)

    def merge_deletes(
        self, *, dry_run: bool, budget_bytes: int | None, observer: Observer | None
    ) -> MergeReport:
        return self._answer("merge_deletes", dry_run=dry_run, budget_bytes=budget_bytes)

    def vacuum(self, *, dry_run: bool, observer: Observer | None) -> VacuumReport:
        self.asked.append(("vacuum", {"dry_run": dry_run}))
        if isinstance(self.freed, Exception):
            raise self.freed
        return self.freed

    def empty_trash(self) -> None:
        self.asked.append(("empty_trash", {}))

    def _answer(self, verb: str, **given: Any) -> MergeReport:
        self.asked.append((verb, given))
        answer = self.answers.get(verb, report(verb))
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


def report(verb: str, *statuses: str, reason: Code = Code.NO_GAIN, **given: Any) -> MergeReport:
    """A report with one group for each status; without any, an idle one that gives the reason."""
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


def passed(tables: Mapping[str, FakeTable | Exception], **given: Any) -> AutoReport:
    """One pass over tables by name."""

    def opened(name: str) -> FakeTable:
        found = tables[name]
        if isinstance(found, Exception):
            raise found
        return found

    settings = given.pop("settings", BOTH)
    return sweep(list(tables), opened, settings, Clock(now_ms=iter(range(100)).__next__), **given)


def statuses(result: AutoReport) -> dict[str, str]:
    return {t.table: t.status for t in result.tables}


def test_what_lands_is_counted_and_said() -> None:
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
    assert str(one.reason) == f"recluster is not due; {why}; compact is not due; {why}"


@pytest.mark.parametrize("conf", [{}, {"spark.lakekeeper.auto.enabled": "true"}])
def test_switched_off_on_the_table_wins_over_any_conf(conf: Mapping[str, str]) -> None:
    table = FakeTable({"lakekeeper.auto.enabled": "false"}, conf)
    assert statuses(passed({"a": table})) == {"a": "off"}
    assert table.asked == []


def test_switched_off_by_conf_is_switched_off() -> None:
    table = FakeTable(conf={"spark.lakekeeper.auto.enabled": "false"})
    (one,) = passed({"a": table}).tables
    assert (one.status, table.asked) == ("off", [])
    assert one.reason.code == Code.DISABLED_BY_CONF


def test_switched_off_wins_over_whatever_else_is_wrong_on_the_table() -> None:
    table = FakeTable({"lakekeeper.auto.enabled": "false", "lakekeeper.max-level": "many"})
    assert statuses(passed({"a": table})) == {"a": "off"}


def test_a_format_without_adapter_fails_only_where_the_table_was_named() -> None:
    other = AdapterError("no adapter for format 'parquet' is installed", missing="parquet")
    (one,) = passed({"db.logs": other}).tables
    assert (one.status, one.reason) == ("off", Reason.of(Code.NO_ADAPTER, format="parquet"))
    named = sweep(("db.logs",), _raiser(other), AutoSettings(("db.logs",), ("compact",), 900), Clock())
    assert statuses(named) == {"db.logs": "failed"}


def _raiser(error: Exception) -> Callable[[str], FakeTable]:
    def opened(_: str) -> FakeTable:
        raise error

    return opened


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


def test_an_error_inside_a_verb_is_that_tables_own() -> None:
    bad = FakeTable(answers={"recluster": RuntimeError("boom")})
    assert statuses(passed({"a": bad, "b": FakeTable()})) == {"a": "failed", "b": "idle"}


def test_a_verb_that_fails_does_not_hide_what_another_did() -> None:
    bad = FakeTable(answers={"recluster": report("recluster", "committed"), "compact": RuntimeError("boom")})
    (one,) = passed({"a": bad}).tables
    assert (one.status, one.rewritten_bytes_count, one.run_ids) == ("failed", 100, ("r-1",))
    assert one.reason["error"] == "RuntimeError: boom"
    assert [more["verb"] for more in one.reason.also] == ["recluster"]


def test_lost_groups_are_partial_if_others_land_and_failed_if_none() -> None:
    some = FakeTable(answers={"recluster": report("recluster", "committed", "dropped")})
    none = FakeTable(answers={"recluster": report("recluster", "failed", "failed")})
    result = passed({"some": some, "none": none})
    assert statuses(result) == {"some": "partial", "none": "failed"}
    assert result.tables[1].reason == Reason.of(Code.FAILED, error="group failed")


def test_a_table_without_a_key_is_compacted_all_the_same() -> None:
    no_key = OptionError("columns", None, "a cluster key")
    table = FakeTable(answers={"recluster": no_key, "compact": report("compact", "committed")})
    assert statuses(passed({"a": table})) == {"a": "done"}
    alone = FakeTable(answers={"recluster": no_key})
    only = AutoSettings(("*",), ("recluster",), 900)
    (one,) = passed({"a": alone}, settings=only).tables
    assert (one.status, one.reason) == ("idle", Reason.of(Code.NOTHING_REQUESTED))


def test_a_table_may_leave_out_verbs_of_the_pass_and_add_none() -> None:
    table = FakeTable({"lakekeeper.auto.verbs": "compact"})
    passed({"a": table})
    assert table.verbs == ["compact"]
    greedy = FakeTable({"lakekeeper.auto.verbs": "vacuum,compact"})
    passed({"a": greedy})
    assert greedy.verbs == ["compact"]
    other = FakeTable({"lakekeeper.auto.verbs": "vacuum"})
    (one,) = passed({"a": other}).tables
    assert (one.status, other.asked) == ("off", [])
    freed = AutoSettings(("*",), ("vacuum", "compact"), 900)
    allowed = FakeTable({"lakekeeper.auto.verbs": "vacuum"})
    passed({"a": allowed}, settings=freed)
    assert allowed.verbs == ["vacuum", "empty_trash"]
    wrong = FakeTable({"lakekeeper.auto.verbs": "vacum"})
    (one,) = passed({"a": wrong}).tables
    assert (one.status, wrong.asked) == ("failed", [])
    assert "vacum" in str(one.reason)


def test_the_budget_is_one_for_all_verbs_of_a_table() -> None:
    done = {"recluster": report("recluster", "committed")}
    table = FakeTable(conf={"spark.lakekeeper.budget-bytes": "150"}, answers=done)
    passed({"a": table})
    assert [(verb, given["budget_bytes"]) for verb, given in table.asked] == [
        ("recluster", 150),
        ("compact", 50),
    ]
    spent = FakeTable(conf={"spark.lakekeeper.budget-bytes": "100"}, answers=done)
    passed({"a": spent})
    assert spent.verbs == ["recluster"]


def test_merge_deletes_takes_no_final_and_tells_what_became_of_delete_files() -> None:
    assert settings_from(resolve({"auto.tables": "a"})).verbs == ("recluster", "compact", "merge_deletes")
    done = report("merge_deletes", "committed", removed_delete_files_count=4, added_delete_files_count=1)
    table = FakeTable(answers={"merge_deletes": done})
    every = AutoSettings(("*",), ("compact", "merge_deletes"), 900)
    (one,) = passed({"a": table}, settings=every).tables
    assert [set(given) for _, given in table.asked] == [
        {"final", "dry_run", "budget_bytes"},
        {"dry_run", "budget_bytes"},
    ]
    assert (one.status, str(one.reason)) == ("done", "merge_deletes: 2 -> 1 file, 4 -> 1 delete file")


def test_delete_files_that_were_tidied_are_no_idle_pass() -> None:
    tidied = report("merge_deletes", commits=1, run_ids=("r-1",), removed_delete_files_count=4)
    table = FakeTable(answers={"merge_deletes": tidied})
    only = AutoSettings(("*",), ("merge_deletes",), 900)
    (one,) = passed({"a": table}, settings=only).tables
    assert (one.status, one.run_ids) == ("done", ("r-1",))
    assert str(one.reason) == "merge_deletes: 0 -> 0 files, 4 -> 0 delete files"


def test_vacuum_comes_last_and_only_where_it_is_asked_for() -> None:
    freed = VacuumReport(
        "t", False, 1, deleted_files_count=3, deleted_bytes_count=1500, ended=Reason.of(Code.DONE)
    )
    table = FakeTable(freed=freed)
    passed({"a": table})
    assert table.verbs == ["recluster", "compact"]
    table.asked.clear()
    settings = AutoSettings(("*",), ("vacuum", "compact"), 900)
    (one,) = passed({"a": table}, settings=settings).tables
    assert table.verbs == ["compact", "vacuum", "empty_trash"]
    assert (one.status, one.deleted_files_count, one.deleted_bytes_count) == ("done", 3, 1500)
    assert one.reason.codes == (Code.VACUUMED, Code.VERB_NOT_DUE, Code.NO_GAIN)
    table.asked.clear()
    passed({"a": table}, settings=settings, dry_run=True)
    assert table.verbs == ["compact", "vacuum"]


def test_a_vacuum_that_leaves_files_is_partial_and_says_how_many() -> None:
    freed = VacuumReport("t", False, 1, deleted_files_count=3, deleted_bytes_count=9, failed_files_count=2)
    freed = replace(freed, ended=Reason.of(Code.FILES_REMAIN, files=2))
    settings = AutoSettings(("*",), ("vacuum",), 900)
    (one,) = passed({"a": FakeTable(freed=freed)}, settings=settings).tables
    assert one.status == "partial"
    assert one.reason.codes[:2] == (Code.VACUUMED, Code.FILES_REMAIN)


def test_a_dry_run_says_what_a_vacuum_would_delete() -> None:
    due = VacuumReport("t", True, 1, deleted_files_count=3, deleted_bytes_count=9)
    settings = AutoSettings(("*",), ("compact", "vacuum"), 900)
    (one,) = passed({"a": FakeTable(freed=due)}, settings=settings, dry_run=True).tables
    assert (one.status, one.deleted_files_count) == ("idle", 0)
    assert Reason.of(Code.VACUUM_DUE, files=3, bytes=9) in one.reason.also


def test_a_vacuum_that_is_refused_fails_its_table_and_hides_nothing() -> None:
    table = FakeTable(
        answers={"compact": report("compact", "committed")}, freed=RetentionError("t: gc.enabled is false")
    )
    other = FakeTable()
    settings = AutoSettings(("*",), ("compact", "vacuum"), 900)
    one, two = passed({"a": table, "b": other}, settings=settings).tables
    assert (one.status, two.status) == ("failed", "idle")
    assert "gc.enabled" in str(one.reason["error"])
    assert one.rewritten_bytes_count == 100


def test_tables_side_by_side_are_told_in_order() -> None:
    met = threading.Barrier(2, timeout=60)

    class Meeting(FakeTable):
        def compact(self, **_: Any) -> MergeReport:
            met.wait()
            return report("compact", "committed")

    given = {"auto.tables": "*", "auto.verbs": "compact", "auto.max-concurrent-tables": 2}
    settings = settings_from(resolve(given))
    told = passed({"a": Meeting(), "b": Meeting()}, settings=settings)
    assert [(t.table, t.status) for t in told.tables] == [("a", "done"), ("b", "done")]


def test_a_service_remembers_for_each_table_where_it_was_raced() -> None:
    backoffs = Backoffs.between(900)
    backoffs.of("a").raced("p=1", now_ms=0)
    assert backoffs.of("a").resting(899_999) == {"p=1"}
    assert backoffs.of("a").resting(900_000) == set()
    assert backoffs.of("b").resting(0) == set()


def test_a_dry_run_says_what_is_due() -> None:
    due = report("recluster", "planned", "planned", dry_run=True)
    table = FakeTable(answers={"recluster": due})
    result = passed({"a": table}, dry_run=True)
    assert (result.tables[0].status, result.tables[0].reason) == (
        "idle",
        Reason.of(Code.GROUPS_DUE, groups=2),
    )
    assert all(given["dry_run"] for _, given in table.asked)


def test_told_to_stop_it_begins_no_other_verb_or_table() -> None:
    told = threading.Event()

    class Stopping(FakeTable):
        def recluster(self, **given: Any) -> MergeReport:
            told.set()
            return super().recluster(**given)

    first, second = Stopping(answers={"recluster": report("recluster", "committed")}), FakeTable()
    result = passed({"a": first, "b": second}, stopping=told.is_set)
    assert statuses(result) == {"a": "done", "b": "stopped"}
    assert (first.verbs, second.asked, result.exit_code) == (["recluster"], [], 0)


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


def _service(one_pass: Callable[[], AutoReport]) -> Service:
    # A pause far beyond the test: only stop() ends it, so no test waits for one.
    return Service(one_pass, 86_400)


def test_a_service_runs_at_once_and_stops_in_the_middle_of_its_pause() -> None:
    result = AutoReport((), 1)
    with _service(lambda: result).start() as service:
        assert service.wait(1, timeout=30)
    assert (service.reports, service.passes, service.error) == ([result], 1, None)


def test_a_service_stopped_during_a_pass_lets_it_finish() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def one_pass() -> AutoReport:
        begun.set()
        assert go_on.wait(30)
        return AutoReport((), 1)

    service = _service(one_pass).start()
    assert begun.wait(30)
    stopper = threading.Thread(target=service.stop)
    stopper.start()
    go_on.set()
    stopper.join(30)
    assert not stopper.is_alive()
    assert (len(service.reports), service.passes) == (1, 1)


def test_a_pass_that_raises_is_kept_and_the_next_one_runs() -> None:
    answers = iter([RuntimeError("catalog is down"), AutoReport((), 1)])
    service = Service(lambda: _next(answers), 0.001).start()
    assert service.wait(2, timeout=30)
    service.stop()
    assert len(service.reports) >= 1


def _next(answers: Any) -> AutoReport:
    answer = next(answers, AutoReport((), 1))
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_service_keeps_the_error_of_its_last_pass() -> None:
    def down() -> AutoReport:
        raise RuntimeError("catalog is down")

    with _service(down).start() as service:
        assert service.wait(1, timeout=30)
    assert str(service.error) == "catalog is down"


def test_a_service_that_never_started_stops() -> None:
    _service(lambda: AutoReport((), 1)).stop()


def test_the_table_that_is_worth_most_comes_first_and_what_can_not_be_weighed_last() -> None:
    gains = {"a": 0.0, "b": 2.5, "d": 1.0}
    assert list(ranked(["a", "b", "c", "d"], gains.__getitem__)) == ["b", "d", "a", "c"]
    assert list(ranked(["a", "b"], None)) == ["a", "b"]
    assert list(ranked(["c"], gains.__getitem__)) == ["c"]
