"""Features that are refused before anything is written: untested format versions, encryption and column types."""

from __future__ import annotations

import re
from typing import Any

from lakekeeper.errors import AdapterError, LakekeeperError, NotFound, Unsupported, reason
from lakekeeper.spark.jvm import causes, says_no_such_table
from lakekeeper_iceberg.keys import SchemaFields

FORMATS = (1, 2, 3)
# Types that Spark reads and writes without loss. Spark has no type for `time` or nanosecond timestamps.
_NUMBERS = ("boolean", "int", "long", "float", "double", "decimal")
_OTHERS = ("date", "timestamp", "timestamptz", "string", "uuid", "binary", "fixed", "variant")
_TYPES = frozenset((*_NUMBERS, *_OTHERS))


def refused(table: str, error: BaseException) -> Unsupported | None:
    """Unsupported, naming the feature, for Iceberg's exception about metadata that it cannot read; else None."""
    for name, message in causes(error):
        no_type_of_spark = re.search(r"Cannot convert unsupported type to Spark: (.+)", message)
        if no_type_of_spark:
            return Unsupported(table, f"column type {no_type_of_spark[1]}", "Spark has no such type")
        if not name.endswith("IllegalArgumentException"):
            continue
        version = re.search(r"Cannot read unsupported version (\d+)", message)
        if version:
            advice = "this session's Iceberg version does not support it; nothing was written"
            return Unsupported(table, f"format-version {version[1]}", advice)
        unknown_type = re.search(r"Cannot parse type string to primitive: (.+)", message)
        if unknown_type:
            return Unsupported(
                table, f"column type {unknown_type[1]}", "Iceberg does not know it; nothing was written"
            )
        if re.search(r"^Cannot parse|must exist in format v\d", message):
            advice = f"Iceberg cannot read it ({message}): it is of a later version or damaged; nothing was written"
            return Unsupported(table, "metadata file", advice)
    return None


def unreadable(table: str, error: BaseException) -> LakekeeperError:
    """What to raise for a table that could not be loaded: Unsupported, NotFound, or AdapterError.

    A catalog or a store that does not answer says nothing about whether the table exists.
    """
    if (known := refused(table, error)) is not None:
        return known
    if says_no_such_table(error):
        return NotFound(table, f"no such Iceberg table ({reason(error)})")
    return AdapterError(f"{table}: its metadata cannot be read ({reason(error)})")


def check_supported(table: str, metadata: Any, schema: SchemaFields) -> None:
    """Raise Unsupported, naming the feature, for a table (its TableMetadata) that must not be rewritten."""
    version = int(metadata.formatVersion())
    if version not in FORMATS:
        raise Unsupported(table, f"format-version {version}")
    if metadata.uuid() is None:
        raise Unsupported(table, "a table without uuid", "a commit by any current writer adds one")
    encrypted = metadata.properties().get("encryption.key-id")
    if encrypted is not None or not metadata.encryptionKeys().isEmpty():
        raise Unsupported(table, "encryption keys")
    _check_partition_fields(table, metadata)
    for field in schema.top:
        _check_type(table, field["name"], field["type"])


def _check_partition_fields(table: str, metadata: Any) -> None:
    """Raise Unsupported if two partition fields of different specs have one name: Iceberg cannot list such a table."""
    specs = metadata.specs()
    if int(specs.size()) == 1:
        return
    names: dict[int, str] = {}
    for number in range(int(specs.size())):  # by age: a later spec may rename a field
        fields = specs.get(number).fields()
        for at in range(int(fields.size())):
            names[int(fields.get(at).fieldId())] = str(fields.get(at).name())
    for field_id, name in names.items():
        other = next((each for each, its in names.items() if its == name and each > field_id), None)
        if other is not None:
            raise Unsupported(
                table,
                f"two partition fields of the name {name} (ids {field_id} and {other})",
                "Iceberg cannot list its files. Rename the newer one: ALTER TABLE ... REPLACE PARTITION FIELD "
                f"{name} WITH the same transform AS another name",
            )


def _check_type(table: str, name: str, kind: Any) -> None:
    if isinstance(kind, str):
        base = kind.split("(")[0].split("[")[0]
        if base not in _TYPES:
            raise Unsupported(
                table, f"column type {kind}", f"column {name} cannot be rewritten without loss yet"
            )
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            _check_type(table, f"{name}.{field['name']}", field["type"])
    elif kind["type"] == "list":
        _check_type(table, f"{name}.element", kind["element"])
    elif kind["type"] == "map":
        _check_type(table, f"{name}.key", kind["key"])
        _check_type(table, f"{name}.value", kind["value"])
    else:
        raise Unsupported(table, f"column type {kind['type']}")
