"""Maintenance in a session that writes to a branch (``spark.wap.branch``): it reads and changes main only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


@pytest.fixture
def audited(scene: Scene, spark: SparkSession) -> Iterator[Scene]:
    """Rows 0 … 19 on main; on the branch, row 3 is deleted and rows 100 … 109 are added. Reads show the branch."""
    scene.create("k INT, v STRING", properties={"write.wap.enabled": "true"})
    for start in (0, 10):
        scene.run(f"INSERT INTO {{t}} SELECT cast(id AS int), 'v' FROM range({start}, {start + 10})")
    scene.run("ALTER TABLE {t} CREATE BRANCH audit")
    spark.conf.set("spark.wap.branch", "audit")
    try:
        scene.run(
            "DELETE FROM {t} WHERE k = 3", "INSERT INTO {t} SELECT cast(id AS int), 'v' FROM range(100, 110)"
        )
        yield scene
    finally:
        spark.conf.unset("spark.wap.branch")


def keys(scene: Scene, branch: str) -> list[int]:
    rows: list[Any] = scene.spark.sql(
        f"SELECT k FROM {scene.sql} VERSION AS OF '{branch}' ORDER BY k"
    ).collect()
    return [row.k for row in rows]


BRANCH = [*(k for k in range(20) if k != 3), *range(100, 110)]


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_a_merge_reads_main(audited: Scene, engine: str) -> None:
    assert audited.spark.table(audited.sql).count() == len(BRANCH)  # Iceberg's reads show the branch
    report = lk.table(audited.spark, audited.sql).recluster(
        "k", options={"policy": "full", "merge-engine": engine}
    )
    assert report.changed
    assert keys(audited, "main") == list(range(20))
    assert keys(audited, "audit") == BRANCH


def test_a_delete_finds_its_rows_on_main(audited: Scene) -> None:
    assert lk.table(audited.spark, audited.sql).delete("k IN (3, 5, 105)").deleted_rows_count == 2
    assert keys(audited, "main") == [k for k in range(20) if k not in (3, 5)]
    assert keys(audited, "audit") == BRANCH


def test_a_statement_changes_the_branch(audited: Scene) -> None:
    lk.sql(audited.spark, f"DELETE FROM {audited.sql} WHERE k = 5")
    assert keys(audited, "main") == list(range(20))
    assert keys(audited, "audit") == [k for k in BRANCH if k != 5]
