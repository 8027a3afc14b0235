"""Hadoop's file systems under a FileIO: modification times, renames, folders. Many files in a few calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.spark.small_files import AZURE, has_folders, renames_in_one_step, scheme_of
from lakekeeper_iceberg.native import Iceberg

FOLDER = -1
"""The size that marks a folder."""

_LISTED = 10_000
_FS = "org.apache.hadoop.fs.FileSystem"
_PATH = "org.apache.hadoop.fs.Path"
_STATUS = "org.apache.hadoop.fs.FileStatus"


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """Files accessed with a table's Hadoop configuration. Java exceptions propagate."""

    jvm: Iceberg
    conf: Any

    def place(self, path: str) -> tuple[Any, Any]:
        """(Hadoop Path, its FileSystem)."""
        place = self.jvm.view.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self.conf)

    def spellings(self, path: str) -> tuple[str, str]:
        """A path as Iceberg's writers spell it, and as listings do: with the address of a default file system."""
        place, files = self.place(path)
        return str(place.toString()), str(files.makeQualified(place).toString())

    def default_scheme(self) -> str:
        """The scheme of paths that have none."""
        return str(self.jvm.view.org.apache.hadoop.fs.FileSystem.getDefaultUri(self.conf).getScheme()).lower()

    def renames(self, path: str) -> bool:
        """Whether a rename of a path is one step, and does not copy."""
        place, files = self.place(path)
        return renames_in_one_step(files, place)

    def has_folders(self, path: str) -> bool:
        """See `small_files.has_folders`."""
        return has_folders(self.place(path)[1])

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists at the path."""
        place, files = self.place(path)
        return bool(files.exists(place))

    def drop_empty(self, folder: str) -> None:
        """Remove a folder if it is empty: the file system refuses to remove one that is not."""
        place, files = self.place(folder)
        with suppress(Exception):  # it is not empty, or does not exist
            files.delete(place, False)

    def prune(self, folder: str) -> None:
        """LIST: remove a folder that contains only folders; a folder with a file in it is kept."""
        place, files = self.place(folder)
        below = list(files.listStatus(place)) if files.exists(place) else []
        if all(entry.isDirectory() for entry in below):
            for entry in below:
                self.prune(str(entry.getPath().toString()))
            self.drop_empty(folder)

    def lists_twice(self, path: str) -> bool:
        """Whether a folder may be returned twice: ABFS's iterators do so for a marker and for the files below it."""
        return scheme_of(self.place(path)[1]) in AZURE

    def files(self, folder: str) -> Iterator[FileInfo]:
        """LIST: all files below a folder, each folder listed once."""
        to_list = self.jvm.view.org.apache.hadoop.util.functional.RemoteIterators.toList
        left, known = [folder], {folder}
        while left:
            place, files = self.place(left.pop())
            found = to_list(files.listStatusIterator(place))
            for start in range(0, int(found.size()), _LISTED):
                part = found.subList(start, min(start + _LISTED, int(found.size())))
                for path, info in self._infos(part):
                    if info.bytes != FOLDER:
                        yield info
                    elif path not in known:
                        known.add(path)
                        left.append(path)

    def _infos(self, statuses: Any) -> Iterator[tuple[str, FileInfo]]:
        columns = [
            self.jvm.values_of(statuses, _STATUS, method, returns)
            for method, returns in (
                ("getPath", _PATH),
                ("getLen", "long"),
                ("getModificationTime", "long"),
                ("isDirectory", "boolean"),
            )
        ]
        for path, size, at, folder in zip(*columns, strict=True):
            yield path, FileInfo(path, FOLDER if folder == "true" else int(size), int(at))

    def absent(self, paths: Sequence[str]) -> list[str]:
        """Those of these paths of one file system at which there is nothing."""
        _, files = self.place(paths[0])
        transform = self.jvm.collect.Iterables.transform
        places = transform(self.jvm.strings(paths), self.jvm.maker(_PATH, "java.lang.String"))
        exists = self.jvm.bound(files, _FS, "exists", "boolean", _PATH)
        answers = self.jvm.texts(self.jvm.collect.Lists.newArrayList(transform(places, exists)))
        return [path for path, answer in zip(paths, answers, strict=True) if answer != "true"]

    def seen(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """Status of files and folders (size ``FOLDER``) of one file system, in order; None for a missing path.

        A Java exception that crosses to Python costs 20 ms, so existence is checked first.
        """
        if not paths:
            return []
        _, files = self.place(paths[0])
        transform, lists = self.jvm.collect.Iterables.transform, self.jvm.collect.Lists.newArrayList
        make = self.jvm.maker(_PATH, "java.lang.String")
        places = lists(transform(self.jvm.strings(paths), make))
        exists = self.jvm.bound(files, _FS, "exists", "boolean", _PATH)
        answers = self.jvm.texts(lists(transform(places, exists)))
        there = [path for path, answer in zip(paths, answers, strict=True) if answer == "true"]
        status = self.jvm.bound(files, _FS, "getFileStatus", _STATUS, _PATH)
        known = lists(transform(lists(transform(self.jvm.strings(there), make)), status))
        found = {
            path: replace(info, path=path) for path, (_, info) in zip(there, self._infos(known), strict=True)
        }
        return [found.get(path) for path in paths]
