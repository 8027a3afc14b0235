"""Key columns: names as Spark resolves them, kinds, and where to find their statistics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakekeeper.core.model.keys import ClusterKey, KeyColumn, arrow_type, parse_column
from lakekeeper.errors import OptionError, nearest
from lakekeeper_delta.native import State

_KINDS = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_NO_BOUNDS = ("binary", "boolean")
_Type = TypeVar("_Type")


@dataclass(frozen=True, slots=True)
class Found:
    """One key column of a table.

    physical     its path in statistics and files (column mapping gives columns physical names there)
    sql_type     Delta's name of its type
    partition    whether it is a partition column: then the log has its exact value, and no statistics
    """

    column: KeyColumn
    physical: tuple[str, ...]
    sql_type: str
    partition: bool


def resolve(
    state: State, names: Sequence[str], layout: str, *, case_sensitive: bool
) -> tuple[ClusterKey, list[Found]]:
    """The key of these columns (Spark SQL spelling), and what is needed to read their bounds.

    Raises OptionError for a column that is unknown, cannot be ordered, or has no statistics.
    """
    bounded = indexed(state, "minValues")
    found = [_find(state, name, case_sensitive=case_sensitive) for name in names]
    for name, item in zip(names, found, strict=True):
        if not item.partition and item.physical not in bounded:
            raise OptionError("columns", name, _how_to_index(state, item))
    return ClusterKey(tuple(item.column for item in found), layout), found


def _find(state: State, name: str, *, case_sensitive: bool) -> Found:
    steps = parse_column(name)
    at: Any = state.schema
    path: list[str] = []
    physical: list[str] = []
    field: Mapping[str, Any] = {}
    for depth, step in enumerate(steps):
        if not isinstance(at, Mapping) or at.get("type") != "struct":
            what = at if isinstance(at, str) else at.get("type")
            raise OptionError("columns", name, f"a field of a struct; '{'.'.join(path)}' is of type {what}")
        field = _field(at["fields"], step, name, case_sensitive=case_sensitive)
        path.append(field["name"])
        physical.append(physical_step(state, field))
        at = field["type"]
        if depth == 0 and len(steps) == 1 and field["name"] in state.partition_columns:
            return _partition(state, name, field, physical[0])
    kind = _kind(name, field)
    return Found(
        KeyColumn(tuple(path), kind, _field_id(state, field, physical)), tuple(physical), field["type"], False
    )


def _field(
    fields: Sequence[Mapping[str, Any]], step: str, name: str, *, case_sensitive: bool
) -> Mapping[str, Any]:
    same = [f for f in fields if f["name"] == step]
    if not same and not case_sensitive:
        same = [f for f in fields if f["name"].lower() == step.lower()]
    if not same:
        known = [f["name"] for f in fields]
        raise OptionError("columns", name, f"a column of the table{nearest(step, known)}")
    return same[0]


def _partition(state: State, name: str, field: Mapping[str, Any], physical: str) -> Found:
    kind = "boolean" if field["type"] == "boolean" else _kind(name, field)
    column = KeyColumn((field["name"],), kind, _field_id(state, field, [physical]))
    return Found(column, (physical,), field["type"], True)


def _kind(name: str, field: Mapping[str, Any]) -> str:
    kind = field["type"]
    if not isinstance(kind, str):
        raise OptionError("columns", name, f"a column of an orderable type, not a {kind.get('type')}")
    if kind in _NO_BOUNDS:
        raise OptionError(
            "columns", name, f"a column with statistics; Delta keeps no minimum and maximum for type {kind}"
        )
    if any(key.startswith("__COLLATION") for key in field.get("metadata", {})) or " collate " in kind:
        raise OptionError("columns", name, "a column that is ordered by its bytes; this one has a collation")
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return f"decimal({decimal[1]},{decimal[2]})"
    if kind not in _KINDS:
        raise OptionError("columns", name, f"a column of an orderable type, not {kind}")
    arrow_type(_KINDS[kind])
    return _KINDS[kind]


def physical_step(state: State, field: Mapping[str, Any]) -> str:
    """The name of a field in files and statistics, which a rename does not change."""
    return _physical(field) if state.mapped else str(field["name"])


def _physical(field: Mapping[str, Any]) -> str:
    return str(field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"]))


def _field_id(state: State, field: Mapping[str, Any], physical: Sequence[str]) -> str:
    number = field.get("metadata", {}).get("delta.columnMapping.id") if state.mapped else None
    return str(number) if number is not None else ".".join(physical)


def physical_name(state: State, column: str) -> str:
    """The name of a top-level column in statistics and partition values."""
    field = next(f for f in state.schema["fields"] if f["name"] == column)
    return physical_step(state, field)


def indexed(state: State, part: str) -> set[tuple[str, ...]]:
    """Physical paths of all columns of which new files have this part of the statistics: minValues, nullCount."""
    schema = json.loads(state.snapshot.statsSchema().json())
    found = next((f["type"] for f in schema["fields"] if f["name"] == part), None)
    return set(_leaves(found, ())) if found else set()


def _leaves(struct: Mapping[str, Any], prefix: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for field in struct["fields"]:
        path = (*prefix, field["name"])
        found += _leaves(field["type"], path) if isinstance(field["type"], Mapping) else [path]
    return found


def nested(
    leaves: Mapping[tuple[str, ...], _Type], struct: Callable[[list[tuple[str, _Type]]], _Type]
) -> _Type:
    """The type of nested structs with these leaves; ``struct`` makes one of its fields."""
    fields = []
    for first in dict.fromkeys(path[0] for path in leaves):
        below = {path[1:]: kind for path, kind in leaves.items() if path[0] == first and len(path) > 1}
        fields.append((first, nested(below, struct) if below else leaves[(first,)]))
    return struct(fields)


def _how_to_index(state: State, item: Found) -> str:
    name = item.column.name
    chosen = state.properties.get("delta.dataSkippingStatsColumns")
    if chosen is not None:
        return (
            f"a column with statistics: add {name} to the table property delta.dataSkippingStatsColumns "
            f"(now '{chosen}'), then run compute_statistics for existing files"
        )
    limit = state.properties.get("delta.dataSkippingNumIndexedCols", "32")
    return (
        f"a column with statistics; the table keeps them for the first {limit} columns only: raise the table property "
        f"delta.dataSkippingNumIndexedCols, or list {name} in delta.dataSkippingStatsColumns together with all other "
        "columns that need statistics; then run compute_statistics for existing files"
    )
