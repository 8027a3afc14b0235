"""Values that leave Spark, in a process of another time zone than Spark's session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from lakekeeper.arguments import time_ms
from lakekeeper.errors import OptionError
from lakekeeper.spark.parsed import arguments, evaluated, parse
from tests.process_zone import process_zone

pytestmark = pytest.mark.spark

_NEW_YEAR = datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin"])
def in_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    """The driver runs in each of these time zones in turn."""
    with process_zone(request.param):
        yield


def values(spark: SparkSession, *texts: str) -> list[Any]:
    plan = parse(spark, f"CALL lakekeeper.system.vacuum({', '.join(texts)})")
    return [value for _, value in evaluated(spark, arguments(plan, "args"))]


def test_a_timestamp_is_the_same_time_in_every_zone(spark: SparkSession, in_zone: None) -> None:
    """Loss L110: PySpark gives the local time of its process, which was read as UTC."""
    [found] = values(spark, "older_than => TIMESTAMP '2024-01-01 00:00:00Z'")
    assert found == _NEW_YEAR
    assert time_ms(found) == int(_NEW_YEAR.timestamp() * 1000)


def test_the_hour_that_comes_twice_is_two_hours(spark: SparkSession, in_zone: None) -> None:
    texts = [f"TIMESTAMP '2024-10-27 0{hour}:30:00.123456Z'" for hour in (0, 1)]
    first, second = values(spark, *texts)
    assert first == datetime(2024, 10, 27, 0, 30, 0, 123456, timezone.utc)
    assert second == first + timedelta(hours=1)


def test_other_values_have_no_zone(spark: SparkSession, in_zone: None) -> None:
    found = values(
        spark,
        "TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "DATE '2024-01-01'",
        "'2024-01-01 00:00:00'",
        "CAST(NULL AS TIMESTAMP)",
        "before => NULL",
    )
    assert found == [_NEW_YEAR.replace(tzinfo=None), date(2024, 1, 1), "2024-01-01 00:00:00", None, None]
    assert time_ms(found[0]) == time_ms(_NEW_YEAR)
    for refused in found[1:3]:
        with pytest.raises(OptionError, match="a datetime"):
            time_ms(refused)


def test_a_timestamp_without_a_zone_is_of_the_session(
    spark: SparkSession, confs: RuntimeConfig, in_zone: None
) -> None:
    confs.set("spark.sql.session.timeZone", "America/New_York")
    assert values(spark, "TIMESTAMP '2024-01-01 00:00:00'") == [_NEW_YEAR + timedelta(hours=5)]
