"""A vacuum deletes exactly what no kept snapshot needs: checked by two readers and counted on disk.

Case numbers are those of the findings on other engines (apache/iceberg, amoro, paimon …) beside each test.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.vacuum.retention import Retention, keep
from lakekeeper.core.vacuum.vacuum_plan import plan_vacuum
from lakekeeper.errors import AdapterError, RetentionError
from lakekeeper.testing.values import text
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene, delete_equal
from tests.iceberg.sweeping import LATER, check, fill, on_disk, sweep
from tests.opening import table_later
from tests.oracles import iceberg_log
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg

DAY_MS = 86_400_000


def one_row(*keys: int) -> list[str]:
    return [f"INSERT INTO {{t}} VALUES ({k}, 'v{k}')" for k in keys]


def added_file(scene: Scene) -> Any:
    """The DataFile that the newest snapshot added."""
    table = scene.java()
    (file,) = list(table.currentSnapshot().addedDataFiles(table.io()))
    return file.copy()


def local(path: Any) -> Path:
    return Path(str(path).removeprefix("file:"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_vacuum_deletes_exactly_what_only_expired_snapshots_reference(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version).run(fill(0, 20), "DELETE FROM {t} WHERE k % 7 = 3", *one_row(50))
    recluster(scene, level=1)
    scene.run("DELETE FROM {t} WHERE k = 5")
    done = check(scene)
    assert (len(done.kept.gone), done.of_kind("manifest list")) == (4, 4)
    assert done.of_kind("data") >= 2
    assert done.of_kind("manifest") >= 2
    assert (done.of_kind("deletes") > 0) == (version > 1)
    oldest_first = scene_order(done.versions, done.kept.gone)
    assert [f.version for f in done.plan.files] == sorted(
        (f.version for f in done.plan.files), key=oldest_first.index
    )
    again = sweep(scene)
    assert (again.kept.gone, again.plan.files, again.gone) == ((), (), frozenset())


def scene_order(versions: Any, gone: tuple[int, ...]) -> list[int]:
    return [v.id for v in sorted(versions.items, key=lambda v: v.at_ms) if v.id in gone]


def test_tags_and_branches_keep_the_files_they_reach(scene: Scene) -> None:
    """Losses 55, 57, 58, 65: tags and branches with a retention of their own, and a branch with its own history."""
    scene.create("k INT, v STRING").run(*one_row(1), "ALTER TABLE {t} CREATE TAG old", *one_row(2))
    scene.run("ALTER TABLE {t} CREATE TAG short RETAIN 1 DAYS", "DELETE FROM {t} WHERE k = 1", *one_row(3))
    scene.run("ALTER TABLE {t} CREATE BRANCH b WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    for k in (11, 12, 13):
        scene.run(f"INSERT INTO {{t}}.branch_b VALUES ({k}, 'b')")
    on_branch = scene.spark.table(f"{scene.sql}.branch_b").count()
    done = check(scene)
    assert done.kept.expired_refs == ("short",)
    assert sorted(map(str, done.kept.reasons.values())) == [
        "branch b",
        "one of the last 2 of b",
        "tag old",
        "the newest version",
    ]
    assert {row[0] for row in scene.spark.table(f"{scene.sql}.refs").select("name").collect()} == {
        "main",
        "b",
        "old",
    }
    assert scene.spark.table(f"{scene.sql}.branch_b").count() == on_branch
    assert [r.k for r in scene.spark.sql(f"SELECT k FROM {scene.sql} VERSION AS OF 'old'").collect()] == [1]
    scene.run("ALTER TABLE {t} DROP TAG old", "ALTER TABLE {t} DROP BRANCH b")
    assert check(scene).of_kind("data") == 4  # of key 1, and the three of the branch


def test_history_that_was_rolled_back_or_cut(scene: Scene) -> None:
    """Losses 56, 57: files of an abandoned history are deleted; a kept snapshot without its parent keeps its own."""
    scene.create("k INT, v STRING").run(*one_row(1))
    first = scene.versions()[0]
    scene.run(*one_row(2), "DELETE FROM {t} WHERE k = 1").call(
        "rollback_to_snapshot", f", snapshot_id => {first}"
    )
    scene.run(*one_row(3, 4, 5))
    versions = scene.versions()
    # Only the snapshot that removes a file is expired: older ones still have the file.
    (dropping,) = (v for v in versions[:3] if scene.java().snapshot(v).operation() == "delete")
    done = sweep(scene, named=[v for v in versions if v != dropping])
    assert (done.kept.gone, done.of_kind("data")) == ((dropping,), 0)
    done = check(scene, named=[first, versions[3], versions[5]])
    assert done.of_kind("data") == 1  # what was inserted before the rollback
    assert scene.java().snapshot(versions[3]).parentId() == first
    assert scene.java().snapshot(versions[5]).parentId() == versions[4] not in scene.versions()


HOURS_MS = 3 * 3_600_000


def test_a_version_that_was_current_until_a_rollback_is_kept_from_then_on(scene: Scene) -> None:
    """A reader that began just before the rollback, or an undo, finds its files."""
    scene.create("k INT, v STRING").run(*one_row(1, 2))
    first, second = scene.versions()
    scene.call("rollback_to_snapshot", f", snapshot_id => {first}")
    moves = scene.adapter().storage.versions().main_log
    assert [version for _, version in moves] == [first, second, first]
    (made, _), (left, _) = moves[1:]
    assert made < left
    done = check(scene, now_ms=(made + left) // 2 + HOURS_MS, age_ms=HOURS_MS)
    assert set(done.kept.reasons) == {first, second}
    assert scene.spark.sql(f"SELECT k FROM {scene.sql} VERSION AS OF {second}").count() == 2
    assert check(scene, now_ms=left + HOURS_MS, age_ms=HOURS_MS).kept.gone == (second,)


def test_a_version_that_was_current_until_a_fast_forward_is_kept_from_then_on(scene: Scene) -> None:
    scene.create("k INT, v STRING").run(*one_row(1), "ALTER TABLE {t} CREATE BRANCH b")
    for k in (2, 3):
        scene.run(f"INSERT INTO {{t}}.branch_b VALUES ({k}, 'b')")
    first, _, third = scene.versions()
    scene.call("fast_forward", ", branch => 'main', to => 'b'").run("ALTER TABLE {t} DROP BRANCH b")
    moves = scene.adapter().storage.versions().main_log
    assert [version for _, version in moves] == [first, third]
    made, left = int(scene.java().snapshot(third).timestampMillis()), moves[1][0]
    done = check(scene, now_ms=(made + left) // 2 + HOURS_MS, age_ms=HOURS_MS)
    assert set(done.kept.reasons) == {first, third}
    assert check(scene, now_ms=left + HOURS_MS, age_ms=HOURS_MS).kept.gone == (first,)


def test_a_staged_snapshot_that_was_picked(scene: Scene, spark: SparkSession) -> None:
    """The picked snapshot has the staged one's file, under a later sequence number."""
    scene.create("k INT, v STRING", properties={"write.wap.enabled": "true"}).run(*one_row(1))
    for wap, key in (("a", 2), ("b", 3)):
        spark.conf.set("spark.wap.id", wap)
        try:
            scene.run(*one_row(key))
        finally:
            spark.conf.unset("spark.wap.id")
    staged = [s for s in list(scene.java().snapshots()) if s.summary().get("wap.id") == "a"]
    scene.run(*one_row(4)).call("cherrypick_snapshot", f", snapshot_id => {staged[0].snapshotId()}")
    done = check(scene)
    assert done.of_kind("data") == 1  # of the snapshot that was staged and never picked
    assert {r.k for r in spark.table(scene.sql).collect()} == {1, 2, 4}


def test_files_that_were_dropped_and_added_again(scene: Scene) -> None:
    """Losses 52, 53, 67: they are live, whichever snapshots dropped them and however their paths are spelled now."""
    spellings = ["{}", "file:{}", "file://{}"]
    scene.create("k INT, v STRING")
    files = []
    for k, _ in enumerate(spellings):
        scene.run(*one_row(k))
        files.append(added_file(scene))
    scene.run(*one_row(9), "DELETE FROM {t} WHERE k < 9")
    table, jvm = scene.java(), Iceberg(scene.spark)
    add = table.newAppend()
    for spelling, file in zip(spellings, files, strict=True):
        path = spelling.format(local(file.location()))
        add = add.appendFile(jvm.api.DataFiles.builder(table.spec()).copy(file).withPath(path).build())
    add.commit()
    done = check(scene)
    assert (len(done.kept.gone), done.of_kind("data")) == (5, 0)
    assert {r.k for r in scene.spark.table(scene.sql).collect()} == {0, 1, 2, 9}
    storage = scene.adapter().storage
    spelled = {spelling.format(local(file.location())) for spelling in spellings for file in files}
    assert storage.named(storage.versions(), {*spelled, "file:/nowhere/f.parquet"}) == spelled


def test_files_whose_recorded_paths_have_steps_that_change_nothing(scene: Scene) -> None:
    """Loss L88: a listing prints the path without them, so live files counted as orphans and were deleted."""
    folders = ("/data", "//data", "/./data", "/x/../data", "/x//y/.././../data")
    table = scene.create("k INT, v STRING").java()
    place = str(table.location())
    swap, jvm = table.newOverwrite(), Iceberg(scene.spark)
    for k, folder in enumerate(folders):
        scene.run(*one_row(k))
        file = added_file(scene)
        path = str(file.location()).replace(f"{place}/data", place + folder)
        respelled = jvm.api.DataFiles.builder(table.spec()).copy(file).withPath(path).build()
        swap = swap.deleteFile(file).addFile(respelled)
    swap.commit()
    later = table_later(scene.spark, scene.sql, hours=24 * 20)
    later.vacuum(orphans=True, options={"vacuum.max-share": 1})
    storage = scene.adapter().storage
    listed = {info.path for info in storage.files()}
    assert storage.named(storage.versions(), listed) == listed
    assert {r.k for r in scene.spark.table(scene.sql).collect()} == set(range(len(folders)))


def test_statistics_are_deleted_with_their_snapshot(scene: Scene) -> None:
    """Loss 60: three engines took live statistics for orphan files."""
    scene.create("k INT, v STRING", more="PARTITIONED BY (k)").run(*one_row(1))
    for procedure in ("compute_table_stats", "compute_partition_stats"):
        scene.call(procedure)
    scene.run(*one_row(2))
    for procedure in ("compute_table_stats", "compute_partition_stats"):
        scene.call(procedure)
    base = scene.java().operations().current()
    newest = int(base.currentSnapshot().snapshotId())
    files = [*base.statisticsFiles(), *base.partitionStatisticsFiles()]
    dead, live = (
        {local(f.path()) for f in files if (int(f.snapshotId()) == newest) == now} for now in (False, True)
    )
    assert (len(dead), len(live)) == (2, 2)
    done = check(scene)
    assert done.of_kind("statistics") == 2
    assert all(path.exists() for path in live)
    assert not any(path.exists() for path in dead)
    base = scene.java().operations().current()
    assert {local(f.path()) for f in [*base.statisticsFiles(), *base.partitionStatisticsFiles()]} == live


def test_statistics_of_two_snapshots_are_kept_if_one_is_kept(scene: Scene) -> None:
    """Loss L33: an engine may register one file for a snapshot and again for a later one."""
    scene.create("k INT, v STRING").run(*one_row(1))
    scene.call("compute_table_stats").run(*one_row(2))
    table = scene.java()
    [first] = table.operations().current().statisticsFiles()
    newest = int(table.currentSnapshot().snapshotId())
    sizes = (first.fileSizeInBytes(), first.fileFooterSizeInBytes(), first.blobMetadata())
    again = Iceberg(scene.spark).api.GenericStatisticsFile(newest, first.path(), *sizes)
    table.updateStatistics().setStatistics(again).commit()
    assert check(scene).of_kind("statistics") == 0
    assert local(first.path()).exists()


def test_equality_deletes_are_kept_as_long_as_they_apply(scene: Scene) -> None:
    """Loss 59: the set of reachable files lacked them."""
    scene.create("k INT, v STRING").run(fill(0, 10), *one_row(20))
    delete_equal(scene, "k", [3, 4])
    scene.run(*one_row(3))
    done = check(scene)
    assert (done.of_kind("deletes"), done.of_kind("data")) == (0, 0)
    assert scene.spark.table(scene.sql).count() == 10
    recluster(scene)
    done = check(scene)
    assert (done.of_kind("deletes"), done.of_kind("data")) == (1, 3)


def test_a_table_that_may_not_own_its_files_is_refused(scene: Scene) -> None:
    """Loss 63: imported files belong to another table as well."""
    scene.create("k INT, v STRING", properties={"gc.enabled": "false"}).run(*one_row(1, 2))
    before, versions = on_disk(scene), scene.versions()
    with pytest.raises(RetentionError, match=r"gc\.enabled is false"):
        sweep(scene)
    assert (on_disk(scene), scene.versions()) == (before, versions)
    rows = scene.log_rows()
    place, version = str(scene.java().operations().current().metadataFileLocation()), scene.version
    lk.drop_table(scene.spark, scene.sql, force=True)
    [gone] = [each for each in lk.empty_dropped(scene.spark, "ice.db") if each.name == scene.sql]
    assert "gc.enabled is false" in gone.files_stay
    assert not scene.spark.catalog.tableExists(gone.kept_as)
    assert Counter(map(text, iceberg_log.records(place, version))) == rows


def test_an_empty_table_has_no_snapshot(scene: Scene) -> None:
    storage = scene.create("k INT").adapter().storage
    versions = storage.versions()
    assert (versions.items, versions.refs, versions.refused) == ((), (), "")
    with pytest.raises(AdapterError, match="no snapshot"):
        storage.named(versions, ["file:/x/y"])


def test_the_tables_own_retention_is_reported(scene: Scene) -> None:
    own = {"max-snapshot-age-ms": 3 * DAY_MS, "min-snapshots-to-keep": 2, "max-ref-age-ms": 9 * DAY_MS}
    scene.create("k INT, v STRING", properties={f"history.expire.{k}": str(v) for k, v in own.items()})
    scene.run(*one_row(1), "ALTER TABLE {t} CREATE TAG x RETAIN 2 DAYS", *one_row(2))
    versions = scene.adapter().storage.versions()
    assert (versions.min_age_ms, versions.min_versions) == (3 * DAY_MS, 2)
    assert {r.name: r.max_ref_age_ms for r in versions.refs} == {"main": 9 * DAY_MS, "x": 2 * DAY_MS}
    files = scene.spark.table(f"{scene.sql}.files")
    assert versions.live_bytes == files.groupBy().sum("file_size_in_bytes").head()[0]  # type: ignore[index]
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = 'a week')")
    with pytest.raises(AdapterError, match="max-snapshot-age-ms"):
        scene.adapter().storage.versions()


def test_files_in_declared_folders_outside_the_location(scene: Scene, tmp_path: Path) -> None:
    """Loss 66: data folders outside the default layout, the last one with hashes in it."""

    def outside() -> set[str]:
        return {str(p) for p in tmp_path.rglob("*") if p.is_file() and not p.name.startswith(".")}

    hashed = {"write.object-storage.enabled": "true", "write.data.path": f"file:{tmp_path}/hashed"}
    places = {"write.data.path": f"{tmp_path}/elsewhere/", "write.metadata.path": f"file:{tmp_path}/meta"}
    for more in (places, hashed):
        scene = Scene(scene.spark).create("k INT, v STRING", more="PARTITIONED BY (k)", properties=more)
        scene.run("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
        recluster(scene, None)
        before, rows = outside(), scene.every_version()
        own = scene.adapter().storage
        versions = own.versions()
        kept = keep(scene.sql, versions, Retention(0, allow_unsafe=True), LATER)
        for allowed in ((), (f"{tmp_path}/other",), (f"file:{tmp_path}/el",)):
            storage = own.allowing(allowed)
            found = storage.garbage(versions, kept)
            plan = plan_vacuum(scene.sql, versions, kept, found, {}, storage.grounds)
            assert not any(str(tmp_path) in dead.path for dead in found.files)
            whys = {why for path, why in plan.spared.items() if "data" in path or "parquet" in path}
            assert all("write.data.path" in why and "vacuum.allowed-locations" in why for why in whys)
            assert whys
        storage = own.allowing([f"file:{tmp_path}"])
        done = sweep(scene, storage=storage)
        assert (done.of_kind("data"), done.garbage.outside) == (2, ())
        assert {f.partition for f in done.plan.files if f.kind == "data"} == {"k=1", "k=2"}
        deleted = {str(local(path)) for path in done.gone}
        assert before - outside() == {path for path in deleted if path.startswith(str(tmp_path))}
        assert scene.every_version() == {v: rows[v] for v in done.kept.reasons}
        listed = {str(local(info.path)) for info in storage.files()}
        folder = "elsewhere" if more is places else "hashed"
        assert {p for p in outside() if f"/{folder}/" in p} <= listed


def test_files_in_a_place_that_is_allowed_later_are_deleted_then(scene: Scene, tmp_path: Path) -> None:
    """Loss L149: the first vacuum expired the snapshots, and no later one knew of the files in that place."""
    scene.create("k INT, v STRING", properties={"write.data.path": f"file:{tmp_path}/elsewhere"})
    scene.run("INSERT INTO {t} VALUES (1, 'a')", "INSERT INTO {t} VALUES (2, 'b')")
    table = lk.table(scene.spark, scene.sql)
    assert table.recluster("k", policy="full").changed
    unsafe: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True}
    for _ in range(2):
        report = table.vacuum(**unsafe)
        assert "vacuum.allowed-locations" in str(report.plan)
        assert len([*tmp_path.rglob("*.parquet")]) == 3
    options = {"vacuum.allowed-locations": f"file:{tmp_path}", "vacuum.max-share": 1}
    assert table.vacuum(**unsafe, options=options).deleted_by_kind["data"][0] == 2
    assert len([*tmp_path.rglob("*.parquet")]) == 1
    assert table.vacuum(**unsafe, options=options).deleted_files_count == 0
    assert scene.spark_rows().total() == 2


def test_a_merge_between_plan_and_read_keeps_its_snapshot(scene: Scene) -> None:
    """Losses 62, 80: the part of the log that it has read is kept for it."""
    scene.create("k INT, v STRING").run(fill(0, 10))
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    (task,) = tasks_of(snapshot)
    scene.run("DELETE FROM {t} WHERE k < 20", *one_row(30))
    assert snapshot.version is not None
    done = check(scene, named=[snapshot.version])
    assert done.of_kind("data") == 0
    assert rewritten(adapter, task).rows_out == 10


def test_a_manifest_that_cannot_be_read_deletes_nothing(scene: Scene) -> None:
    """Losses 64, 81: an incomplete set of files, live or dead, deletes whole tables."""
    scene.create("k INT, v STRING").run(*one_row(1), "DELETE FROM {t}", *one_row(2))
    table = scene.java()
    snapshots = sorted(table.snapshots(), key=lambda s: int(s.sequenceNumber()))
    before, versions = on_disk(scene), scene.versions()
    for snapshot in (snapshots[-1], snapshots[0]):
        for path in (next(iter(snapshot.allManifests(table.io()))).path(), snapshot.manifestListLocation()):
            broken = local(path)
            text = broken.read_bytes()
            broken.with_name(f".{broken.name}.crc").unlink(missing_ok=True)
            for damage in (text[: len(text) // 2], None):
                broken.unlink() if damage is None else broken.write_bytes(damage)
                with pytest.raises(AdapterError, match="nothing was deleted"):
                    sweep(scene)
                broken.write_bytes(text)
    assert (on_disk(scene), scene.versions()) == (before, versions)
    assert sweep(scene).of_kind("data") == 1


def test_files_left_by_a_crash_are_found_by_name(scene: Scene) -> None:
    """Losses 68, 79: the metadata no longer has it; a file that is live again is not reported."""
    scene.create("k INT, v STRING").run(*one_row(1))
    file = added_file(scene)
    scene.run(*one_row(2, 3), "DELETE FROM {t} WHERE k < 3")
    adapter = scene.adapter()
    died = sweep(scene, storage=_Undying(adapter.storage))
    hints = {d.path for d in died.garbage.files}
    assert (died.gone, len(hints)) == (frozenset(), 7)
    assert sweep(scene).plan.files == ()
    table = scene.java()
    table.newAppend().appendFile(file).commit()
    done = sweep(scene, hints=hints | {str(table.operations().current().metadataFileLocation())})
    assert done.gone == (hints - {str(file.location())}) | {d.path for d in done.garbage.files}
    assert {f.path: f.kind for f in died.plan.files}.items() >= {
        f.path: f.kind for f in done.plan.files if f.path in hints
    }.items()
    assert {r.k for r in scene.spark.table(scene.sql).collect()} == {1, 3}
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert scene.spark_rows() == scene.log_rows()


class _Undying:
    """A storage whose vacuum dies before its first delete."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def delete(self, files: Any) -> list[str]:
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def directory(spark: SparkSession) -> Scene:
    return Scene(spark, "hdp")


def test_a_table_of_a_directory_catalog(directory: Scene) -> None:
    directory.create("k INT, v STRING").run(*one_row(1, 2), "DELETE FROM {t} WHERE k = 1")
    assert check(directory).of_kind("data") == 1


@pytest.mark.parametrize("orphans", [True, False])
def test_files_of_a_location_that_has_two_paths(scene: Scene, tmp_path: Path, *, orphans: bool) -> None:
    """Loss L163: the metadata names older files by a path that a listing of the new one does not show."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    scene.create("k INT, v STRING", more=f"LOCATION 'file:{tmp_path}/link/t'")
    scene.run(*one_row(0, 1))
    scene.run(f"ALTER TABLE {{t}} SET LOCATION 'file:{tmp_path}/real/t'", *one_row(2, 3))
    before = scene.spark_rows()
    later = table_later(scene.spark, scene.sql, hours=24 * 20)
    later.vacuum(orphans=orphans)
    assert scene.spark_rows() == before
    files = [row.file_path for row in scene.spark.sql(f"SELECT file_path FROM {scene.sql}.files").collect()]
    assert len(files) == 4
    assert all(Path(file.removeprefix("file:")).exists() for file in files)
