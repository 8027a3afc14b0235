"""Changes to a snapshot's files since it was read."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import STREAM_MS, Changes, Winner, stream_before
from lakekeeper.core.planning.successors import Replacement
from lakekeeper.errors import NotFound, Unsupported
from lakekeeper_delta.features import check
from lakekeeper_delta.json_commits import Since, commits_between, commits_of
from lakekeeper_delta.log_lineage import follows
from lakekeeper_delta.native import Log, State


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last result for a snapshot, from which the next call continues."""

    snapshot: Snapshot
    changes: Changes
    lineage: object


_last: WeakKeyDictionary[Log, _Seen] = WeakKeyDictionary()
_lock = Lock()


def changes_since(log: Log, snapshot: Snapshot) -> Changes:
    """See ``spi.Adapter.changes_since``. Reads only the commits since the last call for this snapshot."""
    newest, lineage = _newest(log, snapshot), commits_of(log).lineage
    with _lock:
        seen = _last.get(log)
    if seen is None or seen.snapshot is not snapshot:
        before = replace(_nothing(snapshot), earlier=_earlier(log, snapshot))
    elif seen.lineage is lineage:
        before = seen.changes
    else:  # another copy of the log may have another commit of the version that was seen last
        before = replace(_nothing(snapshot), earlier=seen.changes.earlier)
    changes = replace(_since(log, snapshot, before, newest), earlier=before.earlier)
    if not changes.obstacle:
        with _lock:
            _last[log] = _Seen(snapshot, changes, lineage)
    return changes


def _nothing(snapshot: Snapshot) -> Changes:
    return Changes(-1 if snapshot.version is None else snapshot.version)


def _earlier(log: Log, snapshot: Snapshot) -> tuple[Winner, ...]:
    """The snapshot's commit and those of the seconds before it; nothing is read if it is no part of a stream."""
    with suppress(Exception):  # a hint
        version = snapshot.version or 0
        state = log.at(version, snapshot.table_uuid)
        made = int(state.snapshot.logSegment().lastCommitFileModificationTimestamp())
        if time.time_ns() // 1_000_000 - made < STREAM_MS:
            return stream_before(commits_of(log).newest_first(log, version))
    return ()


def _since(log: Log, snapshot: Snapshot, before: Changes, newest: int | None) -> Changes:
    if newest == before.version:
        return before
    try:
        since = commits_between(log, before.version, newest) if newest is not None else None
    except NotFound:
        since = None
    if newest is None or since is None or since.renewed:
        return _by_state(log, snapshot)
    return _after(before, newest, since, snapshot)


def _newest(log: Log, snapshot: Snapshot) -> int | None:
    """The newest version, without a listing; None if that is not certain."""
    if snapshot.version is None:
        return None
    return commits_of(log).newest(snapshot.version, snapshot.log_mark)


def _by_state(log: Log, snapshot: Snapshot) -> Changes:
    """All changes, with a check of the table's newest metadata."""
    before = _nothing(snapshot)
    try:
        now = log.latest()
    except Unsupported as error:  # Delta itself no longer opens the table
        return replace(before, obstacle=_feature_added(error))
    obstacle = obstacle_to(log, now, snapshot)
    if now.table_uuid != snapshot.table_uuid:
        return Changes(now.version, obstacle=obstacle)  # the log is another table's: nothing to compare
    try:
        since = commits_between(log, before.version, now.version)
    except NotFound as gap:
        return Changes(now.version, obstacle=obstacle or Reason.of(Code.LOG_INCOMPLETE, error=str(gap)))
    return _after(before, now.version, since, snapshot, obstacle)


def _after(
    before: Changes, version: int, since: Since, snapshot: Snapshot, obstacle: Reason | None = None
) -> Changes:
    """Earlier changes combined with those of later commits."""
    actions = since.touching(snapshot.blocks.path)
    removed, changed = outcome(actions)
    touched = removed | changed.keys()
    kept = {path: deletes for path, deletes in before.delete_ids.items() if path not in touched}
    return Changes(
        version,
        (*before.winners, *since.winners),
        (before.removed - touched) | removed,
        kept | changed,
        obstacle,
        replacements(before.replacements, since, frozenset(actions["path"].to_pylist())),
    )


def replacements(
    before: tuple[Replacement, ...], since: Since, touched: Collection[str]
) -> tuple[Replacement, ...]:
    """Earlier replacements and those of later commits; ``touched`` are the blocks that these touched.

    A file that a replacement added counts as removed if its deletes change.
    """
    found, came = list(before), {path for each in before for path in each.added}
    for winner in since.winners:
        if winner.appends:
            continue
        own = since.files.filter(pc.equal(since.files["version"], winner.version))
        live = own.filter(own["live"])
        added = dict(zip(live["path"].to_pylist(), live["delete_id"].to_pylist(), strict=True))
        removed = set(own.filter(pc.invert(own["live"]))["path"].to_pylist())
        masked = removed & added.keys()
        gone = removed - masked | masked & came
        if gone.isdisjoint(came) and gone.isdisjoint(touched):
            continue
        new = added.keys() - masked
        followed = not winner.layout and not masked & came and not any(added[path] for path in new)
        found.append(Replacement(frozenset(gone), frozenset(new), followed))
        came |= new
    return tuple(found)


def obstacle_to(log: Log, now: State, snapshot: Snapshot) -> Reason | None:
    """Why files written for ``snapshot`` may no longer be committed; None if they may.

    A plain change of table properties is no obstacle.
    """
    if now.table_uuid != snapshot.table_uuid:
        return Reason.of(Code.TABLE_RECREATED)
    version = -1 if snapshot.version is None else snapshot.version
    there = follows(log, now, version, snapshot.log_mark)
    if there is None:
        return Reason.of(Code.LOG_INCOMPLETE, error=f"commit {version}, which was read, is gone from it")
    if not there:
        return Reason.of(Code.LOG_REPLACED)
    if now.schema_id != snapshot.schema_id:
        return Reason.of(Code.SCHEMA_CHANGED)
    try:
        check(log.name, now.reader, now.writer, now.features, now.properties)
    except Unsupported as error:
        return _feature_added(error)
    return None


def _feature_added(error: Unsupported) -> Reason:
    return Reason.of(Code.FEATURE_ADDED, feature=error.feature)


def outcome(actions: pa.Table) -> tuple[set[str], dict[str, str]]:
    """(removed paths, path → id of the deletes in force), by the last version that touched each path."""
    latest: dict[str, tuple[int, bool, str]] = {}
    for row in actions.to_pylist():
        version, live, path = row["version"], row["live"], row["path"]
        seen = latest.get(path)
        # A commit changes a deletion vector by a remove and an add of the same path: the add counts.
        if seen is None or (version, live) > seen[:2]:
            latest[path] = (version, live, row["delete_id"])
    removed = {path for path, (_, live, _) in latest.items() if not live}
    return removed, {path: deletes for path, (_, live, deletes) in latest.items() if live}
