"""One error at any read, note or commit of a run with four groups drops none of them, on real tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.model.report import MergeReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.quiet_window import WATCH_MS
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper_delta import commit as delta_commit
from lakekeeper_delta import log_stores
from lakekeeper_delta import native as delta_native
from lakekeeper_delta import row_delete as delta_row_delete
from lakekeeper_iceberg import changes as iceberg_changes
from lakekeeper_iceberg import commit as iceberg_commit
from lakekeeper_iceberg import notes, producer, table
from lakekeeper_iceberg import row_delete as iceberg_row_delete
from tests.faults.port import COMMITS, Fault, Faulty, Port
from tests.formats.lakes import KINDS, Lake
from tests.opening import table_with

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("merged_by")]
_WORK = ("write", "discard", "release")
"""Calls that do not access the catalog, the log or the notes."""
_OPTIONS = {
    "commit.quiet-window-ms": 0,
    "max-concurrent-file-group-rewrites": 1,
}
_IN_PARTS = {"partial-progress.bytes-per-commit": 1}


INNER: Mapping[str, tuple[tuple[Any, str], ...]] = {
    "delta": (
        (delta_native.Log, "latest"),
        (delta_commit, "changes_since"),
        (delta_commit, "commit_tags"),
        (delta_row_delete, "add_files"),
        (log_stores, "refusal"),
    ),
    "iceberg-v3": (
        (table.IcebergTable, "changes_since"),
        (iceberg_changes, "winners_since"),
        (table, "exchange_of"),
        (iceberg_row_delete, "change_of"),
        (iceberg_commit, "row_change"),
        (notes.IcebergNotes, "replace"),
        (producer, "sequence_of"),
        (producer.Producer, "lost_deletes"),
    ),
}
"""Calls of the adapters within a commit, before it is sent."""


class OneError(Port):
    """Question number ``at`` gets no answer; a commit is rejected."""

    def call(self, name: str, method: Callable[..., Any], *args: Any, **given: Any) -> Any:
        if name.rpartition(".")[2] not in _WORK:
            with self.lock:
                failing = len(self.calls) == self.at
                self.calls.append(name)
            if failing:
                self.hit = name
                raise Rejected("503") if name in COMMITS else Fault("503")
        return method(*args, **given)


class Inside(Port):
    """Fails a function that a commit calls, at its first call during one; ``hit`` is the commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        super().__init__()
        self.inside = ""
        real = getattr(owner, name)

        def once(*given: Any, **more: Any) -> Any:
            if self.inside and not self.hit:
                self.hit = self.inside
                raise AdapterError("503")
            return real(*given, **more)

        monkeypatch.setattr(owner, name, once)

    def call(self, name: str, method: Callable[..., Any], *args: Any, **given: Any) -> Any:
        self.inside = name if name in COMMITS else self.inside
        try:
            return method(*args, **given)
        finally:
            self.inside = "" if name in COMMITS else self.inside


def four_groups(lake: Lake) -> str:
    """Two files in each of four partitions."""
    name = lake.create("k int, v string, p int", partitioned="p")
    for first in (0, 100):
        rows = lake.spark.range(first, first + 40).selectExpr(
            "cast(id * 37 % 101 AS int) AS k", "concat('v', id) AS v", "cast(id % 4 AS int) AS p"
        )
        lake.append(name, rows)
    return name


def run(lake: Lake, name: str, port: Port, parts: bool) -> MergeReport:
    """A recluster of the whole table, which never waits, and checks for conflicts as often as it may."""
    now_ms, looks = Clock().now_ms, itertools.count()
    clock = Clock(now_ms=lambda: now_ms() + WATCH_MS * next(looks), wait=lambda _: None)
    table = table_with(lake.spark, name, lambda adapter: Faulty(adapter, port), clock=clock)
    return table.recluster("k", policy="full", options={**_OPTIONS, **(_IN_PARTS if parts else {})})


def calls_of_a_run(lake: Lake, parts: bool) -> list[str]:
    """Questions of a run, in order; concurrently written groups ask in any order."""
    port = OneError()
    assert run(lake, four_groups(lake), port, parts).changed
    return port.calls


def shoot(lake: Lake, chosen: Iterable[int], parts: bool) -> None:
    for at in chosen:
        name = four_groups(lake)
        before = lake.fingerprint(name)
        port = OneError(at)
        report = run(lake, name, port, parts)
        where = f"call {at}: {port.hit}"
        assert port.hit, where
        assert [group.status for group in report.groups] == ["committed"] * 4, where
        assert lake.fingerprint(name) == before, where


@pytest.mark.parametrize("kind, every", [("delta", 3), ("iceberg-v3", 1)])
def test_one_error_at_some_calls_drops_no_group(spark: SparkSession, kind: str, every: int) -> None:
    """The first question of each name, or of every third one."""
    lake = Lake(spark, kind)
    calls = calls_of_a_run(lake, parts=False)
    first = {name: at for at, name in reversed(list(enumerate(calls)))}
    shoot(lake, sorted(first.values())[::every], parts=False)


@pytest.mark.faults_full
@pytest.mark.parametrize("parts", [False, True], ids=["one commit", "in parts"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_error_at_any_call_drops_no_group(spark: SparkSession, kind: str, parts: bool) -> None:
    lake = Lake(spark, kind)
    calls = calls_of_a_run(lake, parts)
    print(f"\n{kind}: {len(calls)} calls")
    shoot(lake, range(len(calls)), parts)


@pytest.mark.parametrize(
    "kind, owner, name",
    [(kind, *call) for kind, calls in INNER.items() for call in calls],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_one_error_within_a_commit_drops_no_group_and_no_delete(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, owner: Any, name: str
) -> None:
    lake = Lake(spark, kind)
    of = four_groups(lake)
    before, low = lake.fingerprint(of), spark.table(of).where("k < 30").count()
    with monkeypatch.context() as patched:
        port = Inside(patched, owner, name)
        report = run(lake, of, port, parts=False)
    assert [group.status for group in report.groups] == ["committed"] * 4
    assert lake.fingerprint(of) == before
    hits = {port.hit}
    with monkeypatch.context() as patched:
        port = Inside(patched, owner, name)
        clock = Clock(wait=lambda _: None)
        given = table_with(spark, of, lambda adapter: Faulty(adapter, port), clock=clock)
        assert given.delete("k < 30").deleted_rows_count == low
    assert spark.table(of).where("k < 30").count() == 0
    hits.add(port.hit)
    assert hits & set(COMMITS)
