"""Trino before version 482 deletes live data files if one of its statements loses to another commit.

On a table with deletion vectors, a statement that changes rows commits a new vector for each data file that it touched.
If the commit loses, Trino deletes the files of that commit, and these data files among them (trinodb/trino 29361):

    Trino    ──[ DELETE, on a.parquet ]──x  lost: deletes a.parquet, which is live
    ours     ──────────────────────k        any commit that adds or removes files

No replay repairs that, and a statement cannot be seen before it commits. So nothing of ours is committed to a table on
which such a server changed rows in the last day, unless the operator declares that the server has the fix.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.core.planning.changes import Winner
from lakekeeper.errors import AdapterError, LakekeeperError, Unsupported, reason
from lakekeeper_delta.json_commits import commits_of
from lakekeeper_delta.native import Log, State

FIXED = 482
OPTION = "fixed-trino"
FIRST, LATER = 16, 1_000
"""Newest commits that the first look at a table reads; the most that a later one reads of those since."""
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
    """Why nothing may be committed on top of a version; empty if it may.

    Raises AdapterError if the newest commits cannot be read: one of them may be by such a server.
    """
    if log.fixed_trino or not state.masks_rows:
        return ""
    since = time.time_ns() // 1_000_000 - DAY_MS
    try:
        found = _newest(log, state, since)
    except LakekeeperError:
        raise
    except Exception as error:
        raise AdapterError(
            f"{log.name}: the newest commits cannot be read ({reason(error)}), so it is not known whether a Trino "
            "server that deletes live files made one of them; nothing was committed"
        ) from error
    if found is None or found.at_ms <= since:
        return ""
    return (
        f"Trino {_version(found)} changed rows in the last day (version {found.version}). If one of its statements "
        "loses to another commit, it deletes live data files (trinodb/trino 29361); nothing was committed. Upgrade "
        f"Trino to {FIXED}, or, if it has the fix, set {CONF_PREFIX}{OPTION}=true"
    )


def refuse_before_writing(log: Log, state: State) -> None:
    """Raise Unsupported if a lost statement of another writer would delete live files."""
    refused = refusal(log, state)
    if refused:
        raise Unsupported(log.name, "a writer that deletes live files", refused)


def _newest(log: Log, state: State, since_ms: int) -> Winner | None:
    """The newest commit by such a server that changed rows; nothing is read if the newest commit of all is older."""
    place = str(log.log.logPath())
    known = _looked.get(place)
    if known is None or known.table_uuid != state.table_uuid:
        known = _Looked(state.table_uuid, state.version - FIRST, None)
    made = int(state.snapshot.logSegment().lastCommitFileModificationTimestamp())
    if made <= since_ms or state.version <= known.version:
        return known.found
    after = max(known.version, state.version - LATER, -1)
    commits = commits_of(log).newest_first(log, state.version, after, _may_be_old)
    by_trino = (each for each in commits if each.changes_rows and _version(each) < FIXED)
    known = _Looked(state.table_uuid, state.version, next(by_trino, known.found))
    if len(_looked) >= _MOST_TABLES:
        _looked.clear()
    _looked[place] = known
    return known.found


def _may_be_old(first_line: str) -> bool:
    """Whether a commit may be that of such a server: every version of Trino writes the ``commitInfo`` first."""
    info = json.loads(first_line).get("commitInfo")
    return info is not None and _server(str(info.get("clusterId"))) < FIXED


def _version(commit: Winner) -> int:
    """The version of the Trino server that made a commit; ``FIXED`` for another writer."""
    return _server(commit.writer)


def _server(cluster: str) -> int:
    server = _SERVER.match(cluster)
    return int(server[1]) if server else FIXED
