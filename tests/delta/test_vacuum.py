"""Vacuum of Delta tables: it deletes exactly what no kept version reads, and finds it without a listing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import IdentityGenerator
from deltalake import write_deltalake

import lakekeeper as lk
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_plan import Doomed
from lakekeeper.errors import AdapterError, Conflict, Unsupported
from lakekeeper.spark.catalogs import Place
from lakekeeper_delta import foreign_tables, reading
from lakekeeper_delta.filesystem import Disk
from lakekeeper_delta.reading import actions_of
from lakekeeper_delta.storage import DeltaStorage
from tests.delta.by_hand import ByHand, changed, removed
from tests.delta.scene import Scene
from tests.delta.vacuum import look, named, on_disk, swept
from tests.faults.storage import faulty_storage
from tests.rewrites import recluster

pytestmark = pytest.mark.delta


@pytest.fixture
def worked(scene: Scene) -> Scene:
    """A table with deletion vectors, after six versions of ordinary writes."""
    scene.run(
        "CREATE TABLE {t} (k int, s string) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = true, 'delta.enableChangeDataFeed' = true)",
        "INSERT INTO {t} SELECT id, 'a' FROM range(0, 40, 1, 1)",
        "DELETE FROM {t} WHERE k % 10 = 3",
        "UPDATE {t} SET s = 'c' WHERE k = 7",
        "DELETE FROM {t} WHERE k % 10 = 4",
    )
    recluster(scene)
    return scene


def test_another_table_with_as_many_versions_is_not_taken_for_the_one_in_memory(scene: Scene) -> None:
    """Its properties are those of the table that exists, not of the one in memory."""
    scene.create("k BIGINT").run("INSERT INTO {t} VALUES (1)")
    storage = scene.adapter().storage
    before = storage.newest()
    shutil.rmtree(scene.path)
    for k in (2, 3):
        write_deltalake(scene.path, pa.table({"k": [k]}), mode="append")
    now = storage.newest()
    assert now.version == before.version == 1
    assert now.table_uuid != before.table_uuid


def test_vacuum_deletes_what_no_kept_version_reads_without_a_list_call(worked: Scene) -> None:
    with faulty_storage(worked.spark) as storage:
        half = worked.adapter().storage
        storage.arm(worked.path, "list")
        few = look(worked, last=3, storage=half)
        incremental = look(worked, since=2, storage=half)  # reads deletion vectors from the live state
        assert few.sweep() == few.names() != set()
        assert storage.disarm() == []
    for last in (3, 1):
        looked = swept(worked, last=last)
        feeds = {name for name in on_disk(worked.path) if name.startswith("_change_data/")}
        assert on_disk(worked.path) - feeds == named(worked, looked.kept.oldest)
        assert look(worked, last=last).plan.files == ()
        assert looked.garbage.through == looked.kept.oldest
    assert incremental.names("deletes")
    assert not any(worked.path.rglob("_change_data/*.parquet"))


def test_the_change_feed_of_a_kept_version_stays_readable(scene: Scene) -> None:
    """Loss L86: without change data of its own, the feed of a version is read from the files that it dropped."""
    scene.run(
        "CREATE TABLE {t} (k int, p int) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = true)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id % 2 FROM range(4)",
        "DELETE FROM {t} WHERE p = 0",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ 9, 9",
    )

    def feed() -> set[tuple[int, str]]:
        rows = scene.spark.sql(f"SELECT k, _change_type FROM table_changes('{scene.sql}', 2)").collect()
        return {(row[0], row[1]) for row in rows}

    before = {(0, "delete"), (2, "delete"), (9, "insert")}
    assert feed() == before
    for since in (None, 2):  # a stream may be stopped at version 2 for several vacuums
        assert swept(scene, last=2, since=since).names() == set()
    assert feed() == before
    assert {name.partition("/")[0] for name in swept(scene, last=1, since=2).names()} == {"p=0"}


def test_the_whole_call_makes_no_list_call(worked: Scene) -> None:
    with faulty_storage(worked.spark) as storage:
        table = lk.table(worked.spark, str(worked.path))
        storage.arm(worked.path, "list")
        report = table.vacuum(retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1})
        assert storage.disarm() == []
    assert report.deleted_files_count > 0


def test_commits_that_this_process_has_not_seen(table: ByHand) -> None:
    with faulty_storage(table.scene.spark) as faults:
        storage = table.scene.adapter().storage
        assert look(table.scene, storage=storage).names() == {"a.parquet"}
        faults.arm(table.path, "list")
        table.commit(removed(table.add("b.parquet")))
        for n in range(20):
            table.commit(table.add(f"later-{n}.parquet"))
        looked = look(table.scene, storage=storage, since=1)
        assert faults.disarm() == []
    assert looked.names() == {"a.parquet", "b.parquet"}
    assert looked.versions.newest == 23
    left = on_disk(table.path) - looked.names()
    assert looked.versions.live_bytes == sum((table.path / name).stat().st_size for name in left)


def test_a_feature_enabled_since_the_open_is_refused(table: ByHand) -> None:
    storage = table.scene.adapter().storage
    features = ["deletionVectors", "variantShredding-preview"]
    named = {"readerFeatures": features, "writerFeatures": features}
    table.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}, table.metadata())
    with pytest.raises(Unsupported, match="variantShredding"):
        storage.versions()


def test_a_table_created_again_at_the_same_path(table: ByHand) -> None:
    storage = table.scene.adapter().storage
    before = look(table.scene, storage=storage)
    shutil.rmtree(table.path)
    recreated = ByHand(table.scene)
    add = recreated.add("new.parquet")
    recreated.commit(add)
    recreated.commit(removed(add), recreated.add("newer.parquet"))
    recreated.commit(recreated.add("newest.parquet"))
    with pytest.raises(Conflict, match="created in its place"):
        before.sweep()
    looked = look(table.scene, storage=storage, since=40)  # the cursor of the previous table
    assert looked.versions.newest == 3
    assert looked.names() == {"new.parquet"}


def test_a_file_that_the_read_commits_added_and_removed_is_restored(table: ByHand) -> None:
    """Loss L54: it counted as seen, since the state in memory is older than both commits, and was deleted."""
    storage = table.scene.adapter().storage
    storage.versions()
    add = table.add("late.parquet")
    table.commit(add)
    table.commit(removed(add))
    table.commit(table.add("other.parquet"))
    looked = look(table.scene, storage=storage)
    assert "late.parquet" in looked.names()
    table.commit(add)  # RESTORE
    with pytest.raises(Conflict, match="restored files that were to be deleted"):
        looked.sweep()
    assert "late.parquet" in on_disk(table.path)


def _moved(table: ByHand) -> dict[str, Any]:
    """Metadata with one more column and a higher watermark of an identity column: it affects no file."""
    metadata = table.metadata()
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][0]["metadata"] = {
        "delta.identity.highWaterMark": table.commit(table.add("more.parquet"))
    }
    schema["fields"].append({"name": "n", "type": "string", "nullable": True, "metadata": {}})
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    return metadata


def test_metadata_that_affects_no_file_does_not_stop_a_vacuum(table: ByHand) -> None:
    storage = table.scene.adapter().storage
    storage.versions()
    table.commit(_moved(table), table.add("b.parquet"))  # the state in memory is older than this
    looked = look(table.scene, storage=storage)
    table.commit(_moved(table), table.add("c.parquet"))
    assert looked.sweep() == looked.names() == {"a.parquet"}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["configuration"].update({"delta.deletedFileRetentionDuration": "interval 30 days"}),
        lambda m: m.update(id="0b8a9a9e-5b5e-4f5e-9a35-5c7b9f6f3d10"),
        lambda m: m.update(partitionColumns=["k"]),
    ],
    ids=["retention", "id", "partitioning"],
)
def test_metadata_that_decides_what_is_kept_stops_a_vacuum(
    table: ByHand, change: Callable[[dict[str, Any]], object]
) -> None:
    looked = look(table.scene)
    metadata = table.metadata()
    change(metadata["metaData"])
    table.commit(metadata)
    with pytest.raises(Conflict, match="changed the table's id, partitioning, properties"):
        looked.sweep()
    assert looked.names() <= on_disk(table.path)


def test_each_commit_is_read_once_however_many_batches_there_are(
    table: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = look(table.scene)
    read: list[int] = []

    def noted(disk: Disk, version: int) -> list[dict[str, Any]]:
        read.append(version)
        return actions_of(disk, version)

    monkeypatch.setattr("lakekeeper_delta.storage.actions_of", noted)
    for n in range(5):
        table.commit(table.add(f"more-{n}.parquet"))
        looked.storage.expire(looked.versions, looked.kept, looked.files)
    assert read == list(range(looked.versions.newest + 1, looked.versions.newest + 6))
    table.commit({"add": {**table.add("x.parquet")["add"], "path": "a.parquet"}})
    with pytest.raises(Conflict, match="restored files that were to be deleted"):
        looked.storage.expire(looked.versions, looked.kept, looked.files)


def test_a_table_with_an_identity_column_is_vacuumed_while_it_is_written(scene: Scene) -> None:
    """Each INSERT commits metadata: the high watermark of the identity column."""
    make = (
        scene.builder().addColumn("i", "BIGINT", generatedAlwaysAs=IdentityGenerator()).addColumn("k", "INT")
    )
    make.execute()
    insert = "INSERT INTO {t} (k) VALUES (1)"
    scene.run(insert, "DELETE FROM {t} WHERE k = 1", *[insert] * 3)
    inserted = 3

    def observer(phase: str, _info: Mapping[str, Any]) -> None:
        nonlocal inserted
        if phase in ("planned", "before_delete"):
            scene.run(insert)
            inserted += 1

    options = {"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 1}
    table = lk.table(scene.spark, str(scene.path))
    report = table.vacuum(retention_hours=0, allow_unsafe_retention=True, options=options, observer=observer)
    assert (report.deleted_files_count > 0, report.failed_files_count, report.retries) == (True, 0, 0)
    assert inserted > 4
    assert sum(scene.spark_rows(columns="k").values()) == inserted
    assert scene.log_rows() == scene.spark_rows()


@pytest.mark.parametrize("since", [None, 1])
def test_a_log_that_was_cleaned_up(table: ByHand, since: int | None) -> None:
    log = table.scene.log()
    for n in range(3):
        add = table.add(f"n{n}.parquet")
        table.commit(add)
        table.commit(removed(add))
    state = log.latest()
    log.log.checkpoint(state.snapshot, log.jvm.none())
    for version in range(5):
        table.commit_file(version).unlink()
    looked = look(table.scene, since=since)
    assert looked.names() == {"n1.parquet", "n2.parquet"}
    assert looked.kept.gone == (5, 6, 7)
    assert "begins at version 5" in looked.garbage.note
    assert "orphans=True" in looked.garbage.note
    assert looked.sweep() == looked.names()
    # No commit contains the removes of these files any more; the checkpoint still does, so they are not orphans yet.
    root = looked.storage.grounds.roots[0]
    candidates = {f"{root}/{name}.parquet" for name in ("a", "b", "n0", "strange")}
    assert looked.storage.named(looked.versions, candidates) == candidates - {f"{root}/strange.parquet"}


def test_a_gap_in_the_log(table: ByHand) -> None:
    for n in range(4):
        table.commit(table.add(f"n{n}.parquet"))
    storage = table.scene.adapter().storage
    assert storage.versions().newest == 6
    table.scene.spark.read.format("delta").load(str(table.path)).count()  # Delta caches the state
    table.commit_file(3).unlink()
    with pytest.raises(AdapterError, match="commit 3 is missing"):
        storage.versions()
    assert storage.versions(4).newest == 6
    table.commit(table.add("far.parquet"), version=8)
    with pytest.raises(AdapterError, match="commit 7 is missing"):
        storage.versions(4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{}x\n",
        '{"add":{"path":"x.par',
        '{"remove":{"size":1}}',
        '{"add":[]}',
        "[1]",
        '{"remove":"x"}',
    ],
)
def test_a_commit_that_cannot_be_parsed(table: ByHand, text: str) -> None:
    storage = table.scene.adapter().storage
    table.commit_file(table.commit()).write_text(text)
    with pytest.raises(AdapterError, match="commit 3 of its log is not understood"):
        storage.versions()


def test_a_vector_of_an_unknown_kind(table: ByHand) -> None:
    odd = {"storageType": "q", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    storage = table.scene.adapter().storage
    table.commit(changed(table.add("x.parquet"), deletionVector=odd))
    with pytest.raises(AdapterError, match="commit 3 of its log is not understood"):
        storage.versions()


def test_a_storage_that_fails_reports_nothing(table: ByHand) -> None:
    """Loss 81: fails each call to the log and to the files once."""
    before = on_disk(table.path)
    with faulty_storage(table.scene.spark) as faults:
        storage = table.scene.adapter().storage
        whole = look(table.scene, storage=storage)
        faults.arm(table.path, "open status")
        look(table.scene, storage=storage)
        calls = faults.disarm()
        assert {call.split()[0] for call in calls} == {"open", "status"}
        failed: list[str] = []
        for at in range(len(calls)):
            faults.arm(table.path, "open status", at, "before")
            try:
                assert look(table.scene, storage=storage).files == whole.files, (
                    "the result of the other read path differs"
                )
            except AdapterError as error:
                failed.append(str(error))
            faults.disarm()
        assert failed
        assert all("nothing was deleted" in each for each in failed)
        plan = look(table.scene, storage=storage)
        faults.arm(table.path, "delete", 0, "before")
        assert plan.sweep() == set()
        faults.disarm()
    assert on_disk(table.path) == before


def test_what_was_not_deleted_is_not_reported(table: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss 69: a store that reports success without deleting."""
    looked = look(table.scene)
    monkeypatch.setattr(Disk, "remove", lambda _disk, _paths: None)
    assert looked.sweep() == set()


def test_files_are_deleted_in_bulk_if_the_store_supports_it(table: ByHand) -> None:
    table.commit(*(removed(table.add(f"{name}.parquet")) for name in "bcdefgh"))
    log = table.scene.log()
    store = Bulk(log.log.dataPath().getFileSystem(log.log.newDeltaHadoopConf()))
    looked = look(table.scene, storage=DeltaStorage(log, table.scene.table_name, Disk(log, store)))
    assert looked.sweep() == looked.names()
    assert sorted(store.pages) == [2, 3, 3]
    assert on_disk(table.path) == set()


def test_uncommitted_files_are_not_garbage(table: ByHand) -> None:
    """Losses 61, 70: files not committed yet, with a modification time of now, of 1970, and in the future."""
    for name, modified in (("now", None), ("zero", 0), ("later", 4e9)):
        table.stray(f"{name}.parquet", modified=modified)
    looked = look(table.scene, hints=["file:/etc/hostname"])
    assert looked.sweep() == {"a.parquet"}
    listed = {Path(info.path).stem: info.modified_ms for info in looked.storage.files()}
    assert listed.keys() == {"b", "c", "now", "zero", "later"}
    assert listed["zero"] == 0
    root = looked.storage.grounds.roots[0]
    candidates = {f"{root}/{name}.parquet" for name in ("a", "b", "now", "zero", "later")}
    assert looked.storage.named(looked.versions, candidates) == {f"{root}/a.parquet", f"{root}/b.parquet"}


def test_times_of_versions(table: ByHand) -> None:
    """The latest time of any clock, never decreasing; unknown if no clock has one."""
    for version, (recorded, modified) in enumerate(
        [(5_000, 7), (4_000, 3), (0, 0), (6_000, 9), (2**53, 9)], start=3
    ):
        table.commit(at=recorded, version=version)
        os.utime(table.commit_file(version), (modified, modified))
    for version in range(3):
        os.utime(table.commit_file(version), (1, 1))
        text = table.commit_file(version).read_text().splitlines()
        table.commit_file(version).write_text("\n".join(text[1:]) or "{}")
        os.utime(table.commit_file(version), (1, 1))
    items = table.scene.adapter().storage.versions().items
    assert [item.at_ms for item in items] == [1_000, 1_000, 1_000, 7_000, 7_000, None, 9_000, 2**53]
    assert [item.parent for item in items] == [None, *range(7)]


def test_the_tables_own_retention(table: ByHand) -> None:
    storage = table.scene.adapter().storage
    assert (storage.versions().min_age_ms, storage.versions().usual_age_ms) == (None, 168 * HOUR_MS)
    table.commit(table.metadata(**{"delta.deletedFileRetentionDuration": "interval 1 day 12 hours"}))
    assert storage.versions().min_age_ms == 36 * HOUR_MS
    table.commit(table.metadata(**{"delta.deletedFileRetentionDuration": "not an interval"}))
    with pytest.raises(AdapterError):
        storage.versions()


def test_spark_reads_large_commits(table: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    place, (one, other) = table.vectors([0], [0])
    b, d = (
        changed(table.add(f"{name}.parquet"), deletionVector=dv) for name, dv in (("b", one), ("d", other))
    )
    table.commit(removed(table.add("b.parquet")), b, d)
    table.commit(removed(b), table.add("a.parquet", [0]))
    plain = look(table.scene)
    monkeypatch.setattr(reading, "LARGE", 1)
    large = look(table.scene)
    assert large.plan.files == plain.plan.files
    assert plain.names() == {"b.parquet"}
    assert place.exists()
    storage = plain.storage
    table.commit(removed(d))
    assert look(table.scene, storage=storage).sweep() == {"b.parquet", "d.parquet", place.name}


def test_files_of_a_shallow_clone_belong_to_its_source(table: ByHand, tmp_path: Path) -> None:
    """Losses 72, 73: a vacuum of the source checks the clone; a vacuum of the clone keeps the source's files."""
    clone = Scene(table.scene.spark, tmp_path / "clone")
    clone.run(f"CREATE TABLE {{t}} SHALLOW CLONE {table.scene.sql}")
    table.commit(removed(table.add("b.parquet")))
    source = look(table.scene)
    user = clone.adapter().storage
    paths = {file.path for file in source.plan.files}
    assert {Path(p).name for p in user.named(user.versions(), paths)} == {"b.parquet"}
    clone.run("DELETE FROM {t} WHERE k = 2")
    own = look(clone)
    assert own.plan.files == ()
    assert [Path(path).name for path in own.garbage.outside] == ["c.parquet"]


def test_other_tables_nearby(table: ByHand, tmp_path: Path) -> None:
    """Loss 51: a table around this one, one inside it, and one of another format in its folder."""
    storage = table.scene.adapter().storage
    assert storage.foreign_tables() == storage.foreign_tables([]) == []
    ByHand(Scene(table.scene.spark, table.path / "sub" / "_below"))
    (table.path / "x" / "metadata").mkdir(parents=True)
    (table.path / "x" / "metadata" / "v1.metadata.json").write_text("{}")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00000-x.metadata.json").write_text("{}")
    root = storage.grounds.roots[0]
    found = [f"{root}/sub/_below/_delta_log", f"{root}/x/metadata"]
    around = [f"file:{tmp_path}/_delta_log", f"file:{tmp_path}/metadata"]
    assert storage.foreign_tables() == sorted([*found, *around])
    assert storage.foreign_tables(["sub"]) == sorted([found[0], *around])
    assert storage.foreign_tables(["nowhere"]) == around


def test_places_that_a_catalog_spells_in_another_way(table: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L164, on Delta: the table's own name is no neighbour, however its folder is spelled."""
    storage, above = table.scene.adapter().storage, f"file://{table.path.parent}"
    listed = [
        Place("spark_catalog", ("db",), "own", "delta", f"{above}//{table.path.name}"),
        Place("spark_catalog", ("db",), "same", "delta", f"{above}/x/../{table.path.name}"),
        Place("spark_catalog", ("db",), "beside", "delta", f"{above}/{table.path.name}2"),
    ]
    monkeypatch.setattr(foreign_tables, "places", lambda *_: listed)
    assert storage.foreign_tables() == []
    listed.append(Place("spark_catalog", ("db",), "inside", "parquet", f"{above}/./{table.path.name}//sub"))
    [found] = storage.foreign_tables()
    assert found.startswith("spark_catalog.db.inside at ")


def test_file_names_that_look_like_a_file_status(table: ByHand) -> None:
    """A name that contains Hadoop's text for a file status must not make another file look old."""
    table.stray("x.parquet")
    text = "x.parquet; isDirectory=false; length=1; replication=1; blocksize=1; modification_time=1; owner="
    (table.path / text).write_text("hostile")
    storage = table.scene.adapter().storage
    listed = {Path(info.path).name: info.modified_ms for info in storage.files()}
    assert listed.keys() == {"a.parquet", "b.parquet", "c.parquet", "x.parquet"}
    assert listed["x.parquet"] > 1


def test_moves_and_back(table: ByHand) -> None:
    looked = look(table.scene)
    root = looked.storage.grounds.roots[0]
    there, bin_ = f"{root}/a.parquet", f"{root}/_lakekeeper/trash/1/0/a.parquet"
    assert looked.storage.move({there: bin_}) == [there]
    assert looked.storage.move({there: bin_}) == [there]  # moved already
    assert (looked.storage.look([there, bin_])[0], on_disk(table.path)) == (None, {"b.parquet", "c.parquet"})
    assert looked.storage.move({f"{root}/b.parquet": bin_}) == []  # never overwrites
    assert looked.storage.move({bin_: f"{root}/_delta_log/x"}) == []
    assert looked.storage.move({bin_: "file:/etc/x"}) == []
    assert looked.storage.move({bin_: there}) == [bin_]
    assert looked.storage.delete([Doomed(there, "trash", 1, 1), Doomed(bin_, "data", 1, 1)]) == []
    assert looked.storage.delete([Doomed(bin_, "trash", 1, 1), Doomed(there, "data", 1, 1)]) == [bin_, there]


def test_notes_are_replaced_and_removed(table: ByHand) -> None:
    notes = table.scene.adapter().notes
    notes.remove("vacuum/cursor.json")
    notes.replace("vacuum/cursor.json", "1")
    notes.replace("vacuum/cursor.json", "ä 2")
    assert notes.keep("vacuum/cursor.json", "3") == notes.read("vacuum/cursor.json") == "ä 2"
    assert [p.name for p in table.path.rglob("_lakekeeper/**/*.json*") if p.suffix != ".crc"] == [
        "cursor.json"
    ]
    notes.remove("vacuum/cursor.json")
    assert notes.read("vacuum/cursor.json") is None


class Bulk:
    """A file system that deletes three files per call."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.pages: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def createBulkDelete(self, _base: Any) -> Bulk:  # noqa: N802
        return self

    def pageSize(self) -> int:  # noqa: N802
        return 3

    def bulkDelete(self, paths: Any) -> None:  # noqa: N802
        self.pages.append(len(paths))
        for path in paths:
            self._files.delete(path, False)

    def close(self) -> None:
        pass
