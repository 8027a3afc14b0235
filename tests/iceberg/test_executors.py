"""Commits on a local disk run Iceberg's tasks in the calling thread; other commits use Iceberg's pools."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.spark import jvm as jvm_module
from lakekeeper_iceberg import executors
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene


@pytest.fixture
def jvm(scene: Scene) -> Iceberg:
    return Iceberg(scene.spark)


def test_a_task_has_ended_when_submit_returns(jvm: Iceberg) -> None:
    """So Iceberg, which polls every 10 ms whether all tasks have ended, never waits."""
    pool = executors.calling_thread(jvm)
    task = jvm.view.java.util.concurrent.FutureTask(
        jvm.handles.proxy("java.lang.Runnable", _nothing(jvm)), None
    )
    future = pool.submit(task)
    assert bool(future.isDone())
    assert bool(task.isDone())
    assert str(executors.calling_thread(jvm)) == str(pool), "created once per session"


def _nothing(jvm: Iceberg) -> Any:
    return jvm.handles.invoke.empty(jvm.handles.type("void"))


def test_an_error_of_a_task_is_raised_to_the_waiting_thread(jvm: Iceberg) -> None:
    throwing = jvm.handles.invoke.throwException(
        jvm.handles.java_class("void"), jvm.handles.java_class("java.lang.IllegalStateException")
    ).bindTo(jvm.view.java.lang.IllegalStateException("broken"))
    future = executors.calling_thread(jvm).submit(jvm.handles.proxy("java.lang.Runnable", throwing))
    assert bool(future.isDone())
    with pytest.raises(Exception, match="broken"):
        future.get()


def test_a_local_table_of_few_files_is_committed_in_the_calling_thread(
    scene: Scene, jvm: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = jvm.load(scene.create("k INT").sql)
    assert executors.for_commits(jvm, table) is None, "a table without a snapshot has no manifests to read"
    scene.run("INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    table.refresh()
    assert str(executors.for_commits(jvm, table)) == str(executors.calling_thread(jvm))
    monkeypatch.setattr(executors, "MOST_FILES", 1)
    assert executors.for_commits(jvm, table) is None, "many manifests are read in parallel"


def test_a_table_on_remote_storage_keeps_the_pool(
    scene: Scene, jvm: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = jvm.load(scene.create("k INT").run("INSERT INTO {t} VALUES (1)").sql)
    monkeypatch.setattr(jvm_module, "LOCAL_FILESYSTEMS", frozenset())
    assert executors.for_commits(jvm, table) is None
