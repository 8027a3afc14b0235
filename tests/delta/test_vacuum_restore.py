"""Vacuum of Delta tables whose old versions are restored: RESTORE does not check for a concurrent vacuum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import Conflict
from tests.delta.by_hand import ByHand
from tests.delta.scene import Scene
from tests.delta.vacuum import look, on_disk

pytestmark = pytest.mark.delta
NOW: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True}
ONE_BY_ONE = {
    "vacuum.max-share": 1,
    "vacuum.max-batch-delete-size": 1,
    "vacuum.max-concurrent-deletes": 1,
}


def test_restored_files_are_kept(table: ByHand) -> None:
    first = look(table.scene)
    assert first.names() == {"a.parquet"}
    table.commit(table.add("a.parquet", [0]))
    with pytest.raises(Conflict, match="restored files that were to be deleted"):
        first.sweep()
    assert look(table.scene).plan.files == ()
    assert look(table.scene, storage=first.storage, since=1).plan.files == ()
    table.commit(table.add("d.parquet"))
    assert look(table.scene, last=2).sweep() == set()
    second = look(table.scene)
    table.commit(table.add("e.parquet"))  # an append conflicts with no delete
    assert second.sweep() == set()
    assert on_disk(table.path) == {f"{name}.parquet" for name in "abcde"}


def test_a_restore_between_two_deletes_stops_the_rest(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k INT) USING delta", *(f"INSERT OVERWRITE {{t}} VALUES ({n})" for n in range(5))
    )
    deleted: list[int] = []

    def restore(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "deleted":
            deleted.append(info["version"])
            if len(deleted) == 2:
                scene.run("RESTORE {t} TO VERSION AS OF 4")  # k = 3, whose file is deleted last

    table = lk.table(scene.spark, scene.sql)
    report = table.vacuum(observer=restore, options=ONE_BY_ONE, **NOW)
    assert (report.deleted_files_count, report.failed_files_count, len(deleted)) == (2, 2, 2)
    assert "restored files that were to be deleted" in str(report.ended)
    assert [row.k for row in scene.spark.table(scene.sql).collect()] == [3]
    assert table.vacuum(options=ONE_BY_ONE, **NOW).deleted_files_count == 2
    scene.spark.catalog.clearCache()
    assert [row.k for row in scene.spark.table(scene.sql).collect()] == [3]
    assert len(on_disk(scene.path)) == 1
