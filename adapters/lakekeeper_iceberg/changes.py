"""Commits since a snapshot, found by walking its ancestors, and the changes that rule out committing a rewrite."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import STREAM_MS, Changes, Winner, stream_before
from lakekeeper.errors import Conflict
from lakekeeper_iceberg.features import FORMATS
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.native import Iceberg

RUN_ID = "lakekeeper.run-id"
_NAMES = ("trino_user", "flink.job-id", "app-id")
_TOUCHED = ("deleted-data-files", "added-delete-files", "removed-delete-files")


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit, its Snapshot, and whether it removed no data file and changed no delete file."""

    winner: Winner
    snapshot: Any
    quiet: bool


def winners_after(
    jvm: Iceberg, metadata: Any, current: Any, known: Collection[int | None]
) -> tuple[list[Committed], int | None]:
    """(commits after the nearest ancestor in ``known``, oldest first; that ancestor, or -1 if none is in ``known``).

    ``None`` in ``known`` is the empty table, the start of every line of ancestors.
    """
    found: list[Committed] = []
    at, seen = current, set()
    while at is not None:
        version = int(at.snapshotId())
        if version in known or version in seen:
            break
        seen.add(version)
        winner = _winner(jvm, at)
        found.append(Committed(winner, at, quiet=winner.appends))
        parent = at.parentId()
        at = None if parent is None else metadata.snapshot(parent)
    met = None if at is None else int(at.snapshotId())
    return found[::-1], met if met in known else -1


def earlier_than(jvm: Iceberg, metadata: Any, version: int | None) -> tuple[Winner, ...]:
    """A snapshot's commit and those of the seconds before it, oldest first, a few at most."""
    newest = None if version is None else metadata.snapshot(version)
    if newest is None or time.time_ns() // 1_000_000 - int(newest.timestampMillis()) >= STREAM_MS:
        return ()
    return stream_before(_winner(jvm, each) for each in ancestors(metadata, newest))


def ancestors(metadata: Any, snapshot: Any) -> Iterator[Any]:
    """A snapshot (or None) and its ancestors in the metadata, newest first."""
    at, seen = snapshot, set()
    while at is not None and int(at.snapshotId()) not in seen:
        seen.add(int(at.snapshotId()))
        yield at
        parent = at.parentId()
        at = None if parent is None else metadata.snapshot(parent)


def _winner(jvm: Iceberg, at: Any) -> Winner:
    # One call reads the whole summary: calls for each field of a dozen commits took a tenth of a small merge.
    summary, operation = jvm.text_map(at.summary()), str(at.operation())
    appends = operation == "append" and all(summary.get(name) is None for name in _TOUCHED)
    run, when = summary.get(RUN_ID) or "", int(at.timestampMillis())
    version, layout = int(at.snapshotId()), operation == "replace"
    return Winner(version, operation, run, layout, appends, when, _writer(summary))


def _writer(summary: Mapping[str, str]) -> str:
    """The engine, and Trino's user, Flink's job or Spark's application."""
    engine = summary.get("engine-name")
    found = (summary.get(name) for name in _NAMES)
    who = next((name for name in found if name), None) if engine else None
    return f"{engine} {who}" if who else ""


def sequence_of(metadata: Any, version: int) -> int:
    """The sequence number of a snapshot. Raises Conflict if it has expired.

    There is no safe default: equality deletes apply to every data file with a lower number than theirs.
    """
    snapshot = metadata.snapshot(version)
    if snapshot is None:
        raise Conflict(f"{metadata.location()}: snapshot {version} has expired; nothing was committed")
    return int(snapshot.sequenceNumber())


def winners_since(jvm: Iceberg, metadata: Any, schema: SchemaFields, snapshot: Snapshot) -> Changes:
    """Commits since ``snapshot`` and any obstacle, without their effect on its files."""
    current = metadata.currentSnapshot()
    commits, met = winners_after(jvm, metadata, current, {snapshot.version})
    obstacle = obstacle_to(metadata, schema, snapshot) or (
        unrelated(snapshot, metadata) if met == -1 else None
    )
    return Changes(newest_of(metadata), tuple(c.winner for c in commits), obstacle=obstacle)


def newest_of(metadata: Any) -> int:
    """The id of the current snapshot; -1 for an empty table."""
    current = metadata.currentSnapshot()
    return -1 if current is None else int(current.snapshotId())


def unrelated(snapshot: Snapshot, metadata: Any) -> Reason:
    """The obstacle if ``snapshot`` is not an ancestor of the current one."""
    read = "none" if snapshot.version is None else snapshot.version
    return Reason.of(Code.NOT_AN_ANCESTOR, read=read, current=newest_of(metadata))


def obstacle_to(metadata: Any, schema: SchemaFields, snapshot: Snapshot) -> Reason | None:
    """Why files written for ``snapshot`` must not be committed; None if they may be."""
    if str(metadata.uuid()) != snapshot.table_uuid:
        return Reason.of(Code.TABLE_RECREATED)
    if int(metadata.formatVersion()) not in FORMATS:
        return Reason.of(Code.FEATURE_ADDED, feature=f"format version {metadata.formatVersion()}")
    if snapshot.version is not None and metadata.snapshot(snapshot.version) is None:
        # Its sequence number is gone with it, and the commits that followed may be known from an earlier look.
        return unrelated(snapshot, metadata)
    gone = [
        c.name for c in (snapshot.key.columns if snapshot.key else ()) if int(c.field_id) not in schema.by_id
    ]
    return Reason.of(Code.KEY_COLUMN_DROPPED, columns=tuple(gone)) if gone else None
