"""What must survive a rewrite besides the rows: row ids, last-updated numbers, streams, levels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.iceberg.scene import Scene
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg

_LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")


def fill(start: int, stop: int) -> str:
    return (
        f"INSERT INTO {{t}} SELECT cast(id % 7 AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    )


def test_row_ids_and_last_updates_survive_rewrites(scene: Scene) -> None:
    scene.create("k INT, v STRING", 3).run(fill(0, 30), fill(30, 50))
    scene.run("UPDATE {t} SET v = concat(v, '!') WHERE k = 2", "DELETE FROM {t} WHERE v LIKE '%9'")
    before = scene.spark_rows(columns=_LINEAGE)
    assert scene.spark.table(scene.sql).where("_row_id IS NULL").count() == 0
    for level in (1, 2):
        recluster(scene, level=level, run_id=f"run-{level}")
        assert scene.spark_rows(columns=_LINEAGE) == before
    scene.run("UPDATE {t} SET v = 'new' WHERE k = 3", fill(50, 60))
    before = scene.spark_rows(columns=_LINEAGE)
    recluster(scene, run_id="run-3")
    assert scene.spark_rows(columns=_LINEAGE) == before


@pytest.mark.parametrize("version", [2, 3])
def test_a_stream_reads_no_row_twice(scene: Scene, tmp_path: Path, version: int) -> None:
    scene.create("k INT, v STRING", version).run(fill(0, 10), fill(10, 20))
    out = str(tmp_path / "out")

    def drain() -> None:
        stream = scene.spark.readStream.table(scene.sql).writeStream.format("parquet")
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        stream.start(out).awaitTermination()

    drain()
    recluster(scene)
    drain()
    scene.run(fill(20, 25))
    recluster(scene, run_id="run-2")
    drain()
    read = sorted(row.v for row in scene.spark.read.parquet(out).collect())
    assert read == sorted(f"v{i}" for i in range(25))


@pytest.mark.parametrize("version", [2, 3])
def test_levels_survive_changes_by_other_engines(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version).run(fill(0, 30), fill(30, 50))
    recluster(scene, level=3)
    key = scene.adapter().snapshot(["k"]).key
    assert key is not None
    steps: tuple[Callable[[], Scene], ...] = (
        lambda: scene.run("DELETE FROM {t} WHERE v = 'v3'"),
        lambda: scene.call("rewrite_manifests"),
        lambda: scene.call(
            "expire_snapshots", ", older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
        ),
        lambda: scene.run("ALTER TABLE {t} ADD COLUMN w INT", "ALTER TABLE {t} RENAME COLUMN k TO k2"),
        lambda: scene.run("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, v)"),
    )
    for step in steps:
        step()
        blocks = scene.adapter().snapshot().blocks
        assert {(b.level, b.key_id) for b in blocks} == {(3, key.key_id)}
    renamed = scene.adapter().snapshot(["k2"])
    assert renamed.key is not None
    assert set(renamed.blocks.level_under(renamed.key).tolist()) == {3}
    scene.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
    assert {(b.level, b.key_id) for b in scene.adapter().snapshot().blocks} == {(0, "")}


@pytest.mark.parametrize(
    "properties",
    [
        {"write.object-storage.enabled": "true"},
        {"write.data.path": "{root}/elsewhere"},
        {"write.object-storage.enabled": "true", "write.data.path": "{root}/elsewhere"},
    ],
    ids=["object storage", "data path", "both"],
)
def test_levels_with_data_in_other_places(scene: Scene, tmp_path: Path, properties: dict[str, str]) -> None:
    placed = {name: value.format(root=tmp_path) for name, value in properties.items()}
    scene.create("k INT, v STRING", more="PARTITIONED BY (truncate(v, 2))", properties=placed)
    scene.run(fill(0, 30), fill(30, 50))
    rows = scene.spark_rows()
    recluster(scene, level=2)
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert set(blocks.level.tolist()) == {2}
    if "write.data.path" in placed:
        assert all(path.startswith(placed["write.data.path"] + "/lk") for path in blocks.path.to_pylist())
    assert scene.spark_rows() == scene.log_rows() == rows
    assert "write.data.path" in placed or "write.data.path" not in scene.adapter().properties()


def test_outputs_in_the_table_s_sort_order_carry_its_id(scene: Scene) -> None:
    scene.create("k INT, v STRING").run(fill(0, 30), "ALTER TABLE {t} WRITE ORDERED BY k NULLS FIRST")
    recluster(scene, None)
    files = scene.spark.table(f"{scene.sql}.files").collect()
    assert {row.sort_order_id for row in files} == {1}
    recluster(scene, ("v",), run_id="run-2")
    files = scene.spark.table(f"{scene.sql}.files").collect()
    assert {row.sort_order_id for row in files} == {0}


@pytest.mark.parametrize("before, after", [("avro", "parquet"), ("parquet", "orc")])
def test_outputs_are_zstd_where_files_of_two_formats_share_no_codec(
    scene: Scene, before: str, after: str
) -> None:
    given = {"write.format.default": before, "write.parquet.compression-codec": "uncompressed"}
    scene.create("k INT, v STRING", properties=given).run(fill(0, 30), fill(30, 50))
    scene.run("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.parquet.compression-codec')")
    scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.format.default'='{after}')")
    rows = scene.spark_rows()
    (path,) = recluster(scene).added
    assert path.endswith(f".{after}")
    assert scene.spark_rows() == rows
    if after == "parquet":
        assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    else:
        assert orc.ORCFile(path).compression == "ZSTD"
