"""Which commits the metadata attributes to writers, and which to lakekeeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.iceberg.metadata_files import newest_metadata, number_of
from tests.iceberg.scene import Scene
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg


def test_commits_of_writers_are_distinguished_from_rewrites(scene: Scene) -> None:
    scene.create("k BIGINT, v STRING")
    empty = scene.adapter().snapshot(["k"])
    assert empty.commits_ms.tolist() == []
    for i in range(3):
        scene.run(f"INSERT INTO {{t}} VALUES ({i}, 'a'), ({i + 10}, 'b')")
    before = scene.adapter().snapshot(["k"])
    assert before.rewritten is not None
    assert before.rewritten.shape == (2, 0)
    recluster(scene)
    after = scene.adapter().snapshot(["k"])
    assert after.commits_ms.tolist() == before.commits_ms.tolist() == sorted(before.commits_ms.tolist())
    assert len(after.commits_ms) == 3
    assert after.rewritten is not None
    at, size = after.rewritten
    assert size.tolist() == [int(before.blocks.bytes.sum())]
    assert at.tolist() == after.blocks.added_at.tolist()
    scene.run("DELETE FROM {t} WHERE k = 1")
    assert len(scene.adapter().snapshot(["k"]).commits_ms) == 4


def test_a_snapshot_that_was_rolled_back_is_not_a_commit_of_the_table(scene: Scene) -> None:
    scene.create("k BIGINT, v STRING").run("INSERT INTO {t} VALUES (1, 'a')")
    (first,) = scene.versions()
    scene.run("INSERT INTO {t} VALUES (2, 'b')").call("rollback_to_snapshot", f", snapshot_id => {first}")
    seen = scene.adapter().snapshot(["k"])
    assert seen.commits_ms.tolist() == seen.blocks.added_at.tolist()
    assert np.all(seen.commits_ms > 0)


def hour_before(plain: Any) -> Any:
    """The same metadata, with every time one hour earlier."""
    if isinstance(plain, dict):
        return {
            key: value - 3_600_000 if key in ("last-updated-ms", "timestamp-ms") else hour_before(value)
            for key, value in plain.items()
        }
    return [hour_before(each) for each in plain] if isinstance(plain, list) else plain


def test_rows_dropped_an_hour_ago_are_restored(spark: SparkSession) -> None:
    """Iceberg refuses metadata whose last change is one minute before the last one of ``main``."""
    scene = Scene(spark, "hdp").create("k INT, day INT", more="PARTITIONED BY (day)")
    scene.run("INSERT INTO {t} VALUES (1, 1), (2, 1)", "INSERT INTO {t} VALUES (3, 2)")
    lk.table(spark, scene.sql).drop_partition("day = 1")
    newest = newest_metadata(Path(str(scene.java().location()).removeprefix("file:")))
    aged = newest.with_name(f"v{number_of(newest) + 1}.metadata.json")
    aged.write_text(json.dumps(hour_before(json.loads(newest.read_text()))))
    [entry] = lk.table(spark, scene.sql).trash()
    lk.table(spark, scene.sql).restore(entry.name)
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).count() == 3
