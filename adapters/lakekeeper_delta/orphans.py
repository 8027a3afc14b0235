"""What only a listing shows: all files of the table, those of them that the log names, and files left by a dead run."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.errors import AdapterError
from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.file_ops import Links
from lakekeeper_delta.file_recognition import Folders, recognised
from lakekeeper_delta.filesystem import Disk, in_parallel
from lakekeeper_delta.known_state import all_files
from lakekeeper_delta.live_files import named_in
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.reading import History, read_history

_CHANGES = "_change_data"


def files(log: Log, disk: Disk) -> Iterator[FileInfo]:
    """LIST: files of the table that are not metadata, not hidden, and not reached through a link."""
    yield from _walked(disk, [disk.root], _hidden(log.latest()))


def left_by(disk: Disk, runs: Sequence[str]) -> Iterator[FileInfo]:
    """LIST: all files in the folders of these runs that are not reached through a link."""
    yield from _walked(disk, [f"{disk.root}/{run}" for run in runs], lambda _name: False)


def of_writers(log: Log, disk: Disk, paths: Collection[str]) -> set[str]:
    """Those of ``paths`` that only Delta writers make, by folder and name."""
    state = log.in_memory()
    columns = {*state.partition_columns, *(physical_name(state, c) for c in state.partition_columns)}
    length = int(state.properties.get("delta.randomPrefixLength", "2"))
    folders = Folders(columns, length if scatters(state) else 0)
    below = {path: disk.locator.at(path) for path in paths}
    return {
        path
        for path, place in below.items()
        if disk.locator.inside(place) and recognised(place.removeprefix(f"{disk.root}/"), folders)
    }


def scatters(state: State) -> bool:
    """Whether writers put files into folders with random names."""
    return state.mapped or state.switched_on("randomizeFilePrefixes")


def named(log: Log, disk: Disk, history: History, paths: Collection[str]) -> set[str]:
    """The paths that the log names: in an existing commit, in the live state or its tombstones, or as its own file."""
    wanted = {disk.locator.at(path): path for path in paths}
    found = {location for location in wanted if location.startswith(f"{disk.root}/_delta_log/")}
    now = read_history(log, disk, None, searched=wanted.keys())
    if now.journal.newest < history.journal.newest or now.state.table_uuid != history.state.table_uuid:
        raise AdapterError(
            f"{log.name}: another table was created in its place while its files were examined; nothing was deleted"
        )
    found |= now.journal.met
    left = wanted.keys() - found
    if left:
        found |= named_in(disk.locator, all_files(log, now.state), left)
        tombstones = log.jvm.dataframe(now.state.snapshot.tombstones().toDF())
        found |= named_in(disk.locator, tombstones, left)
    return {path for location, path in wanted.items() if location in found}


def live(log: Log, disk: Disk, state: State, paths: Collection[str]) -> set[str]:
    """The paths that the live files of a state name."""
    wanted = {disk.locator.at(path): path for path in paths}
    found = named_in(disk.locator, all_files(log, state), wanted) if wanted else ()
    return {wanted[location] for location in found}


def _walked(disk: Disk, folders: Sequence[str], hidden: Callable[[str], bool]) -> Iterator[FileInfo]:
    """LIST: files below folders, without hidden files and links."""
    links = Links(disk)
    level = list(folders)
    while level:
        below = []
        for entries in in_parallel(disk.entries, level):
            for entry in entries:
                if hidden(posixpath.basename(entry.info.path)) or links.reach(entry.info.path):
                    continue
                if entry.folder:
                    below.append(entry.info.path)
                else:
                    yield entry.info
        level = below


def _hidden(state: State) -> Callable[[str], bool]:
    """The rule of Delta's own listings: skip a leading underscore or dot, except for the change feed and partitions."""
    columns = [*state.partition_columns, *(physical_name(state, c) for c in state.partition_columns)]
    shown = (_CHANGES, *(f"{column}=" for column in columns))
    return lambda name: name.startswith(("_", ".")) and not name.startswith(shown)
