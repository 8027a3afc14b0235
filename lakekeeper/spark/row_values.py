"""The values of a row in Python, with times that do not depend on the time zone of this process."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def row_values(frame: DataFrame) -> list[Any]:
    """The values of a DataFrame's only row. A TIMESTAMP becomes a datetime with the zone UTC.

    PySpark makes it one without a zone, in the local time of this process, where one hour of a year comes twice. A
    TIMESTAMP_NTZ has no zone in Spark either, and gets none here. Times inside arrays, maps and structs stay as PySpark
    makes them.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampType

    is_time = [isinstance(field.dataType, TimestampType) for field in frame.schema.fields]
    names = [f"value_{number}" for number in range(len(is_time))]
    chosen = [F.unix_micros(n) if time else F.col(n) for n, time in zip(names, is_time, strict=True)]
    [row] = frame.toDF(*names).select(*chosen).collect()
    return [_time(value) if time else value for value, time in zip(row, is_time, strict=True)]


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
