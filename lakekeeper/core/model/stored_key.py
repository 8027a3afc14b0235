"""A cluster key that is kept as a table property: by name, and beside it by what outlives a rename.

    lakekeeper.cluster-by         = hilbert(user_id, ts)                                what people read and write
    _lakekeeper.cluster-by-fields = {"fields": [3, 7], "key": "hilbert(user_id, ts)"}   holds for this very text alone

Whoever sets the first by hand leaves the second behind, which then says nothing: the names count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import ClusterKey, key_text, parse_layout
from lakekeeper.errors import OptionError

KEY_PROPERTY = "lakekeeper.cluster-by"
FIELDS_PROPERTY = "_lakekeeper.cluster-by-fields"  # not an option: those are what begins with "lakekeeper."


@dataclass(frozen=True, slots=True)
class StoredKey:
    """Columns of a stored key as they are called now, in Spark SQL spelling, and its layout.

    ``problem`` says why there are none though a key is stored.
    """

    columns: tuple[str, ...] = ()
    layout: str = "linear"
    problem: str = ""


def key_properties(key: ClusterKey, fields: Sequence[Any]) -> dict[str, str]:
    """The properties that keep a key; ``fields`` say for each column, as JSON values, which one it is."""
    text = key_text(key)
    beside = json.dumps({"fields": list(fields), "key": text}, sort_keys=True)
    return {KEY_PROPERTY: text, FIELDS_PROPERTY: beside}


def key_of_properties(properties: Mapping[str, str], name_now: Callable[[Any], str | None]) -> StoredKey:
    """The key that properties keep; empty for none.

    ``name_now(field)`` is the present name of a field in Spark SQL spelling, None where it is gone. Raises nothing:
    a property may hold anything.
    """
    text = properties.get(KEY_PROPERTY, "")
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
    """For a stored key whose columns cannot be resolved: none, and why."""
    return StoredKey(problem=f"its stored key cannot be used: {error}")


def _fields_for(text: str, beside: str) -> list[Any] | None:
    """The fields that were noted beside this very text; None for none."""
    try:
        noted = json.loads(beside)
        return list(noted["fields"]) if noted["key"] == text else None
    except (ValueError, TypeError, KeyError):
        return None
