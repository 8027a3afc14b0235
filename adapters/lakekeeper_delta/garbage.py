"""Files that no kept version can read, from the journal of the log.

versions        … 4   5   6 │ 7   8   9          7 is the oldest kept version
dropped by          5   6   │ 7   8
garbage           x   x     │ x                  6 was the last to read files dropped by 7; 7 reads those dropped by 8
"""

from __future__ import annotations

from collections.abc import Collection

from lakekeeper.core.vacuum.retention import Kept
from lakekeeper.core.vacuum.vacuum_plan import NO_BACKLOG, Backlog, Dead, Garbage
from lakekeeper_delta.backlog import recalled, remembered
from lakekeeper_delta.file_history import Gone, Journal, kind_of
from lakekeeper_delta.filesystem import Disk
from lakekeeper_delta.live_files import alive
from lakekeeper_delta.native import Log
from lakekeeper_delta.reading import History


def find_garbage(
    log: Log,
    disk: Disk,
    history: History,
    kept: Kept,
    hints: Collection[str],
    backlog: Backlog = NO_BACKLOG,
) -> Garbage:
    """See ``spi.Storage.garbage``. Runs one Spark job over the live files, only if the commits do not suffice.

    The backlog holds all files that wait, whether or not the log will still name them.
    """
    journal = history.journal
    waiting = recalled(backlog, journal)
    dropped = {
        location: gone
        for location, gone in {**waiting, **journal.gone}.items()
        if not journal.still_used(location)
    }
    gone = {location: g for location, g in dropped.items() if not g.needed_by(kept.oldest)}
    held = {location: gone[location].version for location in gone if _too_new(gone[location], journal, kept)}
    hinted = {disk.locator.at(hint) for hint in hints} - dropped.keys() - journal.late
    hinted = {location for location in hinted if disk.locator.inside(location)}
    searched = _undecided(journal, gone) | hinted | (waiting.keys() & gone.keys())
    live = alive(log, history.state, journal, searched) if searched else set()
    files = [
        Dead(location, g.kind, g.version, g.version, g.partition, _why(g), logged=location in journal.gone)
        for location, g in sorted(gone.items(), key=lambda item: (item[1].version, item[0]))
        if location not in live and location not in held
    ]
    found = [
        Dead(location, kind_of(location), -1, 0, why="unused, by the list of an earlier vacuum", logged=False)
        for location in sorted(hinted - live)
    ]
    stay = {place: g for place, g in dropped.items() if place in held or g.needed_by(kept.oldest)}
    # The next vacuum must find the files held back now.
    through = min([kept.oldest, *(version - 1 for place, version in held.items() if place in journal.gone)])
    return Garbage(
        (*found, *files),
        outside=tuple(sorted(path for path, version in journal.outside.items() if version <= kept.oldest)),
        examined=journal.examined,
        note=_note(journal, backlog),
        through=through if through >= 0 else None,
        backlog=remembered(stay, journal),
    )


def _undecided(journal: Journal, gone: dict[str, Gone]) -> set[str]:
    """Files that a live action may name: in another spelling or with another vector, or as another user of a vector."""
    if journal.twofold:
        return set(gone)
    vectors = set() if journal.whole else {path for path, g in gone.items() if g.kind == "deletes"}
    return vectors | (journal.ambiguous & gone.keys())


def _too_new(gone: Gone, journal: Journal, kept: Kept) -> bool:
    """Whether a file was dropped after the cutoff of the grace period, or at an unknown time."""
    at = journal.dropped_at(gone)
    return at is None or at > kept.cutoff_ms


def _why(gone: Gone) -> str:
    if gone.kind == "changes":
        return f"change feed of version {gone.version}"
    return f"dropped by version {gone.version}"


def _note(journal: Journal, backlog: Backlog) -> str:
    """A note on removed commits whose dropped files no backlog lists; empty if none are missing."""
    expected = max(journal.since, backlog.seen) + 1
    if journal.first <= expected:
        return ""
    return (
        f"the log begins at version {journal.first}: files that versions {expected} to {journal.first - 1} removed "
        "cannot be determined from it; orphans=True finds them by listing the folder"
    )
