"""A NameNode that does not serve: in safe mode, and between a crash and its next start. No row is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakekeeper.errors import LakekeeperError
from lakekeeper.spark.jvm import Jvm
from tests.opening import table_later
from tests.stores.hdfs import MiniHdfs
from tests.stores.kinds import ON_HDFS, ONE_OF_EACH_ON_HDFS, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, same_rows


@of_kinds(ONE_OF_EACH_ON_HDFS)
@pytest.mark.parametrize("since", ["read", "written", "before_commit"])
def test_the_namenode_enters_safe_mode_in_a_recluster(
    table: StoreTable, kind: Kind, outcomes: Outcomes, since: str
) -> None:
    rows = table.spark_rows()
    with safe_mode(table, given=since) as observer:
        ended = attempt(lambda: table.table().recluster("k", policy="full", observer=observer))
        assert "safe mode" in ended.lower(), ended
        assert table.spark_rows() == rows, "reads are served in safe mode"
    same_rows(table, rows)
    assert table.table().recluster("k", policy="full").commits == 1
    report = table_later(table.spark, table.sql, hours=200).vacuum(**NOW)
    assert report.failed_files_count == 0
    assert table.leftovers() == set()
    outcomes[kind.name, f"safe mode since {since}, recluster again"] = same_rows(table, rows)


@of_kinds(ON_HDFS)
def test_the_namenode_is_in_safe_mode_in_a_vacuum(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    table.table().recluster("k")
    rows, before = table.spark_rows(), table.store.entries(table.prefix)
    with safe_mode(table):
        ended = attempt(lambda: table.table().vacuum(**NOW))
        assert "safe mode" in ended.lower(), ended
        assert table.store.entries(table.prefix) == before
    assert table.table().vacuum(**NOW).deleted_files_count >= 6
    assert table.leftovers() == set()
    outcomes[kind.name, "safe mode, vacuum again"] = same_rows(table, rows)


@of_kinds(ONE_OF_EACH_ON_HDFS)
@pytest.mark.parametrize("at", ["read", "before_commit"])
def test_the_namenode_crashes_and_starts_again(
    table: StoreTable, kind: Kind, outcomes: Outcomes, hdfs: MiniHdfs, at: str
) -> None:
    """The client retries for ten seconds. A longer outage fails the call, which reports it."""
    rows, crashes = table.spark_rows(), [at]

    def crash(phase: str, _: Any) -> None:
        if phase in crashes:
            crashes.remove(phase)
            hdfs.kill("name")
            hdfs.start("name")

    try:
        report = table.table().recluster("k", policy="full", observer=crash)
    finally:
        hdfs.wait()
    assert not crashes
    if not report.commits:
        assert "failed" in {group.status for group in report.groups}, report
        assert same_rows(table, rows)
        assert table.table().recluster("k", policy="full").commits == 1
    assert table_later(table.spark, table.sql, hours=200).vacuum(**NOW).failed_files_count == 0
    assert table.leftovers() == set()
    outcomes[kind.name, f"NameNode crashes at {at}"] = same_rows(table, rows)


@contextmanager
def safe_mode(table: StoreTable, given: str = "") -> Iterator[Any]:
    """The NameNode is in safe mode, from now or from a phase of the observer on, until the end of the context."""

    def observe(phase: str, _: Any) -> None:
        if phase == given:
            set_safe_mode(table, "ENTER")

    try:
        if not given:
            set_safe_mode(table, "ENTER")
        yield observe
    finally:
        set_safe_mode(table, "LEAVE")


def set_safe_mode(table: StoreTable, action: str) -> None:
    """What ``hdfs dfsadmin -safemode`` does."""
    jvm = Jvm(table.spark)
    files = jvm.view.org.apache.hadoop.fs.Path(table.store.root)
    files = files.getFileSystem(table.spark.sparkContext._jsc.hadoopConfiguration())
    files.setSafeMode(jvm.static("org.apache.hadoop.fs.SafeModeAction", "valueOf")(action))


def attempt(call: Callable[[], Any]) -> str:
    """The outcome of a call as a user sees it: its error, or its report, which has to name a failure."""
    try:
        return str(call())
    except LakekeeperError as error:
        return str(error)
