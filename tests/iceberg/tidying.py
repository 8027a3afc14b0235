"""Tidying the delete files of a table, and what must hold afterwards."""

from __future__ import annotations

from lakekeeper.spi import Tidied
from tests.iceberg.scene import Scene

SMALL = {"write.delete.granularity": "partition"}
UPGRADE = "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')"


def tidy(scene: Scene) -> Tidied:
    """Tidy; no reader of any version sees a change, and a second call finds nothing to do."""
    before, rows, live = scene.every_version(), scene.spark_rows(), places(scene)
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    due = adapter.deletes.may_tidy(snapshot)
    done = adapter.deletes.tidy(snapshot, "run-0")
    assert due or done.version is None
    after = scene.every_version()
    assert {v: after[v] for v in before} == before
    assert scene.spark_rows() == scene.log_rows() == rows
    assert places(scene) == live
    adapter = scene.adapter()
    versions = scene.versions()
    assert adapter.deletes.tidy(adapter.snapshot(), "again-1") == Tidied()
    assert scene.versions() == versions
    assert done.version == (None if versions == list(before) else versions[-1])
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    return done


def places(scene: Scene) -> set[tuple[str, int]]:
    """(data file, position) of each live row; the other positions of a data file are deleted."""
    found = scene.spark.sql(f"SELECT _file, _pos FROM {scene.sql}").collect()
    return {(str(row[0]), int(row[1])) for row in found}


def delete_files(scene: Scene) -> list[tuple[str, int]]:
    """(format, rows) of each delete file."""
    found = scene.spark.table(f"{scene.sql}.delete_files").select("file_format", "record_count")
    return sorted((str(row[0]), int(row[1])) for row in found.collect())


def with_crowd(
    scene: Scene, columns: str = "k INT, v STRING", row: str = "concat('v', id)", **given: str
) -> Scene:
    """Two data files of forty rows in one partition, and six delete files for both, or twelve for one of them each.

    Spark reads both files in one task or in two. ``row``: all values but the key.
    """
    scene.create(columns, 2, more=given.pop("more", ""), properties=SMALL | given)
    for start in (0, 40):
        values = f"SELECT /*+ COALESCE(1) */ cast(id AS int), {row} FROM range({start}, {start + 40})"
        scene.run(f"INSERT INTO {{t}} {values}")
    return scene.run(*(f"DELETE FROM {{t}} WHERE k IN ({i}, {40 + i})" for i in range(6)))
