"""``deletes.find`` and ``deletes.delete``: lakekeeper's own row-level delete, whose outcome is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakekeeper as lk
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, Rejected, Unknown
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.shims import shim
from lakekeeper.spi import Commit, Prepared, Tidied
from lakekeeper_iceberg import IcebergTable, listing
from lakekeeper_iceberg.delete_files import dangling_deletes
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.race import dangling, fill, three_files
from tests.iceberg.scene import Scene, add_position_delete, delete_equal, file_of
from tests.iceberg.swaps import landed_and_lost, tampered
from tests.iceberg.tidying import tidy
from tests.observers import once_at
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg


def delete(
    adapter: IcebergTable, snapshot: Snapshot, where: str, run_id: str = "run-1", paths: Any = None
) -> Commit:
    """Do what the engine does with positions: prepare, commit, and clean up if the commit is known to have failed."""
    runner = SparkRunner(adapter._jvm.spark)
    held = runner.hold(adapter.deletes.find(snapshot, where, paths))
    try:
        prepared = adapter.deletes.prepare(held, (), snapshot, run_id)
        return committed(adapter, [prepared], snapshot, where, run_id)
    finally:
        runner.release(held)


def committed(
    adapter: IcebergTable, prepared: list[Prepared], snapshot: Snapshot, where: str, run_id: str = "run-1"
) -> Commit:
    try:
        return adapter.deletes.delete(prepared, snapshot, run_id, where)
    except Unknown:
        raise
    except LakekeeperError:
        adapter.deletes.discard(prepared)
        raise


def left(scene: Scene, where: str) -> Counter[str]:
    """The rows that do not match (or match to NULL), before a delete."""
    from tests.oracles import iceberg_log

    return iceberg_log.canonical(
        shim().to_arrow(scene.spark.table(scene.sql).where(f"NOT coalesce({where}, false)"))
    )


def check(scene: Scene, where: str, operations: tuple[str, ...] = ("delete",)) -> Commit:
    """Delete; compare the rows of each version by two readers, and the files on disk."""
    before, rows = scene.every_version(), left(scene, where)
    adapter = scene.adapter()
    done = delete(adapter, adapter.snapshot(), where)
    after = scene.every_version()
    assert after.pop(done.version) == (rows, rows)
    assert after == before
    current = scene.java().currentSnapshot()
    assert int(current.snapshotId()) == done.version
    assert (str(current.operation()) in operations, current.summary().get("lakekeeper.run-id")) == (
        True,
        "run-1",
    )
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    return done


@pytest.mark.parametrize("version", [2, 3])
def test_two_deletes_leave_one_delete_file_for_each_data_file(scene: Scene, version: int) -> None:
    three_files(scene, version)
    check(scene, "k % 10 = 3")
    done = check(scene, "k % 10 = 4 OR v = 'v7'")
    assert done.removed_delete_files > 0
    deletes = scene.spark.table(f"{scene.sql}.delete_files").collect()
    assert len(deletes) == 3
    assert sum(row.record_count for row in deletes) == 90 - scene.spark.table(scene.sql).count()
    dangling(scene)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_empty_file_is_removed_from_the_table(scene: Scene, version: int) -> None:
    three_files(scene, version)
    check(scene, "v = 'v2'", ("delete", "overwrite"))
    done = check(scene, "cast(substr(v, 2) AS int) < 31", ("delete", "overwrite"))
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 2
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == (1 if version > 1 else 0)
    assert len(done.removed) == (2 if version == 1 else 1)
    check(scene, "k IS NOT NULL", ("delete", "overwrite"))
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 0


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_of_two_specs_and_a_null_one(scene: Scene, version: int) -> None:
    scene.create("k INT, d STRING, `a.b``c` INT", version, more="PARTITIONED BY (d)")
    rows = "cast(id AS int), if(id % 3 = 0, null, concat('d', id % 3)), cast(id % 4 AS int) FROM range(60)"
    scene.run(f"INSERT INTO {{t}} SELECT {rows}", "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)")
    scene.run(f"INSERT INTO {{t}} SELECT {rows}")
    check(scene, "k % 5 = 1 AND (d IS NULL OR d = 'd1')")
    check(scene, "`a.b``c` = 2 AND k < 30")
    dangling(scene)


@pytest.mark.parametrize("version", [2, 3])
def test_appends_without_a_match_and_deletes_elsewhere_are_no_conflict(scene: Scene, version: int) -> None:
    three_files(scene, version)
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    scene.run("DELETE FROM {t} WHERE v = 'v40'", fill(90, 95))
    done = delete(adapter, snapshot, "v IN ('v1', 'v80')")
    kept = {row.v for row in scene.spark.table(scene.sql).collect()}
    assert kept == {f"v{i}" for i in range(95)} - {"v1", "v80", "v40"}
    assert scene.spark_rows() == scene.log_rows()
    assert done.version == scene.versions()[-1]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("where", ["v = 'v1'", "k >= 0", "k % 2 = 0"])
def test_the_isolation_level_decides_on_appends_that_may_match(
    scene: Scene, version: int, level: str, where: str
) -> None:
    """Appended rows, whole files, and a predicate that Iceberg cannot express."""
    three_files(scene, version, **{"write.delete.isolation-level": level})
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    scene.run(fill(0, 5))
    if level == "serializable":
        with pytest.raises(Conflict, match="conflicting files"):
            delete(adapter, snapshot, where)
        assert scene.spark.table(scene.sql).count() == 95
        assert scene.leftovers() == scene.metadata_leftovers() == set()
        return
    delete(adapter, snapshot, where)
    assert 0 < scene.spark.table(scene.sql).where(where).count() <= 5
    assert scene.spark_rows() == scene.log_rows()


@pytest.mark.parametrize("version", [2, 3])
def test_a_stream_of_equality_deletes_is_no_conflict(scene: Scene, version: int) -> None:
    """Spark's own DELETE does not check for other deletes either: deleting a row twice is no error."""
    three_files(scene, version)
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    prepared = []
    for where in ("v = 'v1'", "k >= 100"):
        held = SparkRunner(scene.spark).hold(adapter.deletes.find(snapshot, where))
        prepared.append(adapter.deletes.prepare(held, (), snapshot, "run-1"))
        delete_equal(scene, "k", [13, 14])
    whole = adapter.deletes.covered(snapshot, "k >= 0")
    assert len(whole) == 3
    committed(adapter, prepared, snapshot, "v = 'v1' OR k >= 100")
    assert scene.spark.table(scene.sql).where("v = 'v1' OR k >= 100 OR k IN (13, 14)").count() == 0
    assert scene.spark_rows() == scene.log_rows()
    # The masked files do not count as removed, although other deletes apply to them now.
    seen, now = adapter.changes_since(snapshot), adapter.snapshot()
    assert len(now.blocks) == 3
    assert seen.removed == frozenset()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "winner", ["DELETE FROM {t} WHERE v = 'v2'", "CALL ice.system.rewrite_data_files('{t}')"]
)
def test_a_winner_on_the_same_file_is_reported_and_no_file_is_left(
    scene: Scene, version: int, winner: str
) -> None:
    scene.create("k INT, v STRING", version).run(*(fill(i * 10, i * 10 + 10) for i in range(6)))
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    scene.run(winner)
    rows, files = scene.spark_rows(), scene.leftovers()
    if version == 2 and "DELETE" in winner:  # position delete files add up; vectors do not
        delete(adapter, snapshot, "v = 'v1'")
        assert {row.v for row in scene.spark.table(scene.sql).collect()} == {f"v{i}" for i in range(60)} - {
            "v1",
            "v2",
        }
        return
    with pytest.raises(Conflict) as lost:
        delete(adapter, snapshot, "v = 'v1'")
    assert lost.value.winner
    assert scene.spark_rows() == rows
    assert (scene.leftovers(), scene.metadata_leftovers()) == (files, set())
    delete(adapter, adapter.snapshot(), "v = 'v1'", "run-2")
    assert scene.spark.table(scene.sql).where("v = 'v1'").count() == 0


def test_deletes_that_another_writer_merged_meanwhile_are_not_undone(scene: Scene) -> None:
    """Our delete replaces the file's older positions; a concurrent commit has replaced them already."""
    three_files(scene, 2).run("DELETE FROM {t} WHERE v = 'v2'")
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    scene.run("DELETE FROM {t} WHERE v = 'v3'")
    with pytest.raises(Conflict):
        delete(adapter, snapshot, "v = 'v1'")
    assert scene.spark.table(scene.sql).where("v IN ('v2', 'v3')").count() == 0
    assert scene.leftovers() == set()


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_delete_files_have_the_granularity_that_the_table_sets(scene: Scene, granularity: str) -> None:
    scene.create(
        "k INT, v STRING, d STRING",
        more="PARTITIONED BY (d)",
        properties={"write.delete.granularity": granularity},
    )
    for start in (0, 40):
        rows = "cast(id AS int), concat('v', id), if(id % 2 = 0, null, 'null') FROM range"
        scene.run(f"INSERT INTO {{t}} SELECT {rows}({start}, {start + 40})")
    check(scene, "k % 10 = 3 OR k % 10 = 4")
    files = scene.spark.table(f"{scene.sql}.delete_files").collect()
    assert len(files) == (4 if granularity == "file" else 2)
    assert sum(row.record_count for row in files) == 16
    # A second delete adds to the first file, or replaces it.
    check(scene, "k % 10 = 5")
    assert scene.spark.table(scene.sql).count() == 80 - 24
    dangling(scene)


@pytest.mark.parametrize("version", [2, 3])
def test_a_winner_between_check_and_swap(scene: Scene, version: int) -> None:
    three_files(scene, version)
    adapter, swaps = tampered(scene.spark, scene.sql)
    snapshot = adapter.snapshot()

    def race(real: Any, base: Any, updated: Any) -> None:
        scene.run("DELETE FROM {t} WHERE v = 'v2'")
        real.commit(base, updated)

    with swaps.acting(race), pytest.raises(Conflict) as lost:
        delete(adapter, snapshot, "v = 'v1'")
    assert "delete" in lost.value.winner
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert scene.spark.table(scene.sql).count() == 89


def test_an_unknown_outcome_deletes_nothing(scene: Scene) -> None:
    three_files(scene, 3)
    adapter, swaps = tampered(scene.spark, scene.sql)
    snapshot = adapter.snapshot()

    with swaps.acting(landed_and_lost), pytest.raises(Unknown):
        delete(adapter, snapshot, "v = 'v1'")
    assert adapter.changes_since(snapshot).landed("run-1") == scene.versions()[-1]
    assert scene.spark.table(scene.sql).count() == 89
    assert scene.spark_rows() == scene.log_rows()


def test_an_error_while_preparing_is_a_rejection_and_leaves_nothing(scene: Scene) -> None:
    three_files(scene, 2)
    adapter = scene.adapter()
    with (
        patch("lakekeeper_iceberg.commit.row_change", side_effect=ValueError("no")),
        pytest.raises(Rejected),
    ):
        delete(adapter, adapter.snapshot(), "v = 'v1'")
    assert scene.leftovers() == set()
    whole = adapter.snapshot()
    files = whole.blocks.path.to_pylist()
    part = replace(
        whole,
        blocks=whole.blocks.take(
            np.array([i for i, path in enumerate(files) if path != file_of(scene, "v1")])
        ),
    )
    with pytest.raises(AdapterError, match="does not list"):
        delete(adapter, part, "v = 'v1'", paths=files)


def test_equality_and_partition_wide_deletes_still_apply(scene: Scene) -> None:
    three_files(scene, 2, **{"write.delete.granularity": "partition"}).run("DELETE FROM {t} WHERE k < 10")
    delete_equal(scene, "k", [50, 51])
    adapter = scene.adapter()
    snapshot = adapter.snapshot()
    expected = {row.v for row in scene.spark.table(scene.sql).where("k % 2 = 0").collect()}
    delete(adapter, snapshot, "k % 2 = 1")
    assert {row.v for row in scene.spark.table(scene.sql).collect()} == expected
    # All rows of a file whose deletes are not counted: the file is masked, never removed.
    delete(adapter, adapter.snapshot(), "true", "run-2")
    assert scene.spark.table(scene.sql).count() == 0
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 3


def test_older_position_deletes_are_merged_into_a_new_vector(scene: Scene) -> None:
    """After an upgrade: with a vector present, readers ignore other position deletes."""
    three_files(scene, 2, **{"write.delete.granularity": "partition"}).run("DELETE FROM {t} WHERE k < 10")
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')", "DELETE FROM {t} WHERE k = 12")
    check(scene, "k BETWEEN 15 AND 20")
    assert scene.spark.table(scene.sql).where("k < 10 OR k = 12 OR k BETWEEN 15 AND 20").count() == 0


def test_positions_are_right_if_row_groups_are_skipped(scene: Scene) -> None:
    """A reader that counts rows after skipping would address other rows (paimon 8987)."""
    scene.create("k INT, v STRING", 3, properties={"write.parquet.row-group-size-bytes": "1024"})
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), md5(string(id)) FROM range(5000)")
    (path,) = scene.adapter().snapshot().blocks.path.to_pylist()
    assert pq.read_metadata(path).num_row_groups > 5
    check(scene, "k BETWEEN 4321 AND 4330")
    check(scene, "k > 4990 AND v IS NOT NULL")
    assert scene.spark.table(scene.sql).count() == 5000 - 10 - 9


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nothing_to_tidy_commits_nothing(scene: Scene, version: int) -> None:
    three_files(scene, version).run("DELETE FROM {t} WHERE k < 20")
    assert tidy(scene) == Tidied()


def test_dangling_equality_deletes_are_removed_and_others_kept(scene: Scene) -> None:
    three_files(scene, 2)
    delete_equal(scene, "k", [3, 13])
    recluster(scene)
    scene.run(fill(90, 120))
    delete_equal(scene, "k", [50])
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 2
    done = tidy(scene)
    assert (done.removed_delete_files, done.added_delete_files) == (1, 0)
    assert scene.java().currentSnapshot().summary().get("lakekeeper.run-id") == "run-0"
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 1


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_dangling_and_small_position_deletes(scene: Scene, granularity: str) -> None:
    """File-scoped deletes of a file that a copy-on-write delete removed, and many small ones of one file."""
    three_files(scene, 2, **{"write.delete.granularity": granularity})
    for i in range(6):
        add_position_delete(scene, file_of(scene, "v20"), i)
    add_position_delete(scene, file_of(scene, "v36"), 3)
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
    scene.run("DELETE FROM {t} WHERE v = 'v35'")
    done = tidy(scene)
    assert done.version is not None
    left = scene.spark.table(f"{scene.sql}.delete_files").collect()
    assert [row.record_count for row in left] == [6]
    dangling(scene)


def test_partition_wide_position_deletes_are_merged(scene: Scene) -> None:
    scene.create(
        "k INT, d INT", more="PARTITIONED BY (d)", properties={"write.delete.granularity": "partition"}
    )
    for start in (0, 40):
        scene.run(
            f"INSERT INTO {{t}} SELECT cast(id AS int), cast(id % 2 AS int) FROM range({start}, {start + 40})"
        )
    for i in range(6):
        scene.run(f"DELETE FROM {{t}} WHERE k IN ({2 * i}, {2 * i + 40})")
    before = scene.spark.table(f"{scene.sql}.delete_files").count()
    done = tidy(scene)
    assert done.removed_delete_files >= before - 1
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 1


def test_vectors_of_removed_files_are_removed(scene: Scene) -> None:
    """Iceberg removes vectors with their files; other writers may not."""
    three_files(scene, 3).run("DELETE FROM {t} WHERE v IN ('v1', 'v31')")
    files = listing.list_files(Iceberg(scene.spark), scene.java())
    kept = files.data.filter(pc.not_equal(files.data["path"], file_of(scene, "v2")))
    gone = dangling_deletes(listing.Listing(kept, files.deletes), frozenset({0}))
    assert len(gone) == 1
    assert dangling_deletes(files, frozenset({0})) == set()


@pytest.mark.parametrize("rivals", [1, 3])
def test_tidying_succeeds_beside_a_writer(scene: Scene, rivals: int) -> None:
    """Loss L11: new rows, and deletes of them, do not change which deletes dangle."""
    three_files(scene, 2)
    delete_equal(scene, "k", [3, 13])
    recluster(scene)
    adapter, swaps = tampered(scene.spark, scene.sql)
    left, rows = iter(range(rivals)), [scene.spark_rows()]

    def race(real: Any, base: Any, updated: Any) -> None:
        if next(left, None) is not None:
            scene.run(fill(200, 205), "DELETE FROM {t} WHERE v = 'v202'")
            rows.append(scene.spark_rows())
        real.commit(base, updated)

    with swaps.acting(race):
        assert adapter.deletes.tidy(adapter.snapshot(), "run-1").removed_delete_files == 1
    assert scene.metadata_leftovers() == set()
    assert scene.spark_rows() == scene.log_rows() == rows[-1]
    assert len(rows) == rivals + 1


@pytest.mark.parametrize(
    "rival",
    [
        "CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))",
        "many",
    ],
)
def test_tidying_that_loses_a_race(scene: Scene, rival: str) -> None:
    three_files(scene, 2)
    delete_equal(scene, "k", [3, 13])
    recluster(scene)
    adapter, swaps = tampered(scene.spark, scene.sql)

    def race(real: Any, base: Any, updated: Any) -> None:
        scene.run(fill(90, 95) if rival == "many" else rival.replace("{name}", scene.name))
        real.commit(base, updated)

    with swaps.acting(race), pytest.raises(Conflict):
        adapter.deletes.tidy(adapter.snapshot(), "run-1")
    assert scene.metadata_leftovers() == set()
    assert tidy(scene).removed_delete_files <= 1
    assert scene.spark_rows() == scene.log_rows()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("lost", ["expired", "rolled back"])
def test_a_delete_prepares_all_files_again_if_the_version_that_it_searched_is_lost(
    scene: Scene, version: int, lost: str
) -> None:
    """Loss L74: its vectors were kept, although what had happened to their files was not known."""
    three_files(scene, version)
    first = scene.versions()[-1]
    scene.run("DELETE FROM {t} WHERE v = 'v5'")
    searched = scene.versions()[-1]

    def race() -> None:
        procedure = f"CALL {scene.catalog}.system"
        if lost == "expired":
            scene.run("DELETE FROM {t} WHERE v IN ('v6', 'v36')", fill(90, 95))
            scene.run(
                f"{procedure}.expire_snapshots(table => 'db.{scene.name}', snapshot_ids => ARRAY({searched}))"
            )
        else:
            scene.run(f"{procedure}.rollback_to_snapshot('db.{scene.name}', {first})")
            scene.run("DELETE FROM {t} WHERE v IN ('v6', 'v36')", fill(90, 95))

    where = "v IN ('v7', 'v37', 'v67', 'v92')"
    lk.table(scene.spark, scene.sql).delete(where, observer=once_at("before_commit", race))
    gone = {6, 36, 7, 37, 67, 92} | ({5} if lost == "expired" else set())
    expected = Counter(f"v{i}" for i in range(95) if i not in gone)
    assert Counter(row.v for row in scene.spark.table(scene.sql).collect()) == expected
    assert scene.spark_rows() == scene.log_rows()
    assert scene.leftovers() == set()
