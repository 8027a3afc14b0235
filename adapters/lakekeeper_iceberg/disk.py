"""Files as the table's storage shows them: looked at, deleted, moved, listed. Through the table's own FileIO.

A FileIO does not tell when a file was made, nor does it rename: where Hadoop's file system is under it, that one is
asked. Links are looked for on local disks only; no other storage that Hadoop knows follows them by itself.
"""

from __future__ import annotations

import os
import posixpath
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from lakekeeper.core.containment import Grounds, below, refusal, same_place, spelled
from lakekeeper.core.vacuum import METADATA_KINDS, Doomed, FileInfo
from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import causes
from lakekeeper_iceberg.native import Iceberg

_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO"
_RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"
_BULK = "org.apache.iceberg.io.SupportsBulkOperations"
_PREFIX = "org.apache.iceberg.io.SupportsPrefixOperations"
_INFO = "org.apache.iceberg.io.FileInfo"
_OF_HADOOP = ("file", "hdfs", "viewfs")  # what a FileIO that looks at schemes gives to Hadoop
_CHEAP_RENAME = (*_OF_HADOOP, "abfs", "abfss")
_MISSING = ("java.io.FileNotFoundException", "org.apache.iceberg.exceptions.NotFoundException")
_THREADS = 4
_FOLDER = -1
_LISTED = 10_000

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Disk:
    """The storage of one table. Raises AdapterError where it does not answer."""

    jvm: Iceberg
    name: str
    io: Any
    grounds: Grounds

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """See ``spi.Storage.look``."""
        links = _Links(self.grounds)
        return [_of_file(info, links) for info in _in_threads(self._seen, paths)]

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """See ``spi.Storage.delete``."""
        allowed = [
            f.path for f in files if not refusal(f.path, self.grounds, reserved=f.kind in METADATA_KINDS)
        ]
        links = _Links(self.grounds)
        seen = dict(zip(allowed, _in_threads(self._seen, allowed), strict=True))
        doomed = [
            p for p, info in seen.items() if info is not None and info.bytes != _FOLDER and not links.to(p)
        ]
        self._delete_all(doomed)
        left = dict(zip(doomed, _in_threads(self._seen, doomed), strict=True))
        return [path for path, info in seen.items() if info is None or (path in left and left[path] is None)]

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """See ``spi.Storage.move``; nothing is moved where a rename would be a copy."""
        links = _Links(self.grounds)

        def one(move: tuple[str, str]) -> bool:
            source, target = move
            for path in move:
                if refusal(path, self.grounds, reserved=True) or links.to(path):
                    return False
            if not self._is_hadoop(source) or _scheme(source) not in _CHEAP_RENAME:
                return False
            return self._rename(source, target)

        done = _in_threads(one, list(moves.items()))
        return [source for source, moved in zip(moves, done, strict=True) if moved]

    def files(self, folder: str) -> Iterator[FileInfo]:
        """LIST: all files below a folder, at whatever depth; none where there is no folder."""
        if not self.jvm.is_a(self.io, _PREFIX):
            raise AdapterError(
                f"{self.name}: the table's storage ({self.io.getClass().getName()}) cannot be listed"
            )
        links = _Links(self.grounds)
        try:
            if self._is_hadoop(folder) and not self._exists(folder):
                return
            # With the slash: object stores list by the beginning of a name.
            found = self.io.listPrefix(folder.rstrip("/") + "/").iterator()
            parts = self.jvm.collect.Iterators.partition(found, _LISTED)
            while parts.hasNext():
                yield from self._infos(parts.next(), links)
        except AdapterError:
            raise
        except Exception as error:
            raise self._failed(f"{folder} cannot be listed", error) from error

    def _infos(self, part: Any, links: _Links) -> Iterator[FileInfo]:
        columns = [
            self.jvm.told(part, _INFO, method, returns)
            for method, returns in (
                ("location", "java.lang.String"),
                ("size", "long"),
                ("createdAtMillis", "long"),
            )
        ]
        for path, size, at in zip(*columns, strict=True):
            yield FileInfo(path, int(size), int(at), links.to(path))

    def start(self, path: str, most: int) -> bytes:
        """The first bytes of a file, unpacked."""
        try:
            stream = self.io.newInputFile(path).newStream()
            try:
                found = bytes(stream.readNBytes(most))
            finally:
                stream.close()
            return zlib.decompressobj(31).decompress(found) if found[:2] == b"\x1f\x8b" else found
        except Exception as error:
            raise self._failed(f"{path} cannot be read", error) from error

    def _seen(self, path: str) -> FileInfo | None:
        """A file, a folder (by its size), or nothing."""
        try:
            if self._is_hadoop(path):
                place, files = self._hadoop(path)
                status = files.getFileStatus(place)
                size = _FOLDER if status.isDirectory() else int(status.getLen())
                return FileInfo(path, size, int(status.getModificationTime()))
            found = self.io.newInputFile(path)
            return FileInfo(path, int(found.getLength())) if found.exists() else None
        except Exception as error:
            if any(kind in _MISSING for kind, _ in causes(error)):
                return None
            raise self._failed(f"{path} cannot be looked at", error) from error

    def _delete_all(self, paths: Sequence[str]) -> None:
        """Ask for it; whether it was done is seen afterwards."""
        if not paths:
            return
        with suppress(Exception):  # some could not be deleted: those are still there
            if self.jvm.is_a(self.io, _BULK):
                self.io.deleteFiles(self.jvm.strings(paths))
                return
            for path in paths:
                with suppress(Exception):
                    self.io.deleteFile(path)

    def _rename(self, source: str, target: str) -> bool:
        try:
            (old, files), (new, _) = self._hadoop(source), self._hadoop(target)
            if files.exists(old) and not files.exists(new):
                files.mkdirs(new.getParent())
                files.rename(old, new)
            return bool(files.exists(new)) and not files.exists(old)
        except Exception as error:
            raise self._failed(f"{source} cannot be moved", error) from error

    def _exists(self, path: str) -> bool:
        place, files = self._hadoop(path)
        return bool(files.exists(place))

    def _is_hadoop(self, path: str) -> bool:
        if self.jvm.is_a(self.io, _HADOOP):
            return True
        return self.jvm.is_a(self.io, _RESOLVING) and _scheme(path) in _OF_HADOOP

    def _hadoop(self, path: str) -> tuple[Any, Any]:
        place = self.jvm.view.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self.io.getConf())

    def _failed(self, what: str, error: Exception) -> AdapterError:
        told = causes(error)
        return AdapterError(f"{self.name}: {what} ({told[-1][1] if told else error})")


class _Links:
    """Which paths of a local disk are reached by a symbolic link below the root that they lie in."""

    def __init__(self, grounds: Grounds) -> None:
        self._roots = [r.rstrip("/") for r in grounds.roots if _scheme(r) == "file"]
        self._folders: dict[str, bool] = {}

    def to(self, path: str) -> bool:
        """Is it a link, or below one?"""
        if _scheme(path) != "file":
            return False
        local = _local(path)
        folder = posixpath.dirname(local)
        if folder not in self._folders:
            self._folders[folder] = self._linked(path, folder)
        return self._folders[folder] or os.path.islink(local)  # noqa: PTH114  # a million paths may be asked for

    def _linked(self, path: str, folder: str) -> bool:
        for root in self._roots:
            inside = below(path, (root,))
            if inside != path:
                home = os.path.realpath(_local(root))
                return os.path.realpath(folder) != posixpath.dirname(posixpath.join(home, inside))
        return False


def _of_file(info: FileInfo | None, links: _Links) -> FileInfo | None:
    if info is None or info.bytes == _FOLDER:
        return None
    return FileInfo(info.path, info.bytes, info.modified_ms, links.to(info.path))


def _scheme(path: str) -> str:
    return spelled(path).partition(":")[0]


def _local(path: str) -> str:
    return spelled(path).removeprefix("file:")


def _in_threads(work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    if len(items) < 2 * _THREADS:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakekeeper-disk") as pool:
        return list(pool.map(work, items))


def is_child(path: str, folder: str) -> bool:
    """Does the path lie directly in a folder?"""
    return spelled(path).rpartition("/")[0] == spelled(folder.rstrip("/"))


def inside(path: str, folder: str) -> bool:
    """Does the path lie below a folder, at whatever depth?"""
    return below(path, (folder,)) != path and not same_place(path, folder)
