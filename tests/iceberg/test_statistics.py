"""Sketches of distinct values: a snapshot has one file, which must not lose columns or other writers' blobs."""

from __future__ import annotations

from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


def described(scene: Scene) -> set[str]:
    """Columns of which the current snapshot's file has sketches."""
    table = scene.java()
    names = {int(f.fieldId()): str(f.name()) for f in table.schema().columns()}
    version = int(table.currentSnapshot().snapshotId())
    blobs = [
        b
        for file in table.statisticsFiles()
        if int(file.snapshotId()) == version
        for b in file.blobMetadata()
    ]
    return {names[int(number)] for blob in blobs for number in blob.fields() if int(number) in names}


def with_foreign_blob(scene: Scene) -> Any:
    """Register a statistics file of another writer for the current snapshot."""
    jvm, table = Iceberg(scene.spark), scene.java()
    version = int(table.currentSnapshot().snapshotId())
    blob = jvm.api.GenericBlobMetadata(
        "index-of-others", version, 1, jvm.array_list([]), jvm.view.java.util.HashMap()
    )
    file = jvm.api.GenericStatisticsFile(
        version,
        "file:/elsewhere.puffin",
        9,
        4,
        jvm.array_list([blob]),
    )
    table.updateStatistics().setStatistics(file).commit()


def test_columns_are_added_to_those_that_have_statistics(scene: Scene) -> None:
    """Loss L67: the second call deleted what the first one had computed, and all columns counted as described."""
    scene.create("a INT, b STRING, c INT, s STRUCT<x: INT>").run(
        "INSERT INTO {t} VALUES (1, 'x', 3, named_struct('x', 1)), (2, 'x', NULL, NULL)"
    )
    table = lk.table(scene.spark, scene.sql)
    assert table.compute_statistics(["a"]).changed
    assert described(scene) == {"a"}
    assert table.compute_statistics(["b"]).changed
    assert described(scene) == {"a", "b"}
    assert not table.compute_statistics(["a"]).changed
    assert table.compute_statistics().changed
    assert described(scene) == {"a", "b", "c"}
    assert not table.compute_statistics().changed


def test_a_column_added_or_dropped_later_is_not_missed(scene: Scene) -> None:
    scene.create("a INT, b STRING").run("INSERT INTO {t} VALUES (1, 'x'), (2, 'x')")
    table = lk.table(scene.spark, scene.sql)
    assert table.compute_statistics().changed
    scene.run("ALTER TABLE {t} ADD COLUMN c INT", "ALTER TABLE {t} DROP COLUMN b")
    assert not table.compute_statistics().changed


def test_blobs_of_another_writer_are_kept(scene: Scene) -> None:
    scene.create("a INT").run("INSERT INTO {t} VALUES (1)")
    with_foreign_blob(scene)
    report = lk.table(scene.spark, scene.sql).compute_statistics()
    assert not report.changed
    assert "only their writer can compute" in str(report.ended)
    [file] = list(scene.java().statisticsFiles())
    assert str(file.path()) == "file:/elsewhere.puffin"
