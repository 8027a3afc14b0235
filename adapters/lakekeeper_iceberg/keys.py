"""Cluster key columns: resolved in the schema, checked for statistics, stored in and read from the table's metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import (
    MAX_COLUMNS,
    ClusterKey,
    KeyColumn,
    parse_column,
    parse_layout,
)
from lakekeeper.core.model.stored_key import (
    FIELDS_PROPERTY,
    KEY_SPELLINGS,
    key_of_properties,
    key_properties,
    text_of_key,
    unusable,
)
from lakekeeper.errors import OptionError, nearest
from lakekeeper_iceberg.native import Iceberg

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
# Transforms that preserve order: rows sorted by the source column are sorted by the transform too.
_MONOTONE = ("identity", "year", "month", "day", "hour", "truncate[")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the schema: its path, field id, and type in Iceberg's JSON form (text, or a dict)."""

    path: tuple[str, ...]
    id: int
    type: Any

    @property
    def iceberg_name(self) -> str:
        """The name in metadata tables and properties: path joined by dots, without quotes."""
        return ".".join(self.path)


class SchemaFields:
    """The fields of one schema, parsed from its JSON: py4j would need a call for each."""

    def __init__(self, jvm: Iceberg, schema: Any, *, case_sensitive: bool = False) -> None:
        text = jvm.static("org.apache.iceberg.SchemaParser", "toJson")(schema)
        self.top: list[dict[str, Any]] = json.loads(str(text))["fields"]
        self.by_id = {f.id: f for f in self.fields()}
        self._case_sensitive = case_sensitive

    def fields(self) -> Iterator[Field]:
        """All top-level fields and fields of nested structs, parents before children."""
        stack: list[tuple[tuple[str, ...], list[dict[str, Any]]]] = [((), self.top)]
        while stack:
            path, fields = stack.pop()
            for f in fields:
                here = (*path, f["name"])
                yield Field(here, f["id"], f["type"])
                if isinstance(f["type"], dict) and f["type"]["type"] == "struct":
                    stack.append((here, f["type"]["fields"]))

    def name_now(self, field: Any) -> str | None:
        """The current name of a field id in Spark SQL spelling; None if the field was dropped."""
        found = self.by_id.get(field)
        return KeyColumn(found.path, "", "").name if found else None

    def resolve(self, name: str) -> Field:
        """The field of a name in Spark SQL spelling; OptionError for an unknown or ambiguous name."""
        fields, found = self.top, None
        path: tuple[str, ...] = ()
        for step in parse_column(name):
            same = [f for f in fields if f["name"] == step]
            if not self._case_sensitive and len(same) != 1:
                same = [f for f in fields if f["name"].lower() == step.lower()]
            if len(same) > 1:
                expected = (
                    "one column, but several names differ only in case: set spark.sql.caseSensitive=true"
                )
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
    """The field as a key column; OptionError for a type without ordered statistics."""
    kind = _kind(field.type)
    if kind is None:
        type_name = field.type if isinstance(field.type, str) else field.type["type"]
        kinds = "number, decimal, date, timestamp in µs, string, binary or boolean"
        expected = f"a column of an orderable type with statistics ({kinds}); it has type {type_name}"
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
) -> tuple[ClusterKey | None, str]:
    """(the table's stored key, the problem if one is stored but unusable).

    The usable columns of the sort order take precedence over the property, unless the property has a curve, which a
    sort order cannot express. ``order`` is the sort order as Iceberg's JSON.
    """
    kept = key_of_properties(properties, schema.name_now)
    _, layout = parse_layout(text_of_key(properties))
    if layout == "linear":
        usable = _usable(schema, order)
        if usable:
            return ClusterKey(tuple(usable[:MAX_COLUMNS])), ""
    if not kept.columns:
        return None, kept.problem
    try:
        return columns_key(schema, kept.columns, kept.layout), ""
    except OptionError as error:
        return None, unusable(error).problem


def _usable(schema: SchemaFields, order: Mapping[str, Any]) -> list[KeyColumn]:
    """The leading columns of a sort order that order rows in the same way as a key."""
    usable: list[KeyColumn] = []
    for part in order["fields"]:
        field = schema.by_id.get(part.get("source-id", -1))
        if field is None or not part["transform"].startswith(_MONOTONE) or _kind(field.type) is None:
            break  # later columns are ordered only within this one
        column = key_column(field, field.iceberg_name)
        if column not in usable:
            usable.append(column)
    return usable


def store(jvm: Iceberg, table: Any, key: ClusterKey, *, native: bool) -> None:
    """Store the key as the table's sort order or as table properties, in one commit."""
    transaction = table.newTransaction()
    if native:
        first = jvm.api.NullOrder.NULLS_FIRST
        order = transaction.replaceSortOrder()
        for column in key.columns:
            # `asc(name)` is a default method, which py4j cannot call on Iceberg's private classes.
            order = order.asc(jvm.api.expressions.Expressions.ref(".".join(column.path)), first)
        order.commit()
    kept = {} if native else key_properties(key, [int(column.field_id) for column in key.columns])
    _put(transaction, table, kept)
    transaction.commitTransaction()


def remove(table: Any) -> None:
    """Remove the key, both sort order and properties, in one commit."""
    transaction = table.newTransaction()
    transaction.replaceSortOrder().commit()
    _put(transaction, table, {})
    transaction.commitTransaction()


def _put(transaction: Any, table: Any, kept: Mapping[str, str]) -> None:
    """Set these key properties and remove the others: a leftover property could take precedence over a sort order."""
    update = transaction.updateProperties()
    for name in (*KEY_SPELLINGS, FIELDS_PROPERTY):
        if name in kept:
            update = update.set(name, kept[name])
        elif table.properties().containsKey(name):
            update = update.remove(name)
    update.commit()


def order_text(schema: SchemaFields, order: Mapping[str, Any]) -> str:
    """A sort order (Iceberg's JSON) as text: ``day(ts) DESC NULLS LAST, k ASC NULLS FIRST``; empty if unsorted."""
    parts = []
    for part in order["fields"]:
        field = schema.by_id.get(part.get("source-id", -1))
        name = field.iceberg_name if field else "?"
        term = name if part["transform"] == "identity" else f"{part['transform']}({name})"
        parts.append(f"{term} {part['direction'].upper()} {part['null-order'].upper().replace('-', ' ')}")
    return ", ".join(parts)


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
    """The metrics mode of each key column (``truncate(16)``, ``full``); OptionError for a mode without bounds."""
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
