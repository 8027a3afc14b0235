"""The Arrow types of a merge's columns, and the stored types whose values they hold unchanged."""

from __future__ import annotations

import pyarrow as pa

from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import FileColumn

FIELD_ID = b"PARQUET:field_id"
DATED = ("date", "timestamp", "timestamp_ntz")
_ARROW = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_INT96 = pa.timestamp("ns")  # as Arrow shows the type; it is read in microseconds, whose range is wider
_WIDER = {
    "int8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "float": ("double",),
}


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a kind that is not nested. Raises Declined for an unknown one."""
    if kind.startswith("decimal("):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if kind not in _ARROW:
        raise Declined(f"columns of type {kind}")
    return _ARROW[kind]


def type_of(column: FileColumn) -> pa.DataType:
    """The Arrow type of a column, with the ids of nested fields. Raises Declined."""
    fields = [field_of(child, type_of(child)) for child in column.children]
    if column.kind == "struct":
        return pa.struct(fields)
    if column.kind == "list":
        return pa.list_(*fields)
    if column.kind == "map":
        return pa.map_(*fields)
    return arrow_type(column.kind)


def field_of(column: FileColumn, kind: pa.DataType) -> pa.Field:
    """The Arrow field of a column of this type."""
    number = None if column.field_id is None else {FIELD_ID: str(column.field_id).encode()}
    return pa.field(column.name, kind, column.nullable, number)


def readable(stored: pa.DataType, column: FileColumn) -> bool:
    """Whether each value of a stored type, which is not nested, is the same value in the column's type."""
    kind = arrow_type(column.kind)
    if _plain(stored) == kind:
        return True
    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(kind):
        return bool(stored.scale == kind.scale and stored.precision <= kind.precision)
    return any(stored == _ARROW[narrow] and column.kind in wider for narrow, wider in _WIDER.items())


def _plain(stored: pa.DataType) -> pa.DataType:
    """The type without what only the Arrow schema of a file adds to that of Parquet: wide offsets, and a zone's name.

    Dictionaries and views are not among it: a cast decodes them without a check of the text's 32-bit offsets.
    """
    if stored == pa.large_string():
        return pa.string()
    if stored == pa.large_binary():
        return pa.binary()
    if pa.types.is_timestamp(stored) and stored.tz is not None:
        return pa.timestamp(stored.unit, "UTC")
    return stored


def same_parts(stored: pa.DataType, column: FileColumn) -> bool:
    """Whether a stored type has the parts of a nested column: their order, names, ids and types.

    INT96 counts as a timestamp. Whether a part may be NULL is not compared: a file may forbid what the table allows.
    """
    if not column.children:
        return bool(stored == arrow_type(column.kind) or (column.kind == "timestamp" and stored == _INT96))
    if not _IS[column.kind](stored):
        return False
    parts = parts_of(stored)
    return len(parts) == len(column.children) and all(
        part.name == child.name
        and (child.field_id is None or _id(part) == str(child.field_id).encode())
        and same_parts(part.type, child)
        for part, child in zip(parts, column.children, strict=True)
    )


def same_names(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether nested types have parts of the same names and ids: a cast fills a field that it does not find with NULL.

    An id that is not wanted is ignored.
    """
    theirs, ours = parts_of(stored), parts_of(wanted)
    return len(theirs) == len(ours) and all(
        one.name == other.name and _id(other) in (None, _id(one)) and same_names(one.type, other.type)
        for one, other in zip(theirs, ours, strict=True)
    )


def leaf_columns(column: FileColumn) -> list[FileColumn]:
    """The parts of a column that are columns of Parquet, in their order."""
    return [leaf for child in column.children for leaf in leaf_columns(child)] or [column]


def parts_of(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a nested type."""
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def has_dates(column: FileColumn) -> bool:
    """Whether a column, or a part of it, is a date or a timestamp."""
    return column.kind in DATED or any(map(has_dates, column.children))


_IS = {"struct": pa.types.is_struct, "list": pa.types.is_list, "map": pa.types.is_map}


def _id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(FIELD_ID)
