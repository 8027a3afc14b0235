"""Status, deletion, moves and listings of files in the table's storage, through the table's FileIO.

A FileIO neither reports modification times nor renames files: if it is based on Hadoop's FileSystem, that is used
directly. Symbolic links are checked on local disks only; no other Hadoop storage follows them implicitly.
"""

from __future__ import annotations

import os
import posixpath
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakekeeper.core.model.run_folders import folders_of_run
from lakekeeper.core.vacuum.path_guard import (
    Grounds,
    below,
    move_refusal,
    refusal,
    same_place,
    spelled,
)
from lakekeeper.core.vacuum.vacuum_plan import Doomed, FileInfo, region_of
from lakekeeper.errors import AdapterError, reason
from lakekeeper_iceberg.hadoop import FOLDER, HadoopFiles
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.reachability import store_of

_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO"
_RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"
_BULK = "org.apache.iceberg.io.SupportsBulkOperations"
_PREFIX = "org.apache.iceberg.io.SupportsPrefixOperations"
_INFO = "org.apache.iceberg.io.FileInfo"
OF_HADOOP = ("file", "hdfs", "viewfs")  # schemes that ResolvingFileIO passes to HadoopFileIO
_THREADS = 4
_LISTED = 10_000
_PAGE = 100  # files per call of one thread

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Disk:
    """The storage of one table. Raises AdapterError if the storage fails."""

    jvm: Iceberg
    name: str
    io: Any
    grounds: Grounds

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """See ``spi.Storage.look``."""
        links = self._links()
        return [_of_file(info, links) for info in self._seen(paths)]

    def absent(self, paths: Sequence[str]) -> set[str]:
        """Those of ``paths`` at which there is nothing; cheaper than :meth:`look`."""
        hadoop = self._hadoop(paths)
        if hadoop is None:
            return {
                p for p, info in zip(paths, _in_threads(self._seen_by_io, paths), strict=True) if not info
            }
        pages = [part[at : at + _PAGE] for part in _by_store(paths) for at in range(0, len(part), _PAGE)]
        try:
            return {path for found in _in_threads(hadoop.absent, pages) for path in found}
        except Exception as error:
            raise self._failed(f"{paths[0]} or one beside it cannot be looked at", error) from error

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """See ``spi.Storage.delete``."""
        allowed = [f.path for f in files if not refusal(f.path, self.grounds, region_of(f.kind))]
        links = self._links()
        seen = dict(zip(allowed, self._seen(allowed), strict=True))
        doomed = [
            p for p, info in seen.items() if info is not None and info.bytes != FOLDER and not links.to(p)
        ]
        self.delete_all(doomed)
        left = dict(zip(doomed, self._seen(doomed), strict=True))
        gone = [path for path, info in seen.items() if info is None or (path in left and left[path] is None)]
        folders = {folder for path in gone for folder in folders_of_run(path)}
        for folder in sorted(folders, key=len, reverse=True):
            self._drop_empty(folder)
        return gone

    def refuses_trash(self) -> str:
        """See ``spi.Storage.refuses_trash``."""
        roots = self.grounds.roots
        plain = self._plain_scheme()
        kinds = {_scheme(root, plain) for root in roots}
        hadoop = self._hadoop(roots)
        if hadoop is None or not all(hadoop.renames(root) for root in roots):
            return f"the table's storage ({', '.join(sorted(kinds))}) renames a file by copying it"
        if len({_store(root) for root in roots}) > 1:
            return "the table's files are in several stores, and a file cannot be renamed from one to another"
        return ""

    def prune(self, folder: str) -> None:
        """Remove a folder that contains only folders, if the storage has real folders; one with a file is kept."""
        scheme = _scheme(folder, self._plain_scheme())
        if scheme == "file":
            for place, _, _ in os.walk(_local(folder), topdown=False):
                with suppress(OSError):  # it is not empty
                    os.rmdir(place)  # noqa: PTH106  # of the unchanged path
        elif (hadoop := self._hadoop([folder])) is not None and hadoop.has_folders(folder):
            hadoop.prune(folder)

    def _drop_empty(self, folder: str) -> None:
        """Remove a folder if it is empty and the storage removes empty folders atomically; otherwise it is kept."""
        scheme = _scheme(folder, self._plain_scheme())
        if scheme == "file":
            with suppress(OSError):
                os.rmdir(_local(folder))  # noqa: PTH106  # of the unchanged path
        elif (hadoop := self._hadoop([folder])) is not None and hadoop.has_folders(folder):
            hadoop.drop_empty(folder)

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """See ``spi.Storage.move``; a file is not moved if the storage renames by copying."""
        links, hadoop = self._links(), self._hadoop(moves)
        if hadoop is None:
            return []
        within = [
            source
            for source, target in moves.items()
            if not move_refusal(source, target, self.grounds) and _store(source) == _store(target)
        ]
        cheap = {path for paths in _by_store(within) if hadoop.renames(paths[0]) for path in paths}

        def one(move: tuple[str, str]) -> bool:
            source, target = move
            if source not in cheap or any(links.to(path) for path in move):
                return False
            return self._rename(hadoop, source, target)

        done = _in_threads(one, list(moves.items()))
        return [source for source, moved in zip(moves, done, strict=True) if moved]

    def files(self, folder: str) -> Iterator[FileInfo]:
        """LIST: all files below a folder, at any depth; none if the folder does not exist."""
        if not self.jvm.is_a(self.io, _PREFIX):
            raise AdapterError(
                f"{self.name}: the table's storage ({self.io.getClass().getName()}) cannot be listed"
            )
        links = self._links()
        try:
            hadoop = self._hadoop([folder])
            if hadoop is not None and not hadoop.exists(folder):
                return
            local = _scheme(folder, self._plain_scheme()) == "file"  # where all spellings count as one
            own, listed = ("", "") if local or hadoop is None else hadoop.spellings(folder)
            if hadoop is not None and hadoop.lists_twice(folder):
                yield from (
                    replace(each, path=_respelled(each.path, listed, own)) for each in hadoop.files(folder)
                )
                return
            # With the slash: object stores list by prefix.
            found = self.io.listPrefix(folder.rstrip("/") + "/").iterator()
            parts = self.jvm.collect.Iterators.partition(found, _LISTED)
            while parts.hasNext():
                for info in self._infos(parts.next()):
                    path = _respelled(info.path, listed, own)
                    yield FileInfo(path, info.bytes, info.modified_ms, links.to(path))
        except AdapterError:
            raise
        except Exception as error:
            raise self._failed(f"{folder} cannot be listed", error) from error

    def _infos(self, part: Any) -> Iterator[FileInfo]:
        columns = [
            self.jvm.values_of(part, _INFO, method, returns)
            for method, returns in (
                ("location", "java.lang.String"),
                ("size", "long"),
                ("createdAtMillis", "long"),
            )
        ]
        for path, size, at in zip(*columns, strict=True):
            yield FileInfo(path, int(size), int(at))

    def start(self, path: str, most: int | None) -> bytes:
        """The first ``most`` bytes of a file (None: all), decompressed if the file is gzipped."""
        try:
            stream = self.io.newInputFile(path).newStream()
            try:
                found = bytes(stream.readAllBytes() if most is None else stream.readNBytes(most))
            finally:
                stream.close()
            return zlib.decompressobj(31).decompress(found) if found[:2] == b"\x1f\x8b" else found
        except Exception as error:
            raise self._failed(f"{path} cannot be read", error) from error

    def _seen(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """The status of each path: a file, a folder (its size is ``FOLDER``), or None."""
        hadoop = self._hadoop(paths)
        if hadoop is None:
            return _in_threads(self._seen_by_io, paths)
        found: dict[str, FileInfo | None] = {}
        try:
            for part in _by_store(paths):
                found |= zip(part, hadoop.seen(part), strict=True)
        except Exception as error:
            raise self._failed(
                f"{paths[0]} or another file of its batch cannot be accessed", error
            ) from error
        return [found[path] for path in paths]

    def _seen_by_io(self, path: str) -> FileInfo | None:
        try:
            file = self.io.newInputFile(path)
            return FileInfo(path, int(file.getLength())) if file.exists() else None
        except Exception as error:
            raise self._failed(f"{path} cannot be accessed", error) from error

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, ignoring errors; the caller checks which files remain."""
        if not paths:
            return
        with suppress(Exception):  # files that could not be deleted remain
            if self.jvm.is_a(self.io, _BULK):
                self.io.deleteFiles(self.jvm.strings(paths))
                return
            for path in paths:
                with suppress(Exception):
                    self.io.deleteFile(path)

    def _rename(self, hadoop: HadoopFiles, source: str, target: str) -> bool:
        try:
            (old, files), (new, _) = hadoop.place(source), hadoop.place(target)
            if files.exists(old) and not files.exists(new):
                with suppress(Exception):  # the storage cannot set times
                    files.setTimes(old, time.time_ns() // 1_000_000, -1)
                files.mkdirs(new.getParent())
                files.rename(old, new)
            return bool(files.exists(new)) and not files.exists(old)
        except Exception as error:
            raise self._failed(f"{source} cannot be moved", error) from error

    def _hadoop(self, paths: Iterable[str]) -> HadoopFiles | None:
        """Hadoop's file systems, if the FileIO uses them for all these paths; else None."""
        return HadoopFiles(self.jvm, self.io.getConf()) if through_hadoop(self.jvm, self.io, paths) else None

    def _links(self) -> _Links:
        return _Links(self.grounds, self._plain_scheme())

    def _plain_scheme(self) -> str:
        """The scheme of paths that have none."""
        return scheme_of(self.jvm, self.io, "/")

    def _failed(self, what: str, error: Exception) -> AdapterError:
        return AdapterError(f"{self.name}: {what} ({reason(error)})")


def through_hadoop(jvm: Iceberg, io: Any, paths: Iterable[str]) -> bool:
    """Whether a FileIO reaches all these paths through Hadoop's file systems."""
    if jvm.is_a(io, _HADOOP):
        return True
    return jvm.is_a(io, _RESOLVING) and {_scheme(path) for path in paths} <= {*OF_HADOOP}


def scheme_of(jvm: Iceberg, io: Any, location: str) -> str:
    """The scheme of a location. A plain path is in Hadoop's default file system, if the FileIO uses Hadoop's."""
    if location.startswith("/") and through_hadoop(jvm, io, [location]):
        return HadoopFiles(jvm, io.getConf()).default_scheme()
    return _scheme(location)


class _Links:
    """Paths on a local disk that pass through a symbolic link below their root."""

    def __init__(self, grounds: Grounds, plain: str) -> None:
        """``plain``: the scheme of paths that have none."""
        self._plain = plain
        self._roots = [r.rstrip("/") for r in grounds.roots if _scheme(r, plain) == "file"]
        self._folders: dict[str, bool] = {}

    def to(self, path: str) -> bool:
        """Whether the path is a symbolic link or is below one."""
        if _scheme(path, self._plain) != "file":
            return False
        local = _local(path)
        folder = posixpath.dirname(local)
        if folder not in self._folders:
            self._folders[folder] = self._linked(path, folder)
        return self._folders[folder] or os.path.islink(local)  # noqa: PTH114  # there may be a million paths

    def _linked(self, path: str, folder: str) -> bool:
        for root in self._roots:
            inside = below(path, (root,))
            if inside != path:
                home = os.path.realpath(_local(root))
                return os.path.realpath(folder) != posixpath.dirname(posixpath.join(home, inside))
        return False


def _of_file(info: FileInfo | None, links: _Links) -> FileInfo | None:
    if info is None or info.bytes == FOLDER:
        return None
    return FileInfo(info.path, info.bytes, info.modified_ms, links.to(info.path))


def _by_store(paths: Sequence[str]) -> list[list[str]]:
    """Paths by the Hadoop FileSystem that answers for them: it refuses those of a scheme that is not its own."""
    found: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        found.setdefault(store_of(path), []).append(path)
    return list(found.values())


def _store(path: str) -> str:
    """Scheme and authority of a normalized path: a file can be renamed within them."""
    return store_of(spelled(path))


def _scheme(path: str, plain: str = "file") -> str:
    """The scheme of a location; ``plain`` for a path that has none."""
    return plain if path.startswith("/") else spelled(path).partition(":")[0]


def _respelled(path: str, listed: str, own: str) -> str:
    """A path below a folder that a listing spells as ``listed`` (empty: as it is) and the table as ``own``.

    A table at ``/t`` or ``hdfs:///t`` names its files so, and a listing names them with the NameNode's address.
    """
    if not listed or not path.startswith(f"{listed}/"):
        return path
    return own + path[len(listed) :]


def _local(path: str) -> str:
    return spelled(path).removeprefix("file:")


def _in_threads(work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    if len(items) < 2 * _THREADS:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakekeeper-disk") as pool:
        return list(pool.map(work, items))


def is_child(path: str, folder: str) -> bool:
    """Whether the path is directly in a folder."""
    return spelled(path).rpartition("/")[0] == spelled(folder.rstrip("/"))


def inside(path: str, folder: str) -> bool:
    """Whether the path is below a folder, at any depth."""
    return below(path, (folder,)) != path and not same_place(path, folder)
