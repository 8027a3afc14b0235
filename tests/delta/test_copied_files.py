"""Copy-on-write statements that won the race: their files leave with our commit, and only deleted rows are masked."""

from __future__ import annotations

import pytest

from lakekeeper.errors import Conflict
from tests.delta.race import COPIES, Race, filled, row_ids, table
from tests.delta.scene import Scene

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

EACH_FILE = "DELETE FROM {t} WHERE v IN ('v3', 'w5')"


@pytest.mark.parametrize("tracking", ["false", "true"], ids=["values", "row ids"])
def test_a_delete_in_each_file(scene: Scene, tracking: str) -> None:
    """All three inputs are gone, and two of them held equal rows."""
    race = Race.start(filled(scene, f"{COPIES}, 'delta.enableRowTracking'='{tracking}'"), target_rows=20)
    scene.run(EACH_FILE)
    before = row_ids(scene) if tracking == "true" else None
    (rewrite,) = race.replay()
    assert (rewrite.replayed, rewrite.applied) == (3, (None, None, None))
    assert race.followed == len(rewrite.successors or ()) > 0
    assert 0 < len(rewrite.extra) < len(rewrite.outputs), "only outputs with a deleted row are copied"
    commit = race.won()
    assert set(rewrite.successors or ()) == set(commit.removed)
    if before is not None:
        assert row_ids(scene) == before


def test_deletes_one_after_the_other(scene: Scene) -> None:
    race = Race.start(filled(scene, COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'w5'")
    (first,) = race.replay()
    assert (first.replayed, len(first.successors or ())) == (1, 1)
    scene.run("DELETE FROM {t} WHERE v IN ('w6', 'v1')")
    with pytest.raises(Conflict):
        race.commit()
    (second,) = race.replay()
    assert second.replayed == 4
    assert not set(second.successors or ()) & set(first.successors or ())
    race.won()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET k = k + 100 WHERE v IN ('w5', 'v1')",
        "UPDATE {t} SET v = 'v4' WHERE v IN ('w5', 'v1')",
        "UPDATE {t} SET v = null WHERE v IN ('w5', 'v1')",
    ],
)
@pytest.mark.parametrize("tracking", ["false", "true"], ids=["values", "row ids"])
def test_an_update_in_each_file(scene: Scene, statement: str, tracking: str) -> None:
    """Its files hold rows that we never read, with the row ids of others: these move to a file of our commit."""
    race = Race.start(filled(scene, f"{COPIES}, 'delta.enableRowTracking'='{tracking}'"), target_rows=20)
    scene.run(statement)
    before = row_ids(scene) if tracking == "true" else None
    (rewrite,) = race.replay()
    assert (rewrite.replayed, sum(output.rows for output in rewrite.moved)) == (3, 3)
    assert len(rewrite.moved) == 1
    race.won()
    if before is not None:
        assert row_ids(scene) == before


def test_a_merge_after_a_delete(scene: Scene) -> None:
    race = Race.start(filled(scene, COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'w5'")
    race.replay()
    scene.run(
        "MERGE INTO {t} USING (SELECT 'v3' s UNION SELECT 'w4' UNION SELECT 'new') ON v = s "
        "WHEN MATCHED AND v = 'w4' THEN DELETE WHEN MATCHED THEN UPDATE SET k = 99 "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (0, s)"
    )
    (first,) = race.replay()
    assert (first.replayed, sum(output.rows for output in first.moved)) in {(4, 2), (4, 3)}
    scene.run("UPDATE {t} SET k = 100 WHERE v = 'v3'")
    (second,) = race.replay()
    assert not {output.path for output in second.moved} & {output.path for output in first.moved}
    race.won()


def test_moved_rows_stay_where_an_earlier_replay_has_moved_them(scene: Scene) -> None:
    """Three statements: on one file, on another one, and on the copy of the first."""
    table(scene, COPIES)
    for letter in "uvw":
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id % 7, concat('{letter}', id) FROM range(40)"
        )
    race = Race.start(scene)
    scene.run("UPDATE {t} SET k = 90 WHERE v = 'u1'")
    (first,) = race.replay()
    scene.run("UPDATE {t} SET k = 91 WHERE v IN ('v1', 'v2')")
    (second,) = race.replay()
    assert [output.rows for output in second.moved] == [1, 2]
    assert second.moved[:1] == first.moved
    scene.run("UPDATE {t} SET k = 92 WHERE v = 'u2'")
    (third,) = race.replay()
    assert [output.rows for output in third.moved] == [2, 2]
    assert third.moved[:1] == second.moved[1:]
    assert first.moved[0].path in third.stale
    assert len(third.successors or ()) == 2
    race.won()


def test_an_update_of_a_partition_column_alone_is_not_taken_for_a_delete(scene: Scene) -> None:
    """The file in the other partition stores the same bytes as the one that it replaces."""
    scene.run(
        f"CREATE TABLE {{t}} (k BIGINT, v STRING, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({COPIES})",
        *["INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('v', id), 'one' FROM range(40)"] * 3,
    )
    race = Race.start(scene)
    scene.run("UPDATE {t} SET p = 'two'")
    changes = race.adapter.changes_since(race.snapshot)
    assert len(changes.removed) == 3
    (rewrite,) = race.replay(most_gone=1.0)
    assert (rewrite.successors, rewrite.rows_out) == (None, 0)


def test_files_whose_paths_spark_spells_in_another_way(scene: Scene) -> None:
    columns = "(k BIGINT, v STRING, p STRING)"
    scene.run(
        f"CREATE TABLE {{t}} {columns} USING delta PARTITIONED BY (p) TBLPROPERTIES ({COPIES})",
        *["INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('v', id), 'ä/b% c' FROM range(40)"] * 3,
    )
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE v = 'v5'")
    (rewrite,) = race.replay()
    assert (rewrite.replayed, race.followed > 0) == (3, True)
    race.won()


def test_renamed_and_added_columns(scene: Scene) -> None:
    """Inputs without the newest column, which has NULL in them and in the copies."""
    table(scene, f"{COPIES}, 'delta.columnMapping.mode'='name'")
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('v', id) FROM range(40)")
    scene.run("ALTER TABLE {t} RENAME COLUMN v TO w", "ALTER TABLE {t} ADD COLUMN v DOUBLE")
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('x', id), -0.0D FROM range(40)")
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE w IN ('v3', 'x4')")
    (rewrite,) = race.replay()
    assert (rewrite.replayed, race.followed > 0) == (2, True)
    race.won()


def test_a_foreign_rewrite_of_a_copy_is_left_to_its_writer(scene: Scene) -> None:
    race = Race.start(filled(scene, COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'w5'")
    (first,) = race.replay()
    assert first.successors
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'z' FROM range(5)")
    scene.spark.conf.set("spark.databricks.delta.optimize.minFileSize", "1000000")
    try:
        scene.run("OPTIMIZE {t}")
    finally:
        scene.spark.conf.unset("spark.databricks.delta.optimize.minFileSize")
    changes = race.adapter.changes_since(race.snapshot)
    assert len(changes.removed) == 3, "all inputs are gone, and nothing of them can be followed"
    (rewrite,) = race.replay(most_gone=1.0)
    assert (rewrite.rows_out, rewrite.replayed) == (0, 120)
