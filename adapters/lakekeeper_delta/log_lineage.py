"""Whether the log still has the commit at which a table was looked at.

the look       … 5  6  7
the log now    … 5  6  7  8  9      follows it: the commits 8 and 9 came since
               … 5  6' 7' 8'        does not: a copy that another writer continued, or a restored backup
               … 5  6               does not: rolled back
"""

from __future__ import annotations

from collections.abc import Mapping

from lakekeeper_delta.json_commits import commit_mark
from lakekeeper_delta.log_marks import same_mark
from lakekeeper_delta.native import Log, State


def follows(
    log: Log, state: State, version: int, mark: str, listed: Mapping[int, str] | None = None
) -> bool | None:
    """Whether ``state`` is of a log in which ``version`` is the commit with this mark; None if that commit is gone.

    One request for a commit that is before the checkpoint of ``state`` and not ``listed``, otherwise none. Any commit
    will do for an empty mark: of one that was not looked at.
    """
    if version > state.version:
        return False
    if not mark:
        return True
    found = state.marks.get(version) or (listed or {}).get(version)
    if found is None:
        found = commit_mark(log, version)
    return same_mark(found, mark) if found else None
