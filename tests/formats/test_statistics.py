"""Statistics of real tables: readers skip files by them, and no row, stream or concurrent commit is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import NotFound, OptionError, UndoError
from lakekeeper_iceberg.native import Iceberg
from tests.formats.lakes import Lake
from tests.observers import once_at
from tests.oracles import delta_log

BARE = "delta.dataSkippingNumIndexedCols"


def undescribed(lake: Lake, *, partitioned: str = "") -> str:
    """Four files of 50 rows, one with a deleted row; on Delta without statistics on any column."""
    properties = {} if lake.iceberg else {BARE: "0", "delta.enableRowTracking": "true"}
    name = lake.create("id BIGINT, k INT, v STRING", partitioned=partitioned, properties=properties)
    for number in range(4):
        ids = lake.spark.range(number * 50, number * 50 + 50)
        lake.append(name, ids.selectExpr("id", "cast(id % 10 as int) k", "cast(id as string) v"))
    if not lake.iceberg:
        lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{BARE}' = '32')")
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 60")
    return name


def files_for(lake: Lake, name: str, where: str) -> int:
    """Files that the format's own scan opens."""
    return len(lake.adapter(name).snapshot(where=where).blocks)


def described(lake: Lake, name: str) -> int:
    """On Delta, files whose statistics have bounds; on Iceberg, statistics files."""
    if lake.iceberg:
        table = Iceberg(lake.spark).load(name)
        table.refresh()
        return int(table.statisticsFiles().size())
    return sum(block.lo[0] is not None for block in lake.adapter(name).snapshot(["id"]).blocks)


def test_readers_skip_files_by_new_statistics(spark: Any, confs: RuntimeConfig) -> None:
    lake = Lake(spark, "delta")
    name = undescribed(lake)
    rows = lake.fingerprint(name)
    ids = "SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {t} ORDER BY id".format
    tracked = spark.sql(ids(t=name)).collect()
    assert files_for(lake, name, "id = 120") == 4
    # Each file has a row count, and the table has no key and configures no column.
    assert not lake.table(name).compute_statistics().changed
    done = lake.table(name).compute_statistics(["id", "v"])
    assert (done.status, done.described_data_files_count) == ("done", 4)
    assert files_for(lake, name, "id = 120") == 1
    assert files_for(lake, name, "v > '61'") == 2  # the files with 0 to 49 and 50 to 99
    assert lake.fingerprint(name) == rows
    assert spark.sql(ids(t=name)).collect() == tracked
    assert lake.spark.table(name).where("id = 60").count() == 0
    assert not lake.table(name).compute_statistics(["id", "v"]).changed


def test_statistics_cannot_be_undone(lake: Lake) -> None:
    """Loss L75: their commit adds files that were there before; to take these away would lose every row of them."""
    name = undescribed(lake)
    [run] = lake.table(name).compute_statistics(["id"]).run_ids
    rows, version = lake.fingerprint(name), lake.versions(name)[-1]
    for given in (run, run.partition("-")[0]):
        for dry_run in (True, False):
            with pytest.raises((UndoError, NotFound)):
                lake.table(name).undo(given, dry_run=dry_run, allow_rollback=True)
    assert (lake.fingerprint(name), lake.versions(name)[-1]) == (rows, version)


def test_a_commit_of_statistics_is_not_a_data_change(spark: Any, tmp_path: Path) -> None:
    lake = Lake(spark, "delta")
    name = undescribed(lake)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO {name} VALUES (500, 1, 'x')")
    start = lake.versions(name)[-1]
    done = lake.table(name).compute_statistics(["id"])
    assert done.version_after == start + 1
    changes = spark.sql(f"SELECT * FROM table_changes('{name}', {start + 1})")
    assert changes.count() == 0
    stream = spark.readStream.option("startingVersion", str(start + 1)).table(name)
    query = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert spark.table("seen").count() == 0
    actions = delta_log.commit(lake.home(name), start + 1)
    assert [action["add"]["dataChange"] for action in actions if "add" in action] == [False] * 4
    assert not any("remove" in action for action in actions)


def test_a_file_with_deletes_gets_wide_bounds(spark: Any) -> None:
    lake = Lake(spark, "delta")
    name = undescribed(lake)
    spark.sql(f"DELETE FROM {name} WHERE id >= 190")
    lake.table(name).compute_statistics(["id"])
    bounds = sorted(
        (block.lo[0], block.hi[0], block.rows, block.deleted_rows)
        for block in lake.adapter(name).snapshot(["id"]).blocks
    )
    assert bounds == [(0, 49, 50, 0), (50, 99, 50, 1), (100, 149, 50, 0), (150, 199, 50, 10)]


def test_text_that_is_not_utf_8_gets_no_bounds(spark: Any) -> None:
    """Loss L160: JSON has U+FFFD for the byte 0x80, which sorts after ``ä``, so readers skipped the file."""
    lake = Lake(spark, "delta")
    name = lake.create("id BIGINT, v STRING, s STRUCT<v: STRING, w: STRING>", properties={BARE: "0"})
    text = "cast(unhex('4B80') AS STRING)"
    row = ["id", f"{text} v", f"named_struct('v', {text}, 'w', 'w') s"]
    lake.append(name, spark.range(1).selectExpr(*row))
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{BARE}' = '32')")
    assert lake.table(name).compute_statistics(["id", "v"]).changed
    assert [spark.table(name).where(f"{column} < 'Kä'").count() for column in ("v", "s.v")] == [1, 1]
    assert [files_for(lake, name, where) for where in ("id = 1", "s.w = 'v'", "v = 'v'")] == [0, 0, 1]


def test_columns_that_have_no_statistics_are_refused(lake: Lake) -> None:
    name = undescribed(lake, partitioned="" if lake.iceberg else "k")
    with pytest.raises(OptionError, match="columns"):
        lake.table(name).compute_statistics(["nothing"])
    if not lake.iceberg:
        with pytest.raises(OptionError, match="partition values are in the log"):
            lake.table(name).compute_statistics(["k"])


def test_distinct_values_and_partitions_are_those_of_the_rows(spark: Any) -> None:
    lake = Lake(spark, "iceberg-v3")
    name = undescribed(lake, partitioned="k")
    snapshots = lake.versions(name)
    done = lake.table(name).compute_statistics()
    assert lake.versions(name) == snapshots
    assert done.version_after == snapshots[-1]
    table = Iceberg(spark).load(name)
    table.refresh()
    [file] = list(table.statisticsFiles())
    names = {int(field.fieldId()): str(field.name()) for field in table.schema().columns()}
    values = {names[int(blob.fields()[0])]: blob.properties()["ndv"] for blob in file.blobMetadata()}
    assert values == {"id": "199", "k": "10", "v": "199"}
    [partitions] = list(table.partitionStatisticsFiles())
    assert {str(file.path()), str(partitions.path())} == set(done.statistics_files)
    counted = spark.read.parquet(str(partitions.path()))
    assert counted.selectExpr("sum(data_record_count)").first()[0] == 200
    assert all(Path(path).exists() for path in done.statistics_files)


def test_statistics_are_computed_again_once_enough_rows_changed(spark: Any) -> None:
    lake = Lake(spark, "iceberg-v3")
    name = undescribed(lake)
    table = lake.table(name)
    assert table.compute_statistics().changed
    spark.sql(f"INSERT INTO {name} VALUES (900, 1, 'x')")
    assert "0.4% of the rows changed" in str(table.compute_statistics().ended)
    table.recluster("k", policy="full")  # moves every row and changes none
    assert not table.compute_statistics().changed
    assert table.compute_statistics(options={"statistics.min-changed-ratio": 0}).changed
    lake.append(name, spark.range(1000, 1050).selectExpr("id", "1 k", "'y' v"))
    assert table.compute_statistics(dry_run=True).status == "planned"
    assert table.compute_statistics().changed
    assert not table.compute_statistics(["k"]).changed


def test_a_vacuum_keeps_only_statistics_of_kept_versions(spark: Any) -> None:
    lake = Lake(spark, "iceberg-v3")
    name = undescribed(lake, partitioned="k")
    old = lake.table(name).compute_statistics().statistics_files
    spark.sql(f"DELETE FROM {name} WHERE id < 100")
    new = lake.table(name).compute_statistics().statistics_files
    assert len(old) == len(new) == 2
    lake.table(name).vacuum(
        retention_hours=0,
        allow_unsafe_retention=True,
        orphans=True,
        options={"vacuum.max-share": 1, "vacuum.orphan-grace-hours": 24},
    )
    assert [Path(path).exists() for path in (*old, *new)] == [False, False, True, True]


def test_statistics_of_orc_files_are_distinct_values_only(spark: Any) -> None:
    """Iceberg writes partition statistics in the format of the table's files, and cannot write ORC."""
    lake = Lake(spark, "iceberg-v2")
    name = undescribed(lake, partitioned="k")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default' = 'orc')")
    lake.append(name, spark.range(900, 950).selectExpr("id", "1 k", "'y' v"))
    assert len(lake.table(name).compute_statistics().statistics_files) == 1
    assert not lake.table(name).compute_statistics().changed
    assert lake.spark.table(name).count() == 249


def test_a_failure_between_two_files_leaves_no_file(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(spark, "iceberg-v3")
    name = undescribed(lake, partitioned="k")
    static = Iceberg.static

    class Actions:
        """Iceberg's actions, which fail at partition statistics."""

        def __init__(self, actions: Any) -> None:
            self.computeTableStats = actions.computeTableStats

        def computePartitionStats(self, _table: Any) -> Any:  # noqa: N802 - Iceberg's name
            assert list(metadata.glob("*.stats"))
            raise OSError("the disk is full")

    def failing(jvm: Iceberg, cls: str, method: str) -> Any:
        found = static(jvm, cls, method)
        return (lambda session: Actions(found(session))) if cls.endswith(".SparkActions") else found

    metadata = lake.home(name) / "metadata"
    monkeypatch.setattr(Iceberg, "static", failing)
    with pytest.raises(OSError, match="the disk is full"):
        lake.table(name).compute_statistics()
    assert not list(metadata.glob("*.stats"))
    monkeypatch.undo()
    assert len(lake.table(name).compute_statistics().statistics_files) == 2


RIVALS: dict[str, Callable[[Lake, str], object]] = {
    "append": lambda lake, name: lake.spark.sql(f"INSERT INTO {name} VALUES (900, 1, 'x')"),
    "delete": lambda lake, name: lake.spark.sql(f"DELETE FROM {name} WHERE id = 7"),
    "delete of all": lambda lake, name: lake.spark.sql(f"DELETE FROM {name} WHERE id >= 0"),
    "merge": lambda lake, name: lake.table(name).recluster("k", policy="full"),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_the_commit_of_a_concurrent_writer_is_kept(lake: Lake, rival: str) -> None:
    """The rival commits between our check and our commit."""
    name, twin = undescribed(lake), undescribed(lake)
    RIVALS[rival](lake, twin)
    race = once_at("before_commit", lambda: RIVALS[rival](lake, name))
    report = lake.table(name).compute_statistics(["id"], observer=race)
    assert lake.fingerprint(name) == lake.fingerprint(twin)
    if lake.iceberg or rival in ("append", "delete"):
        assert report.changed
        assert described(lake, name)
    assert all(lake.rows(name, version) for version in lake.versions(name)[1:-1])


@pytest.mark.parametrize("verb", ["delete", "recluster"])
def test_our_own_calls_commit_after_a_commit_of_statistics(lake: Lake, verb: str) -> None:
    """Statistics commit first, between the check of another call and its commit."""
    name = undescribed(lake)
    first = once_at("before_commit", lambda: lake.table(name).compute_statistics(["id"]))
    if verb == "delete":
        assert lake.table(name).delete("id = 7", observer=first).deleted_rows_count == 1
    else:
        assert lake.table(name).recluster("k", policy="full", observer=first).commits == 1
    assert lake.spark.table(name).count() == (198 if verb == "delete" else 199)
    assert lake.spark.table(name).where("id = 60").count() == 0


def test_a_statement_and_a_pass_compute_statistics_and_record_them(
    lake: Lake, confs: RuntimeConfig, tmp_path: Path
) -> None:
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    name = undescribed(lake)
    call = f"CALL lakekeeper.system.compute_statistics('{name}', columns => 'id', dry_run => true)"
    [row] = lk.sql(lake.spark, call).collect()
    assert (row["status"], row["described_data_files_count"]) == ("planned", 4)
    lake.table(name).cluster_by("id")
    report = lk.run(lake.spark, name, verbs=["compute_statistics"])
    [one] = report.tables
    assert (one.status, [task.state for task in one.tasks]) == ("done", ["done"])
    [operation] = lake.table(name).history().operations
    assert (operation.operation_type, operation.origin) == ("compute_statistics", "auto")
    assert operation.operation_metrics["described_data_files_count"] == 4
    assert operation.core_seconds is not None
    assert operation.core_seconds > 0
    assert one.core_seconds == pytest.approx(operation.core_seconds, abs=0.001)
    again = lk.run(lake.spark, name, verbs=["compute_statistics"])
    assert again.tables[0].status == "idle"
