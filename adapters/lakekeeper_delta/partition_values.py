"""The partition values of files that replace others: those of their inputs, as the log has them.

Delta's writer derives a TIMESTAMP from text in the session's time zone. In the hour that is repeated at the end of
summer time, this text is the same for two instants, and the writer takes the first::

    00:30 UTC ─┐
               ├─► 2024-10-27 02:30 in Berlin ─► 00:30 UTC
    01:30 UTC ─┘
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from lakekeeper.errors import AdapterError, Unsupported
from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.native import Log, State

_WRITTEN_AS_NULL = frozenset({"", "__HIVE_DEFAULT_PARTITION__"})
"""Texts that Delta's writer takes for NULL; other writers record the first as a value of its own."""


def of_task(log: Log, state: State, inputs: Sequence[Any]) -> dict[str, str | None] | None:
    """The values of all ``inputs``; None for a table without partitions.

    Raises AdapterError if their timestamps differ. All other values are equal by the plan, so one input is read.
    """
    if not state.partition_columns:
        return None
    found = [_values(add) for add in (inputs if _of_type(state, "timestamp") else inputs[:1])]
    if any(_set(values) != _set(found[0]) for values in found):
        raise AdapterError(f"{log.name}: the files of one merge are in several partitions")
    return found[0]


def same(one: Any, other: Any) -> bool:
    """Whether two AddFiles are in one partition, as the log has its values."""
    return _set(_values(one)) == _set(_values(other))


def like(log: Log, state: State, made: Sequence[Any], adds: Iterable[Any]) -> list[Any]:
    """Actions of written files, each with the values of the AddFile that its rows are from."""
    if not state.partition_columns:
        return list(made)
    return [log.edited(action, partitionValues=_values(add)) for action, add in zip(made, adds, strict=True)]


def refuse_changed(log: Log, state: State, adds: Iterable[Any]) -> None:
    """Raise Unsupported if Delta's writer would change the value of a file, when it writes rows of several files."""
    if state.partition_columns:
        values = [_values(add) for add in adds]
        _refuse_null_texts(log, state, values)
        _refuse_repeated(log, state, values)


def _refuse_null_texts(log: Log, state: State, values: Iterable[dict[str, str | None]]) -> None:
    for name in _of_type(state, "string"):
        lost = _WRITTEN_AS_NULL.intersection(each.get(physical_name(state, name)) for each in values)
        if lost:
            raise Unsupported(
                log.name,
                f"partition column {name} with the text {json.dumps(min(lost))}",
                "Delta's writer would make it NULL; nothing was written. Read the rows as of an earlier version",
            )


def _refuse_repeated(log: Log, state: State, values: Sequence[dict[str, str | None]]) -> None:
    from pyspark.sql import functions as F

    for name in _of_type(state, "timestamp"):
        texts = {text for each in values if (text := each.get(physical_name(state, name)))}
        at = F.col("text").cast("timestamp_ltz")
        rows = log.jvm.from_arrow(pa.table({"text": pa.array(sorted(texts), pa.string())}))
        if not rows.where(at != at.cast("string").cast("timestamp_ltz")).isEmpty():
            raise Unsupported(
                log.name,
                f"partition column {name} with times in the hour that is repeated at the end of summer time",
                "Spark would move them by this hour; nothing was written. Set spark.sql.session.timeZone to UTC",
            )


def _of_type(state: State, kind: str) -> list[str]:
    """The partition columns of a type."""
    fields = [field for field in state.schema["fields"] if field["name"] in state.partition_columns]
    return [field["name"] for field in fields if field["type"] == kind]


def _values(add: Any) -> dict[str, str | None]:
    found: dict[str, str | None] = json.loads(add.json())["add"].get("partitionValues") or {}
    return found


def _set(values: dict[str, str | None]) -> dict[str, str | None]:
    """A value that is not there is NULL."""
    return {name: value for name, value in values.items() if value is not None}
