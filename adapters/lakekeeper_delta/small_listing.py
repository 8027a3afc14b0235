"""AddFile actions in the driver as the columns that Spark makes of them (``blocks``), value for value.

Whatever Spark may read in another way raises :class:`~lakekeeper_delta.small_log.Unlike`: Spark then reads the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper.core.model.keys import arrow_type
from lakekeeper.core.model.run_folders import NO_KEY
from lakekeeper_delta.columns import Found, physical_name
from lakekeeper_delta.file_marks import CURVE_TAG, KEY_TAG, LEVEL_TAG, PLACE, SHORT_TEXT, vector_id
from lakekeeper_delta.native import State
from lakekeeper_delta.small_log import Unlike

_INT64 = range(-(2**63), 2**63)
_CURVE = re.compile(r"([^:]*):([0-9]{1,18}):([0-9]{1,18})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}", re.ASCII)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00.000")


def listed(adds: Sequence[Mapping[str, Any]], state: State, found: Sequence[Found]) -> pa.Table | None:
    """The columns of :func:`lakekeeper_delta.blocks.read_blocks`; None where Spark has to make them."""
    try:
        return _listed(adds, state, found)
    except (Unlike, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None


def _listed(adds: Sequence[Mapping[str, Any]], state: State, found: Sequence[Found]) -> pa.Table:
    vectors = [add.get("deletionVector") or {} for add in adds]
    tags = [add.get("tags") or {} for add in adds]
    stats = [json.loads(add["stats"]) if add.get("stats") is not None else {} for add in adds]
    places = [_place(add["path"], own) for add, own in zip(adds, tags, strict=True)]
    curves = [_curve(own.get(CURVE_TAG)) for own in tags]
    made: dict[str, pa.Array] = {
        "path": pa.array([add["path"] for add in adds], pa.string()),
        "bytes": _whole([_given(add["size"]) for add in adds]),
        "added_at": _whole([_given(add["modificationTime"]) for add in adds]),
        "deleted_rows": _whole([vector.get("cardinality") or 0 for vector in vectors]),
        "delete_bytes": _whole([vector.get("sizeInBytes") or 0 for vector in vectors]),
        "delete_id": pa.array([vector_id(vector or None) for vector in vectors], pa.string()),
        "level": pa.array([level for level, _ in places], pa.int32()),
        "key_id": pa.array([key for _, key in places], pa.string()),
        "foreign": pa.array([False] * len(adds), pa.bool_()),
        "curve_id": pa.array([name for name, _, _ in curves], pa.string()),
        "curve_lo": _whole([first for _, first, _ in curves]),
        "curve_hi": _whole([last for _, _, last in curves]),
        "partition": pa.array(_partitions(adds, state), pa.string()),
        "rows": _whole([own.get("numRecords") for own in stats]),
    }
    for number, item in enumerate(found):
        made |= _bounds(number, item, stats)
    return pa.table(made)


def _given(value: Any) -> Any:
    if value is None:
        raise Unlike
    return value


def _whole(values: Sequence[Any]) -> pa.Array:
    """Numbers of 64 bits or null."""
    if not all(value is None or (type(value) is int and value in _INT64) for value in values):
        raise Unlike
    return pa.array(values, pa.int64())


def _place(path: str, tags: Mapping[str, str]) -> tuple[int, str]:
    """(level, key) by the tags, else by the path."""
    level, key = tags.get(LEVEL_TAG), tags.get(KEY_TAG) or ""
    if level is not None:
        if not re.fullmatch(r"[0-9]{1,9}", level):
            raise Unlike
        return int(level), key
    match = re.search(PLACE, path)
    if match is None:
        return 0, key
    return int(match[2]), "" if match[1] == NO_KEY else match[1]


def _curve(tag: str | None) -> tuple[str, int, int]:
    if tag is None:
        return "", UNKNOWN, UNKNOWN
    match = _CURVE.fullmatch(tag)
    if match is None or int(match[2]) > int(match[3]):
        raise Unlike
    return match[1], int(match[2]), int(match[3])


def _partitions(adds: Sequence[Mapping[str, Any]], state: State) -> list[str]:
    """Partition values as JSON text with sorted names, as Spark writes it."""
    names = {name: physical_name(state, name) for name in sorted(state.partition_columns)}
    if not names:
        return [""] * len(adds)
    if not all(map(_plain, names)):
        raise Unlike
    found = []
    for add in adds:
        values = {name: add["partitionValues"].get(physical) for name, physical in names.items()}
        if not all(value is None or _plain(value) for value in values.values()):
            raise Unlike
        found.append(json.dumps(values, separators=(",", ":")))
    return found


def _plain(text: str) -> bool:
    """Whether JSON has a text as it is."""
    return text.isascii() and text.isprintable() and not {'"', "\\"} & set(text)


def _bounds(number: int, item: Found, stats: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
    if item.partition:
        raise Unlike
    lo, hi, nulls = (
        [_leaf(own.get(part), item.physical) for own in stats]
        for part in ("minValues", "maxValues", "nullCount")
    )
    kind = item.column.kind
    exact, lmt = [True] * len(stats), [kind == "timestamp"] * len(stats)
    if kind == "string":
        pairs = list(zip(lo, hi, strict=True))
        if not all(value is None or isinstance(value, str) for pair in pairs for value in pair):
            raise Unlike
        exact = [
            all(value is not None and len(value.encode()) < SHORT_TEXT for value in pair) for pair in pairs
        ]
        broken = [any("\ufffd" in (value or "") for value in pair) for pair in pairs]
        unsure = [bad or None in pair for bad, pair in zip(broken, pairs, strict=True)]
        lo, hi = (
            [None if bad else value for bad, value in zip(unsure, side, strict=True)] for side in (lo, hi)
        )
    elif kind == "timestamp":
        lmt = [None in pair for pair in zip(lo, hi, strict=True)]  # all others are in UTC
    typed = _typing(kind, item.sql_type)
    return {
        f"lo{number}": pa.array([typed(value) for value in lo], arrow_type(kind)),
        f"hi{number}": pa.array([typed(value) for value in hi], arrow_type(kind)),
        f"nulls{number}": _whole([UNKNOWN if count is None else count for count in nulls]),
        f"exact{number}": pa.array(exact, pa.bool_()),
        f"lmt{number}": pa.array(lmt, pa.bool_()),
    }


def _leaf(struct: Any, path: Sequence[str]) -> Any:
    for step in path:
        if struct is None:
            return None
        if not isinstance(struct, Mapping):
            raise Unlike
        struct = struct.get(step)
    return struct


def _typing(kind: str, sql_type: str) -> Callable[[Any], Any]:
    """From a value of the statistics to its type as a bound. Raises Unlike, also for kinds that Spark has to read."""
    if kind == "string":
        return lambda value: value
    if kind == "int":
        return _number
    if kind == "float" and sql_type == "double":
        return _real
    if kind == "date":
        return lambda value: None if value is None else date.fromisoformat(_text(value, _DATE))
    if kind == "timestamp":
        return lambda value: None if value is None else _micros(_text(value, _TIME)[:-1])
    if kind == "timestamp_ntz":
        return lambda value: None if value is None else _micros(_text(value, _LOCAL_TIME))
    raise Unlike


def _number(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value not in _INT64):
        raise Unlike
    return value


def _real(value: Any) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise Unlike  # NaN and infinity are text
    return None if value is None else float(value)


def _text(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Unlike
    return value


def _micros(text: str) -> int:
    passed = datetime.fromisoformat(text) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
