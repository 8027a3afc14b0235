"""Removes of many files: those that Delta makes of each, in a few py4j calls whatever their number."""

from __future__ import annotations

import json

import pytest

import lakekeeper as lk
from lakekeeper_delta.bulk_removes import removes
from tests.delta.scene import Scene
from tests.jvm_calls import jvm_calls

pytestmark = pytest.mark.delta

NOW = 1_800_000_000_123
VECTORS = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def filled(scene: Scene, files: int) -> Scene:
    """Files in two partitions, one of them with a deletion vector."""
    scene.create("id BIGINT, p STRING", more="PARTITIONED BY (p)", properties=VECTORS)
    rows = scene.spark.range(0, 10 * files, 1, files).selectExpr("id", "if(id % 2 = 0, 'ä b', 'c') AS p")
    rows.write.format("delta").mode("append").save(str(scene.path))
    return scene.run("DELETE FROM {t} WHERE id = 3")


@pytest.mark.parametrize("data_change", [True, False])
def test_like_delta_file_by_file(scene: Scene, *, data_change: bool) -> None:
    log = filled(scene, 3).log()
    adds = log.latest().snapshot.allFiles().collectAsList()
    found = removes(log.jvm, adds, NOW, data_change=data_change)
    assert int(found.size()) == 6
    for add, remove in zip(log.jvm.items(adds), log.jvm.items(found), strict=True):
        assert str(remove.json()) == str(add.removeWithTimestamp(NOW, data_change).json())
        assert json.loads(str(remove.json()))["remove"]["path"] == str(add.path())


def test_the_calls_of_a_drop_do_not_grow_with_its_files(scene: Scene) -> None:
    filled(scene, 20)
    table, counts = lk.table(scene.spark, str(scene.path)), []
    for files in (20, 20, 120):  # the first drop also looks up classes
        scene.run(f"INSERT INTO {{t}} SELECT /*+ REPARTITION({files}) */ id, 'ä b' FROM range(5000)")
        with jvm_calls() as calls:
            assert table.drop_partition("p = 'ä b'").deleted_rows_count >= 5000
        counts.append(len(calls))
    assert counts[2] - counts[1] < 3 * 100, "file by file, these took ten calls each"
