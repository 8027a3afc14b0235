"""Keys and their bounds: which columns can be a key, and that no bound is narrower than the values."""

from __future__ import annotations

import math

import pytest

from lakekeeper.errors import OptionError
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg


def test_nan_is_never_left_out_of_the_bounds(scene: Scene) -> None:
    scene.create("d DOUBLE, f FLOAT")
    nan = "double('NaN')"
    for values in ("1, 2", f"1, {nan}", nan, f"{nan}, NULL", "NULL"):
        exploded = f"SELECT explode(array({values})) AS x"
        scene.run(f"INSERT INTO {{t}} SELECT cast(x AS double), cast(x AS float) FROM ({exploded})")
    for column in ("d", "f"):
        found = [(b.lo[0], b.hi[0], b.null_count[0]) for b in scene.adapter().snapshot([column]).blocks]
        assert (1.0, 2.0, 0) in found
        assert (None, None, 1) in found
        with_nan = [(lo, nulls) for lo, hi, nulls in found if hi is not None and math.isnan(hi)]
        assert sorted((str(lo), nulls) for lo, nulls in with_nan) == [("1.0", 0), ("nan", 0), ("nan", 1)]


def test_deletes_are_counted_and_as_old_as_the_first_of_them(scene: Scene) -> None:
    """Equality deletes, as Flink writes them; a refresh finds the same as a whole read."""
    scene.create("k INT, v STRING", 2)
    for first in (0, 100, 200, 300):  # a refresh needs more manifests that it knows than new ones
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {first} + id, concat('v', id) FROM range(40)")
    adapter = scene.adapter()
    before = adapter.snapshot(["k"])
    delete_equal(scene, "k", [3])
    delete_equal(scene, "k", [7])
    times = scene.spark.sql(f"SELECT unix_millis(committed_at) AS at FROM {scene.sql}.snapshots ORDER BY 1")
    *_, first, _ = [int(row.at) for row in times.collect()]
    refreshed = adapter.refresh(before, ["k"])
    assert refreshed is not None
    for blocks in (refreshed.blocks, scene.adapter().snapshot(["k"]).blocks):
        assert blocks.delete_files.tolist() == [2] * 4
        assert blocks.deleted_at.tolist() == [first] * 4


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_that_replaces_another_says_nothing_of_its_time(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version)
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(40)")
    scene.run("DELETE FROM {t} WHERE k = 3", "DELETE FROM {t} WHERE k = 7")
    blocks = scene.adapter().snapshot(["k"]).blocks
    assert (blocks.delete_files.tolist(), blocks.deleted_at.tolist()) == ([1], [0])


def test_truncated_bounds_are_wide_and_not_exact(scene: Scene) -> None:
    long = "b" * 40
    scene.create("s STRING").run(
        f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES ('a'), ('{long}')"
    )
    (block,) = scene.adapter().snapshot(["s"]).blocks
    assert (block.lo, block.exact) == (("a",), (False,))
    assert long <= block.hi[0] == "b" * 15 + "c"
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.metadata.metrics.column.s' = 'full')")
    # The file was written before.
    assert [b.exact for b in scene.adapter().snapshot(["s"]).blocks] == [(False,)]
    recluster(scene, ("s",))
    (block,) = scene.adapter().snapshot(["s"]).blocks
    assert (block.lo, block.hi, block.exact) == (("a",), (long,), (True,))


@pytest.mark.parametrize(
    "columns,key,said",
    [
        ("id INT, m MAP<STRING, INT>", "m", "has type map"),
        ("id INT, l ARRAY<INT>", "l", "has type list"),
        ("id INT, a STRUCT<b: INT>", "a", "has type struct"),
        ("id INT, a STRUCT<b: INT>", "a.c", "a.b"),
        ("id INT, v VARIANT", "v", "has type variant"),
        ("id INT, user_id INT", "userid", "did you mean 'user_id'"),
    ],
)
def test_columns_that_cannot_be_a_key(scene: Scene, columns: str, key: str, said: str) -> None:
    adapter = scene.create(columns, 3).adapter()
    for call in (lambda: adapter.snapshot([key]), lambda: adapter.set_cluster_key([key], "linear")):
        with pytest.raises(OptionError, match=said):
            call()


def test_a_key_without_statistics_reports_the_property_to_set(scene: Scene) -> None:
    wide = ", ".join(f"c{i} INT" for i in range(101))
    scene.create(f"k INT, {wide}, last INT").run(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.metadata.metrics.column.k' = 'counts')"
    )
    for column in ("k", "last"):
        with pytest.raises(OptionError, match=rf"write.metadata.metrics.column.{column}=full"):
            scene.adapter().snapshot([column])
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.metadata.metrics.column.last' = 'full')")
    assert scene.adapter().snapshot(["last"]).key is not None


def test_names_are_resolved_as_spark_resolves_them(scene: Scene) -> None:
    adapter = scene.create("UserId INT, a STRUCT<`Y.z`: INT>").adapter()
    key = adapter.snapshot(["userid", "A.`y.Z`"]).key
    assert key is not None
    assert [c.name for c in key.columns] == ["UserId", "a.`Y.z`"]
    scene.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(OptionError, match="UserId"):
            adapter.snapshot(["userid"])
    finally:
        scene.spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    "order,expected",
    [
        ("k, v DESC", ["k", "v"]),
        ("days(at), truncate(2, v), k", ["at", "v", "k"]),
        ("k, bucket(4, v), at", ["k"]),
        ("bucket(4, v), k", None),
        ("days(at), hours(at), k", ["at", "k"]),
    ],
)
def test_the_key_of_a_sort_order(scene: Scene, order: str, expected: list[str] | None) -> None:
    scene.create("k INT, v STRING, at TIMESTAMP").run(f"ALTER TABLE {{t}} WRITE ORDERED BY {order}")
    key = scene.adapter().snapshot().key
    assert (None if key is None else [c.name for c in key.columns]) == expected


def test_cluster_by_replaces_a_sort_order_and_is_a_property_otherwise(scene: Scene) -> None:
    scene.create("k INT, v STRING, a STRUCT<b: INT>")
    scene.adapter().set_cluster_key(["v", "k"], "linear")
    assert scene.adapter().properties()["lakekeeper.cluster-by"] == "v, k"
    scene.run("ALTER TABLE {t} WRITE ORDERED BY k")
    scene.adapter().set_cluster_key(["a.b", "v"], "linear")
    key = scene.adapter().snapshot().key
    assert key is not None
    assert [c.name for c in key.columns] == ["a.b", "v"]
    assert str(scene.java().sortOrder().fields().get(0).nullOrder()) == "NULLS FIRST"


def test_no_form_of_where_loses_a_file(scene: Scene) -> None:
    scene.create("k INT, v STRING, at TIMESTAMP")
    for day in (1, 2, 3):
        scene.run(f"INSERT INTO {{t}} VALUES ({day}, 'v{day}', timestamp'2026-01-0{day} 12:00:00')")
    adapter = scene.adapter()
    for where, least in (
        ("k = 2", 1),
        ("K = 2", 1),
        ("k + 0 = 2", 1),
        ("upper(v) = 'V2'", 1),
        ("at >= '2026-01-02'", 2),
        ("date(at) = date'2026-01-02'", 1),
        ("v LIKE 'v%' AND k IN (1, 3)", 2),
        ("true", 3),
        ("NOT (k = 2)", 2),
        ("v IS NULL", 0),
        ("1 = 0", 0),
    ):
        chosen = adapter.snapshot(["k"], where)
        wanted = {r.f for r in scene.spark.table(scene.sql).where(where).selectExpr("_file AS f").collect()}
        assert wanted <= set(chosen.blocks.path.to_pylist()), where
        assert len(wanted) == least
        assert not chosen.complete
    assert len(adapter.snapshot(["k"], "k = 2").blocks) == 1
    assert len(adapter.snapshot(["k"], "1 = 0").blocks) == 0
