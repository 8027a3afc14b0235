"""Replay of a log against the definition: a file is deleted if a removed version references it and no kept one does.

No JVM: commits are dictionaries.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.vacuum.retention import Kept
from lakekeeper.core.vacuum.vacuum_plan import NO_BACKLOG, Backlog, Garbage
from lakekeeper_delta import live_files
from lakekeeper_delta.file_history import Journal
from lakekeeper_delta.garbage import find_garbage
from lakekeeper_delta.locations import Locator, encoded_id
from lakekeeper_delta.reading import History

ROOT = "file:/lake/t"
LOCATOR = Locator(ROOT, "file:")
FILES = ["a", "b", "p=a%20b/c", "p=%C3%A4/d", "p=ä/d"]
"""The last two are one place, and two files to Delta."""
VECTORS = [uuid.UUID(int=n) for n in range(3)]
Live = dict[str, int | None]
"""File → number of its vectors' file."""


def add(path: str, vector: int | None) -> dict[str, Any]:
    return {"path": path, "size": 1, "partitionValues": {}, **_descriptor(vector)}


def remove(path: str, vector: int | None, at: int = 1, *, changes: bool = True) -> dict[str, Any]:
    return {"path": path, "size": 1, "deletionTimestamp": at, "dataChange": changes, **_descriptor(vector)}


def _descriptor(vector: int | None) -> dict[str, Any]:
    if vector is None:
        return {}
    place = encoded_id(VECTORS[vector])
    return {"deletionVector": {"storageType": "u", "pathOrInlineDv": place, "offset": 1, "sizeInBytes": 1}}


@dataclass
class Line:
    """Commits and the files that each version references; ``recorded``: the table has a change feed."""

    commits: list[list[dict[str, Any]]] = field(default_factory=list)
    states: list[Live] = field(default_factory=list)
    recorded: bool = False

    def names(self, version: int) -> set[str]:
        live = self.states[version]
        vectors = {LOCATOR.vector(_descriptor(v)["deletionVector"]) for v in live.values() if v is not None}
        return {str(LOCATOR.of(path)) for path in live} | vectors

    def feeds(self, version: int) -> set[str]:
        """Files from which the change feed of the version is read: change data, or what it dropped."""
        actions = self.commits[version]
        changes = [action["cdc"] for action in actions if "cdc" in action]
        if self.recorded and not changes:
            changes = [a["remove"] for a in actions if "remove" in a and a["remove"]["dataChange"]]
        named = {str(LOCATOR.of(each["path"])) for each in changes}
        return named | {LOCATOR.vector(each.get("deletionVector")) for each in changes} - {""}


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """Histories that add, remove and restore files, change and share vector files, and remove what is not live."""
    line = Line(recorded=draw(st.booleans()))
    live: Live = {}
    for version in range(draw(st.integers(1, 7))):
        actions: list[dict[str, Any]] = []
        for path in draw(st.lists(st.sampled_from(FILES), unique=True, max_size=3)):
            vector = draw(st.sampled_from([None, 0, 1, 2]))
            if live.get(path) is not None and draw(st.integers(0, 3)) == 0:
                # Trino names no vector: to Delta, the file with its vector stays live (loss L137).
                actions.append({"remove": remove(path, None, changes=draw(st.booleans()))})
                continue
            if path in live:
                actions.append({"remove": remove(path, live.pop(path), changes=draw(st.booleans()))})
                if draw(st.booleans()):
                    continue
            live[path] = vector
            actions.append({"add": add(path, vector)})
        if draw(st.booleans()):
            actions.append({"cdc": {"path": f"_change_data/{version}", "size": 1}})
        line.commits.append(draw(st.permutations(actions)))
        line.states.append(dict(live))
    return line


def garbage(
    line: Line,
    oldest: int,
    *,
    since: int = -1,
    memory: int | None = None,
    hints: Collection[str] = (),
    cut: int = 0,
    backlog: Backlog = NO_BACKLOG,
    times: bool = False,
    cutoff: int = 10,
) -> Garbage:
    """Garbage found by reading from ``since`` on; the live state that can be queried is that of ``memory``.

    Commits before ``cut`` are gone; with ``times`` the commit time of each version is its number.
    """
    newest = len(line.commits) - 1
    first = max(since, cut, 0)
    journal = Journal(
        LOCATOR, {}, newest if memory is None else memory,
        {"configuration": {"delta.enableChangeDataFeed": str(line.recorded).lower()}},
        since=since, first=first, newest=newest, whole=since < 0 and not first,
    )  # fmt: skip
    for version in range(first, newest + 1):
        journal.drop(version, line.commits[version])
        if journal.needs_adds(version):
            journal.bring(version, [a["add"] for a in line.commits[version] if "add" in a])
        journal.times[version] = version if times else 1
    live = line.states[journal.memory].items()
    rows = [{"path": path, "deletionVector": None, **_descriptor(vector)} for path, vector in live]
    stays = Reason.of(Code.NAMED_BY_CALLER)
    kept = Kept(dict.fromkeys(range(oldest, newest + 1), stays), tuple(range(oldest)), (), 0, cutoff)
    anything: Any = SimpleNamespace(locator=LOCATOR)
    with (
        patch.object(live_files, "all_files", lambda _log, _state: None),
        patch.object(live_files, "of_log", lambda _log: str),
        patch.object(live_files, "matching", lambda _frame, _locations: rows),
    ):
        return find_garbage(anything, anything, History(journal, anything), kept, hints, backlog)


def dead(line: Line, oldest: int, since: int = 0) -> set[str]:
    """By definition: files that a removed version references and no kept version does."""
    newest = len(line.commits) - 1
    needed = {name for v in range(oldest, newest + 1) for name in line.names(v) | line.feeds(v)}
    went = {name for v in range(since, oldest) for name in line.names(v) | line.feeds(v)}
    return went - needed


def paths(found: Garbage) -> set[str]:
    return {file.path for file in found.files}


@given(lines(), st.data())
def test_garbage_is_what_removed_versions_reference_and_kept_ones_do_not(
    line: Line, data: st.DataObject
) -> None:
    oldest = data.draw(st.integers(0, len(line.commits) - 1))
    found = garbage(line, oldest)
    assert paths(found) == dead(line, oldest)
    assert (found.through, found.note) == (oldest, "")


@given(lines(), st.data())
def test_reading_from_the_cursor_on_finds_the_rest(line: Line, data: st.DataObject) -> None:
    """Earlier commits are not read, and the state in memory may be older than the newest version."""
    newest = len(line.commits) - 1
    since = data.draw(st.integers(0, newest))
    oldest = data.draw(st.integers(since, newest))
    memory = data.draw(st.integers(since, newest))
    found = garbage(line, oldest, since=since, memory=memory)
    assert paths(found) == dead(line, oldest, since)


@given(lines(), st.data())
def test_a_hint_is_deleted_only_if_no_version_references_it(line: Line, data: st.DataObject) -> None:
    newest = len(line.commits) - 1
    since, memory = data.draw(st.integers(0, newest)), data.draw(st.integers(0, newest))
    since = min(since, memory)
    everything = {name for v in range(newest + 1) for name in line.names(v) | line.feeds(v)}
    strange = {f"{ROOT}/strange", "file:/etc/passwd"}
    kept = {name for v in range(since, newest + 1) for name in line.names(v)}
    hints = (everything - {name for v in range(newest + 1) for name in line.feeds(v)}) | strange
    found = garbage(line, since, since=since, memory=memory, hints=hints)
    assert paths(found) & hints == hints - kept - {"file:/etc/passwd"}


@given(lines(), st.data())
def test_a_backlog_replaces_commits_that_were_cleaned_up(line: Line, data: st.DataObject) -> None:
    """Loss L23: no file was ever deleted if the log retention was no longer than the file retention."""
    newest = len(line.commits) - 1
    seen = data.draw(st.integers(0, newest))
    before = data.draw(st.integers(0, seen))
    oldest = data.draw(st.integers(before, newest))
    cut = data.draw(st.integers(0, oldest))
    first = garbage(replace(line, commits=line.commits[: seen + 1], states=line.states[: seen + 1]), before)
    since = -1 if first.through is None else first.through
    second = garbage(line, oldest, since=since, cut=cut, backlog=first.backlog)
    assert paths(second) <= dead(line, oldest)
    if cut <= seen + 1:
        assert dead(line, oldest) - paths(first) <= paths(second)
        assert second.note == ""
    else:
        assert f"begins at version {cut}" in second.note
    logged = {file.path for file in second.files if file.logged}
    assert {file.path for file in first.backlog.files} - logged >= paths(second) - logged


def test_changes_of_unread_commits_get_the_time_of_the_last_of_them() -> None:
    """Commit 2 may have restored the file, and 3 removed it again, while readers of version 2 are still running."""
    line = Line([[{"add": add("a", None)}], [{"remove": remove("a", None)}]], [{"a": None}, {}])
    noted = garbage(line, 0).backlog
    assert [(file.path, file.version, file.at_ms) for file in noted.files] == [(f"{ROOT}/a", 1, 1)]
    line.commits += [[{"add": add("a", None)}], [{"remove": remove("a", None, at=11)}], [], []]
    line.states += [{"a": None}, {}, {}, {}]
    for cut, cutoff, gone in [(4, 3, False), (4, 4, True), (5, 4, False), (5, 5, True)]:
        found = garbage(line, 5, since=0, cut=cut, backlog=noted, times=True, cutoff=cutoff)
        assert bool(paths(found)) is gone
        assert {file.path for file in found.backlog.files} == (set() if gone else {f"{ROOT}/a"})


def test_files_removed_after_the_cutoff_are_found_next_time() -> None:
    line = Line([[{"add": add("a", None)}, {"add": add("b", None)}]], [{"a": None, "b": None}])
    line.commits += [[{"remove": remove("a", None, at=11)}], [{"remove": remove("b", None)}]]
    line.states += [{"b": None}, {}]
    found = garbage(line, 2)
    assert paths(found) == {f"{ROOT}/b"}
    assert found.through == 0
    again = garbage(line, 2, since=0)
    assert paths(again) == {f"{ROOT}/b"}


def test_a_vector_file_is_kept_for_the_change_feed_of_one_of_its_files() -> None:
    """One commit removes two files of a vector file, and only the first of them is part of its change feed."""
    line = Line(
        [
            [{"add": add(path, 0)} for path in "ab"],
            [{"remove": remove("b", 0)}, {"remove": remove("a", 0, changes=False)}],
        ],
        [{"a": 0, "b": 0}, {}],
        recorded=True,
    )
    assert paths(garbage(line, 1)) == {"file:/lake/t/a"}
