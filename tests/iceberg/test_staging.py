"""Scan tasks staged in the JVM are freed when the operation on them ends, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


def held(spark: SparkSession) -> tuple[int, int]:
    """Tables in Iceberg's cache by group id, and sets of scan tasks of all tables."""
    jvm = Iceberg(spark)
    manager = jvm.task_sets
    kept = manager.getClass().getDeclaredField("tasksMap")
    kept.setAccessible(True)
    return int(jvm.table_cache.size()), int(kept.get(manager).size())


@pytest.fixture(params=[1, 2, 3])
def table(scene: Scene, request: pytest.FixtureRequest) -> Scene:
    rows = "SELECT /*+ COALESCE(1) */ cast(id % 10 AS int) AS k, concat('v', id) AS v FROM range({}, {})"
    inserts = [f"INSERT INTO {{t}} {rows.format(start, start + 20)}" for start in (0, 20, 40)]
    return scene.create("k INT, v STRING", request.param).run(*inserts)


def test_deletes_by_fresh_objects_leave_nothing_staged(table: Scene) -> None:
    before = held(table.spark)
    for number in (3, 23, 43):
        assert lk.table(table.spark, table.sql).delete(f"v = 'v{number}'").deleted_rows_count == 1
    assert lk.table(table.spark, table.sql).delete("v = 'nowhere'").deleted_rows_count == 0
    assert held(table.spark) == before


def test_a_delete_that_loses_once_leaves_nothing_staged(table: Scene) -> None:
    before = held(table.spark)
    reader = lk.table(table.spark, table.sql)

    def race(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and not info["attempt"]:
            lk.table(table.spark, table.sql).recluster("k", options={"policy": "full"})

    assert reader.delete("v = 'v3'", observer=race).deleted_rows_count == 1
    assert held(table.spark) == before


def test_a_delete_that_fails_leaves_nothing_staged(table: Scene) -> None:
    before = held(table.spark)

    def stop(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lk.table(table.spark, table.sql).delete("v = 'v3'", observer=stop)
    with pytest.raises(Exception, match=r"(?i)cast|invalid"):  # raised when the rows are read
        lk.table(table.spark, table.sql).delete("cast(v as int) = 3")
    assert held(table.spark) == before


@pytest.mark.parametrize("phase", ["read", "written", "before_commit", "committed"])
def test_a_rewrite_that_stops_leaves_nothing_staged(table: Scene, phase: str) -> None:
    before = held(table.spark)

    def stop(now: str, _: Mapping[str, Any]) -> None:
        if now == phase:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        lk.table(table.spark, table.sql).recluster("k", observer=stop, options={"policy": "full"})
    assert held(table.spark) == before


@pytest.mark.parametrize("lands", [True, False])
def test_a_replay_leaves_nothing_staged(table: Scene, lands: bool) -> None:
    before = held(table.spark)
    options = {"policy": "full", "replay.max-deleted-ratio": 1.0 if lands else 0.0}

    def race(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "written":
            table.run("DELETE FROM {t} WHERE v IN ('v3', 'v23', 'v43')")

    report = lk.table(table.spark, table.sql).recluster("k", observer=race, options=options)
    # Otherwise the DELETE rewrites all files.
    masked = int(table.java().operations().current().formatVersion()) > 1
    assert [group.status for group in report.groups] == ["committed" if lands and masked else "dropped"]
    assert held(table.spark) == before


def test_a_read_that_cannot_be_staged_leaves_nothing(table: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    before = held(table.spark)

    def broken(*_: Any, **__: Any) -> Callable[..., Any]:
        raise ValueError("no such option")

    monkeypatch.setattr("lakekeeper_iceberg.staging.one_split", broken)
    monkeypatch.setattr("lakekeeper_iceberg.native.Iceberg.with_metadata", broken)
    lk.table(table.spark, table.sql).recluster("k", options={"policy": "full"})
    with pytest.raises((ValueError, LakekeeperError)):
        lk.table(table.spark, table.sql).delete("v = 'v3'")
    assert held(table.spark) == before
