"""A feature that Iceberg itself does not read raises Unsupported with its name, wherever it appears."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError, Unsupported
from lakekeeper_iceberg.native import Iceberg
from tests.formats.verbs import VERBS
from tests.iceberg.metadata_files import newest_metadata, number_of
from tests.iceberg.scene import Scene
from tests.rewrites import rewritten, tasks_of

pytestmark = pytest.mark.iceberg

Change = Callable[[dict[str, Any]], object]


def typed(metadata: dict[str, Any], kind: str) -> None:
    for schema in metadata["schemas"]:
        schema["fields"][0]["type"] = kind


CHANGES: dict[str, tuple[Change, str]] = {
    "a future version": (lambda m: m.update({"format-version": 9}), "format-version 9"),
    "a version that lakekeeper does not know": (
        lambda m: m.update({"format-version": 4, "next-row-id": 0, "location": f"file:{m['location']}"}),
        "format-version 4",
    ),
    "an unknown type": (lambda m: typed(m, "quantum"), "column type quantum"),
    "a type of nanoseconds": (lambda m: typed(m, "timestamp_ns"), "column type timestamp_ns"),
    "fields that are missing": (lambda m: m.pop("schemas"), "metadata file"),
}


def commit(home: Path, change: Change) -> None:
    """Commit as another engine would: metadata with a change that this Iceberg version cannot make."""
    newest = newest_metadata(home)
    metadata = json.loads(newest.read_text())
    change(metadata)
    newest.with_name(f"v{number_of(newest) + 1}.metadata.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize("kind", CHANGES)
def test_a_table_that_iceberg_does_not_read(
    spark: SparkSession, kind: str, request: pytest.FixtureRequest
) -> None:
    """In a directory catalog, which reads once: other catalogs retry a metadata file for a minute and a half."""
    change, feature = CHANGES[kind]
    scene = Scene(spark, "hdp").create("k BIGINT").run("INSERT INTO {t} SELECT id FROM range(10)")
    opened = lk.table(scene.spark, scene.sql)
    home = Path(str(scene.java().location()).removeprefix("file:"))
    request.addfinalizer(lambda: shutil.rmtree(home))  # a search through all catalogs would fail at the table
    commit(home, change)
    before = {p for p in home.rglob("*") if p.is_file()}
    for entry in VERBS.values():
        with pytest.raises(Unsupported) as refused:
            entry(opened)
        assert refused.value.feature == feature
    scene.spark.catalog.clearCache()
    with pytest.raises(Unsupported) as refused:
        lk.table(scene.spark, scene.sql)
    assert refused.value.feature == feature
    assert {p for p in home.rglob("*") if p.is_file()} == before


def test_a_version_that_could_not_be_read_is_not_replaced(spark: SparkSession) -> None:
    """After a read error a directory catalog takes the previous version for the newest, and commits upon it."""
    scene = Scene(spark, "hdp").create("k BIGINT")
    scene.run("INSERT INTO {t} SELECT id FROM range(10)", "INSERT INTO {t} SELECT id FROM range(5, 12)")
    opened, adapter = lk.table(spark, scene.sql), scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    home = Path(str(scene.java().location()).removeprefix("file:"))
    tables = Iceberg(spark).api.hadoop.HadoopTables(spark.sparkContext._jsc.hadoopConfiguration())
    other = tables.load(str(home))
    delete = other.newDelete()
    delete.deleteFile(scene.data_files(other)[0])
    delete.commit()
    left = spark.read.format("iceberg").load(str(home)).count()
    assert 0 < left < 17
    newest = newest_metadata(home)
    text = newest.read_text()
    newest.write_text(text[: len(text) // 2])
    with pytest.raises(LakekeeperError):
        adapter.commit(made, snapshot, "run-1")
    with pytest.raises(LakekeeperError):
        opened.recluster("k")
    newest.write_text(text)
    with pytest.raises(LakekeeperError):
        adapter.commit(made, snapshot, "run-1")
    assert newest_metadata(home) == newest
    opened.recluster("k", policy="full", options={"depth-threshold": 1})
    assert spark.read.format("iceberg").load(str(home)).count() == left


def test_two_partition_fields_of_one_name_are_refused_until_one_is_renamed(scene: Scene) -> None:
    """Each call failed with an error of Java, in the middle of its work."""
    scene.create("k INT, d INT", 2, more="PARTITIONED BY (bucket(2, d))").run("INSERT INTO {t} VALUES (1, 1)")
    scene.run("ALTER TABLE {t} DROP PARTITION FIELD bucket(2, d)")
    scene.run("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k) AS d_bucket", "INSERT INTO {t} VALUES (2, 2)")
    with pytest.raises(Unsupported, match=r"two partition fields of the name d_bucket \(ids 1000 and 1001\)"):
        lk.table(scene.spark, scene.sql)
    scene.run("ALTER TABLE {t} REPLACE PARTITION FIELD d_bucket WITH bucket(2, k) AS of_k")
    table = lk.table(scene.spark, scene.sql)
    assert table.delete("k = 1").deleted_rows_count == 1
    assert table.recluster("k", policy="full").commits == 1
    assert scene.spark_rows() == scene.log_rows()
