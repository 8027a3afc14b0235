"""Copy-on-write statements that won a race: their files leave with our commit, and only deleted rows are masked."""

from __future__ import annotations

import pytest

from tests.iceberg.race import Race, check, fill, three_files
from tests.iceberg.scene import Scene, delete_equal

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]

COPIES = {f"write.{kind}.mode": "copy-on-write" for kind in ("delete", "update", "merge")}
EACH_FILE = "DELETE FROM {t} WHERE v IN ('v7', 'v8', 'v40', 'v89')"
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@VERSIONS
def test_a_delete_in_each_file(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES), target_rows=20)
    scene.run(EACH_FILE)
    changes = race.adapter.changes_since(race.snapshot)
    assert len(changes.removed) == 3
    check(scene, race, 4)
    (rewrite,) = race.made
    assert race.followed == len(rewrite.successors or ()) > 0
    live = scene.spark.table(f"{scene.sql}.data_files").select("file_path").collect()
    assert {row.file_path for row in live} == {output.path for output in rewrite.outputs}


@VERSIONS
def test_deletes_one_after_the_other(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    race.replay()
    first = race.made[0].successors
    assert (race.lost, len(first or ())) == ([1], 1)
    scene.run("DELETE FROM {t} WHERE v IN ('v8', 'v40')")
    check(scene, race, 3)
    assert not set(race.made[0].successors or ()) & set(first or ())


@VERSIONS
@pytest.mark.parametrize("values", ["v = 'v8'", "k = k + 1", "v = null"])
def test_an_update_in_each_file(scene: Scene, version: int, values: str) -> None:
    """Its files hold rows that we never read, with the row ids of others: these move to files of our commit."""
    race = Race.start(three_files(scene, version, **COPIES), target_rows=20)
    scene.run(f"UPDATE {{t}} SET {values} WHERE v IN ('v7', 'v40', 'v41', 'v89')")
    check(scene, race, 4)
    (rewrite,) = race.made
    assert sum(output.rows for output in rewrite.moved) == 4
    assert race.followed == len(rewrite.successors or ()) > 0


@VERSIONS
def test_a_merge_after_a_delete(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    race.replay()
    scene.run(
        "MERGE INTO {t} t USING (SELECT 'v8' AS s UNION SELECT 'v9' UNION SELECT 'new') ON t.v = s "
        "WHEN MATCHED AND t.v = 'v8' THEN DELETE WHEN MATCHED THEN UPDATE SET k = 99 "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (0, s)"
    )
    check(scene, race, 3)
    assert sum(output.rows for output in race.made[0].moved) in {1, 2}


@VERSIONS
def test_moved_rows_stay_where_an_earlier_replay_has_moved_them(scene: Scene, version: int) -> None:
    """Three statements: on one file, on another one, and on the copy of the first."""
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("UPDATE {t} SET k = 90 WHERE v = 'v7'")
    race.replay()
    first = race.made[0]
    scene.run("UPDATE {t} SET k = 91 WHERE v IN ('v40', 'v41')")
    race.replay()
    second = race.made[0]
    assert [output.rows for output in second.moved] == [1, 2]
    assert second.moved[:1] == first.moved
    scene.run("UPDATE {t} SET k = 92 WHERE v = 'v8'")
    check(scene, race, 4)
    third = race.made[0]
    assert sorted(output.rows for output in third.moved) == [2, 2]
    assert third.moved[:1] == second.moved[1:]
    assert first.moved[0].path in third.stale
    assert len(third.successors or ()) == 2


@pytest.mark.parametrize("version", [2, 3])
def test_position_deletes_of_a_copy(scene: Scene, version: int) -> None:
    """The copy is left to its writer, as it is not known which of the rows that we read are deleted in it."""
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    race.replay()
    assert race.made[0].successors
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    scene.run("DELETE FROM {t} WHERE v = 'v8'")
    check(scene, race, 30)


@pytest.mark.parametrize("version", [2, 3])
def test_a_row_that_an_equality_delete_deletes_and_a_statement_writes_again(
    scene: Scene, version: int
) -> None:
    """The delete applies to our outputs, which are as old as the read, but not to the file of the statement."""
    race = Race.start(three_files(scene, version, **COPIES))
    delete_equal(scene, "v", ["v7"])
    row = scene.spark.sql("SELECT cast(7 * 37 % 101 AS int) AS k").first()
    assert row is not None
    scene.run(
        f"MERGE INTO {{t}} t USING (SELECT {row.k} AS k, 'v7' AS v UNION SELECT 0, 'v8') s ON t.v = s.v "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    )
    assert scene.spark.table(scene.sql).where("v = 'v7'").count() == 1
    check(scene, race)
    assert race.followed == 0


@pytest.mark.parametrize("version", [2, 3])
def test_an_equality_delete_after_a_statement(scene: Scene, version: int) -> None:
    """It applies to the copy as to our outputs; which of its rows are left, only a scan would show."""
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    delete_equal(scene, "v", ["v7", "v8", "v50"])
    check(scene, race, dangle=True)
    assert race.followed == 0


@pytest.mark.parametrize("version", [2, 3])
def test_a_copy_in_another_partition_spec_stays(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)", "DELETE FROM {t} WHERE v = 'v7'")
    check(scene, race, 30)
    assert race.followed == 0


def in_one_partition(scene: Scene) -> Scene:
    """Three files; a merge-on-read DELETE in several of them writes one delete file for the partition."""
    properties = {**COPIES, "write.delete.granularity": "partition"}
    scene.create("k INT, v STRING, d INT", more="PARTITIONED BY (d)", properties=properties)
    for start in (0, 30, 60):
        rows = f"cast(id * 37 % 101 AS int), concat('v', id), 1 FROM range({start}, {start + 30})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}")
    return scene


def delete_in_several_files(scene: Scene) -> None:
    scene.run(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        "DELETE FROM {t} WHERE v IN ('v40', 'v70')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')",
    )


def test_commits_that_are_not_followed_one_by_one(scene: Scene) -> None:
    """After a delete file for several data files, a listing shows which inputs are gone, but not what replaced them."""
    race = Race.start(in_one_partition(scene))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    race.replay()
    assert race.made[0].successors
    delete_in_several_files(scene)
    check(scene, race, 32, dangle=True)


def test_an_equality_delete_among_commits_that_are_not_followed(scene: Scene) -> None:
    """It applies to our outputs, but not to the file in which a later statement writes its row again."""
    race = Race.start(in_one_partition(scene))
    delete_in_several_files(scene)
    delete_equal(scene, "v", ["v7"], beside=scene.data_files(scene.java())[0])
    race.replay()
    row = scene.spark.sql("SELECT cast(7 * 37 % 101 AS int) AS k").first()
    assert row is not None
    scene.run(
        f"MERGE INTO {{t}} t USING (SELECT {row.k} AS k, 'v7' AS v, 1 AS d UNION SELECT 0, 'v8', 1) s ON t.v = s.v "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v, d) VALUES (s.k, s.v, s.d)"
    )
    assert scene.spark.table(scene.sql).where("v = 'v7'").count() == 1
    check(scene, race, dangle=True)
    assert race.followed == 0


@pytest.mark.parametrize("version", [2, 3])
def test_appends_leave_a_replayed_rewrite_as_it_is(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    race.replay()
    (before,) = race.made
    scene.run(fill(200, 210))
    check(scene, race, 1)
    assert race.made[0] is before
