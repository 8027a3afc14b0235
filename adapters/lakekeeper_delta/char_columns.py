"""Columns of type CHAR(n): stored as text, which Spark pads with spaces on reading, and other readers do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KIND = "__CHAR_VARCHAR_TYPE_STRING"  # in the metadata of a field


def holds_char(field: Any) -> bool:
    """Whether a field of a schema, as JSON data, is a CHAR or contains one."""
    if isinstance(field, Mapping):
        kind = field.get("metadata", {}).get(_KIND, "") if isinstance(field.get("metadata"), Mapping) else ""
        return "char(" in str(kind).replace("varchar(", "") or any(
            holds_char(part) for part in field.values()
        )
    return isinstance(field, list) and any(map(holds_char, field))
