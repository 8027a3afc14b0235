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
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.core.planning.rebase import Winner
from lakekeeper.errors import Unsupported
from lakekeeper_delta.json_commits import commits_of
from lakekeeper_delta.native import Log, State

FIXED = 482
OPTION = "fixed-trino"
LOOKED_AT = 32
"""Newest commits that a call looks at before it writes; before it commits, it looks at all since."""
DAY_MS = 86_400_000
"""A server that changed rows in this time may do so again: jobs run daily, if not more often."""
_SERVER = re.compile(r"trino-(\d+)")  # the cluster of a commit by Trino


def refusal(log: Log, state: State, commits: Iterable[Winner]) -> str:
    """Why nothing may be committed after these commits; empty if it may."""
    if log.fixed_trino or not state.masks_rows:
        return ""
    since = _now_ms() - DAY_MS
    for each in commits:
        server = _SERVER.match(each.writer) if each.changes_rows and each.at_ms > since else None
        if server and int(server[1]) < FIXED:
            return (
                f"Trino {server[1]} changed rows in the last day (version {each.version}). If one of its "
                "statements loses to another commit, it deletes live data files (trinodb/trino 29361). Upgrade Trino "
                f"to {FIXED}, or, if it has the fix, set {CONF_PREFIX}{OPTION}=true"
            )
    return ""


def refuse_before_writing(log: Log, state: State) -> None:
    """Raise Unsupported if the newest commits are those of a server that deletes live files."""
    newest: list[Winner] = []
    with suppress(Exception):  # the commit looks again
        made = int(state.snapshot.logSegment().lastCommitFileModificationTimestamp())
        if state.masks_rows and _now_ms() - made < DAY_MS:
            newest = list(islice(commits_of(log).newest_first(log, state.version), LOOKED_AT))
    reason = refusal(log, state, newest)
    if reason:
        raise Unsupported(log.name, "a writer that deletes live files", f"{reason}; nothing was written")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
