"""Column types: which ones a rewrite preserves, and which are refused by name."""

from __future__ import annotations

import json
import uuid
from typing import Any
from unittest.mock import patch

import pytest

from lakekeeper.errors import OptionError, Unsupported
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]


def create(scene: Scene, types: dict[str, Any], version: int = 2) -> Scene:
    """A table with columns of Iceberg's own types, not all of which Spark's CREATE TABLE supports."""
    jvm = Iceberg(scene.spark)
    fields = [
        {"id": i + 1, "name": n, "required": False, "type": t} for i, (n, t) in enumerate(types.items())
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    schema = jvm.static("org.apache.iceberg.SchemaParser", "fromJson")(text)
    catalog = jvm.api.spark.Spark3Util.loadIcebergCatalog(jvm.session, scene.catalog)
    properties = jvm.view.java.util.HashMap()
    properties.put("format-version", str(version))
    name = jvm.static("org.apache.iceberg.catalog.TableIdentifier", "parse")(f"db.{scene.name}")
    catalog.createTable(name, schema, jvm.api.PartitionSpec.unpartitioned(), properties)
    return scene


def test_uuid_and_fixed_are_preserved(scene: Scene) -> None:
    create(scene, {"k": "int", "u": "uuid", "f": "fixed[3]"})
    for k in (2, 1):
        scene.run(f"INSERT INTO {{t}} VALUES ({k}, '{uuid.uuid4()}', X'0102FF'), (NULL, NULL, NULL)")
    before = scene.every_version()
    rows = scene.spark_rows(), scene.log_rows()
    done = recluster(scene)
    after = scene.every_version()
    assert {v: after[v] for v in before} == before
    assert after[done.version] == rows
    types = {f["name"]: f["type"] for f in SchemaFields(Iceberg(scene.spark), scene.java().schema()).top}
    assert types == {"k": "int", "u": "uuid", "f": "fixed[3]"}
    for column in ("u", "f"):
        with pytest.raises(OptionError, match="has type"):
            scene.adapter().snapshot([column])


def test_variant_and_nested_types_are_preserved(scene: Scene) -> None:
    scene.create("k INT, v VARIANT, m MAP<STRING, STRUCT<a: INT, l: ARRAY<DOUBLE>>>", 3)
    for k in (2, 1):
        value = f'parse_json(\'{{"a": [1, {k}.5, null], "b": "x"}}\')'
        scene.run(
            f"INSERT INTO {{t}} VALUES ({k}, {value}, map('q', named_struct('a', 1, 'l', array(double('NaN')))))"
        )
        scene.run("INSERT INTO {t} VALUES (NULL, NULL, NULL)")
    columns = ("k", "to_json(v)", "variant_get(v, '$.a[1]', 'double')", "m")

    def rows() -> list[str]:
        return sorted(map(str, scene.spark.table(scene.sql).selectExpr(*columns).collect()))

    before = rows()
    recluster(scene)
    assert rows() == before


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
def test_types_that_spark_lacks_are_refused(scene: Scene, kind: str) -> None:
    nested = {"type": "struct", "fields": [{"id": 9, "name": "x", "required": False, "type": kind}]}
    create(scene, {"k": "int", "a": nested}, 3)
    with pytest.raises(Unsupported, match=f"column type {kind}"):
        scene.adapter()


def test_tasks_of_a_large_table_are_planned_one_by_one(scene: Scene) -> None:
    """Above a limit, the scan tasks of the whole table are not cached."""
    scene.create("k INT, v STRING")
    for start in (0, 10, 20):
        scene.run(f"INSERT INTO {{t}} SELECT cast(id AS int), 'x' FROM range({start}, {start + 5})")
    rows = scene.spark_rows()
    with patch("lakekeeper_iceberg.planning.kept_tasks", lambda _: 0):
        adapter = scene.adapter()
        snapshot = adapter.snapshot(["k"], "k < 12")
        (task,) = tasks_of(snapshot)
        adapter.commit([rewritten(adapter, task)], snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows
    assert max(b.level for b in scene.adapter().snapshot(["k"]).blocks) == 1


def test_outputs_keep_the_limit_of_rows_at_the_writers_granularity(scene: Scene) -> None:
    scene.create("k INT, v STRING")
    for start in (0, 4000):
        scene.run(
            f"INSERT INTO {{t}} SELECT cast(id AS int), md5(cast(id AS string)) FROM range({start}, {start + 4000})"
        )
    rows = scene.spark_rows()
    done = recluster(scene, target_rows=3000)
    shares = sorted(b.rows for b in scene.adapter().snapshot(["k"]).blocks)
    assert len(done.added) == len(shares) >= 3
    assert max(shares) <= 3000
    assert scene.spark_rows() == rows
