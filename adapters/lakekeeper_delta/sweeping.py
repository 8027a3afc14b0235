"""Look at files, delete them, move them: the last line of defence asks again, and believes only what it sees."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakekeeper.core.containment import Grounds, refusal
from lakekeeper.core.vacuum import METADATA_KINDS, Doomed, FileInfo
from lakekeeper.errors import AdapterError
from lakekeeper_delta.disk import Disk, in_parallel


def look(disk: Disk, paths: Sequence[str]) -> list[FileInfo | None]:
    """Each file as it is now, in order."""
    links = Links(disk)

    def one(path: str) -> FileInfo | None:
        info = disk.status(disk.locator.at(path))
        return None if info is None else replace(info, path=path, link=links.reach(disk.locator.at(path)))

    return list(in_parallel(one, paths))


def delete(disk: Disk, grounds: Grounds, files: Sequence[Doomed]) -> list[str]:
    """Delete what may be deleted, and look; the paths that are gone."""
    links = Links(disk)
    places = {
        file.path: disk.locator.at(file.path)
        for file in files
        if not _refused(disk, grounds, links, file.path, reserved=file.kind in METADATA_KINDS)
    }
    paths = list(places)
    there = _kinds(disk, paths, places)
    # A folder is no file of anybody's: some stores would delete all that is in it.
    disk.remove([places[path] for path in paths if there[path] == "file"])
    left = _kinds(disk, paths, places)
    return [path for path in paths if not left[path]]


def _kinds(disk: Disk, paths: Sequence[str], places: Mapping[str, str]) -> dict[str, str]:
    """What each is; where the storage does not answer nothing is known, and nobody is told that it is gone."""

    def one(path: str) -> str:
        try:
            return disk.kind(places[path])
        except AdapterError:
            return "unknown"

    return dict(zip(paths, in_parallel(one, paths), strict=True))


def move(disk: Disk, grounds: Grounds, moves: Mapping[str, str]) -> list[str]:
    """Rename what may be renamed; the sources that are at their targets now."""
    links = Links(disk)

    def one(item: tuple[str, str]) -> bool:
        source, target = item
        if any(_refused(disk, grounds, links, path, reserved=True) for path in item):
            return False
        old, new = disk.locator.at(source), disk.locator.at(target)
        # Some stores rename over what is there.
        if disk.kind(old) == "file" and not disk.kind(new):
            disk.rename(old, new)
        return not disk.kind(old) and disk.kind(new) == "file"

    done = in_parallel(one, moves.items())
    return [source for source, moved in zip(moves, done, strict=True) if moved]


class Links:
    """Is a file reached by a symbolic link below the table's folder? Each folder is looked at once."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._home = disk.root.removeprefix("file:")
        self._real = os.path.realpath(self._home)
        self._plain: dict[str, bool] = {}

    def reach(self, location: str) -> bool:
        """The file itself, or a folder on the way."""
        if not self._disk.local or not self._disk.locator.inside(location):
            return False
        path = location.removeprefix("file:")
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder not in self._plain:
            wanted = os.path.normpath(self._real + folder[len(self._home) :])
            self._plain[folder] = os.path.realpath(folder) == wanted
        return not self._plain[folder] or os.path.islink(path)  # noqa: PTH114


def _refused(disk: Disk, grounds: Grounds, links: Links, path: str, *, reserved: bool) -> bool:
    location = disk.locator.at(path)
    in_log = location.startswith(f"{disk.root}/_delta_log/")
    return bool(refusal(path, grounds, reserved=reserved)) or in_log or links.reach(location)
