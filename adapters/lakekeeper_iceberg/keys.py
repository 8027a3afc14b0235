"""Columns of a cluster key: resolved in the schema, checked for statistics, read from where a table keeps its key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.keys import MAX_COLUMNS, ClusterKey, KeyColumn, parse_column, parse_layout
from lakekeeper.errors import OptionError, nearest
from lakekeeper_iceberg.native import Iceberg

PROPERTY = "lakekeeper.cluster-by"
_KINDS = {
    "boolean": "boolean",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
# Transforms whose order is that of their source, so that sorting by the source serves the sort order too.
_MONOTONE = ("identity", "year", "month", "day", "hour", "truncate[")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the schema: the way to it, its id, and its type as Iceberg's JSON spells it (text, or a dict)."""

    path: tuple[str, ...]
    id: int
    type: Any

    @property
    def iceberg_name(self) -> str:
        """As metadata tables and properties spell it: steps joined by dots, without quotes."""
        return ".".join(self.path)


class SchemaFields:
    """The fields of one schema, out of its JSON: py4j would take a call for each."""

    def __init__(self, jvm: Iceberg, schema: Any, *, case_sensitive: bool = False) -> None:
        text = jvm.static("org.apache.iceberg.SchemaParser", "toJson")(schema)
        self.top: list[dict[str, Any]] = json.loads(str(text))["fields"]
        self.by_id = {f.id: f for f in self.fields()}
        self._case_sensitive = case_sensitive

    def fields(self) -> Iterator[Field]:
        """All fields that are reached through structs alone, parents before children."""
        stack: list[tuple[tuple[str, ...], list[dict[str, Any]]]] = [((), self.top)]
        while stack:
            path, fields = stack.pop()
            for f in fields:
                here = (*path, f["name"])
                yield Field(here, f["id"], f["type"])
                if isinstance(f["type"], dict) and f["type"]["type"] == "struct":
                    stack.append((here, f["type"]["fields"]))

    def resolve(self, name: str) -> Field:
        """The field of a name in Spark SQL spelling; OptionError names the nearest, or the two it may mean."""
        fields, found = self.top, None
        path: tuple[str, ...] = ()
        for step in parse_column(name):
            same = [f for f in fields if f["name"] == step]
            if not self._case_sensitive and len(same) != 1:
                same = [f for f in fields if f["name"].lower() == step.lower()]
            if len(same) > 1:
                expected = "one column, but names differ by case only: set spark.sql.caseSensitive=true"
                raise OptionError("columns", name, expected)
            if not same:
                raise OptionError("columns", name, self._expected(name))
            found, path = same[0], (*path, same[0]["name"])
            nested = isinstance(found["type"], dict) and found["type"]["type"] == "struct"
            fields = found["type"]["fields"] if nested else []
        if found is None:
            raise OptionError("columns", name, self._expected(name))
        return Field(path, found["id"], found["type"])

    def _expected(self, name: str) -> str:
        leaves = [KeyColumn(f.path, "", "").name for f in self.by_id.values() if isinstance(f.type, str)]
        return f"a column of the table{nearest(name, leaves)}; it has {', '.join(leaves[:20])}"


def key_column(field: Field, name: str) -> KeyColumn:
    """The field as a key column; OptionError for a type that cannot be ordered by its statistics."""
    kind = _kind(field.type)
    if kind is None:
        type_name = field.type if isinstance(field.type, str) else field.type["type"]
        kinds = "number, decimal, date, timestamp in µs, string, binary or boolean"
        expected = f"a column of an orderable type with statistics ({kinds}); it is of type {type_name}"
        raise OptionError("columns", name, expected)
    return KeyColumn(field.path, kind, str(field.id))


def _kind(type_: Any) -> str | None:
    if not isinstance(type_, str):
        return None
    return type_.replace(" ", "") if type_.startswith("decimal(") else _KINDS.get(type_)


def columns_key(schema: SchemaFields, columns: Sequence[str], layout: str = "linear") -> ClusterKey:
    """The key over named columns; raises OptionError."""
    return ClusterKey(tuple(key_column(schema.resolve(name), name) for name in columns), layout)


def stored_key(
    schema: SchemaFields, order: Mapping[str, Any], properties: Mapping[str, str]
) -> ClusterKey | None:
    """The table's own key: of its sort order as far as that is usable, else of the property; None without either.

    A sort order knows no curve: a property with such a layout goes before it. ``order`` is the sort order as Iceberg's
    JSON. Raises OptionError for a property that names no columns.
    """
    text = properties.get(PROPERTY, "")
    names, layout = parse_layout(text)
    if layout != "linear":
        return _of_property(schema, text)
    usable: list[KeyColumn] = []
    for part in order["fields"]:
        field = schema.by_id.get(part.get("source-id", -1))
        if field is None or not part["transform"].startswith(_MONOTONE) or _kind(field.type) is None:
            break  # what comes behind it is ordered only within it
        column = key_column(field, field.iceberg_name)
        if column not in usable:
            usable.append(column)
    if usable:
        return ClusterKey(tuple(usable[:MAX_COLUMNS]))
    return _of_property(schema, text) if names else None


def _of_property(schema: SchemaFields, text: str) -> ClusterKey:
    try:
        return columns_key(schema, *parse_layout(text))
    except OptionError as error:
        raise OptionError(f"table property {PROPERTY}", text, error.expected) from error


def sorts_by(order: Mapping[str, Any], key: ClusterKey | None) -> bool:
    """Whether rows sorted by ``key`` (ascending, NULLs first) are in the table's sort order."""
    if key is None or key.curved or not order["fields"] or len(order["fields"]) > len(key.columns):
        return False
    return all(
        part["transform"] == "identity"
        and str(part.get("source-id")) == column.field_id
        and (part["direction"], part["null-order"]) == ("asc", "nulls-first")
        for part, column in zip(order["fields"], key.columns, strict=False)
    )


def metrics_modes(jvm: Iceberg, table: Any, key: ClusterKey) -> tuple[str, ...]:
    """How much of each key column's bounds is kept (``truncate(16)``, ``full``); OptionError where none is."""
    config = jvm.static("org.apache.iceberg.MetricsConfig", "forTable")(table)
    modes = []
    for column in key.columns:
        name = ".".join(column.path)
        mode = str(config.columnMode(name).toString())
        if mode in ("none", "counts"):
            advice = (
                f"a column with statistics; set the table property write.metadata.metrics.column.{name}=full"
            )
            raise OptionError("columns", column.name, f"{advice} (it is {mode} now) and rewrite its files")
        modes.append(mode)
    return tuple(modes)
