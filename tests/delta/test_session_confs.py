"""No conf of the user's session changes values that a rewrite by rows reads or writes, nor delays a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta

BY_ROWS = {"merge-engine": "spark", "depth-threshold": 1}


@contextmanager
def confs(spark: SparkSession, **values: str) -> Iterator[None]:
    """``spark.sql`` confs, with ``__`` for each dot."""
    names = {f"spark.sql.{name.replace('__', '.')}": value for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def recluster(scene: Scene) -> None:
    assert lk.table(scene.spark, scene.sql).recluster("k", policy="full", options=BY_ROWS).commits


def delete_by_copies(scene: Scene) -> None:
    """Two rows leave and the others are copied; then they are put in again as copies of the version before."""
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    table = lk.table(scene.spark, scene.sql)
    assert table.drop_partition("k IN (0, 10)").deleted_rows_count == 2
    [entry] = table.trash()
    table.restore(entry.name)


WAYS = (recluster, delete_by_copies)
Way = Callable[[Scene], None]


@pytest.mark.parametrize("way", WAYS)
def test_microseconds_are_kept_in_a_session_that_writes_milliseconds(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    """Loss L101: all timestamps of the copied rows were cut."""
    scene = Scene(spark, tmp_path / "t").create("k INT, at TIMESTAMP, s STRUCT<at: TIMESTAMP>")
    at = "timestamp'2024-01-01 00:00:00.123456'"
    for start in (0, 10):
        row = f"cast(id AS int), {at}, named_struct('at', {at})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {row} FROM range({start}, {start + 5})")
    before = scene.spark_rows()
    with confs(spark, parquet__outputTimestampType="TIMESTAMP_MILLIS"):
        way(scene)
    assert scene.spark_rows() == scene.log_rows() == before


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
@pytest.mark.parametrize("way", WAYS)
def test_old_dates_are_written_as_every_reader_reads_them(
    spark: SparkSession, tmp_path: Path, way: Way, mode: str
) -> None:
    """Loss L102: written in the calendar of Spark 2, they were other dates to delta-rs and to Arrow."""
    scene = Scene(spark, tmp_path / "t").create("k INT, d DATE, at TIMESTAMP")
    for start in (0, 10):
        row = "cast(id AS int), date'0001-01-01', timestamp'1700-01-01 00:00:00'"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {row} FROM range({start}, {start + 5})")
    before = scene.spark_rows()
    with confs(spark, parquet__datetimeRebaseModeInWrite=mode, parquet__int96RebaseModeInWrite=mode):
        way(scene)
    assert scene.spark_rows() == scene.log_rows() == before


@pytest.mark.parametrize("way", WAYS)
def test_old_dates_of_an_unknown_writer_are_not_rewritten_in_another_calendar(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    """Loss L103: a session for tables of Spark 2 reads such dates of other writers wrongly, and wrote them so."""
    scene = Scene(spark, tmp_path / "t")
    for start in (0, 10):
        ks = pa.array(range(start, start + 5), pa.int32())
        write_deltalake(scene.path, pa.table({"k": ks, "d": pa.array([date(1500, 1, 1)] * 5)}), mode="append")
    before = scene.log_rows()
    with (
        confs(spark, parquet__datetimeRebaseModeInRead="LEGACY"),
        pytest.raises((LakekeeperError, AssertionError)),
    ):
        way(scene)
    assert scene.spark_rows() == scene.log_rows() == before


@pytest.mark.parametrize("way", WAYS)
def test_columns_that_differ_in_case_alone_keep_their_values(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    """Loss L104: in a session that distinguishes case, a column of a converted table is another in some files."""
    scene = Scene(spark, tmp_path / "t")
    for start, name in ((0, "v"), (10, "V")):
        rows = spark.range(start, start + 5).selectExpr("cast(id AS int) AS k", f"concat('v', id) AS {name}")
        rows.coalesce(1).write.mode("append").parquet(str(scene.path))
    scene.run(f"CONVERT TO DELTA parquet.`{scene.path}`")
    before = scene.spark_rows()
    with confs(spark, caseSensitive="true"):
        way(scene)
    assert scene.spark_rows() == before
    for path in scene.data_files():
        with suppress(KeyError):
            assert pq.read_table(scene.path / path)["v"].null_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_times_of_another_writer_are_not_moved(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    """Loss L103: a session for files of Impala reads such times of others as times of its own zone."""
    scene = Scene(spark, tmp_path / "t")
    at = pa.array([datetime(2024, 6, 1, 12, tzinfo=timezone.utc)] * 5, pa.timestamp("us", "UTC"))
    for start in (0, 10):
        scene.path.mkdir(exist_ok=True)
        rows = pa.table({"k": pa.array(range(start, start + 5), pa.int32()), "at": at})
        pq.write_table(rows, scene.path / f"{start}.parquet", use_deprecated_int96_timestamps=True)
    scene.run(f"CONVERT TO DELTA parquet.`{scene.path}`")
    before = scene.spark_rows()
    with confs(spark, parquet__int96TimestampConversion="true", session__timeZone="Europe/Berlin"):
        way(scene)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert scene.spark_rows() == before


def test_a_commit_on_a_version_without_a_checksum_does_not_reconstruct_its_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Other engines write no checksum file; Delta computed one for their version, within the gap of two statements."""
    scene = Scene(spark, tmp_path / "t").create("k BIGINT, v STRING")
    scene.run(
        "INSERT INTO {t} SELECT id, 'a' FROM range(20)", "INSERT INTO {t} SELECT id, 'b' FROM range(20)"
    )
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    jobs: dict[str, int] = {}

    def other_engine(phase: str, _: object) -> None:
        if phase == "before_commit":
            write_deltalake(str(scene.path), pa.table({"k": [50], "v": ["c"]}), mode="append")
        jobs[phase] = int(scheduler.numTotalJobs())

    report = lk.table(spark, scene.sql).recluster("k", policy="full", observer=other_engine)
    assert (report.commits, report.version_after) == (1, scene.version)
    # Of the protocol and the metadata alone: of that version, and of ours.
    assert jobs["committed"] - jobs["before_commit"] <= 2
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).count() == 41
    checksum = scene.path / "_delta_log" / f"{scene.version:020d}.crc"
    assert not checksum.exists()
    scene.run("INSERT INTO {t} VALUES (60, 'd')")
    assert checksum.with_name(f"{scene.version:020d}.crc").exists()
    scene.run("DELETE FROM {t} WHERE k = 3")
    assert lk.table(spark, scene.sql).recluster("k", policy="full").commits == 1
    assert checksum.with_name(f"{scene.version:020d}.crc").exists(), (
        "on a version with a checksum, Delta writes one"
    )
