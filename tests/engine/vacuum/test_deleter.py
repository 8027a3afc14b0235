"""The deletes of a vacuum: their rate, and where an interrupt or an error stops them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.engine.vacuum.deleter import Removal
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage

DAYS, PARTITIONS = 20, 4


class Time:
    """A clock that only waits advance; what was deleted when, in ms."""

    def __init__(self, start: int) -> None:
        self.now = start
        self.deleted: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> None:
        with self._lock:
            self.now += ceil(seconds * 1000)

    def observe(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "deleted":
            with self._lock:
                self.deleted.append((self.now, int(info["files"])))


def dead(partitions: int = PARTITIONS) -> MemoryTable:
    """A table whose versions except the newest are dead, each with a file in each partition."""
    made = MemoryTable("db.t", {"k": "int", "p": "int"}, partition_by=["p"])
    for day in range(DAYS + 1):
        made.later(24 * HOUR_MS)
        made.overwrite([{"k": day, "p": p} for p in range(partitions)])
    return made


def run(table: MemoryTable, time: Time, **options: Any) -> VacuumReport:
    given = {"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 1} | {
        name.replace("_", "-").replace("vacuum-", "vacuum."): value for name, value in options.items()
    }
    request = VacuumRequest(resolve(given), age_ms=0, allow_unsafe=True)
    clock = Clock(now_ms=lambda: time.now, wait=time.wait)
    return vacuum(MemoryAdapter(table), request, observer=time.observe, clock=clock)


@pytest.mark.parametrize("rate", [1, 3, 10])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("batch", [1, 7])
def test_no_more_files_are_deleted_in_a_second_than_permitted(rate: int, threads: int, batch: int) -> None:
    table = dead()
    time = Time(table.now_ms)
    start = time.now
    report = run(
        table,
        time,
        vacuum_max_deletes_per_second=rate,
        vacuum_max_concurrent_deletes=threads,
        vacuum_max_batch_delete_size=batch,
    )
    assert report.deleted_files_count == DAYS * PARTITIONS
    ordered = sorted(time.deleted)
    so_far = accumulate(files for _, files in ordered)
    largest = max(files for _, files in ordered)
    for (at, files), total in zip(ordered, so_far, strict=True):
        # Time has passed for earlier deletes, but not yet for the batches in progress.
        assert total - files <= (at - start) / 1000 * rate + (threads - 1) * largest
    least = (DAYS * PARTITIONS - threads * largest) / rate
    assert (time.now - start) / 1000 >= least


def test_a_clock_that_is_set_back_delays_no_delete() -> None:
    """The vacuum waited until the old time had come again."""
    table = dead(partitions=1)
    time, waits = Time(table.now_ms), list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        time.wait(seconds)
        if len(waits) in (3, 8):
            time.now -= 24 * HOUR_MS

    given = {"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 2, "vacuum.max-deletes-per-second": 4}
    request = VacuumRequest(resolve(given), age_ms=0, allow_unsafe=True)
    report = vacuum(MemoryAdapter(table), request, clock=Clock(now_ms=lambda: time.now, wait=wait))
    assert (report.deleted_files_count, report.ended.code) == (DAYS, "done")
    assert len(waits) == DAYS / 2 - 1
    assert max(waits) <= 1  # at most the time of one batch more


@pytest.mark.parametrize("threads", [1, 4])
def test_once_the_deletes_have_stopped_no_batch_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Each batch that was left waited for its turn first, only to delete nothing: at a low rate for hours."""

    def forbidden(storage: MemoryStorage, files: Any) -> list[str]:
        raise AdapterError("403 Forbidden")

    table = dead(partitions=20)
    time = Time(table.now_ms)
    start = time.now
    monkeypatch.setattr(MemoryStorage, "delete", forbidden)
    report = run(table, time, vacuum_max_deletes_per_second=1, vacuum_max_concurrent_deletes=threads)
    assert (report.status, report.failed_files_count) == ("failed", DAYS * 20)
    # Each of the other threads may already be waiting for its first turn.
    assert (time.now - start) / 1000 <= sum(range(threads))


def test_a_batch_that_waits_for_its_turn_sees_that_the_deletes_have_stopped() -> None:
    """A wait is as long as the batch is large: at one file a second, 1,000 files are a quarter of an hour."""
    table, waits = dead(partitions=3), list[float]()
    adapter = MemoryAdapter(table)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            removal.stopped = "interrupted"

    options = resolve(
        {
            "vacuum.max-share": 1,
            "vacuum.max-concurrent-deletes": 1,
            "vacuum.max-deletes-per-second": 1,
        }
    )
    clock = Clock(now_ms=lambda: table.now_ms, wait=wait)
    request = VacuumRequest(options, age_ms=0, allow_unsafe=True, dry_run=True)
    plan = vacuum(adapter, request, clock=clock).plan
    assert plan is not None
    removal = Removal(adapter, adapter.storage, options, Events("db.t", "r", None), clock)
    removed = removal.run(plan)
    assert (removed.files, removed.failed, removed.stopped) == (DAYS, 2 * DAYS, "interrupted")
    assert waits == [1, 1]


def test_without_a_rate_limit_nothing_waits() -> None:
    table = dead()
    time = Time(table.now_ms)
    start = time.now
    assert run(table, time).deleted_files_count == DAYS * PARTITIONS
    assert time.now == start


def test_an_interrupt_stops_all_partitions_after_the_batches_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files that are not deleted yet stay, and the next vacuum deletes them."""
    table = dead(partitions=8)
    adapter = MemoryAdapter(table)
    given = {"vacuum.max-batch-delete-size": 1, "vacuum.max-concurrent-deletes": 2, "vacuum.max-share": 1}
    options = resolve(given)
    request = VacuumRequest(options, age_ms=0, allow_unsafe=True, dry_run=True)
    plan = vacuum(adapter, request, clock=Clock(now_ms=lambda: table.now_ms)).plan
    assert plan is not None
    batches: list[str] = []
    began, never = threading.Event(), threading.Event()

    def under_way(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_delete":
            batches.append(phase)
            began.set()
            # The batch is in progress until the interrupt is seen, after seconds at most.
            for _ in range(500):
                if removal.stopped or never.wait(0.01):
                    break

    def interrupted(_future: object, _timeout: float | None = None) -> None:
        assert began.wait(30)
        raise KeyboardInterrupt

    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    removal = Removal(adapter, adapter.storage, options, Events("db.t", "r", under_way), clock)
    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            removal.run(plan)
    assert 1 <= len(batches) <= 2
    gone = len(table.touched.deleted)
    assert gone <= 2
    assert len(table.rows()) == 8
    report = vacuum(adapter, replace(request, dry_run=False), clock=clock)
    assert report.deleted_files_count == len(plan.files) - gone


@pytest.mark.parametrize("trash", [False, True], ids=["delete", "move"])
@pytest.mark.parametrize("answers", [True, False], ids=["answers", "silent"])
def test_an_error_of_the_storage_between_the_deletes_is_in_the_report(
    monkeypatch: pytest.MonkeyPatch, *, trash: bool, answers: bool
) -> None:
    """It was raised, as if nothing had been deleted. What is certainly gone of the failing batch counts as deleted."""
    table, calls = dead(partitions=1), []
    name, real_look = "move" if trash else "delete", MemoryStorage.look
    real = getattr(MemoryStorage, name)

    def failing(storage: MemoryStorage, files: Any) -> list[str]:
        calls.append(len(files))
        done: list[str] = real(storage, files)
        if len(calls) == 2:
            raise AdapterError("db.t: data/x cannot be looked at (503 Slow Down)")
        return done

    def look(storage: MemoryStorage, paths: Sequence[str]) -> list[FileInfo | None]:
        if calls and not answers:
            raise AdapterError("503 Slow Down")
        return real_look(storage, paths)

    clock, there = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None), set(table.disk)
    options = resolve({"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 3})
    request = VacuumRequest(options, age_ms=0, allow_unsafe=True, trash=trash)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStorage, name, failing)
        patch.setattr(MemoryStorage, "look", look)
        report = vacuum(MemoryAdapter(table), request, clock=clock)
    gone = 6 if answers else 3
    assert (len(calls), len(there - set(table.disk))) == (2, 6)
    assert (report.deleted_files_count, report.failed_files_count) == (gone, DAYS - gone)
    assert (report.status, report.ended.code, report.ended["files"]) == ("partial", "stopped", DAYS - gone)
    assert "503 Slow Down" in str(report.ended)
    done = json.loads(table.notes[f"vacuum/{report.run_id}/done.json"])
    assert (done["gone"], done["failed"]) == (gone, DAYS - gone)
    again = vacuum(MemoryAdapter(table), request, clock=clock)
    assert (again.deleted_files_count, again.ended.code) == (DAYS - 6, "done")


def test_an_error_after_the_last_file_is_gone_leaves_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    table, real = dead(partitions=1), MemoryStorage.delete

    def failing(storage: MemoryStorage, files: Any) -> list[str]:
        real(storage, files)
        raise AdapterError("503 Slow Down")

    monkeypatch.setattr(MemoryStorage, "delete", failing)
    report = run(table, Time(table.now_ms), vacuum_max_batch_delete_size=100)
    assert (report.deleted_files_count, report.status, report.ended.code) == (DAYS, "done", "done")
