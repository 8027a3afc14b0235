"""What was committed since a snapshot: the walk back through ancestors, and what became of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Winner
from lakekeeper_iceberg.features import FORMATS
from lakekeeper_iceberg.keys import SchemaFields

RUN_ID = "lakekeeper.run-id"
_TOUCHED = ("deleted-data-files", "added-delete-files", "removed-delete-files")


def changes_since(
    metadata: Any, schema: SchemaFields, snapshot: Snapshot, deletes_now: Callable[[int], Mapping[str, str]]
) -> Changes:
    """Changes between ``snapshot`` and the current state of ``metadata`` (a TableMetadata).

    ``deletes_now(id)`` lists path → delete_id at a snapshot; it is asked only where blocks of ``snapshot`` may have
    gone.
    """
    seen, quiet = winners_since(metadata, schema, snapshot)
    if seen.obstacle or quiet or not len(snapshot.blocks):
        return seen
    now = deletes_now(seen.version)
    before = dict(zip(snapshot.blocks.path.to_pylist(), snapshot.blocks.delete_id.to_pylist(), strict=True))
    return replace(
        seen,
        removed=frozenset(path for path in before if path not in now),
        delete_ids={
            path: now[path] for path, known_id in before.items() if now.get(path, known_id) != known_id
        },
    )


def winners_since(metadata: Any, schema: SchemaFields, snapshot: Snapshot) -> tuple[Changes, bool]:
    """(commits since ``snapshot`` and obstacles, did all of them leave files and deletes alone?); looks at no file."""
    current = metadata.currentSnapshot()
    version = -1 if current is None else int(current.snapshotId())
    winners, known = _winners(metadata, current, snapshot.version)
    obstacle = _obstacle(metadata, schema, snapshot)
    if not obstacle and not known:
        obstacle = (
            f"snapshot {snapshot.version}, which was read, is not among the ancestors of the table's current snapshot "
            f"{version}: it was expired, or the table was rolled back"
        )
    seen = Changes(version, tuple(winner for winner, _ in winners), obstacle=obstacle)
    return seen, all(quiet for _, quiet in winners)


def _winners(metadata: Any, current: Any, start: int | None) -> tuple[list[tuple[Winner, bool]], bool]:
    """Commits after ``start``, oldest first, each with whether it left files and deletes alone; was start met?"""
    found: list[tuple[Winner, bool]] = []
    at, seen = current, set()
    while at is not None:
        version = int(at.snapshotId())
        if version == start or version in seen:
            break
        seen.add(version)
        summary = at.summary()
        operation = str(at.operation())
        quiet = operation == "append" and all(summary.get(name) is None for name in _TOUCHED)
        layout, when = operation == "replace", int(at.timestampMillis())
        found.append((Winner(version, operation, summary.get(RUN_ID) or "", layout, quiet, when), quiet))
        parent = at.parentId()
        at = None if parent is None else metadata.snapshot(parent)
    met = at is not None if start is not None else True
    return found[::-1], met


def _obstacle(metadata: Any, schema: SchemaFields, snapshot: Snapshot) -> str:
    if str(metadata.uuid()) != snapshot.table_uuid:
        return "the table was dropped and created again under its name"
    if int(metadata.formatVersion()) not in FORMATS:
        return f"the table was upgraded to format version {metadata.formatVersion()}"
    gone = [
        c.name for c in (snapshot.key.columns if snapshot.key else ()) if int(c.field_id) not in schema.by_id
    ]
    return f"key column {', '.join(gone)} was dropped" if gone else ""
