"""Status, deletes and moves of files: the last line of defence checks again, and trusts only what it reads back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakekeeper.core.model.run_folders import folders_of_run
from lakekeeper.core.vacuum.path_guard import Grounds, Region, move_refusal, refusal
from lakekeeper.core.vacuum.vacuum_plan import Doomed, FileInfo, region_of
from lakekeeper.errors import AdapterError
from lakekeeper_delta.filesystem import Disk, in_parallel


def look(disk: Disk, paths: Sequence[str]) -> list[FileInfo | None]:
    """The current status of each file, in order."""
    links = Links(disk)

    places = [disk.locator.at(path) for path in paths]
    found = zip(paths, places, disk.statuses(places), strict=True)
    return [info and replace(info, path=path, link=links.reach(place)) for path, place, info in found]


def delete(disk: Disk, grounds: Grounds, files: Sequence[Doomed]) -> list[str]:
    """Delete files that may be deleted, and check; the paths that are gone. Run folders are removed once empty."""
    links = Links(disk)
    places = {
        file.path: disk.locator.at(file.path)
        for file in files
        if not _refused(disk, grounds, links, file.path, region_of(file.kind))
    }
    paths = list(places)
    there = _kinds(disk, paths, places)
    # Never pass a folder: some stores would delete everything in it.
    disk.remove([places[path] for path in paths if there[path] == "file"])
    left = _kinds(disk, paths, places)
    gone = [path for path in paths if not left[path]]
    folders = {folder for path in gone for folder in folders_of_run(places[path])}
    for folder in sorted(folders, key=len, reverse=True):
        disk.drop_empty(folder)
    return gone


def _kinds(disk: Disk, paths: Sequence[str], places: Mapping[str, str]) -> dict[str, str]:
    """The kind of each path. If the storage does not respond, all are unknown and none counts as deleted."""
    try:
        found = disk.kinds([places[path] for path in paths])
    except AdapterError:
        found = ["unknown"] * len(paths)
    return dict(zip(paths, found, strict=True))


def move(disk: Disk, grounds: Grounds, moves: Mapping[str, str]) -> list[str]:
    """Rename files that may be renamed; the sources that are now at their targets."""
    links = Links(disk)
    allowed = [
        pair
        for pair in moves.items()
        if not move_refusal(*pair, grounds) and not any(links.reach(disk.locator.at(p)) for p in pair)
    ]
    pairs = [(disk.locator.at(source), disk.locator.at(target)) for source, target in allowed]

    def states() -> list[tuple[str, str]]:
        olds, news = disk.kinds([old for old, _ in pairs]), disk.kinds([new for _, new in pairs])
        return list(zip(olds, news, strict=True))

    # Some stores overwrite an existing target.
    free = [pair for pair, state in zip(pairs, states(), strict=True) if state == ("file", "")]
    list(in_parallel(lambda pair: disk.rename(*pair), free))
    done = zip(allowed, states(), strict=True)
    return [source for (source, _), state in done if state == ("", "file")]


class Links:
    """Symbolic links on the way to a file below the table's folder. Each folder is resolved once."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._home = disk.root.removeprefix("file:")
        self._real = os.path.realpath(self._home)
        self._plain: dict[str, bool] = {}

    def reach(self, location: str) -> bool:
        """Whether the file itself, or a folder on its path, is a link."""
        if not self._disk.local or not self._disk.locator.inside(location):
            return False
        path = location.removeprefix("file:")
        folder = os.path.dirname(path)  # noqa: PTH120  # there may be a million paths
        if folder not in self._plain:
            wanted = os.path.normpath(self._real + folder[len(self._home) :])
            self._plain[folder] = os.path.realpath(folder) == wanted
        return not self._plain[folder] or os.path.islink(path)  # noqa: PTH114  # as above


def _refused(disk: Disk, grounds: Grounds, links: Links, path: str, region: Region) -> bool:
    location = disk.locator.at(path)
    in_log = location.startswith(f"{disk.root}/_delta_log/")
    return bool(refusal(path, grounds, region)) or in_log or links.reach(location)
