"""Tables that share a folder: filling them, killing a run on one of them, and listing their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.formats.lakes import Lake
from tests.opening import table_later

DAY_MS = 86_400_000
ALL: Mapping[str, Any] = {"vacuum.max-share": 1}
COMPACT: Mapping[str, Any] = {"min-input-files": 2}


class Crash(BaseException):
    """Ends a call as a kill would."""


def die(phase: str, _info: Mapping[str, Any]) -> None:
    if phase == "written":
        raise Crash


def dead_run(spark: SparkSession, name: str) -> None:
    """A compaction of the table that dies after it wrote its files."""
    with pytest.raises(Crash):
        lk.table(spark, name).compact(options=COMPACT, observer=die)


def later(spark: SparkSession, name: str, days: int = 9) -> lk.Table:
    """The table, opened ``days`` from now."""
    return table_later(spark, name, 24 * days)


def files(place: Path) -> set[Path]:
    """Files below a folder except checksums."""
    return {p for p in place.rglob("*") if p.is_file() and p.suffix != ".crc"}


def fill(lake: Lake, name: str, count: int, rows: int) -> str:
    """Append ``files`` files of ``rows`` rows each."""
    for i in range(count):
        made = "id", "cast(pmod(hash(id), 1000) as int) as k", "md5(cast(id as string)) as v"
        lake.append(name, lake.spark.range(i * rows, (i + 1) * rows).selectExpr(*made))
    return name
