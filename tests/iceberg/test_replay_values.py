"""How a replay finds deleted rows again: by value or by row id, in partitions, after an upgrade, for any columns."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from lakekeeper.errors import Rejected
from tests.iceberg.race import Race, check, dangling, delete_places, three_files
from tests.iceberg.scene import Scene

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]


@pytest.mark.parametrize("version", [2, 3])
def test_as_many_equal_rows_die_as_were_deleted(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version)
    for _ in range(3):
        scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id % 2 AS int), 'same' FROM range(20)")
    race = Race.start(scene)
    delete_places(scene, "k = 0 AND _pos < 7")
    expected = 60 - scene.spark.table(scene.sql).count()
    assert expected == 12
    check(scene, race, expected)


_TYPES = (
    "k DOUBLE, f FLOAT, b BINARY, s STRUCT<x: DOUBLE, y: ARRAY<STRING>>, a ARRAY<INT>, m MAP<STRING, INT>, "
    "d DECIMAL(20, 3), t TIMESTAMP, n TIMESTAMP_NTZ, c DATE, z BOOLEAN"
)
_NULLS = "null, null, null, null, null"
_LATE = "TIMESTAMP '2024-01-01 00:00:00.123457'"
_FULL = f"1.5, {_LATE[:-2]}6', TIMESTAMP_NTZ '1969-12-31 23:59:59', DATE '0001-01-01', true"
_NAN = "(-0D, float('NaN'), X'', named_struct('x', double('NaN'), 'y', null), array(), map()"
_STRUCT = "named_struct('x', -0D, 'y', array('a', null))"
_VALUES = (
    f"(double('NaN'), float('-0.0'), X'00FF', {_STRUCT}, array(1, null), map('p', 1, 'q', null), {_FULL})",
    f"{_NAN}, {_NULLS})",
    f"(0D, 0F, null, null, null, null, 0, {_LATE}, null, null, false)",
    f"(null, null, null, named_struct('x', null, 'y', array()), array(null), map('q', null, 'p', 1), {_NULLS})",
)


@pytest.mark.parametrize("version", [2, 3])
def test_values_that_are_hard_to_compare(scene: Scene, version: int) -> None:
    """Each file holds each row and another that differs in one value; one of the two is deleted."""
    scene.create(_TYPES, version)
    for _ in range(2):
        values = ", ".join((*_VALUES, _VALUES[1].replace("-0D", "0D")))
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")
    race = Race.start(scene)
    delete_places(scene, "_pos IN (0, 1, 3)")
    check(scene, race, 6)
    left = [
        r["k"] for r in scene.spark.table(scene.sql).select(F.col("k").cast("string").alias("k")).collect()
    ]
    assert left == ["0.0"] * 4


def test_columns_of_any_name(scene: Scene) -> None:
    names = ("file", "position", "row", "c0", "c1", "a.b", "x`y", "quick", "key", "copies")
    columns = ", ".join(f"`{name.replace('`', '``')}` INT" for name in ("k", *names))
    scene.create(columns)
    values = ", ".join(f"cast((id * {i + 3}) % 17 AS int)" for i in range(len(names) + 1))
    for start in (0, 40):
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {values} FROM range({start}, {start + 40})")
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE `a.b` % 5 = 2")
    check(scene, race)


def test_columns_that_differ_by_case_only(scene: Scene) -> None:
    conf = scene.spark.conf
    conf.set("spark.sql.caseSensitive", "true")
    try:
        scene.create("k INT, a INT, A INT, _POS INT")
        for start in (0, 30):
            rows = f"cast(id AS int), 1, cast(id % 3 AS int), 5 FROM range({start}, {start + 30})"
            scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}")
        race = Race.start(scene)
        scene.run("DELETE FROM {t} WHERE k < 7")
        check(scene, race, 7)
    finally:
        conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_of_two_specs_and_a_null_one(scene: Scene, version: int) -> None:
    scene.create("k INT, d STRING", version, more="PARTITIONED BY (d)")
    rows = "SELECT cast(id AS int), if(id % 3 = 0, null, concat('d', id % 3)) FROM range(60)"
    scene.run(
        f"INSERT INTO {{t}} {rows}",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)",
        f"INSERT INTO {{t}} {rows}",
    )
    race = Race.start(scene)
    assert len(race.made) == 9
    scene.run("DELETE FROM {t} WHERE k % 5 = 1 AND (d IS NULL OR d = 'd1')")
    check(scene, race)
    assert 0 < len(race.lost) < 9  # untouched outputs are committed unchanged


@pytest.mark.parametrize("version", [2, 3])
def test_partition_wide_deletes_with_removable_ones(scene: Scene, version: int) -> None:
    scene.create("k INT, d INT", version, more="PARTITIONED BY (d)")
    for start in (0, 40):
        scene.run(
            f"INSERT INTO {{t}} SELECT cast(id AS int), cast(id % 2 AS int) FROM range({start}, {start + 40})"
        )
    scene.run("DELETE FROM {t} WHERE k = 9")
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k IN (2, 3, 42, 43)")
    check(scene, race, dangle=True)


@pytest.mark.parametrize("when", ["before", "during", "with row ids"])
def test_an_upgrade_from_format_2_to_3(scene: Scene, when: str) -> None:
    """Rows have no id until a commit assigns one. If that happens during a merge, its rows would get others."""
    upgrade = "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')"
    three_files(scene, 2).run("DELETE FROM {t} WHERE k = 50")
    if when != "during":
        scene.run(upgrade)
    if when == "with row ids":
        scene.run("INSERT INTO {t} VALUES (1, 'first of v3')")
    race = Race.start(scene)
    if when == "during":
        scene.run(upgrade)
    scene.run("DELETE FROM {t} WHERE k % 10 = 3")
    before, rows = scene.every_version(), scene.spark_rows()
    race.replay()
    if when == "with row ids":
        done = race.commit()
        assert scene.every_version() == {**before, done.version: (rows, rows)}
        dangling(scene)
    else:
        with pytest.raises(Rejected, match="merge again"):
            race.commit()
        race.give_up()
        assert scene.every_version() == before
    assert scene.leftovers() == scene.metadata_leftovers() == set()
