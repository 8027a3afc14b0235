"""The commits of the log, read by name and never listed.

in memory         missing
    ▼                 ▼
… 8 9 │ 10 11 12 │ 13 14      the newest: the next file is probed until one is missing
▲
the first that exists: by binary search, since a log is cleaned from its beginning
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.errors import MALFORMED, AdapterError
from lakekeeper_delta import live_files
from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.features import check
from lakekeeper_delta.file_history import ADD_LINE, Journal
from lakekeeper_delta.filesystem import THREADS, Disk, in_parallel
from lakekeeper_delta.json_commits import LARGE, read_commits
from lakekeeper_delta.log_marks import same_time
from lakekeeper_delta.native import Log, State

_ADD = re.compile(ADD_LINE)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class History:
    """The commits read from the log, and the version whose live files can be queried."""

    journal: Journal
    state: State


def read_history(log: Log, disk: Disk, since: int | None, searched: Collection[str] = ()) -> History:
    """All commits after ``since``, or all that exist; ``searched`` are files to search for in their actions.

    Raises AdapterError for a gap or for text that cannot be parsed; Unsupported for a feature that is not allowed.
    """
    state = trusted(log, disk)
    for _ in range(_TRIES):
        check(log.name, state.reader, state.writer, state.features, state.properties)
        journal = _read(log, disk, state, since, searched)
        if not journal.renewed:
            return History(journal, state)
        # The properties or the protocol changed, or a commit too large for the driver was added.
        state = log.latest()
    raise AdapterError(f"{log.name}: its metadata changed at every read; nothing was deleted")


def commit_file(disk: Disk, version: int) -> str:
    """The location of a commit file."""
    return f"{disk.root}/_delta_log/{version:020d}.json"


def newest_after(log: Log, disk: Disk, version: int) -> int:
    """The newest version, from one that exists. Raises AdapterError if a commit is missing and the next one exists."""
    step = 1
    while True:
        wanted = range(version + 1, version + 1 + step)
        there = [
            info is not None for info in in_parallel(lambda v: disk.status(commit_file(disk, v)), wanted)
        ]
        if all(there):
            version, step = wanted[-1], 2 * THREADS
            continue
        version += there.index(False)
        if disk.status(commit_file(disk, version + 2)) is None:
            return version
        if disk.status(commit_file(disk, version + 1)) is None:
            raise _gap(log, version + 1)
        step = 1  # two commits were made between the checks


def actions_of(disk: Disk, version: int) -> list[dict[str, Any]]:
    """All actions of a commit. Raises AdapterError if it cannot be read."""
    return _parsed(disk.lines(commit_file(disk, version)))


def trusted(log: Log, disk: Disk) -> State:
    """The state in memory if its commit file is unchanged, else a fresh one."""
    state = log.in_memory()
    info = disk.status(commit_file(disk, state.version))
    made = int(state.snapshot.logSegment().lastCommitFileModificationTimestamp())
    if info is None or not same_time(info.modified_ms, made):
        state = log.latest()
    return state


def _read(log: Log, disk: Disk, state: State, since: int | None, searched: Collection[str]) -> Journal:
    newest = newest_after(log, disk, state.version)
    if since is not None and since > newest:
        since = None  # a cursor of another table that was here before
    first = _first(disk, since or 0, newest)
    journal = Journal(
        disk.locator,
        {name: physical_name(state, name) for name in state.partition_columns},
        memory=state.version,
        metadata={
            "id": state.table_uuid,
            "partitionColumns": list(state.partition_columns),
            "configuration": dict(state.properties),
        },
        since=-1 if since is None else since,
        first=first,
        newest=newest,
        whole=since is None and first == 0,
        masks_rows="deletionVectors" in state.features,
        searched=searched,
    )
    latest = 0
    for version, (info, text) in zip(
        range(first, newest + 1),
        _fetched(log, disk, range(first, newest + 1)),
        strict=True,
    ):
        try:
            at = _apply(log, disk, journal, version, text)
        except MALFORMED as error:
            raise AdapterError(
                f"{log.name}: commit {version} of its log is not understood ({error!r}); nothing was deleted"
            ) from error
        latest = max(latest, at, info.modified_ms)
        journal.times[version] = latest if max(at, info.modified_ms) > 0 else None
        journal.examined += 1
        journal.last = info
        if journal.renewed:
            break
    return journal


def _first(disk: Disk, low: int, newest: int) -> int:
    """The first commit from ``low`` on that exists."""
    if disk.status(commit_file(disk, low)) is not None:
        return low
    high = newest
    while high - low > 1:
        middle = (low + high) // 2
        if disk.status(commit_file(disk, middle)) is None:
            low = middle
        else:
            high = middle
    return high


def _fetched(log: Log, disk: Disk, versions: range) -> Iterator[tuple[FileInfo, str | None]]:
    """The file of each commit, and its text unless it is large."""
    places = [commit_file(disk, version) for version in versions]
    infos = []
    for version, info in zip(versions, disk.statuses(places), strict=True):
        if info is None:
            raise _gap(log, version)
        infos.append(info)
    texts = in_parallel(lambda info: disk.lines(info.path) if info.bytes <= LARGE else None, infos)
    return zip(infos, texts, strict=True)


def _gap(log: Log, version: int) -> AdapterError:
    return AdapterError(
        f"{log.name}: commit {version} is missing in the middle of its log, so the files that it named are not known; "
        "nothing was deleted"
    )


def _apply(log: Log, disk: Disk, journal: Journal, version: int, text: str | None) -> int:
    """Apply one commit; returns the time that it records, 0 if none."""
    if text is None:
        return _apply_large(log, disk, journal, version)
    lines = text.split("\n")
    adds = [line for line in lines if _ADD.match(line)]
    rest = _parsed("\n".join(line for line in lines if not _ADD.match(line)))
    journal.drop(version, rest)
    if journal.needs_adds(version):
        journal.bring(version, [json.loads(line)["add"] for line in adds] + _adds(rest))
    else:
        _parsed("\n".join(line for line in adds if not line.endswith("}}")))  # raises if one is truncated
    if not rest and not adds:
        raise ValueError("the file is empty")
    return _time(rest)


def _apply_large(log: Log, disk: Disk, journal: Journal, version: int) -> int:
    """Apply a commit that is filtered where it is read: only the relevant actions are loaded into the driver."""
    place = commit_file(disk, version)
    if version > journal.memory:
        journal.renewed = True
        return 0
    journal.whole = False  # its deletion vectors are not tracked
    if not journal.gone and not journal.searched:
        begin = json.loads(disk.first_line(place))
        if begin.get("commitInfo", {}).get("isBlindAppend") is True:
            # It dropped nothing, and added back nothing that was dropped before: nothing was.
            return _time([begin])
    rest = _parsed(disk.lines(place, dropped=ADD_LINE))
    journal.drop(version, rest)
    journal.bring(version, _adds(rest))
    wanted = {*journal.gone, *journal.searched}
    if wanted:
        adds = read_commits(log, range(version, version + 1)).where("add is not null").select("add.*")
        journal.bring(version, live_files.matching(adds, wanted))
    return _time(rest)


def _adds(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [action["add"] for action in actions if "add" in action]


def _parsed(text: str) -> list[dict[str, Any]]:
    actions = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is not an action")
    return actions


def _time(actions: list[dict[str, Any]]) -> int:
    commit_infos = [
        action["commitInfo"] for action in actions if isinstance(action.get("commitInfo"), Mapping)
    ]
    times = [info.get(key) for info in commit_infos for key in ("timestamp", "inCommitTimestamp")]
    return max((at for at in times if isinstance(at, int)), default=0)
