"""The commits before a snapshot show whether a stream was writing when a rewrite began."""

from __future__ import annotations

import time

import pytest

import lakekeeper as lk
from lakekeeper.core.planning import changes
from lakekeeper.core.planning.changes import STREAM_MS, Winner
from tests.formats.lakes import Lake


def earlier(lake: Lake, name: str) -> tuple[Winner, ...]:
    adapter = lake.adapter(name)
    return tuple(adapter.changes_since(adapter.snapshot(["k"])).earlier)


def test_the_statements_before_a_snapshot_are_listed_in_order(lake: Lake) -> None:
    name = lake.overlapping(1, 50)
    for number in (3, 5, 7):
        lake.spark.sql(f"DELETE FROM {name} WHERE id = {number}")
    found = earlier(lake, name)
    assert [w.changes_rows for w in found[-3:]] == [True] * 3
    assert [w.at_ms for w in found] == sorted(w.at_ms for w in found)


def test_statements_are_seen_behind_appends_and_maintenance(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the newest eight commits, too few were statements, and a commit of ours made the next statement fail."""
    monkeypatch.setattr(changes, "EARLIER_MS", 3_600_000)
    name = lake.overlapping(1, 50)
    for number in (3, 5, 7):
        lake.spark.sql(f"DELETE FROM {name} WHERE id = {number}")
    for _ in range(4):
        lake.spark.sql(f"INSERT INTO {name} SELECT * FROM {name} LIMIT 1")
        assert lk.table(lake.spark, name).recluster("k", policy="full").changed
    assert sum(w.changes_rows for w in earlier(lake, name)) >= 3


def test_no_commit_of_a_quiet_table_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    name = lake.overlapping(1, 50)
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 3")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + STREAM_MS * 1_000_000)
    assert earlier(lake, name) == ()


def test_a_stream_is_detected_however_late_the_first_check_is(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = lake.overlapping(1, 50)
    for number in (3, 5, 7):
        lake.spark.sql(f"DELETE FROM {name} WHERE id = {number}")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 60_000 * 1_000_000)
    assert [w.changes_rows for w in earlier(lake, name)[-3:]] == [True] * 3


def test_commits_name_their_writer_where_the_format_records_it(lake: Lake) -> None:
    """Spark names its application on Iceberg; on Delta, it names neither a cluster nor a user."""
    name = lake.overlapping(1, 50)
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 3")
    lake.spark.sql(f"INSERT INTO {name} SELECT * FROM {name} LIMIT 1")
    named = f"spark {lake.spark.sparkContext.applicationId}" if lake.iceberg else ""
    assert [w.writer for w in earlier(lake, name)[-2:]] == [named] * 2
