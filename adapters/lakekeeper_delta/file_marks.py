"""What lakekeeper writes at a file in the log, and how the log distinguishes deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.run_folders import LEVEL_FOLDERS, RUN_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import Column

LEVEL_TAG = "lakekeeper.level"
KEY_TAG = "lakekeeper.key"
CURVE_TAG = "lakekeeper.curve"  # "<boundaries' id>:<first position>:<last position>" on the key's curve

PLACE = rf"(?:^|/){RUN_FOLDER}/{LEVEL_FOLDERS}(?=/)"  # ends with the folders of key and level
SHORT_TEXT = 32  # Delta truncates text of more UTF-16 units than this; text of fewer bytes was not truncated


def vector_id(vector: Mapping[str, Any] | None) -> str:
    """The same text as :func:`delete_id`."""
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"


def names_vectors(engine: str | None) -> bool:
    """Whether the removes of an engine name the deletion vector of the file, as the protocol demands.

    Trino's do not in some statements (trinodb/trino 31253). For Delta, the file with its vector then stays live.
    """
    return (engine or "").startswith(("Apache-Spark/", "Databricks-Runtime/"))


def delete_id(descriptor: Column) -> Column:
    """The unique id of a deletion vector descriptor, as Delta's own ``uniqueId`` spells it; ``""`` if null."""
    from pyspark.sql import functions as F

    kind, place, offset = (descriptor.getField(n) for n in ("storageType", "pathOrInlineDv", "offset"))
    named = F.concat(kind, place, F.coalesce(F.concat(F.lit("@"), offset.cast("string")), F.lit("")))
    return F.coalesce(named, F.lit(""))
