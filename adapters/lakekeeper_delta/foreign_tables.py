"""Other tables in or around a table's folder: their files would be mistaken for orphans.

files      the log or metadata of another table in a listed folder, or in a folder around the table
catalog    a table registered at one of these locations; for the same folder, only one that is not a Delta table
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from lakekeeper.core.vacuum.path_guard import may_be_same, may_meet
from lakekeeper.spark.catalogs import SESSION_CATALOG, places
from lakekeeper.spi import TableName
from lakekeeper_delta.file_ops import Links
from lakekeeper_delta.filesystem import Disk, Entry, in_parallel
from lakekeeper_delta.native import Log
from lakekeeper_delta.notes import FOLDER

_OTHERS = ("_delta_log", ".hoodie")
_METADATA = ".metadata.json"


def find(log: Log, disk: Disk, name: TableName, runs: Sequence[str] | None) -> list[str]:
    """See ``spi.Storage.find``."""
    below = [disk.root] if runs is None else [f"{disk.root}/{run}" for run in runs]
    return sorted({*_inside(disk, below), *_around(disk), *_in_catalog(log, disk, name)})


def _inside(disk: Disk, folders: Sequence[str]) -> list[str]:
    """Metadata of other tables below these folders."""
    found = []
    links = Links(disk)
    ours = (f"{disk.root}/_delta_log", f"{disk.root}/{FOLDER}")
    level = list(folders)
    while level:
        below = []
        for folder, entries in zip(level, in_parallel(disk.entries, level), strict=True):
            found += _metadata_in(folder, entries, own=folder == disk.root)
            below += [e.info.path for e in entries if e.folder and not links.reach(e.info.path)]
        level = [folder for folder in below if folder not in ours]
    return found


def _around(disk: Disk) -> list[str]:
    """Metadata of other tables directly in a folder that contains the table."""
    found = []
    for folder in disk.locator.above():
        names = [f"{folder}/{name}" for name in (*_OTHERS, "metadata")]
        there = [name for name, kind in zip(names, disk.kinds(names), strict=True) if kind == "folder"]
        found += [name for name in there if not name.endswith("/metadata")]
        if f"{folder}/metadata" in there:
            found += _metadata_in(f"{folder}/metadata", disk.entries(f"{folder}/metadata"), own=False)
    return found


def _metadata_in(folder: str, entries: Sequence[Entry], *, own: bool) -> list[str]:
    """The entries of a folder that are a table's metadata; ``own``: the log in it is this table's."""
    found = []
    for entry in entries:
        name = posixpath.basename(entry.info.path)
        if entry.folder and name in _OTHERS and not (own and name == "_delta_log"):
            found.append(entry.info.path)
    named = (entry.info.path for entry in entries if not entry.folder)
    if posixpath.basename(folder) == "metadata" and any(path.endswith(_METADATA) for path in named):
        found.append(folder)
    return found


def _in_catalog(log: Log, disk: Disk, name: TableName) -> list[str]:
    """Tables that the catalog places at, above or below the table's folder; a Delta table at that folder is ours."""
    found = []
    for place in places(log.jvm, name.catalog or SESSION_CATALOG):
        location = place.location if ":" in place.location else disk.locator.default + place.location
        own = place.provider == "delta" and may_be_same(location, disk.root)
        if not own and may_meet(location, [disk.root]):
            found.append(f"{place} at {location}")
    return found
