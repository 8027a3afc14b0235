"""Keys along a curve on Delta: where layout and ranges are stored, and which changes they survive."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakekeeper.core.layout.rank_boundaries import curve_index, placed
from lakekeeper.spark.shims import shim
from lakekeeper.testing.harness import task_for
from tests.delta.scene import Scene
from tests.rewrites import rewritten

pytestmark = pytest.mark.delta

SQUARE = "SELECT pmod(hash(id), 100) AS a, pmod(hash(id + 1), 100) AS b FROM range(600)"


def native_columns(scene: Scene) -> list[str]:
    (row,) = scene.spark.sql(f"DESCRIBE DETAIL {scene.sql}").select("clusteringColumns").collect()
    return list(row[0])


def test_the_layout_is_stored_beside_a_native_key_and_applies_to_it_only(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (a INT, b INT) USING delta CLUSTER BY (a, b)", "INSERT INTO {t} " + SQUARE)
    assert str(scene.adapter().snapshot().key) == "(a, b)"
    scene.adapter().set_cluster_key(["a", "b"], "hilbert")
    assert native_columns(scene) == ["a", "b"]
    assert str(scene.adapter().snapshot().key) == "hilbert(a, b)"
    scene.run("ALTER TABLE {t} CLUSTER BY (b, a)")
    assert str(scene.adapter().snapshot().key) == "(b, a)"
    scene.run("ALTER TABLE {t} CLUSTER BY (a, b)")
    assert str(scene.adapter().snapshot().key) == "hilbert(a, b)"
    scene.adapter().set_cluster_key(["a", "b"], "linear")
    assert str(scene.adapter().snapshot().key) == "(a, b)"


def test_a_layout_survives_a_rename(scene: Scene) -> None:
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode'='name')"
    scene.run(f"CREATE TABLE {{t}} (a INT, b INT) USING delta {mapped}", "INSERT INTO {t} " + SQUARE)
    scene.adapter().set_cluster_key(["a", "b"], "hilbert", native=True)
    before = scene.adapter().snapshot().key
    scene.run("ALTER TABLE {t} RENAME COLUMN a TO `a 2`")
    after = scene.adapter().snapshot().key
    assert str(after) == "hilbert(`a 2`, b)"
    assert before is not None
    assert after is not None
    assert after.key_id == before.key_id


def test_a_partitioned_table_stores_columns_and_layout_in_one_property(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (a INT, b INT, p INT) USING delta PARTITIONED BY (p)")
    scene.adapter().set_cluster_key(["a", "b"], "zorder")
    assert scene.adapter().properties()["lakekeeper.cluster-by"] == "zorder(a, b)"
    assert str(scene.adapter().snapshot().key) == "zorder(a, b)"


def test_tags_hold_the_curve_range_of_each_file(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (a INT, b INT) USING delta", "INSERT INTO {t} " + SQUARE)
    adapter = scene.adapter()
    adapter.set_cluster_key(["a", "b"], "hilbert")
    snapshot = placed(adapter.snapshot())
    task = task_for(snapshot, target_rows=100)
    adapter.commit([rewritten(adapter, task)], snapshot, "run")
    blocks = scene.adapter().snapshot().blocks
    assert task.boundaries is not None
    assert blocks.curve_ids == (task.boundaries.id,)
    ends_of = zip(blocks.curve_lo.tolist(), blocks.curve_hi.tolist(), strict=True)
    for path, ends in zip(blocks.path.to_pylist(), ends_of, strict=True):
        rows = shim().to_arrow(scene.spark.read.parquet(str(scene.path / path)))
        columns = [rows[c].combine_chunks().cast(pa.int64()) for c in ("a", "b")]
        places = curve_index(task.boundaries, "hilbert", columns)
        assert (int(places.min()), int(places.max())) == ends
        assert places.tolist() == sorted(places.tolist())


def test_an_invalid_tag_is_not_a_range(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (a INT, b INT) USING delta", "INSERT INTO {t} " + SQUARE)
    for bad in ("0-aaaaaaaa:9:3", "0-aaaaaaaa:x:3", "0-aaaaaaaa", "", "a:b:c:d"):
        retagged(scene, bad)
        blocks = scene.adapter().snapshot(["a", "b"]).blocks
        assert {*blocks.curve_lo.tolist(), *blocks.curve_hi.tolist()} == {-1}, bad


def retagged(scene: Scene, tag: str) -> None:
    """Add the most recently added file again, with another tag, in a new version; return the commit's text."""
    versions = sorted((scene.path / "_delta_log").glob("*.json"))
    adds = [
        json.loads(line)["add"]
        for version in versions
        for line in version.read_text().splitlines()
        if line.startswith('{"add"')
    ]
    action = {"add": {**adds[-1], "dataChange": False, "tags": {"lakekeeper.curve": tag}}}
    (scene.path / "_delta_log" / f"{len(versions):020d}.json").write_text(json.dumps(action) + "\n")
