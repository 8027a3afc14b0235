"""Calls on a table with more files than scan tasks are kept for: each plans the whole table as seldom as it can."""

from __future__ import annotations

import pytest

import lakekeeper as lk
from lakekeeper.testing.contents import contents
from lakekeeper_iceberg import planning
from tests.iceberg.scene import Scene
from tests.jvm_calls import jvm_calls

pytestmark = pytest.mark.iceberg

WHERES = (
    "p = 'x'",
    "p = 'y' and k < 100",
    "k = 25",
    "k > 42 and p <> 'z'",
    "k < 0",
    "true",
    "p is null",
    "k >= 10",
)


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "kept_tasks", lambda _heap: 0)


@pytest.fixture
def filled(scene: Scene) -> Scene:
    scene.create("k INT, p STRING, v STRING", more="PARTITIONED BY (p)")
    for p, low in (("x", 0), ("x", 5), ("y", 20), ("z", 20)):
        rows = f"/*+ COALESCE(1) */ cast(id AS INT), '{p}', concat('v', id) FROM range({low}, {low + 10})"
        scene.run(f"INSERT INTO {{t}} SELECT {rows}")
    return scene


def plans(calls: list[str]) -> int:
    return sum("\nplanFiles\n" in call for call in calls)


def test_a_merge_plans_the_table_once_for_its_predicate_and_once_for_its_inputs(filled: Scene) -> None:
    """Loss: the tasks of the inputs were looked for when they were read, written and committed."""
    table = lk.table(filled.spark, filled.sql)
    rows = filled.spark_rows()
    table.plan("k")
    with jvm_calls() as calls:
        report = table.recluster("k", where="p = 'x' and k < 12", policy="full")
    assert report.rewritten_data_files_count == 2
    assert plans(calls) <= 3, "the predicate before and after, and the inputs"
    assert filled.spark_rows() == rows, "also the rows that the predicate leaves out"


def test_a_delete_plans_the_table_once(filled: Scene) -> None:
    """Loss: it planned the table to choose files, to prove that some go whole, to search them and to commit."""
    table = lk.table(filled.spark, filled.sql)
    table.plan("k")
    for where, most, whole in (("k = 25", 1, 0), ("p = 'x'", 2, 2)):
        left = {row["k"] for row in filled.spark.table(filled.sql).where(f"not ({where})").collect()}
        with jvm_calls() as calls:
            report = table.delete(where)
        assert report.unread_data_files_count == whole
        assert plans(calls) <= most, where
        assert {row["k"] for row in filled.spark.table(filled.sql).collect()} == left


def test_what_is_kept_of_a_predicate_proves_as_much_as_a_scan(
    filled: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("", "DELETE FROM {t} WHERE k = 3", "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, k)"):
        if step:
            filled.run(step)
        for where in WHERES:
            adapter = filled.adapter()
            part = adapter.snapshot(None, where)
            kept = adapter.deletes.covered(part, where)
            every = adapter.deletes.covered(adapter.snapshot(), where)
            with monkeypatch.context() as patch:
                patch.setattr(planning, "FEW", 0)
                other = filled.adapter()
                scanned = other.snapshot(None, where)
                assert contents(part) == contents(scanned), (step, where)
                assert kept == every == other.deletes.covered(scanned, where), (step, where)
