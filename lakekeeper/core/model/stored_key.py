"""A cluster key stored as table properties: by name, and by field identifiers that survive a rename.

    lakekeeper.cluster-by         = hilbert(user_id, ts)                                what users read and write
    _lakekeeper.cluster-by-fields = {"fields": [3, 7], "key": "hilbert(user_id, ts)"}   valid for this exact text only

If a user sets the first by hand, the second no longer matches and is ignored: the names apply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import ClusterKey, key_text, parse_layout
from lakekeeper.errors import MALFORMED, OptionError

KEY_PROPERTY = "lakekeeper.cluster-by"
KEY_SPELLINGS = (KEY_PROPERTY, "lakekeeper.cluster_by")  # like every option, it may be spelled either way
FIELDS_PROPERTY = "_lakekeeper.cluster-by-fields"  # not an option: those start with "lakekeeper."


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The columns of a stored key under their current names, in Spark SQL spelling, and its layout.

    ``problem`` states why ``columns`` is empty although a key is stored.
    """

    columns: tuple[str, ...] = ()
    layout: str = "linear"
    problem: str = ""


def key_properties(key: ClusterKey, fields: Sequence[Any]) -> dict[str, str]:
    """The properties that store a key; ``fields`` identifies each column by a JSON value."""
    text = key_text(key)
    beside = json.dumps({"fields": list(fields), "key": text}, sort_keys=True)
    return {KEY_PROPERTY: text, FIELDS_PROPERTY: beside}


def text_of_key(properties: Mapping[str, str]) -> str:
    """The value of the key property, whichever spelling the table uses; empty if the table has neither."""
    return next((properties[name] for name in KEY_SPELLINGS if name in properties), "")


def key_of_properties(properties: Mapping[str, str], name_now: Callable[[Any], str | None]) -> StoredKey:
    """The key stored in the properties; empty if there is no such property.

    ``name_now(field)`` returns the current name of a field in Spark SQL spelling, or None if it was dropped. Never
    raises: a property may hold anything.
    """
    text = text_of_key(properties)
    names, layout = parse_layout(text)
    fields = _fields_for(text, properties.get(FIELDS_PROPERTY, ""))
    if fields is None or len(fields) != len(names):
        return StoredKey(names, layout)
    now = [name_now(field) for field in fields]
    gone = [name for name, found in zip(names, now, strict=True) if found is None]
    if gone:
        return StoredKey(problem=f"column {', '.join(gone)} of its key {KEY_PROPERTY}={text!r} was dropped")
    return StoredKey(tuple(name for name in now if name is not None), layout)


def unusable(error: OptionError) -> StoredKey:
    """The result for a stored key whose columns cannot be resolved: no columns, and the reason."""
    return StoredKey(problem=f"its stored key cannot be used: {error}")


def _fields_for(text: str, beside: str) -> list[Any] | None:
    """The fields recorded for this exact text; None if they are missing or belong to another text."""
    try:
        noted = json.loads(beside)
        return list(noted["fields"]) if noted["key"] == text else None
    except MALFORMED:
        return None
