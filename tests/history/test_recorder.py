"""What the recorder writes about a call, and that neither the call nor its error depends on the history."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DeleteReport, GroupResult, MergeReport
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.errors import OptionError, Rejected
from lakekeeper.history.operation import Operation
from lakekeeper.history.recorder import Application, Destination, Recorder
from lakekeeper.history.store import HistoryStore
from lakekeeper.spi import Observer
from tests.history.operations import EVENTS

APPLICATION = Application("app-1", "me", {"Spark": "4.1.1"})
MERGED = MergeReport("t", "compact", False, 1, 2, rewritten_bytes_count=9, commits=1, run_ids=("r1-1",))


def recorder(store: HistoryStore | None, measured: Mapping[str, float] | None = None) -> Recorder:
    times = iter(range(1_000, 100_000, 500))

    def destination() -> Destination | None:
        return None if store is None else Destination(store, 10**9, APPLICATION)

    def core_seconds(groups: Collection[str]) -> float | None:
        known = [seconds for group, seconds in (measured or {}).items() if group in groups]
        return sum(known) if known else None

    return Recorder(EVENTS, "auto", destination, core_seconds, times.__next__)


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return HistoryStore(tmp_path / "history.db")


def act(observer: Observer | None) -> MergeReport:
    assert observer is not None
    for run in ("r1", "r1", "r1-0"):  # rewrites, and the commit that removes delete files
        observer("planned", {"table": "t", "run_id": run})
    return MERGED


def only(store: HistoryStore) -> Operation:
    (found,) = store.operations()
    return found


def test_a_call_is_recorded_with_its_times_application_and_core_seconds(store: HistoryStore) -> None:
    assert recorder(store, {"r1": 3.0, "r1-0": 0.5, "r2": 9.0}).run("compact", act) is MERGED
    found = only(store)
    assert (found.operation_id, found.operation_type, found.operation_status) == ("r1", "compact", "done")
    assert (found.start_ms, found.end_ms, found.core_seconds) == (1_000, 1_500, 3.5)
    assert (found.origin, found.application_id, found.user) == ("auto", "app-1", "me")
    assert found.operation_metrics["rewritten_bytes_count"] == 9
    assert found.run_ids == ("r1-1",)


def test_unmeasured_values_are_not_zero(store: HistoryStore) -> None:
    recorder(store).run("compact", act)
    assert only(store).core_seconds is None


def test_the_observer_of_the_caller_sees_each_phase(store: HistoryStore) -> None:
    seen: list[tuple[str, Any]] = []
    recorder(store).run("compact", act, lambda phase, info: seen.append((phase, info["run_id"])))
    assert seen == [("planned", "r1"), ("planned", "r1"), ("planned", "r1-0")]


def test_what_a_failed_call_has_read_is_recorded_and_counts(store: HistoryStore) -> None:
    def refused(observer: Observer | None) -> MergeReport:
        assert observer is not None
        observer("planned", {"run_id": "r1"})
        for size in (40, 2):
            observer("read", {"run_id": "r1", "task": "g", "bytes": size})
        raise RuntimeError("403 Forbidden")

    with pytest.raises(RuntimeError):
        recorder(store).run("compact", refused)
    assert only(store).operation_metrics == {"attempted_bytes_count": 42}
    assert recorder(store).rewritten_bytes(LastDay(0)) == 42


@pytest.mark.parametrize("size, counted", [(2380, 2380), (0, 936), (900, 936)])
def test_what_was_read_counts_though_no_group_of_the_report_has_it(
    store: HistoryStore, size: int, counted: int
) -> None:
    """Groups that were read and discarded after an error appear nowhere; a heavy application shows no reads at all."""
    committed = GroupResult("a", "committed", 3, 936)
    ended = Reason.of(Code.ENDED_BY_ERROR, error="403 Forbidden")

    def partial(observer: Observer | None) -> MergeReport:
        assert observer is not None
        for read in filter(None, (size // 2, size - size // 2)):
            observer("read", {"run_id": "r1", "task": "g", "bytes": read})
        return replace(MERGED, rewritten_bytes_count=936, groups=(committed,), ended=ended)

    recorder(store).run("compact", partial)
    assert only(store).operation_status == "partial"
    assert only(store).operation_metrics["attempted_bytes_count"] == counted
    assert recorder(store).rewritten_bytes(LastDay(0)) == counted


def test_a_report_that_counts_no_attempts_gets_none_unless_something_was_read(store: HistoryStore) -> None:
    recorder(store).run("delete", lambda _: DeleteReport("t", "a = 1", 1, 2))
    assert "attempted_bytes_count" not in only(store).operation_metrics


@pytest.mark.parametrize(
    "error, status", [(RuntimeError("lost executor"), "failed"), (KeyboardInterrupt(), "interrupted")]
)
def test_an_error_is_recorded_and_raised(store: HistoryStore, error: BaseException, status: str) -> None:
    def fail(_: Observer | None) -> MergeReport:
        raise error

    with pytest.raises(type(error)):
        recorder(store).run("vacuum", fail)
    found = only(store)
    assert (found.operation_type, found.operation_status, found.reason.code) == (
        "vacuum",
        status,
        Code.FAILED,
    )
    assert type(error).__name__ in str(found.reason)


def test_an_attempt_is_recorded_though_an_earlier_one_with_its_id_failed(store: HistoryStore) -> None:
    """All restores of one entry, and all undos of one run, have the same id."""
    attempts = recorder(store)

    def refused(observer: Observer | None) -> MergeReport:
        act(observer)
        raise Rejected("403 Forbidden")

    for _ in range(2):
        with pytest.raises(Rejected):
            attempts.run("restore", refused)
    attempts.run("restore", act)
    assert [(each.operation_id, each.operation_status) for each in store.operations()] == [
        ("r1", "done"), ("r1", "failed"), ("r1", "failed"),
    ]  # fmt: skip


def test_a_dry_run_is_not_recorded_and_keeps_its_observer(store: HistoryStore) -> None:
    given: list[Observer | None] = []

    def look(observer: Observer | None) -> MergeReport:
        given.append(observer)
        return MERGED

    recorder(store).run("compact", look, dry_run=True)
    recorder(None).run("compact", look)
    assert given == [None, None]
    assert not store.path.exists()


def test_a_failing_history_is_a_warning_and_does_not_fail_the_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = HistoryStore(tmp_path / "file" / "history.db")
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        assert recorder(store).run("compact", act) is MERGED
    (warning,) = caplog.records
    assert "ice.db.events: the operation was not recorded in the history: " in warning.getMessage()


def test_a_bad_conf_of_the_history_stops_no_call(caplog: pytest.LogCaptureFixture) -> None:
    def bad() -> Destination | None:
        raise OptionError("history.retention", "soon", "a time")

    broken = Recorder(EVENTS, "call", bad, lambda _: None, lambda: 0)
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        assert broken.run("delete", lambda _: DeleteReport("t", "a = 1", 1, 1)).where == "a = 1"
    assert "history.retention" in caplog.text
