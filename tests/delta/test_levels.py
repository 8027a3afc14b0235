"""Level and key id in the tags: what preserves them and what resets them."""

from __future__ import annotations

import json

import pytest

import lakekeeper as lk
from tests.delta.scene import Scene
from tests.rewrites import recluster

pytestmark = pytest.mark.delta


@pytest.fixture
def filled(scene: Scene) -> Scene:
    return scene.run(
        "CREATE TABLE {t} (k BIGINT, v STRING) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors'='true', 'delta.columnMapping.mode'='name')",
        "INSERT INTO {t} SELECT id % 7, concat('v', id) FROM range(40)",
    )


def _levels(scene: Scene, column: str = "k") -> list[int]:
    snapshot = scene.adapter().snapshot([column])
    return sorted(int(n) for n in snapshot.blocks.level_under(snapshot.key))


def test_they_survive_deletes_checkpoints_and_schema_changes(filled: Scene) -> None:
    recluster(filled, level=3, target_rows=20)
    assert _levels(filled) == [3, 3]
    filled.run("DELETE FROM {t} WHERE v = 'v3'", "UPDATE {t} SET v = 'x' WHERE v = 'v39'")
    assert _levels(filled) == [0, 3, 3]  # the updated row is new
    jvm = filled.spark._jvm
    assert jvm is not None
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(filled.spark._jsparkSession, str(filled.path))
    log.checkpoint(log.unsafeVolatileSnapshot(), jvm.scala.Option.empty())
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert _levels(filled) == [0, 3, 3]
    filled.run("ALTER TABLE {t} RENAME COLUMN k TO kk", "ALTER TABLE {t} ADD COLUMN z INT")
    assert _levels(filled, "kk") == [0, 3, 3]


def test_levels_do_not_apply_to_another_key(filled: Scene) -> None:
    recluster(filled, level=3)
    assert _levels(filled, "v") == [0]


def test_native_optimize_resets_them(filled: Scene) -> None:
    recluster(filled, level=3, target_rows=20)
    filled.run("OPTIMIZE {t}")
    assert _levels(filled) == [0]


def test_native_optimize_of_a_clustered_table_leaves_our_files_alone(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT) USING delta CLUSTER BY (k)", "INSERT INTO {t} SELECT id FROM range(40)"
    )
    recluster(scene, None, level=2, target_rows=20)
    assert {a["add"]["clusteringProvider"] for a in scene.actions() if "add" in a} == {"lakekeeper"}
    version = scene.version
    scene.run("OPTIMIZE {t}")
    assert scene.version == version
    scene.run("OPTIMIZE {t} FULL")
    assert _levels(scene) == [0]


def test_other_tags_are_kept_and_no_provider_without_clustering(filled: Scene) -> None:
    recluster(filled)
    add = next(a["add"] for a in filled.actions() if "add" in a)
    assert "clusteringProvider" not in add
    assert add["tags"].keys() == {"lakekeeper.level", "lakekeeper.key"}


def by_hand(scene: Scene, **changes: object) -> None:
    """Commit a file again, with some fields of its AddFile changed; None removes the field."""
    add = next(a["add"] for a in scene.actions() if "add" in a) | changes
    kept = {name: value for name, value in add.items() if value is not None}
    actions = {"commitInfo": {"operation": "TAG"}}, {"add": kept}
    log = scene.path / "_delta_log" / f"{scene.version + 1:020d}.json"
    log.write_text("\n".join(json.dumps(action) for action in actions))


@pytest.mark.parametrize("tags", [None, {}, {"lakekeeper.level": "high", "lakekeeper.key": "else"}])
def test_without_tags_they_are_found_by_the_path(filled: Scene, tags: dict[str, str] | None) -> None:
    """Trino's DELETE drops the tags from the AddFile of a file whose rows it masks."""
    recluster(filled, level=3)
    before = filled.adapter().snapshot(["k"])
    by_hand(filled, tags=tags)
    after = filled.adapter().snapshot(["k"])
    assert _levels(filled) == [3]
    assert after.blocks.key_id == before.blocks.key_id
    assert _levels(filled, "v") == [0]


def test_a_file_whose_tags_were_dropped_is_not_rewritten(filled: Scene) -> None:
    table = lk.table(filled.spark, filled.sql)
    table.cluster_by("k")
    assert table.recluster(policy="full").changed
    assert table.plan().tasks == ()
    by_hand(filled, tags=None)
    assert table.plan().tasks == ()


@pytest.mark.parametrize(
    "path",
    [
        "k=1/L3/none/L2/part.parquet",
        "lk/none/L2/part.parquet",
        "lk3f2a9c01b7de5f6an1/none/L2x/part.parquet",
        "lk3f2a9c01b7de5f6an1/nothing/L2/part.parquet",
    ],
)
def test_other_paths_have_no_level(filled: Scene, path: str) -> None:
    by_hand(filled, path=path, tags=None)
    assert set(_levels(filled)) == {0}
