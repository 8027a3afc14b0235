"""Predicates on columns of type uuid, whose bounds Iceberg compares otherwise than Parquet and Spark do."""

from __future__ import annotations

import random
import uuid

import pytest

import lakekeeper as lk
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


def of_uuids(scene: Scene, files: list[list[uuid.UUID]], more: str = "") -> dict[int, str]:
    """A table ``k INT, u UUID, d INT`` with one data file for each list; Spark's DDL has no type uuid."""
    scene.create("k INT, d INT", 2, more=more)
    jvm, table = Iceberg(scene.spark), scene.java()
    kind = jvm.static("org.apache.iceberg.types.Types$UUIDType", "get")()
    table.updateSchema().addColumn("u", kind).commit()
    scene.spark.sql(f"REFRESH TABLE {scene.sql}")
    rows: dict[int, str] = {}
    for number, values in enumerate(files):
        named = {len(rows) + i: str(value) for i, value in enumerate(values)}
        frame = scene.spark.createDataFrame(
            [(k, number, u) for k, u in named.items()], "k INT, d INT, u STRING"
        )
        frame.coalesce(1).writeTo(scene.sql).append()
        rows |= named
    return rows


def drawn(rng: random.Random) -> list[list[uuid.UUID]]:
    """Random version 4 ids, and a file whose ids are all below those that Java takes for negative."""
    files = [[uuid.UUID(int=rng.getrandbits(128), version=4) for _ in range(size)] for size in (40, 3, 1)]
    return [*files, [uuid.UUID(int=first << 120) for first in range(1, 120, 7)]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "form", ["u > '{x}'", "u <= '{x}'", "u = '{y}'", "NOT (u < '{x}') AND d < 9", "u IN ('{y}')"]
)
def test_a_delete_finds_what_a_copy_without_bounds_has(scene: Scene, form: str, seed: int) -> None:
    """Loss L66: whole files were removed with rows that do not match, and rows that match were left."""
    rng = random.Random(seed)
    rows = of_uuids(scene, drawn(rng))
    x = uuid.UUID(int=rng.getrandbits(128), version=4) if seed else uuid.UUID(int=9 << 124)
    where = form.format(x=x, y=rng.choice(sorted(rows.values())))
    plain = scene.spark.createDataFrame([(k, u, 0) for k, u in rows.items()], "k INT, u STRING, d INT")
    gone = {row.k for row in plain.where(where).collect()}
    assert gone
    report = lk.table(scene.spark, scene.sql).delete(where)
    assert report.deleted_rows_count == len(gone)
    left = {k: u for k, u in rows.items() if k not in gone}
    assert {row.k: row.u for row in scene.spark.table(scene.sql).collect()} == left
    assert {row["k"] for row in scene.log_records()} == set(left)


def test_conditions_on_other_columns_still_prune(scene: Scene) -> None:
    rng = random.Random(0)
    of_uuids(scene, drawn(rng), more="PARTITIONED BY (d)")
    report = lk.table(scene.spark, scene.sql).delete("d = 1 OR d = 2")
    assert (report.deleted_rows_count, report.unread_data_files_count) == (4, 2)
    adapter = scene.adapter()
    kept = adapter.matching(adapter.snapshot(["k"]), f"d = 3 AND u = '{uuid.UUID(int=1 << 120)}'")
    assert len(kept.blocks) == 1
