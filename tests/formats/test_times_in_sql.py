"""A time in SQL means the same on a driver in another time zone: it decides what a vacuum deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from tests.formats.lakes import Lake
from tests.process_zone import process_zone

Run = Callable[[str], DataFrame]


@pytest.fixture(params=["lk.sql", "spark.sql"])
def run(request: pytest.FixtureRequest, lake: Lake, confs: RuntimeConfig, tmp_path: Path) -> Iterator[Run]:
    """Runs a statement on a driver in Tokyo, nine hours ahead of UTC."""
    confs.set("spark.lakekeeper.sql.call.enabled", "true")
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    handle = lk.install(lake.spark)
    with process_zone("Asia/Tokyo"):
        yield lake.spark.sql if request.param == "spark.sql" else lambda text: lk.sql(lake.spark, text)
    handle.stop()


def an_hour_ago() -> str:
    return f"TIMESTAMP '{datetime.now(timezone.utc) - timedelta(hours=1):%Y-%m-%d %H:%M:%S}Z'"


def test_a_vacuum_keeps_what_was_current_since_then(lake: Lake, run: Run) -> None:
    """Loss L110: in Tokyo it deleted the versions of nine more hours."""
    name = lake.overlapping(3, 20)
    lake.table(name).recluster("k")
    before, rows = lake.versions(name), lake.fingerprint(name, lake.versions(name)[0])
    call = f"CALL lakekeeper.system.vacuum('{name}', older_than => {an_hour_ago()}, allow_unsafe_retention => true)"
    [done] = run(call).collect()
    assert done["deleted_files_count"] == 0
    assert lake.versions(name) == before
    assert lake.fingerprint(name, before[0]) == rows


def test_costs_are_counted_since_then(lake: Lake, run: Run) -> None:
    name = lake.overlapping(3, 20)
    lake.table(name).recluster("k")
    for statement in (
        f"CALL lakekeeper.system.cost('{name}', since => {an_hour_ago()})",
        f"SELECT * FROM lakekeeper_cost('{name}', since => {an_hour_ago()})",
    ):
        assert run(statement).count() == 1
