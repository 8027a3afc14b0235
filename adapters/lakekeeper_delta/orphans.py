"""What only a listing shows: all files of the table, what of them the log names at all, and other tables near by."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from lakekeeper.core.plan import MergeTask
from lakekeeper.core.vacuum import FileInfo
from lakekeeper.errors import AdapterError
from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.disk import Disk, Entry, in_parallel
from lakekeeper_delta.live import named_in
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.notes import FOLDER
from lakekeeper_delta.reading import History, read_history
from lakekeeper_delta.sweeping import Links

_PREFIX = re.compile(r"[0-9a-zA-Z]+")
_CHANGES = "_change_data"
_OTHERS = ("_delta_log", ".hoodie")
_METADATA = ".metadata.json"


def files(log: Log, disk: Disk, folders: Sequence[str] | None) -> Iterator[FileInfo]:
    """Files of the table that are no metadata, not hidden, and reached without a link.

    ``folders`` are listed alone, or with all below them where a slash stands at their end.
    """
    state = log.latest()
    asked = [f"{disk.root}/"] if folders is None else [disk.locator.at(folder) for folder in folders]
    known = [f for f in dict.fromkeys(asked) if f == disk.root or disk.locator.inside(f)]
    deep = [folder.rstrip("/") for folder in known if folder.endswith("/")]
    flat = [folder for folder in known if not folder.endswith("/")]
    if disk.root in flat and scatters(state):
        below = [entry.info.path for entry in disk.entries(disk.root) if entry.folder]
        flat += [folder for folder in below if _PREFIX.fullmatch(posixpath.basename(folder))]
    yield from _walked(disk, deep, _hidden(state), deep=True)
    yield from _walked(disk, flat, _hidden(state), deep=False)


def scatters(state: State) -> bool:
    """Do writers put files into folders of random names?"""
    return state.mapped or state.switched_on("randomizeFilePrefixes")


def named(log: Log, disk: Disk, history: History, paths: Collection[str]) -> set[str]:
    """Which paths the log names: in a commit that exists, in the live state or its tombstones, or as its own file."""
    asked = {disk.locator.at(path): path for path in paths}
    reserved = tuple(f"{disk.root}/{folder}/" for folder in ("_delta_log", FOLDER))
    found = {location for location in asked if location.startswith(reserved)}
    now = read_history(log, disk, None, asked=asked.keys())
    if now.journal.newest < history.journal.newest or now.state.table_uuid != history.state.table_uuid:
        raise AdapterError(
            f"{log.name}: the table was made anew while its files were looked at; nothing was deleted"
        )
    found |= now.journal.met
    left = asked.keys() - found
    if left:
        found |= named_in(disk.locator, log.files(now.state), left)
        tombstones = log.jvm.dataframe(now.state.snapshot.tombstones().toDF())
        found |= named_in(disk.locator, tombstones, left)
    return {path for location, path in asked.items() if location in found}


def folders(log: Log, disk: Disk, tasks: Sequence[MergeTask]) -> tuple[str, ...]:
    """Folders of the inputs, of the partitions as Delta names them, and the table's own."""
    if not tasks:
        return _of_deletes(disk, log.in_memory())
    found = {disk.root: None}
    for task in tasks:
        for path in task.inputs:
            for location in disk.locator.readings(path):
                if disk.locator.inside(location):
                    found[posixpath.dirname(location)] = None
    for partition, task in {task.partition: task for task in tasks if task.partition}.items():
        state = log.at(task.read_version, task.table_uuid)
        if not scatters(state):
            found[f"{disk.root}/{_partition_folder(log, state, partition)}"] = None
    return tuple(found)


def _of_deletes(disk: Disk, state: State) -> tuple[str, ...]:
    """Where a delete of rows writes: vectors beside the partitions, copies into any, and the change feed."""
    copies = bool(state.partition_columns) and not state.masks_rows
    feed = (f"{disk.root}/{_CHANGES}/",) if state.switched_on("enableChangeDataFeed") else ()
    return (f"{disk.root}/",) if copies else (disk.root, *feed)


def strangers(disk: Disk) -> list[str]:
    """Folders of other tables' metadata: anywhere below the table, or directly in a folder around it."""
    found = []
    level = [disk.root]
    links = Links(disk)
    while level:
        below = []
        for folder, entries in zip(level, in_parallel(disk.entries, level), strict=True):
            found += _metadata_in(folder, entries, own=folder == disk.root)
            below += [e.info.path for e in entries if e.folder and not links.reach(e.info.path)]
        ours = (f"{disk.root}/_delta_log", f"{disk.root}/{FOLDER}")
        level = [folder for folder in below if folder not in ours]
    for folder in disk.locator.above():
        names = [f"{folder}/{name}" for name in (*_OTHERS, "metadata")]
        there = [name for name, kind in zip(names, disk.kinds(names), strict=True) if kind == "folder"]
        found += [name for name in there if not name.endswith("/metadata")]
        if f"{folder}/metadata" in there:
            found += _metadata_in(f"{folder}/metadata", disk.entries(f"{folder}/metadata"), own=False)
    return sorted(found)


def _metadata_in(folder: str, entries: Sequence[Entry], *, own: bool) -> list[str]:
    """What of a folder's entries is a table's metadata; ``own``: the log in it is this table's."""
    found = []
    for entry in entries:
        name = posixpath.basename(entry.info.path)
        if entry.folder and name in _OTHERS and not (own and name == "_delta_log"):
            found.append(entry.info.path)
    named = (entry.info.path for entry in entries if not entry.folder)
    if posixpath.basename(folder) == "metadata" and any(path.endswith(_METADATA) for path in named):
        found.append(folder)
    return found


def _walked(
    disk: Disk, folders: Sequence[str], hidden: Callable[[str], bool], *, deep: bool
) -> Iterator[FileInfo]:
    """LIST: files of folders, and of those below if ``deep``, without what is hidden or a link."""
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
        level = below if deep else []


def _hidden(state: State) -> Callable[[str], bool]:
    """The rule of Delta's own listings: a leading underscore or dot, but for the change feed and for partitions."""
    columns = [*state.partition_columns, *(physical_name(state, c) for c in state.partition_columns)]
    shown = (_CHANGES, *(f"{column}=" for column in columns))
    return lambda name: name.startswith(("_", ".")) and not name.startswith(shown)


def _partition_folder(log: Log, state: State, partition: str) -> str:
    """A partition's folder as Spark names it."""
    utils = log.jvm.view.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    values = json.loads(partition)
    return "/".join(str(utils.getPartitionPathString(name, values[name])) for name in state.partition_columns)
