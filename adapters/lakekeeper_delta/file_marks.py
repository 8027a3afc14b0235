"""What lakekeeper writes at a file in the log, and how the log distinguishes deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakekeeper.core.model.run_folders import LEVEL_FOLDERS, RUN_FOLDER

LEVEL_TAG = "lakekeeper.level"
KEY_TAG = "lakekeeper.key"
CURVE_TAG = "lakekeeper.curve"  # "<boundaries' id>:<first position>:<last position>" on the key's curve

PLACE = rf"(?:^|/){RUN_FOLDER}/{LEVEL_FOLDERS}(?=/)"  # ends with the folders of key and level
SHORT_TEXT = 32  # Delta truncates text of more UTF-16 units than this; text of fewer bytes was not truncated


def vector_id(vector: Mapping[str, Any] | None) -> str:
    """The same text as :func:`lakekeeper_delta.blocks.delete_id`."""
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"
