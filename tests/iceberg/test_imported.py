"""Imported files with timestamps in milliseconds, which Iceberg itself takes for microseconds here and there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakekeeper as lk
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg

YEARS = (2024, 2025, 2026)
_VECTORIZED = "spark.sql.iceberg.vectorization.enabled"


@pytest.fixture(autouse=True)
def by_rows(scene: Scene) -> Iterator[None]:
    """Iceberg's reader by rows reads all pages of such files right."""
    scene.spark.conf.set(_VECTORIZED, "false")
    yield
    scene.spark.conf.unset(_VECTORIZED)


def imported(
    scene: Scene, folder: Path, *, dictionary: bool, version: int = 2, **properties: str
) -> lk.Table:
    """A table of two imported files, with a row for each of three years in each."""
    given = {key.replace("__", "."): value for key, value in properties.items()}
    scene.create("id BIGINT, ts TIMESTAMP, at TIMESTAMP_NTZ", version, properties=given)
    folder.mkdir()
    for number in range(2):
        days = [datetime(year, 6, 1, tzinfo=timezone.utc) for year in YEARS]
        columns = {
            "id": pa.array([10 * number + i for i in range(3)], pa.int64()),
            "ts": pa.array(days, pa.timestamp("ms", "UTC")),
            "at": pa.array([day.replace(tzinfo=None) for day in days], pa.timestamp("ms")),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", use_dictionary=dictionary)
    scene.call("add_files", f", source_table => '`parquet`.`{folder}`'")
    return lk.table(scene.spark, scene.sql)


def years(scene: Scene) -> list[tuple[int, int, int]]:
    found = scene.spark.table(scene.sql).selectExpr("id", "year(ts)", "year(at)").orderBy("id").collect()
    return [(row[0], row[1], row[2]) for row in found]


ALL = [(10 * number + i, year, year) for number in range(2) for i, year in enumerate(YEARS)]


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize(
    "where", ["ts < TIMESTAMP '2020-01-01 00:00:00Z'", "at < TIMESTAMP_NTZ '2020-01-01 00:00:00'"]
)
def test_a_delete_of_older_rows_leaves_them(
    scene: Scene, tmp_path: Path, where: str, dictionary: bool
) -> None:
    """Loss L98: the bounds are in 1970, and whole files were removed unread."""
    table = imported(scene, tmp_path / "files", dictionary=dictionary)
    assert years(scene) == ALL
    assert table.delete(where).deleted_rows_count == 0
    assert years(scene) == ALL


@pytest.mark.parametrize(
    "where",
    [
        "ts >= TIMESTAMP '2025-01-01 00:00:00Z'",
        "at > TIMESTAMP_NTZ '2024-12-31 00:00:00' AND id >= 0",
        "ts IN (TIMESTAMP '2025-06-01 00:00:00Z', TIMESTAMP '2026-06-01 00:00:00Z')",
    ],
)
def test_a_delete_of_newer_rows_finds_them(scene: Scene, tmp_path: Path, where: str) -> None:
    """Loss L134: the bounds are in 1970, and the files were skipped."""
    table = imported(scene, tmp_path / "files", dictionary=False)
    assert table.delete(where).deleted_rows_count == 4
    assert years(scene) == [row for row in ALL if row[1] == 2024]


def test_no_row_expires_early(scene: Scene, tmp_path: Path) -> None:
    """Loss L98."""
    table = imported(scene, tmp_path / "files", dictionary=False)
    properties = "'lakekeeper.lifecycle.column' = 'ts', 'lakekeeper.lifecycle.retain' = '3650d'"
    scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})")
    table.expire_rows()
    assert years(scene) == ALL


def reclustered(table: lk.Table) -> None:
    assert (
        table.recluster("id", policy="full", options={"depth-threshold": 1}).rewritten_data_files_count == 2
    )


def reclustered_by_rows(table: lk.Table) -> None:
    options = {"depth-threshold": 1, "merge-engine": "spark"}
    assert table.recluster("id", policy="full", options=options).rewritten_data_files_count == 2


def dropped_and_restored(table: lk.Table) -> None:
    table.drop_partition("id < 2")
    table.restore(table.trash()[-1].name)


@pytest.mark.parametrize("act", [reclustered, reclustered_by_rows, dropped_and_restored])
def test_rows_that_are_written_again_keep_their_time(
    scene: Scene, tmp_path: Path, act: Callable[[lk.Table], None]
) -> None:
    """Loss L99: the vectorized reader misread them, and the new files had them in 1970 for every reader."""
    table = imported(scene, tmp_path / "files", dictionary=True)
    scene.spark.conf.unset(_VECTORIZED)
    act(table)
    scene.spark.conf.set(_VECTORIZED, "false")
    assert years(scene) == ALL


def test_rows_that_a_copied_file_keeps_have_their_time(scene: Scene, tmp_path: Path) -> None:
    """Loss L99, by a delete from a table of format 1."""
    table = imported(scene, tmp_path / "files", dictionary=True, version=1)
    scene.spark.conf.unset(_VECTORIZED)
    table.delete("id = 0")
    scene.spark.conf.set(_VECTORIZED, "false")
    assert years(scene) == ALL[1:]


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_nanoseconds_that_iceberg_misreads_are_left_alone(scene: Scene, tmp_path: Path, engine: str) -> None:
    """Loss L109: a merge wrote the year 55971, which other engines read from then on."""
    scene.create("id INT, ts TIMESTAMP_NTZ")
    (tmp_path / "files").mkdir()
    for number in range(2):
        times = pa.array([datetime(2024, 6, 1)] * 2, pa.timestamp("ns"))  # noqa: DTZ001 - a local time
        rows = pa.table({"id": pa.array([number, 10 + number], pa.int32()), "ts": times})
        pq.write_table(rows, tmp_path / "files" / f"{number}.parquet")
    scene.call("add_files", f", source_table => '`parquet`.`{tmp_path / 'files'}`'")
    table, before = lk.table(scene.spark, scene.sql), scene.version
    report = table.recluster("id", policy="full", options={"depth-threshold": 1, "merge-engine": engine})
    assert (report.commits, scene.version) == (0, before)
    assert "timestamps in nanoseconds" in str(report)
