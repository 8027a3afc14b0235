"""Vacuum, the trash and dropped tables, through the public API, on Delta and Iceberg."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import registered
from lakekeeper.errors import AdapterError, NotFound, OptionError, RetentionError
from tests.formats.lakes import Lake
from tests.opening import table_with

ALL = {"vacuum.max-share": 1}
NOW: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True, "options": ALL}
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
REWRITE = {"depth-threshold": 1, "policy": "full"}


def on_disk(place: Path) -> dict[Path, int]:
    """File → size, without lakekeeper's own files and checksums."""
    files = [p for p in place.rglob("*") if p.is_file() and "_lakekeeper" not in p.parts]
    return {p: p.stat().st_size for p in files if not p.name.endswith(".crc") or "_delta_log" in p.parts}


def rewritten(lake: Lake, times: int = 2) -> str:
    """A table that was rewritten ``times`` times; each rewrite makes all previous files garbage."""
    name = lake.overlapping(3, 20)
    for _ in range(times):
        lk.table(lake.spark, name).recluster("k", options=REWRITE)
    return name


def test_unneeded_files_are_deleted_and_the_rest_reads_the_same(spark: SparkSession, lake: Lake) -> None:
    name = rewritten(lake)
    before, place = lake.fingerprint(name), lake.home(name)
    disk = on_disk(place)
    table = lk.table(spark, name)
    preview = table.vacuum(dry_run=True, **NOW)
    assert on_disk(place) == disk
    assert preview.plan is not None
    report = table.vacuum(**NOW)
    gone = {str(path): size for path, size in disk.items() if path not in on_disk(place)}
    assert {f.path.removeprefix("file:") for f in preview.plan.files} == set(gone)
    assert report.deleted_files_count == len(gone) == preview.deleted_files_count
    assert report.deleted_bytes_count == sum(gone.values())
    assert lake.fingerprint(name) == before
    assert registered(lake.adapter(name).notes) == {}
    # Only files of the newest version are left.
    data = [p for p in on_disk(place) if p.suffix == ".parquet" and "_delta_log" not in p.parts]
    assert len(data) == table.blocks().count()
    again = table.vacuum(**NOW)
    assert (again.deleted_files_count, again.ended.code) == (0, "nothing_to_do")
    assert "nothing to delete" in str(again)


def test_kept_versions_read_the_same_by_two_readers(spark: SparkSession, lake: Lake) -> None:
    name = lake.overlapping(2, 20)
    table = lk.table(spark, name)
    for k in (3, 5):
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = {k}")
        table.recluster("k", options=REWRITE)
    known = {v: (lake.fingerprint(name, v), lake.rows(name, v)) for v in lake.versions(name)}
    for keeps in (3, 1):
        assert table.vacuum(retain_last=keeps, **NOW).deleted_files_count > 0
        for version in list(known)[-keeps:]:
            assert (lake.fingerprint(name, version), lake.rows(name, version)) == known[version]


def test_nothing_is_deleted_within_the_tables_own_retention(spark: SparkSession, lake: Lake) -> None:
    name = rewritten(lake, 1)
    table, disk = lk.table(spark, name), on_disk(lake.home(name))
    assert table.vacuum().deleted_files_count == 0
    with pytest.raises(RetentionError, match="allow_unsafe_retention"):
        table.vacuum(retention_hours=1)
    with pytest.raises(OptionError, match="older_than"):
        table.vacuum(older_than="2020-01-01")  # type: ignore[arg-type]  # the error is what is tested
    assert on_disk(lake.home(name)) == disk


def test_a_running_rewrite_finds_the_files_it_read(spark: SparkSession, lake: Lake) -> None:
    """Losses 62, 80: vacuum between read and commit."""
    name = rewritten(lake, 1)
    before = lake.fingerprint(name)
    swept = []

    def vacuum(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "planned":
            lake.append(name, spark.range(1000, 1005).selectExpr("id", "1 AS k", "'x' AS v"))
        if phase in ("read", "written", "before_commit"):
            swept.append(lk.table(spark, name).vacuum(**NOW))

    report = lk.table(spark, name).recluster("k", options=REWRITE, observer=vacuum)
    assert report.commits == 1
    assert len(swept) == 3
    after = lake.fingerprint(name)
    assert after[0] == before[0] + 5
    lk.table(spark, name).vacuum(**NOW)
    assert lake.fingerprint(name) == after


@pytest.mark.parametrize("by", ["rows", "columns"])
def test_a_vacuum_keeps_the_versions_by_which_the_commit_of_a_running_rewrite_is_checked(
    spark: SparkSession, lake: Lake, by: str
) -> None:
    """Loss L140: the versions after the one that the run had read expired, and all of its work was dropped."""
    name = rewritten(lake, 1)
    before = lake.fingerprint(name)

    def vacuum(phase: str, _info: Mapping[str, Any]) -> None:
        if phase in ("planned", "written"):
            for start in (1000, 1010, 1020):
                lake.append(name, spark.range(start, start + 5).selectExpr("id", "1 AS k", "'x' AS v"))
        if phase in ("read", "written", "before_commit"):
            lk.table(spark, name).vacuum(**NOW)

    options = {**REWRITE, "merge-engine": "spark" if by == "rows" else "auto"}
    report = lk.table(spark, name).recluster("k", options=options, observer=vacuum)
    assert (report.commits, report.conflicts) == (1, 0), report
    after = lake.fingerprint(name)
    assert after[0] == before[0] + 30
    lk.table(spark, name).vacuum(**NOW)
    assert lake.fingerprint(name) == after


def unnamed(place: Path) -> Path:
    """A path at which a writer of the format could write a data file; no file exists there."""
    written = next(p for p in on_disk(place) if p.suffix == ".parquet" and not p.parent.name.startswith("lk"))
    return written.with_name(re.sub(UUID, str(uuid.uuid4()), written.name))


def test_uncommitted_files_are_kept(spark: SparkSession, lake: Lake) -> None:
    """Losses 61, 70: not committed yet, of age zero, with a time in the future, or with a foreign name."""
    name = rewritten(lake, 1)
    table, place = lk.table(spark, name), lake.home(name)
    fresh, late, old = unnamed(place), unnamed(place), unnamed(place)
    foreign = fresh.with_name("copy-of-my-table.parquet")
    for path, days in ((fresh, 0), (late, 400), (old, -400), (foreign, -400)):
        path.write_text("under way")
        at = time.time() + days * 86_400
        os.utime(path, (at, at))
    table.vacuum(**NOW)
    assert {fresh, late, old, foreign} <= on_disk(place).keys()
    assert table.vacuum(orphans=True, **NOW).deleted_by_kind == {"orphan": (1, len("under way"))}
    assert {fresh, late, foreign} <= on_disk(place).keys()
    assert not old.exists()
    os.utime(fresh, (0, 0))
    report = table.vacuum(orphans=True, **NOW)
    assert {fresh, late, foreign} <= on_disk(place).keys()
    assert report.plan is not None
    assert [path.rpartition("/")[2] for path in report.plan.spared] == [fresh.name]


def test_the_trash(spark: SparkSession, lake: Lake) -> None:
    name = rewritten(lake)
    table, place = lk.table(spark, name), lake.home(name)
    known = {version: lake.fingerprint(name, version) for version in lake.versions(name)[-3:]}
    disk = on_disk(place)
    report = table.vacuum(trash=True, **NOW)
    assert report.deleted_files_count > 0
    assert on_disk(place) != disk
    [entry] = table.trash()
    assert (entry.files, entry.bytes) == (report.deleted_files_count, report.deleted_bytes_count)
    table.restore(report.trash)
    assert {path: size for path, size in on_disk(place).items() if "metadata" not in path.parts} == {
        path: size for path, size in disk.items() if "metadata" not in path.parts
    }
    assert {version: lake.fingerprint(name, version) for version in known} == known
    assert table.trash() == ()
    assert table.vacuum(trash=True, **NOW).deleted_files_count == report.deleted_files_count
    later = Clock(now_ms=lambda: entry.at_ms + 200 * 3_600_000)
    table = table_with(spark, name, clock=later)
    assert [e.files for e in table.empty_trash()] == [report.deleted_files_count]
    assert not [
        p for p in (place / "_lakekeeper" / "trash").rglob("*") if p.is_file() and "crc" not in p.suffix
    ]
    with pytest.raises(NotFound, match="it is empty"):
        table.restore("x")


def test_a_partition_is_dropped_and_restored(spark: SparkSession, lake: Lake) -> None:
    name = lake.create("day INT, v STRING", partitioned="day")
    for day in range(3):
        lake.append(name, spark.range(10).selectExpr(f"{day} AS day", "CAST(id AS STRING) AS v"))
    before = lake.fingerprint(name)
    table = lk.table(spark, name)
    report = table.drop_partition("day = 1")
    assert report.deleted_rows_count == 10
    assert spark.table(name).where("day = 1").count() == 0
    # A concurrent vacuum keeps what can be restored.
    lk.table(spark, name).vacuum(**NOW)
    [entry] = table.trash()
    table.restore(entry.name)
    assert lake.fingerprint(name) == before
    assert table.trash() == ()
    assert table.drop_partition("day = 2", force=True).deleted_rows_count == 10
    assert table.trash() == ()


def test_files_come_back_from_the_trash_after_a_rename(spark: SparkSession, lake: Lake) -> None:
    """Spark moves the folder of a managed Delta table, with the trash in it."""
    name = rewritten(lake)
    versions = lake.versions(name)
    before = lake.fingerprint(name, versions[-2])
    entry = lake.table(name).vacuum(trash=True, **NOW).trash
    renamed = f"{name}_renamed"
    spark.sql(f"ALTER TABLE {name} RENAME TO {renamed.partition('.')[2]}")
    table = lake.table(renamed)
    assert [each.name for each in table.trash()] == [entry]
    assert table.restore(entry).files > 0
    assert lake.fingerprint(renamed, versions[-2]) == before
    assert table.trash() == ()


def test_a_table_is_dropped_and_restored(spark: SparkSession, lake: Lake) -> None:
    name = lake.overlapping(2, 10)
    before = lake.fingerprint(name)
    catalog, namespace, plain = name.split(".")
    lk.drop_table(spark, name)
    assert not spark.catalog.tableExists(name)
    with pytest.raises(NotFound):
        lk.table(spark, name)
    assert [t.name for t in lk.dropped_tables(spark, f"{catalog}.{namespace}") if t.name == name] == [name]
    lk.restore_table(spark, name)
    assert lake.fingerprint(name) == before
    with pytest.raises(NotFound, match="no table of that name"):
        lk.restore_table(spark, name)
    kept = lk.drop_table(spark, name, force=True)
    place = lake.home(kept.kept_as)
    assert name in [t.name for t in lk.empty_dropped(spark, f"{catalog}.{namespace}")]
    assert not list(place.rglob("*.parquet"))
    assert plain not in [t.name for t in lk.dropped_tables(spark, f"{catalog}.{namespace}")]


def test_a_dropped_table_with_a_second_name_keeps_its_files(spark: SparkSession, lake: Lake) -> None:
    """Loss L146: a table that had been registered again was purged under its name in the trash."""
    name = lake.overlapping(2, 10)
    space, _, plain = name.rpartition(".")
    again = f"{space}.again_{plain}"
    kept = lk.drop_table(spark, name, force=True)
    if lake.iceberg:
        log = spark.sql(
            f"SELECT file FROM {kept.kept_as}.metadata_log_entries ORDER BY timestamp DESC, file DESC"
        )
        [file] = log.limit(1).collect()
        spark.sql(f"CALL ice.system.register_table('{again}', '{file[0]}')")
    else:
        spark.sql(f"CREATE TABLE {again} USING delta LOCATION '{lake.home(kept.kept_as)}'")
    lake.append(again, spark.range(7).selectExpr("id", "cast(id AS int) AS k", "cast(id AS string) AS v"))
    before = lake.fingerprint(again)
    if lake.iceberg:
        [gone] = [each for each in lk.empty_dropped(spark, space) if each.name == name]
        assert again in gone.files_stay
    else:  # Spark deletes the files of a managed table with its name
        with pytest.raises(AdapterError, match=f"{again} has its files in the same folder"):
            lk.empty_dropped(spark, space)
    assert lake.fingerprint(again) == before
    assert (name in [each.name for each in lk.dropped_tables(spark, space)]) != lake.iceberg
    spark.sql(f"DROP TABLE {again}")
    if not lake.iceberg:
        [gone] = [each for each in lk.empty_dropped(spark, space) if each.name == name]
        assert gone.files_stay == ""


def test_the_files_of_an_external_table_stay_and_the_result_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Iceberg's catalogs purge all tables."""
    lake = Lake(spark, "delta")
    name = lake.create("id bigint", location=tmp_path / "t")
    lake.append(name, spark.range(3))
    lk.drop_table(spark, name, force=True)
    [gone] = [each for each in lk.empty_dropped(spark, name.rpartition(".")[0]) if each.name == name]
    assert "external table" in gone.files_stay
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 3


def test_a_dropped_table_is_restored_by_each_name_that_drops_it(spark: SparkSession) -> None:
    name, before = "ice.dropped.`in-ner`.t", spark.catalog.currentCatalog()
    for space in ("ice.dropped", "ice.dropped.`in-ner`"):
        spark.sql(f"CREATE NAMESPACE {space}")
    spark.sql(f"CREATE TABLE {name} (id INT) USING iceberg")
    spark.sql("USE ice.dropped.`in-ner`")
    try:
        for text in (name, "t"):
            with pytest.raises(NotFound, match="no table of that name"):
                lk.restore_table(spark, text)
            dropped = lk.drop_table(spark, text, force=text == "t")
            assert dropped.name == name
            assert lk.dropped_tables(spark, "ice.dropped.`in-ner`") == (dropped,)
            assert lk.restore_table(spark, text) == dropped
            assert spark.table(name).count() == 0
    finally:
        spark.catalog.setCurrentCatalog(before)


def test_checkpoints_set_only_by_a_property_stop_the_vacuum(
    spark: SparkSession, lake: Lake, confs: RuntimeConfig, tmp_path: Path
) -> None:
    """No service reads folders that a property lists, and files that their streams have not read must be kept."""
    name = rewritten(lake)
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('lakekeeper.vacuum.streaming-checkpoints'='{tmp_path}')"
    )
    disk = on_disk(lake.home(name))
    with pytest.raises(RetentionError, match=r"spark\.lakekeeper\.vacuum\.streaming-checkpoints"):
        lk.table(spark, name).vacuum(**NOW)
    assert on_disk(lake.home(name)) == disk
    assert lk.table(spark, name).compact(dry_run=True).ended.code in ("dry_run", "nothing_to_do")
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    offset = {"reservoirId": str(uuid.uuid4()), "reservoirVersion": 3}  # a stream of another table
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    confs.set("spark.lakekeeper.vacuum.streaming-checkpoints", str(tmp_path))
    assert lk.table(spark, name).vacuum(**NOW).deleted_files_count


def test_a_property_does_not_lift_the_deletion_limit(
    spark: SparkSession, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    name = rewritten(lake)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakekeeper.vacuum.max-share'='1')")
    orphan = unnamed(lake.home(name))
    orphan.write_bytes(b"x" * 1_000_000)
    os.utime(orphan, (10**9, 10**9))
    arguments: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True, "orphans": True}
    with caplog.at_level("WARNING", "lakekeeper"), pytest.raises(RetentionError, match="max-share is 50%"):
        lk.table(spark, name).vacuum(**arguments)
    assert "lakekeeper.vacuum.max-share is ignored" in caplog.text
