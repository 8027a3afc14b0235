"""The storage half of a vacuum: the swap that expires snapshots, the deletes, and which files belong to the table."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.vacuum.retention import Kept, Retention, Versions, keep
from lakekeeper.core.vacuum.vacuum_plan import Doomed
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError, Conflict, LostRace, Rejected, RetentionError, Unknown
from lakekeeper.spark.session_confs import catalog_conf
from lakekeeper.spark.shims import shim
from lakekeeper_iceberg.expiry import Expiry
from lakekeeper_iceberg.filesystem import Disk
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.storage import IcebergStorage
from tests.faults.storage import faulty_storage
from tests.iceberg.scene import Scene
from tests.iceberg.swaps import tampered
from tests.iceberg.sweeping import LATER, check, fill, on_disk, sweep
from tests.jvm_calls import jvm_calls
from tests.opening import table_later
from tests.oracles.rest_catalog import Answer, rest_catalog
from tests.rewrites import recluster

pytestmark = pytest.mark.iceberg


def rows(scene: Scene, *keys: int) -> Scene:
    return scene.run(*(f"INSERT INTO {{t}} VALUES ({k}, 'v{k}')" for k in keys))


def location(scene: Scene) -> Path:
    return Path(str(scene.java().location()).removeprefix("file:"))


def local(place: Any) -> Path:
    return Path(str(place).removeprefix("file:"))


def doomed(path: Any, kind: str = "data") -> Doomed:
    return Doomed(str(path), kind, 1, 1)


def pictured(storage: IcebergStorage, scene: Scene) -> tuple[Versions, Kept]:
    versions = storage.versions()
    return versions, keep(scene.sql, versions, Retention(0, allow_unsafe=True), LATER)


def doomed_by(storage: IcebergStorage, scene: Scene) -> tuple[Versions, Kept, set[str]]:
    """A snapshot of the table's versions, and the files that a vacuum of it would delete."""
    versions, kept = pictured(storage, scene)
    return versions, kept, {d.path for d in storage.garbage(versions, kept).files}


@pytest.mark.parametrize(
    "rival",
    [
        "ALTER TABLE {t} CREATE TAG late AS OF VERSION {first}",
        "CALL ice.system.rollback_to_snapshot(table => 'db.{name}', snapshot_id => {first})",
        "ALTER TABLE {t} SET TBLPROPERTIES ('gc.enabled' = 'false')",
    ],
)
def test_a_commit_that_invalidates_the_plan_is_a_conflict(scene: Scene, rival: str) -> None:
    """Loss 58: a tag or branch created meanwhile protects its snapshot."""
    rows(scene.create("k INT, v STRING"), 1, 2)
    storage = scene.adapter().storage
    versions, kept, files = doomed_by(storage, scene)
    scene.run(rival.replace("{first}", str(scene.versions()[0])).replace("{name}", scene.name))
    before = scene.versions(), on_disk(scene)
    with pytest.raises(Conflict) as lost:
        storage.expire(versions, kept, files)
    assert not isinstance(lost.value, LostRace)
    assert (scene.versions(), on_disk(scene)) == before


@pytest.mark.parametrize(
    "rival",
    [
        "INSERT INTO {t} VALUES (9, 'x')",
        "DELETE FROM {t} WHERE k = 1",
        "ALTER TABLE {t} ADD COLUMN w INT",
        "CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))",
    ],
)
def test_a_commit_of_a_writer_needs_no_second_plan(scene: Scene, rival: str) -> None:
    """Loss L8: files that were dead before stay dead, and are deleted."""
    rows(scene.create("k INT, v STRING"), 1, 2, 3)
    storage = scene.adapter().storage
    versions, kept, files = doomed_by(storage, scene)
    assert files
    scene.run(rival.replace("{name}", scene.name))
    after, expected = on_disk(scene), (scene.spark_rows(), scene.log_rows())
    assert storage.expire(versions, kept, files) == set()
    assert set(scene.versions()).isdisjoint(kept.gone)
    assert set(storage.delete([doomed(path, "manifest list") for path in files])) == files
    assert after - on_disk(scene) == {path.removeprefix("file:") for path in files}
    assert (scene.spark_rows(), scene.log_rows()) == expected


def test_files_in_the_trash_that_a_rollback_needs(scene: Scene) -> None:
    """Loss L87: Iceberg checks no file when it tags a snapshot or rolls back to it."""
    scene.create("k INT, v STRING").run(*(f"INSERT OVERWRITE {{t}} VALUES ({k}, 'v')" for k in range(3)))
    first, second, third = scene.versions()
    known = {version: scene.spark_rows(version) for version in (first, second, third)}

    def tag(phase: str, _info: object) -> None:
        if phase == "planned" and len(dict(scene.java().refs())) == 1:
            scene.run(f"ALTER TABLE {{t}} CREATE TAG late AS OF VERSION {first}")

    def vacuum(**more: Any) -> lk.VacuumReport:
        options = {"vacuum.max-share": 1}
        table = lk.table(scene.spark, scene.sql)
        return table.vacuum(
            trash=True, retention_hours=0, allow_unsafe_retention=True, options=options, **more
        )

    moved = vacuum(observer=tag)
    assert (moved.deleted_files_count, moved.retries) == (1, 1)
    assert scene.spark_rows(first) == known[first]
    scene.call("rollback_to_snapshot", f", snapshot_id => {second}")
    later = table_later(scene.spark, scene.sql, hours=24 * 8)
    with pytest.raises(RetentionError, match=rf"restore\('{moved.trash}'\)"):
        later.empty_trash()
    later.restore(moved.trash)
    assert scene.spark_rows() == scene.log_rows() == known[second]
    # Snapshots that no name reaches do not keep an entry, though the metadata still has them.
    assert vacuum().deleted_files_count == 1
    assert third in scene.versions()
    assert [entry.files for entry in later.empty_trash()] == [1]
    assert {v: scene.spark_rows(v) for v in (first, second)} == {v: known[v] for v in (first, second)}


def test_files_that_a_later_commit_references_again_are_kept(scene: Scene) -> None:
    """Loss L8: an engine may add a file again that the plan found dead (apache/iceberg ``add_files``)."""
    rows(scene.create("k INT, v STRING"), 1, 2)
    table = scene.java()
    [file, _] = scene.data_files(table)
    scene.run("DELETE FROM {t} WHERE true")
    storage = scene.adapter().storage
    versions, kept, files = doomed_by(storage, scene)
    path = str(file.location())
    assert path in files
    table.refresh()
    table.newAppend().appendFile(file).commit()
    assert storage.expire(versions, kept, files) == {path}
    storage.delete([doomed(each) for each in files - {path}])
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).count() == 1


class Unnamed:
    """Metadata without the location of its file, as some REST catalogs return it."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata, name)

    def metadataFileLocation(self) -> None:  # noqa: N802  # Java's name
        return None


def test_files_that_a_later_commit_references_again_are_found_without_the_location_of_the_metadata(
    scene: Scene,
) -> None:
    rows(scene.create("k INT, v STRING"), 1, 2)
    table = scene.java()
    [file, _] = scene.data_files(table)
    scene.run("DELETE FROM {t} WHERE true")
    _, _, files = doomed_by(scene.adapter().storage, scene)
    base = table.operations().refresh()
    table.refresh()
    table.newAppend().appendFile(file).commit()
    newest = Unnamed(table.operations().refresh())
    expiry = Expiry(Iceberg(scene.spark), table, scene.sql, Unnamed(base))
    assert str(file.location()) in expiry.named_since(newest, files)


def test_a_writer_that_wins_the_first_swaps_needs_no_second_plan(scene: Scene) -> None:
    """Loss L8: each lost swap is retried with the same plan."""
    rows(scene.create("k INT, v STRING"), *range(4))
    races = iter(range(10, 13))

    def race(real: Any, base: Any, updated: Any) -> None:
        if (key := next(races, None)) is not None:
            rows(scene, key)
        real.commit(base, updated)

    looks: list[str] = []
    adapter, swaps = tampered(scene.spark, scene.sql)
    with swaps.acting(race):
        report = vacuum(
            adapter,
            VacuumRequest(resolve(), age_ms=0, allow_unsafe=True),
            observer=lambda phase, _: looks.append(phase),
        )
    assert (report.ended.code, report.retries, looks.count("planned")) == ("done", 3, 1)
    assert report.expired_snapshots_count == 3
    assert scene.spark.table(scene.sql).count() == 7
    assert scene.leftovers() == scene.metadata_leftovers() == set()


def _lost(jvm: Iceberg, kind: str) -> Exception:
    """The error that py4j raises for an Iceberg exception."""
    from py4j.protocol import Py4JJavaError

    made = getattr(jvm.view.org.apache.iceberg.exceptions, kind)
    nothing = jvm.array(jvm.view.java.lang.Object, [])
    return Py4JJavaError("raised", made(jvm.view.RuntimeException("on purpose"), "raised %s", nothing))


@pytest.mark.parametrize(
    "lands, raised, expected",
    [
        (True, "CommitFailedException", None),  # a client that sent the request twice lost to itself
        (False, "CommitFailedException", LostRace),
        (False, "ForbiddenException", Rejected),
        (True, "CommitStateUnknownException", Unknown),
        (True, "", Unknown),
    ],
)
def test_responses_of_a_catalog(
    scene: Scene, lands: bool, raised: str, expected: type[Exception] | None
) -> None:
    rows(scene.create("k INT, v STRING"), 1, 2)
    adapter, swaps = tampered(scene.spark, scene.sql)
    jvm = Iceberg(scene.spark)

    def act(real: Any, base: Any, updated: Any) -> None:
        if lands:
            real.commit(base, updated)
        raise _lost(jvm, raised) if raised == "CommitFailedException" else OSError(raised)

    versions, kept = pictured(adapter.storage, scene)
    with (
        swaps.acting(act),
        patch("lakekeeper_iceberg.commit.kinds_of_error", lambda e: [raised or type(e).__name__]),
    ):
        if expected is None:
            assert adapter.storage.expire(versions, kept, set()) == set()
        else:
            with pytest.raises(expected):
                adapter.storage.expire(versions, kept, set())
    assert scene.versions() == [v.id for v in versions.items if not lands or v.id in kept.reasons]


@dataclass
class _Rest:
    """A table behind a REST catalog whose server can act around a commit."""

    scene: Scene
    act: Callable[[Callable[[], None]], None] = lambda commit: commit()


@pytest.fixture
def rest(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path) -> Iterator[_Rest]:
    name = f"rest_{uuid.uuid4().hex[:8]}"
    made = _Rest(Scene(spark, name))
    answers = rest_catalog(tmp_path, lambda commit: made.act(commit))  # noqa: PLW0108  # a test changes it later
    with answers as address:
        confs.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        confs.set(f"spark.sql.catalog.{name}.type", "rest")
        confs.set(f"spark.sql.catalog.{name}.uri", address)
        spark.sql(f"CREATE NAMESPACE {name}.db")
        yield made


def test_a_catalog_that_applies_changes_to_its_current_metadata(rest: _Rest) -> None:
    """Loss L8: the protocol cannot require that nothing was committed; later commits are subtracted afterwards."""
    scene = rows(rest.scene.create("k INT, v STRING"), 1, 2)
    assert check(scene).of_kind("manifest list") == 1
    rows(scene, 3)
    table = scene.java()
    [file, *_] = scene.data_files(table)
    scene.run("DELETE FROM {t} WHERE true")
    adapter, swaps = tampered(scene.spark, scene.sql)
    storage = adapter.storage
    versions, kept, files = doomed_by(storage, scene)

    def overtaken(real: Any, base: Any, updated: Any) -> None:
        table.refresh()
        table.newAppend().appendFile(file).commit()
        real.commit(base, updated)

    with swaps.acting(overtaken):
        assert storage.expire(versions, kept, files) == {str(file.location())}
    storage.delete([doomed(path) for path in files - {str(file.location())}])
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).count() == 1


def test_a_tag_that_the_catalog_dropped_with_the_expiry_stops_the_deletes(rest: _Rest) -> None:
    """A tag created for a snapshot while it expires is dropped with it; a REST server reports nothing."""
    scene = rows(rest.scene.create("k INT, v STRING"), 1, 2)
    adapter, swaps = tampered(scene.spark, scene.sql)
    storage = adapter.storage
    versions, kept, files = doomed_by(storage, scene)
    scene.run(f"ALTER TABLE {{t}} CREATE TAG kept AS OF VERSION {scene.versions()[-1]}")

    def dropped(real: Any, base: Any, updated: Any) -> None:
        real.commit(base, updated)
        scene.run("ALTER TABLE {t} DROP TAG kept")

    with swaps.acting(dropped), pytest.raises(Unknown, match="removed kept"):
        storage.expire(versions, kept, files)


def test_a_lost_response(rest: _Rest) -> None:
    scene = rows(rest.scene.create("k INT, v STRING"), 1, 2)
    storage = scene.adapter().storage
    versions, kept = pictured(storage, scene)

    def landed(commit: Callable[[], None]) -> None:
        commit()
        raise Answer(409)

    rest.act = landed
    assert storage.expire(versions, kept, set()) == set()
    rest.act = lambda commit: commit()
    assert scene.versions() == list(kept.reasons)


def test_only_files_of_the_table_are_deleted(scene: Scene, tmp_path: Path) -> None:
    """Reference: CWE-22, CWE-59; a writer of metadata could reference any path."""
    rows(scene.create("k INT, v STRING"), 1)
    root = location(scene)
    (tmp_path / "far.parquet").write_text("x")
    (root / "data" / "link").symlink_to(tmp_path)
    (root / "data" / "soft.parquet").symlink_to(tmp_path / "far.parquet")
    (root / "data" / "empty").mkdir()
    (root / "_lakekeeper").mkdir(exist_ok=True)
    (root / "_lakekeeper" / "x.json").write_text("x")
    neighbour = root.parent / f"{root.name}2.parquet"
    neighbour.write_text("x")
    metadata = next((root / "metadata").glob("*.avro"))
    forbidden = [
        doomed(tmp_path / "far.parquet"),
        doomed(f"{root}/data/../../{neighbour.name}"),
        doomed(f"{root}/data/../../{neighbour.name}", "manifest"),
        doomed(neighbour),
        doomed(root / "data" / "link" / "far.parquet"),
        doomed(root / "data" / "soft.parquet"),
        doomed(root / "data" / "empty"),
        doomed(root / "data"),
        doomed(root),
        doomed(f"{root}/"),
        doomed(root / "_lakekeeper" / "x.json"),
        doomed(metadata),
        doomed(f"s3://bucket{root}/data/x.parquet"),
        doomed(f"file://host{root}/data/x.parquet"),
    ]
    storage = scene.adapter().storage
    before, outer = on_disk(scene), set(root.rglob("*"))
    for file in forbidden:
        assert storage.delete([file]) == [], file.path
    assert (on_disk(scene), set(root.rglob("*"))) == (before, outer)
    assert neighbour.exists()
    assert (tmp_path / "far.parquet").exists()
    seen = storage.look([f.path for f in forbidden[4:7]])
    assert [info and info.link for info in seen] == [True, True, None]
    assert not storage.move({str(root / "data" / "link" / "far.parquet"): f"{root}/data/y"})
    assert not storage.move({str(metadata): str(tmp_path / "stolen.avro")})
    (root / "data" / "ok a%20b+#ä.parquet").write_text("x")
    odd = str(root / "data" / "ok a%20b+#ä.parquet")
    assert storage.delete([doomed(f"file://{odd}"), doomed(root / "data" / "gone.parquet")]) == [
        f"file://{odd}",
        str(root / "data" / "gone.parquet"),
    ]
    assert on_disk(scene) == before - {odd}


def test_a_table_whose_location_is_a_link(scene: Scene, tmp_path: Path) -> None:
    """Loss 77: the path of the table's own root may contain a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    scene.create("k INT, v STRING", more=f"LOCATION '{tmp_path}/link/t/'")
    rows(scene, 1).run("DELETE FROM {t}")
    rows(scene, 2)
    assert check(scene).of_kind("data") == 1


def test_only_files_that_are_really_gone_are_reported(scene: Scene) -> None:
    """Loss 69: a delete that reports success and deletes nothing."""
    rows(scene.create("k INT, v STRING"), 1).run("DELETE FROM {t}")
    with patch.object(Disk, "delete_all", lambda *_: None):
        assert sweep(scene).gone == frozenset()


def test_a_vacuum_lists_nothing(scene: Scene) -> None:
    rows(scene.create("k INT, v STRING"), 1, 2, 3).run("DELETE FROM {t} WHERE k < 3")
    recluster(scene)
    storage = scene.adapter().storage
    with faulty_storage(scene.spark) as faults:
        faults.arm(location(scene), "list")
        done = sweep(scene, storage=storage, hints=[f"{location(scene)}/data/x.parquet"])
        assert faults.disarm() == []
        faults.arm(location(scene), "list")
        assert list(storage.files())
        assert faults.disarm()
    assert len(done.gone) > 8


def test_files_of_dead_runs_are_found_without_listing_the_table(scene: Scene) -> None:
    """Loss L20: the data folder was listed once for each run."""
    rows(scene.create("k INT, v STRING"), 1, 2, 3)
    recluster(scene)
    runs = [run_folder(str(scene.java().uuid()), f"run-{n}") for n in range(1, 6)]
    storage = scene.adapter().storage
    with faulty_storage(scene.spark) as faults:
        faults.arm(location(scene), "list")
        assert list(storage.left_by(runs))
        listed = faults.disarm()
    outside = [call for call in listed if not any(f"/{run}" in call for run in runs)]
    assert outside == ["list /metadata"], "one listing for metadata files of swaps, for all runs"
    assert len(outside) < len(listed)


def test_many_files_are_checked_and_deleted_in_few_jvm_calls(scene: Scene) -> None:
    """Loss L21: each file took several JVM calls."""
    rows(scene.create("k INT, v STRING"), 1)
    paths = [location(scene) / "data" / f"00000-{n}-{uuid.uuid4()}-00001.parquet" for n in range(500)]
    for path in paths:
        path.write_text("x")
    storage = scene.adapter().storage
    with jvm_calls() as calls:
        seen = storage.look([str(path) for path in paths])
        storage.delete([doomed(path) for path in paths])
    assert len(calls) < len(paths)
    assert all(info is not None and info.bytes == 1 for info in seen)
    assert not any(path.exists() for path in paths)


def test_a_failing_store_reports_no_deleted_file(scene: Scene) -> None:
    rows(scene.create("k INT, v STRING"), 1)
    storage = scene.adapter().storage
    path = str(next((location(scene) / "data").glob("*.parquet")))
    with faulty_storage(scene.spark) as faults:
        faults.arm(location(scene), "status list", 0, "crash before")
        with pytest.raises(AdapterError):
            storage.look([path])
        with pytest.raises(AdapterError):
            list(storage.files())
    assert storage.look([path, f"{path}.none"])[1] is None


def test_orphan_files_and_referenced_files(scene: Scene) -> None:
    """Losses 51, 53, 54, 59, 60: exactly the files that a snapshot or the metadata log references are kept."""
    scene.create("k INT, v STRING", 3).run(fill(0, 10), "DELETE FROM {t} WHERE k = 3")
    scene.call("compute_table_stats").run("ALTER TABLE {t} CREATE BRANCH b")
    scene.run("INSERT INTO {t}.branch_b VALUES (100, 'b')")
    adapter = scene.adapter()
    recluster(scene)
    root = location(scene)
    run = run_folder(str(scene.java().uuid()), "run-1")
    orphan = root / "data" / run / "none" / "L1" / "k=1" / f"00000-1-{uuid.uuid4()}-00001.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_text("orphan")
    stray = root / "metadata" / f"{uuid.uuid4()}-m0.avro"
    stray.write_text("x")
    adapter.notes.keep("a/b.json", "kept")
    storage = adapter.storage
    listed = {info.path: info for info in storage.files()}
    assert {path.removeprefix("file:") for path in listed} == on_disk(scene)
    versions = storage.versions()
    named = storage.named(versions, listed)
    assert {p.removeprefix("file:") for p in listed.keys() - named} == {str(orphan), str(stray)}
    assert storage.recognised(listed.keys()) == listed.keys()
    info = listed[f"file:{orphan}"]
    assert (info.bytes, info.link) == (6, False)
    assert abs(info.modified_ms - orphan.stat().st_mtime * 1000) < 1000
    left = {local(i.path) for i in storage.left_by([run])}
    assert {path for path in left if run in path.parts} == {local(p) for p in listed if f"/{run}/" in p}
    assert orphan in left
    moved = storage.move({str(orphan): f"{root}/_lakekeeper/trash/1/orphan.parquet"})
    assert moved == [str(orphan)]
    assert not orphan.exists()
    assert {i.path for i in storage.files()} == listed.keys() - {f"file:{orphan}"}
    (root / "data" / "other.parquet").write_text("x")
    taken = {str(root / "data" / "other.parquet"): f"{root}/_lakekeeper/trash/1/orphan.parquet"}
    assert storage.move(taken) == []  # never overwrites
    assert storage.move({str(stray): f"{root}/_lakekeeper/trash/1/stray.avro"}) == []  # metadata is not moved
    assert stray.exists()


def test_tables_in_one_folder(scene: Scene, tmp_path: Path) -> None:
    """Loss 51: the same folder, a folder in a folder, another format, and metadata that cannot be read."""
    spark = scene.spark

    def made(folder: str) -> Scene:
        other = Scene(spark).create("k INT, v STRING", more=f"LOCATION '{tmp_path}/{folder}'")
        return rows(other, 1)

    def foreign_tables(of: Scene, runs: Sequence[str] | None = None) -> list[str]:
        return [place.replace("file:", "") for place in of.adapter().storage.foreign_tables(runs)]

    alone = made("alone")
    assert foreign_tables(alone) == foreign_tables(alone, ["x"]) == []
    inner = made("alone/data/inner")
    assert foreign_tables(alone) == [f"{location(inner)}/metadata", f"{inner.sql} at {location(inner)}"]
    assert foreign_tables(inner) == [f"{location(alone)}/metadata", f"{alone.sql} at {location(alone)}"]
    assert foreign_tables(alone, ["inner"]) == foreign_tables(alone)
    assert foreign_tables(alone, []) == [f"{inner.sql} at {location(inner)}"]
    first, second = made("same"), made("same")
    assert foreign_tables(first) == [f"{tmp_path}/same/metadata", f"{second.sql} at {tmp_path}/same"]
    assert foreign_tables(second, ["x"]) == [f"{first.sql} at {tmp_path}/same"]
    delta = made("delta")
    (tmp_path / "delta" / "x" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "x" / "_delta_log" / "0.json").write_text("{}")
    assert foreign_tables(delta) == [f"{tmp_path}/delta/x/_delta_log"]
    broken = made("broken")
    (tmp_path / "broken" / "metadata" / "9.metadata.json").write_text("{")
    with pytest.raises(AdapterError, match="does not say which table"):
        foreign_tables(broken)
    beside = made("db/metadata")  # a table of this name is beside the others, not around them
    assert foreign_tables(made("db/other")) == []
    assert foreign_tables(beside) == []


def test_tables_that_write_their_data_to_one_folder(scene: Scene, tmp_path: Path) -> None:
    """Loss L2: the catalog knows what no listing shows."""
    shared = {"write.data.path": f"file:{tmp_path}/bulk"}
    one, other = (rows(Scene(scene.spark).create("k INT, v STRING", properties=shared), 1) for _ in range(2))
    storage = one.adapter().storage
    assert storage.foreign_tables() == []  # this table does not own the folder
    allowed = storage.allowing([f"file:{tmp_path}"])
    assert allowed.foreign_tables() == [f"{other.sql}, whose write.data.path is file:{tmp_path}/bulk"]
    assert allowed.foreign_tables(["lk1"]) == []


@pytest.mark.parametrize("spelling", ["//bulk", "/./bulk", "/x/../bulk"])
def test_a_folder_that_two_tables_spell_differently(scene: Scene, tmp_path: Path, spelling: str) -> None:
    """Loss L164: the folder of the other table was compared as a text, and its files were deleted as orphans."""
    one, other = (
        rows(
            Scene(scene.spark).create(
                "k INT, v STRING", properties={"write.data.path": f"file:{tmp_path}{path}"}
            ),
            1,
        )
        for path in ("/bulk", spelling)
    )
    allowed = one.adapter().storage.allowing([f"file:{tmp_path}"])
    assert [text.partition(",")[0] for text in allowed.foreign_tables()] == [other.sql]


def test_tables_of_two_catalogs_that_write_their_data_to_one_folder(
    scene: Scene, rest: _Rest, tmp_path: Path
) -> None:
    """Loss L55: only the catalog of the table was searched."""
    shared = {"write.data.path": f"file:{tmp_path}/bulk"}
    rows(scene.create("k INT, v STRING", properties=shared), 1)
    other = rows(rest.scene.create("k INT, v STRING", properties=shared), 1)
    allowed = scene.adapter().storage.allowing([f"file:{tmp_path}/bulk"])
    assert allowed.foreign_tables() == [f"{other.sql}, whose write.data.path is file:{tmp_path}/bulk"]


def test_two_catalogs_that_show_one_table(rest: _Rest, confs: RuntimeConfig, tmp_path: Path) -> None:
    """Its name in the other catalog counted as another table, and no search for orphans was possible."""
    scene = rest.scene
    own = f"spark.sql.catalog.{scene.catalog}"
    for key, value in shim().confs(scene.spark).items():
        if key == own or key.startswith(f"{own}."):
            confs.set(key.replace(own, "spark.sql.catalog.twin"), value)
    shared = {"write.data.path": f"file:{tmp_path}/bulk"}
    rows(scene.create("k INT, v STRING", properties=shared), 1)
    assert scene.spark.table(f"twin.db.{scene.name}").count() == 1
    assert scene.adapter().storage.allowing([f"file:{tmp_path}/bulk"]).foreign_tables() == []


def test_a_catalog_that_was_left_behind_sees_no_dead_files(
    scene: Scene, confs: RuntimeConfig, tmp_path: Path
) -> None:
    """Loss L159: what the table had got through the other catalog looked like orphans, or left by a run that died."""
    rows(scene.create("k INT, v STRING"), 1)
    for key, value in catalog_conf("moved", f"jdbc:sqlite:{tmp_path}/moved.db", tmp_path).items():
        confs.set(key, value)
    metadata = local(scene.java().operations().current().metadataFileLocation())
    scene.spark.sql("CREATE NAMESPACE moved.db")
    scene.spark.sql(f"CALL moved.system.register_table('db.t', '{metadata}')")
    storage = scene.adapter().storage
    assert storage.foreign_tables() == storage.foreign_tables([]) == []
    report = lk.table(scene.spark, "moved.db.t").delete("k = 1")
    assert report.changed
    assert storage.foreign_tables() == [], "it may be a commit that is under way"
    for file in metadata.parent.glob("*.metadata.json"):
        os.utime(file, (time.time() - 3600,) * 2)
    for found in (storage.foreign_tables(), storage.foreign_tables([])):
        assert [text.partition(", ")[2] for text in found] == [
            "which is newer than the metadata that this catalog names"
        ]
    table = lk.table(scene.spark, scene.sql)
    with pytest.raises(RetentionError, match="newer than the metadata that this catalog names"):
        table.vacuum(orphans=True)
    scene.run("INSERT INTO {t} VALUES (2, 'x')")
    assert storage.foreign_tables() == [], "a swap that failed is overtaken by the next commit"


def test_a_catalog_that_does_not_respond(scene: Scene) -> None:
    rows(scene.create("k INT, v STRING"), 1)
    broken = rows(Scene(scene.spark).create("k INT"))
    metadata = local(broken.java().operations().current().metadataFileLocation())
    text = metadata.read_bytes()
    scene.spark.sql(f"REFRESH TABLE {broken.sql}")  # the catalog caches tables
    metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)
    metadata.unlink()
    try:
        with pytest.raises(AdapterError, match=rf"{broken.sql} does not report its location"):
            scene.adapter().storage.foreign_tables([])
    finally:
        metadata.write_bytes(text)


def test_notes_are_replaced_and_removed(scene: Scene) -> None:
    notes = scene.create("k INT").adapter().notes
    for text in ("one", "two, and more of it", "3"):
        notes.replace("vacuum/cursor.json", text)
        assert notes.read("vacuum/cursor.json") == text
    assert notes.keep("vacuum/cursor.json", "late") == "3"
    folder = location(scene) / "_lakekeeper" / "vacuum"
    assert [p.name for p in folder.iterdir() if not p.name.startswith(".")] == ["cursor.json"]
    with faulty_storage(scene.spark) as faults:
        for kind in ("create", "close"):
            faults.arm(location(scene), kind, 0, "before")
            with pytest.raises(AdapterError):
                notes.replace("vacuum/cursor.json", "4")
            faults.disarm()
            assert notes.read("vacuum/cursor.json") == "3"
    notes.remove("vacuum/cursor.json")
    notes.remove("vacuum/cursor.json")
    assert notes.read("vacuum/cursor.json") is None


def test_the_whole_vacuum_lists_nothing_and_leaves_nothing(scene: Scene) -> None:
    rows(scene.create("k INT, v STRING", 3), 1, 2, 3).run("DELETE FROM {t} WHERE k < 3")
    recluster(scene)
    table = lk.table(scene.spark, scene.sql)
    before, kept = on_disk(scene), scene.spark_rows()
    with faulty_storage(scene.spark) as faults:
        faults.arm(location(scene), "list")
        how = {"retention_hours": 0, "allow_unsafe_retention": True, "options": {"vacuum.max-share": 1}}
        done = table.vacuum(**how)  # type: ignore[arg-type]
        assert faults.disarm() == []
    gone = before - on_disk(scene)
    assert done.deleted_files_count == len(gone) > 8
    assert (scene.spark_rows(), scene.log_rows()) == (kept, kept)
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert table.vacuum(**how).deleted_files_count == 0  # type: ignore[arg-type]
