"""Tables that share a folder, one after the other or at the same time: a vacuum of one deletes no file of another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import RetentionError
from tests.formats.lakes import Lake
from tests.formats.neighbours import ALL, COMPACT, dead_run, files, fill, later


@pytest.fixture
def ice(spark: SparkSession) -> Lake:
    return Lake(spark, "iceberg-v2")


def test_a_dropped_table_survives_the_vacuum_of_its_successor(spark: SparkSession, ice: Lake) -> None:
    """Loss L1: the catalog gives the new table the old one's location, with the notes of its dead run."""
    name = ice.overlapping(4, 25)
    rows, home = ice.fingerprint(name), ice.home(name)
    dead_run(spark, name)
    dropped = lk.drop_table(spark, name)
    spark.sql(f"CREATE TABLE {name} (id bigint, k int, v string) USING iceberg")
    fill(ice, name, 1, 5_000)
    assert ice.home(name) == home
    later(spark, name).vacuum()
    assert ice.fingerprint(dropped.kept_as) == rows
    successor = ice.fingerprint(name)
    spark.sql(f"ALTER TABLE {name} RENAME TO {name.split('.', 1)[1]}_new")
    lk.restore_table(spark, name)
    assert (ice.fingerprint(name), ice.fingerprint(f"{name}_new")) == (rows, successor)


def test_two_tables_that_were_swapped_by_renames(spark: SparkSession, ice: Lake) -> None:
    """Loss L1: a blue/green reload; both tables are maintained, in one folder."""
    name = ice.overlapping(4, 25)
    dead_run(spark, name)
    old = f"{name}_old"
    spark.sql(f"ALTER TABLE {name} RENAME TO {old.split('.', 1)[1]}")
    spark.sql(f"CREATE TABLE {name} (id bigint, k int, v string) USING iceberg")
    fill(ice, name, 4, 10)
    assert ice.home(name) == ice.home(old)
    dead_run(spark, name)
    rows = {each: ice.fingerprint(each) for each in (name, old)}
    for each in (name, old, name):
        report = later(spark, each).vacuum(options=ALL)
        assert {known: ice.fingerprint(known) for known in rows} == rows
        # It is certain who owns the files, but the report must mention that two tables share a folder.
        assert "another table is inside or around this one" in str(report)
        with pytest.raises(RetentionError, match="another table"):
            later(spark, each).vacuum(orphans=True, options=ALL)


def test_the_trash_of_a_dropped_table_is_deleted_and_its_successors_is_kept(
    spark: SparkSession, ice: Lake
) -> None:
    """Both tables have their trash in one folder."""
    name = ice.overlapping(3, 20)
    lk.table(spark, name).compact(options=COMPACT)
    now = {"retention_hours": 0, "allow_unsafe_retention": True, "trash": True}
    lk.table(spark, name).vacuum(**now)  # type: ignore[arg-type]  # keyword arguments of one call
    [first] = lk.table(spark, name).trash()
    place = ice.home(name) / "_lakekeeper" / "trash"
    lk.drop_table(spark, name, force=True)
    spark.sql(f"CREATE TABLE {name} (id bigint, k int, v string) USING iceberg")
    fill(ice, name, 3, 10)
    successor = lk.table(spark, name)
    assert successor.trash() == ()
    successor.compact(options=COMPACT)
    successor.vacuum(**now)  # type: ignore[arg-type]  # keyword arguments of one call
    [second] = successor.trash()
    assert files(place / first.name)
    assert successor.empty_trash(all_entries=True) == (second,)
    assert files(place / first.name)
    successor.vacuum(**now)  # type: ignore[arg-type]  # keyword arguments of one call
    rows = ice.fingerprint(name)
    assert lk.empty_dropped(spark, name.rpartition(".")[0])
    assert not files(place / first.name)
    assert ice.fingerprint(name) == rows
    assert successor.trash() == ()


@pytest.fixture
def shared(spark: SparkSession, ice: Lake, tmp_path: Path) -> tuple[str, str]:
    """Two tables with one data path, the second much smaller."""
    names = []
    for rows in (2_000, 50):
        name = ice.create("id bigint, k int, v string", properties={"write.data.path": f"file:{tmp_path}"})
        names.append(fill(ice, name, 4, rows))
    return names[0], names[1]


@pytest.mark.parametrize("allowed", ["", "file:{}", "{}/"])
@pytest.mark.parametrize("orphans", [False, True])
def test_two_tables_with_one_data_path(
    spark: SparkSession, ice: Lake, shared: tuple[str, str], tmp_path: Path, orphans: bool, allowed: str
) -> None:
    """Losses L1, L2: by default, and with the location allowed by an operator."""
    one, other = shared
    dead_run(spark, one)
    assert lk.table(spark, other).compact(options=COMPACT).commits == 1
    rows = {name: ice.fingerprint(name) for name in shared}
    options = {**ALL, **({"vacuum.allowed-locations": allowed.format(tmp_path)} if allowed else {})}
    table = later(spark, one)
    if orphans and allowed:
        with pytest.raises(RetentionError, match=rf"{other}, whose write.data.path is"):
            table.vacuum(orphans=True, options=options)
    else:
        report = table.vacuum(orphans=orphans, options=options)
        assert {name: ice.fingerprint(name) for name in shared} == rows
        assert bool(report.settled_runs) == bool(allowed)
        assert ("vacuum.allowed-locations" in str(report)) == (not allowed)
    assert {name: ice.fingerprint(name) for name in shared} == rows


def test_a_table_created_at_the_location_of_another(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Notes of the previous table are in its folder: the new one's vacuum and trash ignore them."""
    place = tmp_path / "place"
    former = fill(lake, lake.create("id bigint, k int, v string", location=place), 3, 10)
    table = lk.table(spark, former)
    table.compact(options=COMPACT)
    table.vacuum(retention_hours=0, allow_unsafe_retention=True, trash=True, options=ALL)
    dead_run(spark, fill(lake, former, 3, 10))
    spark.sql(f"DROP TABLE {former}")
    for path in place.iterdir():
        if path.name not in ("_lakekeeper", "data"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    left = files(place)
    assert [path for path in left if "trash" in path.parts and path.suffix == ".parquet"]
    if lake.iceberg:
        name = lake.create("id bigint, k int, v string", location=place)
    else:  # CREATE TABLE needs an empty folder; a write by path does not
        name = f"delta.`{place}`"
        empty = spark.range(0).selectExpr("id", "cast(1 AS int) AS k", "'x' AS v")
        empty.write.format("delta").save(str(place))
    fill(lake, name, 3, 20)
    successor = later(spark, name)
    rows = lake.fingerprint(name)
    assert successor.trash() == ()
    assert successor.empty_trash(all_entries=True) == ()
    successor.vacuum(options=ALL)
    assert lake.fingerprint(name) == rows
    assert left <= files(place)


def test_another_table_in_the_folder_of_a_dead_run(spark: SparkSession, lake: Lake) -> None:
    """A dead run's files are deleted, but not what another table wrote into its folder."""
    name = lake.overlapping(3, 10)
    dead_run(spark, name)
    [folder] = [p for p in lake.home(name).rglob("lk*") if p.is_dir()]
    inner = fill(lake, lake.create("id bigint, k int, v string", location=folder / "inner"), 2, 10)
    rows, left = lake.fingerprint(inner), files(folder)
    report = later(spark, name).vacuum(options=ALL)
    assert lake.fingerprint(inner) == rows
    assert left <= files(folder)
    assert report.settled_runs == ()
    assert "another table is inside or around this one" in str(report)
    spark.sql(f"DROP TABLE {inner}")
    shutil.rmtree(folder / "inner")
    report = later(spark, name).vacuum(options=ALL)
    assert len(report.settled_runs) == 1
    assert not folder.exists()
