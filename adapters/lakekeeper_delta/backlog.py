"""Files that await their retention while Delta's log cleanup removes the commits that dropped them.

    log      5 ─ 6 ─ 7 ─ 8 ─ 9            a vacuum at 9 lists x, which 6 dropped too recently to delete
    later            . . 8 ─ 9 ─ 10 ─ 11  commits 6 and 7 are gone; only the backlog lists x
    or                         . . 11     commit 10 was removed unread; it may have restored x and dropped it again

If the log is retained no longer than the files, each commit is removed before the files that it dropped may be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakekeeper.core.vacuum.retention import Kept
from lakekeeper.core.vacuum.vacuum_plan import Backlog, Waiting
from lakekeeper_delta.file_history import Gone, Journal
from lakekeeper_delta.native import Log, State

_KINDS = ("data", "deletes", "changes")


def recalled(backlog: Backlog, journal: Journal) -> dict[str, Gone]:
    """Backlog files that no commit read here names: location → the latest version and time of its removal."""
    missed = journal.first > backlog.seen + 1
    at_ms = journal.times.get(journal.first) or 0
    if missed and not at_ms:
        return {}
    found = {}
    for file in backlog.files:
        location = journal.locator.at(file.path)
        if file.kind not in _KINDS or not journal.locator.inside(location):
            continue
        if location in journal.gone or location in journal.late:
            continue
        version, at = (journal.first, at_ms) if missed else (file.version, file.at_ms)
        latest = max(version, file.version), file.kind, max(at, file.at_ms)
        found[location] = Gone(*latest, file.partition, file.feed)
    return found


def remembered(gone: Mapping[str, Gone], journal: Journal) -> Backlog:
    """The backlog of files that must be kept for now. Files with an unknown removal time are left out."""
    files = (
        Waiting(location, g.kind, g.version, at_ms, g.partition, g.feed)
        for location, g in sorted(gone.items())
        if (at_ms := journal.dropped_at(g))
    )
    return Backlog(tuple(files), journal.newest)


def is_cleaned_early(log: Log, state: State, kept: Kept) -> bool:
    """Whether log cleanup may remove a commit before a vacuum deletes the files that it dropped.

    Files wait for the retention, and then for the next vacuum: only a log kept twice as long is certain to suffice.
    """
    configs, metadata = log.singleton("DeltaConfigs"), state.snapshot.metadata()
    if not configs.ENABLE_EXPIRED_LOG_CLEANUP().fromMetaData(metadata):
        return False
    return int(configs.getMilliSeconds(configs.LOG_RETENTION().fromMetaData(metadata))) < 2 * kept.age_ms
