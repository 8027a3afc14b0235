"""Deletes that won the race are applied to our commit: rows by two readers, on real tables."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from lakekeeper.errors import AdapterError, Conflict
from tests.delta.race import COPIES, VALUES, VECTORS, Race, filled, leftovers, row_ids, table
from tests.delta.scene import Scene

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

MERGE = (
    "MERGE INTO {t} USING (SELECT 'v3' s UNION SELECT 'w4' UNION SELECT 'w9' UNION SELECT 'new') ON v = s "
    "WHEN MATCHED AND v = 'w4' THEN DELETE WHEN MATCHED THEN UPDATE SET k = 99 "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (0, s)"
)
WINNERS = {
    "delete": ["DELETE FROM {t} WHERE v IN ('v3', 'w5')"],
    "delete of a range": ["DELETE FROM {t} WHERE k = 3"],
    "update": ["UPDATE {t} SET k = k + 100 WHERE v LIKE '%5'"],
    "merge": [MERGE],
    "whole file": ["DELETE FROM {t} WHERE v LIKE 'w%'"],
    "two": ["DELETE FROM {t} WHERE v = 'v3'", "UPDATE {t} SET v = 'x' WHERE v = 'v4'"],
    "three": [MERGE, "DELETE FROM {t} WHERE k = 1", "INSERT INTO {t} VALUES (1, 'v3'), (3, 'v3')"],
    "the last row of a file goes late": [
        "DELETE FROM {t} WHERE v = 'w0'",
        "DELETE FROM {t} WHERE v LIKE 'w%'",
    ],
}


@pytest.mark.parametrize("winners", WINNERS.values(), ids=WINNERS)
def test_a_delete_that_won_is_in_our_commit(scene: Scene, winners: list[str]) -> None:
    race = Race.start(filled(scene))
    scene.run(*winners)
    race.won()


def test_winners_one_after_the_other(scene: Scene) -> None:
    """Each replay starts from the outputs as first written; files of the previous replay are removed."""
    race = Race.start(filled(scene))
    scene.run(*WINNERS["delete"])
    race.replay()
    for winner in (MERGE, "DELETE FROM {t} WHERE v LIKE 'w%'", "DELETE FROM {t} WHERE k = 1"):
        scene.run(winner)
        version = scene.version
        with pytest.raises(Conflict, match="nothing was committed"):
            race.commit()
        assert scene.version == version
        race.replay()
    commit = race.won("last")
    assert race.adapter.changes_since(race.snapshot).landed("last") == commit.version


def test_appends_leave_a_replayed_rewrite_as_it_is(scene: Scene) -> None:
    race = Race.start(filled(scene))
    scene.run("DELETE FROM {t} WHERE v = 'v3'")
    (first,) = race.replay()
    scene.run("INSERT INTO {t} VALUES (3, 'v3')")
    (second,) = race.replay()
    assert second is first
    race.won()


def test_a_row_that_was_dead_already_is_not_counted_again(scene: Scene) -> None:
    filled(scene).run("DELETE FROM {t} WHERE v IN ('v1', 'w2')")
    race = Race.start(scene)
    assert race.rewrites[0].rows_in == 117
    scene.run("DELETE FROM {t} WHERE v IN ('v1', 'v2', 'w2', 'w3')")
    (rewrite,) = race.replay()
    assert rewrite.replayed == 3
    commit = race.won()
    assert commit.removed_delete_files == 3


def test_restored_rows_are_a_conflict(scene: Scene) -> None:
    filled(scene).run("DELETE FROM {t} WHERE v IN ('v1', 'w2')")
    race = Race.start(scene)
    scene.run(f"RESTORE {{t}} TO VERSION AS OF {scene.version - 1}")
    rows, version, files = scene.spark_rows(), scene.version, leftovers(scene)
    with pytest.raises(Conflict, match="live again") as lost:
        race.replay()
    assert "RESTORE" in lost.value.winner
    with pytest.raises(Conflict):
        race.commit()
    assert (scene.version, scene.spark_rows(), leftovers(scene)) == (version, rows, files)
    race.adapter.discard(race.rewrites)
    assert not leftovers(scene) & scene.data_files()


def test_a_file_that_is_restored_after_a_replay_is_taken_out(scene: Scene) -> None:
    race = Race.start(filled(scene))
    scene.run("DELETE FROM {t} WHERE v LIKE 'w%'")
    (rewrite,) = race.replay()
    assert None in rewrite.inputs_now.values()
    scene.run(f"RESTORE {{t}} TO VERSION AS OF {scene.version - 1}")
    (again,) = race.replay()
    assert (again.replayed, again.extra) == (0, ())
    commit = race.won()
    assert len(commit.removed) == 3


@pytest.mark.parametrize("properties", [VECTORS, COPIES], ids=["vectors", "copies"])
def test_winners_that_rewrite_files(scene: Scene, properties: str) -> None:
    """A foreign OPTIMIZE of some inputs, and a copy-on-write delete in its file and in another input."""
    table(scene, properties)
    for letter, rows in (("a", 4000), ("b", 4000), ("c", 20), ("d", 20), ("e", 4000)):
        scene.run(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id % 7, concat('{letter}', id) FROM range({rows})"
        )
    race = Race.start(scene)
    scene.spark.conf.set("spark.databricks.delta.optimize.minFileSize", "6000")
    scene.spark.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", "false")
    try:
        scene.run("OPTIMIZE {t}", "DELETE FROM {t} WHERE v IN ('c3', 'b7')")
    finally:
        scene.spark.conf.unset("spark.databricks.delta.optimize.minFileSize")
        scene.spark.conf.unset("spark.databricks.delta.delete.deletionVectors.persistent")
    changes = race.adapter.changes_since(race.snapshot)
    assert len(changes.removed) == 3
    assert [w.layout for w in changes.winners] == [True, False]
    (rewrite,) = race.replay(most_gone=0.7)
    assert rewrite.replayed == 2
    race.won()


@pytest.mark.parametrize("tracking", ["false", "true"], ids=["values", "row ids"])
def test_outputs_are_copied_where_vectors_may_not_be_written(scene: Scene, tracking: str) -> None:
    filled(scene, f"{VECTORS}, 'delta.enableRowTracking'='{tracking}'")
    race = Race.start(scene, target_rows=50)
    written = {o.path: _stored(scene, o.path) for o in race.rewrites[0].outputs}
    assert len(written) == 3
    ids = None
    scene.run("DELETE FROM {t} WHERE k = 0", "ALTER TABLE {t} SET TBLPROPERTIES (" + COPIES + ")")
    if tracking == "true":
        ids = row_ids(scene)
    dead = {f"{letter}{i}" for letter in "vw" for i in range(0, 40, 7)}
    (rewrite,) = race.replay()
    assert {o.masked for o in rewrite.outputs} == {0}
    assert len(set(written) - {o.path for o in rewrite.outputs}) == len(rewrite.extra) == 1
    left = [[v for v in rows if v not in dead] for rows in written.values()]
    assert sorted(left) == sorted(_stored(scene, o.path) for o in rewrite.outputs)
    race.won()
    if ids is not None:
        assert row_ids(scene) == ids


def _stored(scene: Scene, path: str) -> list[str]:
    """Column v of a file, in the order in which its rows are stored."""
    found: list[str] = pq.ParquetFile(scene.path / unquote(path)).read()["v"].to_pylist()
    return found


@pytest.mark.parametrize("winner", ["delete of a range", "merge", "whole file"])
def test_row_ids_and_versions_are_kept(scene: Scene, winner: str) -> None:
    race = Race.start(filled(scene, f"{VECTORS}, 'delta.enableRowTracking'='true'"))
    scene.run(*WINNERS[winner])
    before = row_ids(scene)
    race.won()
    assert row_ids(scene) == before
    assert len({row["row_id"] for row in before}) == len(before)


@pytest.mark.parametrize("tail", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_values_of_all_kinds(scene: Scene, tail: str) -> None:
    """Rows that differ only in the sign of a zero, a NULL or a NaN are distinguished; columns may have any name."""
    scene.run(
        f"CREATE TABLE {{t}} USING delta {tail} TBLPROPERTIES ({VECTORS}, 'delta.columnMapping.mode'='name') "
        f"AS SELECT * EXCEPT (k), 0 AS k FROM ({VALUES})",
        f"INSERT INTO {{t}} SELECT * EXCEPT (k), 0 AS k FROM ({VALUES})",
    )
    race = Race.start(scene)
    for where in (
        "isnan(x) AND d = 1",
        "cast(x AS string) = '-0.0' AND row IS NULL",
        "x IS NULL AND file['x1'] IS NOT NULL AND b = X'6131'",
        "isnan(`a``b.c`[0].d) AND position > 1e30",
        "row['a.b'] = '' AND file['x1']['y'] IS NOT NULL AND s = 'é'",
    ):
        rows = sum(scene.spark_rows().values())
        scene.run(f"DELETE FROM {{t}} WHERE {where}")
        assert sum(scene.spark_rows().values()) < rows
    race.won(most_gone=1.0)


def test_a_column_with_the_name_of_the_metadata(scene: Scene) -> None:
    """Delta itself can delete rows of such a table only by copying."""
    table(scene, COPIES, "k BIGINT, `_metadata` STRUCT<file_path: STRING, row_index: BIGINT>")
    insert = (
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, named_struct('a', 'x', 'b', id %% 3) FROM range(%d)"
    )
    scene.run(insert % 30, insert % 20)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k = 25")
    race.won()


def test_deletion_vectors_are_enabled_during_the_rewrite(scene: Scene) -> None:
    """Vectors were off in the version that was read: a scan of it would ignore them."""
    race = Race.start(filled(scene, COPIES))
    scene.run(
        "ALTER TABLE {t} SET TBLPROPERTIES (" + VECTORS + ")", "DELETE FROM {t} WHERE v IN ('v3', 'w5')"
    )
    (rewrite,) = race.replay()
    assert rewrite.replayed == 3
    race.won()


def test_variants(scene: Scene) -> None:
    table(scene, columns="k BIGINT, x VARIANT")
    values = "SELECT /*+ COALESCE(1) */ id % 2, parse_json(concat('{\"a\":', id % 5, '}')) FROM range(30)"
    scene.run(
        *[f"INSERT INTO {{t}} {values}"] * 2, "INSERT INTO {t} VALUES (0, null), (0, parse_json('null'))"
    )
    race = Race.start(scene)
    scene.run(
        "DELETE FROM {t} WHERE variant_get(x, '$.a', 'int') = 3", "DELETE FROM {t} WHERE is_variant_null(x)"
    )
    shown = "concat_ws('|', k, to_json(x), x IS NULL)"
    expected = scene.spark_rows(columns=shown)
    (rewrite,) = race.replay()
    race.commit()
    assert rewrite.replayed == 13
    assert scene.spark_rows(columns=shown) == expected


@pytest.mark.parametrize("place", ["by Delta", "by columns"])
def test_a_vector_has_no_prefix_but_the_folder_of_its_run(scene: Scene, place: str) -> None:
    """Trino reads only prefixes of letters and digits; those of Delta 3.3 and 4.0 had a random folder as well."""
    race = Race.start(filled(scene, f"{VECTORS}, 'delta.randomizeFilePrefixes'='true'"))
    scene.run("DELETE FROM {t} WHERE v = 'v3'")
    changes = race.adapter.changes_since(race.snapshot)
    lost = race.adapter.deletes.lost(race.rewrites[0], race.snapshot, changes)
    file = race.rewrites[0].outputs[0].path
    hits = scene.spark.createDataFrame([(file, 4)], "file string, position bigint")
    rewrite = race.adapter.deletes.mask(lost, hits if place == "by Delta" else {file: [4]})
    [path] = rewrite.extra
    folder, _, name = path.rpartition("/")
    assert (folder.isalnum(), name[:15]) == (True, "deletion_vector")


def test_positions_that_are_not_rows_of_the_outputs(scene: Scene) -> None:
    race = Race.start(filled(scene))
    scene.run("DELETE FROM {t} WHERE v = 'v3'")
    changes = race.adapter.changes_since(race.snapshot)
    file, files = race.rewrites[0].outputs[0].path, leftovers(scene)
    lost = race.adapter.deletes.lost(race.rewrites[0], race.snapshot, changes)
    for places in ([(file, 120)], [(file, -1)], [("other.parquet", 0)], [(file, 4), (file, 4)]):
        hits = scene.spark.createDataFrame(places, "file string, position bigint")
        for given in (hits, {places[0][0]: [at for _, at in places]}):
            with pytest.raises(AdapterError, match="row positions to delete, some are not of rows"):
                race.adapter.deletes.mask(lost, given)
    assert leftovers(scene) == files


def test_discard_takes_the_files_of_a_replay(scene: Scene) -> None:
    filled(scene)
    before = leftovers(scene)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k = 3")
    (rewrite,) = race.replay()
    assert len(leftovers(scene) - before) == len(rewrite.outputs) + len(rewrite.extra) == 2
    race.adapter.discard([rewrite])
    race.adapter.discard([rewrite])
    assert leftovers(scene) == before


def test_what_winners_did(scene: Scene) -> None:
    snapshot = filled(scene, f"{VECTORS}, 'delta.enableInCommitTimestamps'='true'").adapter().snapshot(["k"])
    scene.run(
        "INSERT INTO {t} VALUES (1, 'a')",
        "DELETE FROM {t} WHERE v = 'v3'",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} SET TBLPROPERTIES ('a'='b')",
        "DELETE FROM {t} WHERE v = 'nobody'",
        "UPDATE {t} SET k = 0 WHERE v = 'v4'",
        "INSERT OVERWRITE {t} VALUES (1, 'a')",
    )
    winners = scene.adapter().changes_since(snapshot).winners
    shown = {w.operation: (w.layout, w.appends, w.changes_rows) for w in winners}
    assert shown["WRITE"] == (False, False, True)
    assert (winners[0].appends, winners[0].layout) == (True, False)
    assert shown["DELETE"] == shown["UPDATE"] == (False, False, True) or shown["DELETE"] == (
        False,
        True,
        False,
    )
    assert shown["OPTIMIZE"] == (True, False, False)
    assert shown["SET TBLPROPERTIES"] == (False, False, True)
    stamps = [w.at_ms for w in winners]
    assert stamps == sorted(stamps)
    assert stamps[0] > 1_600_000_000_000
