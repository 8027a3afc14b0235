"""The contents of a snapshot as plain data, for comparisons."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lakekeeper.core.model.blocks import Snapshot


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """The contents of a snapshot: blocks by path, regardless of the order of blocks and codes."""
    blocks = snapshot.blocks
    coded = {"partition": blocks.partitions, "key_id": blocks.key_ids, "curve_id": blocks.curve_ids}
    columns: dict[str, list[Any]] = {}
    for f in fields(blocks):
        found = getattr(blocks, f.name)
        if f.name in coded:
            columns[f.name] = [coded[f.name][code] if code >= 0 else "" for code in found]
        elif f.name in ("lo", "hi", "null_count", "exact"):
            columns |= {f"{f.name}{i}": column.tolist() for i, column in enumerate(found)}
        elif not isinstance(found, tuple | str):
            columns[f.name] = found.tolist()
    names = (
        "table",
        "format",
        "version",
        "table_uuid",
        "schema_id",
        "key",
        "complete",
        "properties",
        "key_problem",
    )
    facts: dict[str, Any] = {name: getattr(snapshot, name) for name in names}
    by_path = zip(*([repr(value) for value in column] for column in columns.values()), strict=True)
    return facts | {"columns": list(columns), "blocks": sorted(by_path)}
