"""Trino before version 482 deletes live data files if one of its statements loses to another commit.

On a table with deletion vectors, a statement that changes rows commits a new vector for each data file that it touched.
If the commit loses, Trino deletes the files of that commit, and these data files among them (trinodb/trino 29361):

    Trino    ──[ DELETE, on a.parquet ]──x  lost: deletes a.parquet, which is live
    ours     ──────────────────────k        any commit that adds or removes files

No replay repairs that, and a statement cannot be seen before it commits. So nothing of ours is committed to a table on
which such a server changed rows in the last day, unless the operator declares that the server has the fix.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.core.planning.rebase import Winner
from lakekeeper.errors import Unsupported
from lakekeeper_delta.json_commits import commits_of
from lakekeeper_delta.native import Log, State

FIXED = 482
OPTION = "fixed-trino"
LOOKED_AT = 16
"""Newest commits that a call looks at, except for those that an earlier one has looked at."""
DAY_MS = 86_400_000
"""A server that changed rows in this time may do so again: jobs run daily, if not more often."""
_MOST_TABLES = 10_000
_SERVER = re.compile(r"trino-(\d+)")  # the cluster of a commit by Trino


@dataclass(frozen=True, slots=True)
class _Looked:
    """How far the commits of a table were looked at, and the newest one by such a server."""

    table_uuid: str
    version: int
    found: Winner | None


_looked: dict[str, _Looked] = {}  # by the path of the log


def refusal(log: Log, state: State) -> str:
    """Why nothing may be committed on top of a version; empty if it may."""
    if log.fixed_trino or not state.masks_rows:
        return ""
    since = time.time_ns() // 1_000_000 - DAY_MS
    found = _newest(log, state, since)
    if found is None or found.at_ms <= since:
        return ""
    return (
        f"Trino {_version(found)} changed rows in the last day (version {found.version}). If one of its statements "
        "loses to another commit, it deletes live data files (trinodb/trino 29361); nothing was committed. Upgrade "
        f"Trino to {FIXED}, or, if it has the fix, set {CONF_PREFIX}{OPTION}=true"
    )


def refuse_before_writing(log: Log, state: State) -> None:
    """Raise Unsupported if a lost statement of another writer would delete live files."""
    reason = refusal(log, state)
    if reason:
        raise Unsupported(log.name, "a writer that deletes live files", reason)


def _newest(log: Log, state: State, since_ms: int) -> Winner | None:
    """The newest commit by such a server that changed rows; nothing is read if the newest commit of all is older."""
    place = str(log.log.logPath())
    known = _looked.get(place)
    if known is None or known.table_uuid != state.table_uuid:
        known = _Looked(state.table_uuid, -1, None)
    with suppress(Exception):  # a commit that cannot be read says nothing about its writer
        made = int(state.snapshot.logSegment().lastCommitFileModificationTimestamp())
        unseen = min(state.version - known.version, LOOKED_AT)
        if made <= since_ms or unseen <= 0:
            return known.found
        commits = islice(commits_of(log).newest_first(log, state.version), unseen)
        by_trino = (each for each in commits if each.changes_rows and _version(each) < FIXED)
        known = _Looked(state.table_uuid, state.version, next(by_trino, known.found))
        if len(_looked) >= _MOST_TABLES:
            _looked.clear()
        _looked[place] = known
    return known.found


def _version(commit: Winner) -> int:
    """The version of the Trino server that made a commit; ``FIXED`` for another writer."""
    server = _SERVER.match(commit.writer)
    return int(server[1]) if server else FIXED
