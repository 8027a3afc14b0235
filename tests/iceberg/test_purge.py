"""Dropped tables whose files others need, or that do not own all of their files: only the name goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.spark.session_confs import catalog_conf
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


def local(path: str) -> Path:
    return Path(path.removeprefix("file:"))


def files_of(spark: SparkSession, table: str) -> list[Path]:
    return [local(row.file_path) for row in spark.sql(f"SELECT file_path FROM {table}.files").collect()]


def purged(scene: Scene, **options: object) -> str:
    """Why the files of the table stay, after it was dropped for good."""
    lk.drop_table(scene.spark, scene.sql, force=True)
    gone = lk.empty_dropped(scene.spark, f"{scene.catalog}.db", options=options)
    return next(each.files_stay for each in gone if each.name == scene.sql)


def second_catalog(scene: Scene, confs: RuntimeConfig, place: Path) -> None:
    for key, value in catalog_conf("second", f"jdbc:sqlite:{place}/second.db", place).items():
        confs.set(key, value)
    scene.spark.sql("CREATE NAMESPACE IF NOT EXISTS second.db")


@pytest.mark.parametrize("changed", [False, True], ids=["registered", "changed since"])
def test_a_table_that_another_catalog_has_too(
    scene: Scene, confs: RuntimeConfig, tmp_path: Path, *, changed: bool
) -> None:
    """Loss L165: after ``register_table`` in another catalog, a drop in the old one deleted the files of both."""
    scene.create("k INT, v STRING").run("INSERT INTO {t} VALUES (1, 'a')")
    second_catalog(scene, confs, tmp_path)
    metadata = local(str(scene.java().operations().current().metadataFileLocation()))
    scene.spark.sql(f"CALL second.system.register_table('db.{scene.name}', '{metadata}')")
    if changed:
        scene.spark.sql(f"INSERT INTO second.db.{scene.name} VALUES (2, 'b')")
    assert "second.db" in purged(scene)
    assert metadata.exists()
    assert all(path.exists() for path in files_of(scene.spark, f"second.db.{scene.name}"))
    assert scene.spark.table(f"second.db.{scene.name}").count() == 1 + changed


def test_metadata_that_the_catalog_does_not_know(scene: Scene, confs: RuntimeConfig, tmp_path: Path) -> None:
    """The session knows the other catalog no longer."""
    scene.create("k INT, v STRING").run("INSERT INTO {t} VALUES (1, 'a')")
    second_catalog(scene, confs, tmp_path)
    metadata = local(str(scene.java().operations().current().metadataFileLocation()))
    scene.spark.sql(f"CALL second.system.register_table('db.{scene.name}', '{metadata}')")
    scene.spark.sql(f"INSERT INTO second.db.{scene.name} VALUES (2, 'b')")
    kept = files_of(scene.spark, f"second.db.{scene.name}")
    for file in metadata.parent.glob("*.metadata.json"):
        os.utime(file, (time.time() - 3600,) * 2)
    for key in catalog_conf("second", f"jdbc:sqlite:{tmp_path}/second.db", tmp_path):
        confs.unset(key)
    assert "newer than the metadata that this catalog names" in purged(scene)
    assert all(path.exists() for path in kept)


def test_files_that_were_imported(scene: Scene, tmp_path: Path) -> None:
    """Loss L166: they belong to another folder, of which the operator allows nothing to be deleted."""
    rows = scene.spark.range(5).selectExpr("cast(id AS int) AS k", "cast(id AS string) AS v")
    rows.coalesce(1).write.parquet(f"{tmp_path}/source")
    scene.create("k INT, v STRING")
    scene.spark.sql(
        f"CALL {scene.catalog}.system.add_files(table => 'db.{scene.name}', "
        f"source_table => '`parquet`.`{tmp_path}/source`')"
    )
    assert f"{tmp_path}/source, outside its location" in purged(scene)
    assert list((tmp_path / "source").glob("*.parquet"))


@pytest.mark.parametrize("allowed", [False, True])
def test_files_in_a_place_that_the_table_declares(scene: Scene, tmp_path: Path, *, allowed: bool) -> None:
    scene.create("k INT, v STRING", properties={"write.data.path": f"file:{tmp_path}/data"})
    scene.run("INSERT INTO {t} VALUES (1, 'a')")
    [file] = files_of(scene.spark, scene.sql)
    why = purged(scene, **({"vacuum.allowed-locations": f"file:{tmp_path}"} if allowed else {}))
    assert (why == "", file.exists()) == (allowed, not allowed)


def test_a_catalog_that_the_session_has_twice(scene: Scene, confs: RuntimeConfig) -> None:
    scene.create("k INT, v STRING").run("INSERT INTO {t} VALUES (1, 'a')")
    prefix = f"spark.sql.catalog.{scene.catalog}"
    for key, value in dict(scene.spark.sparkContext.getConf().getAll()).items():
        if key == prefix or key.startswith(f"{prefix}."):
            confs.set(key.replace(prefix, "spark.sql.catalog.alias", 1), value)
    [file] = files_of(scene.spark, scene.sql)
    assert purged(scene) == ""
    assert not file.exists()
