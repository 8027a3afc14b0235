"""Hadoop's file system from the driver: status, text, deletes and renames of files; methods that list are marked LIST.

A py4j call takes a tenth of a millisecond, so lines are filtered and joined in the JVM, and a folder's entries are
transferred as one text.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.errors import AdapterError, reason
from lakekeeper.spark.jvm import causes
from lakekeeper.spark.small_files import has_folders, renames_in_one_step
from lakekeeper_delta.bulk_calls import BulkFiles
from lakekeeper_delta.locations import Locator
from lakekeeper_delta.native import Log

THREADS = 8
_PAGE = 250  # files per call of one thread
_ENTRIES = 5_000  # entries of a folder that are transferred as one text
_STATUS = re.compile(
    r"(.*); isDirectory=(true|false);(?: length=(\d+);)?.* modification_time=(\d+)\b", re.DOTALL
)
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a listed folder."""

    info: FileInfo
    folder: bool


class Disk:
    """The file system of a table. Reads raise AdapterError if it does not respond."""

    def __init__(self, log: Log, files: Any = None) -> None:
        """``files`` is the Hadoop FileSystem to use, by default that of the table's folder."""
        self._name = log.name
        self._view = log.jvm.view
        self.conf = log.log.newDeltaHadoopConf()
        folder = log.log.dataPath()
        self._files = files or folder.getFileSystem(self.conf)
        self._bulk = BulkFiles(log.jvm, self._files)
        default = self._view.org.apache.hadoop.fs.FileSystem.getDefaultUri(self.conf)
        authority = default.getAuthority()
        self.locator = Locator(
            str(self._files.makeQualified(folder).toString()).rstrip("/"),
            f"{default.getScheme()}:" + (f"//{authority}" if authority else ""),
        )

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.locator.root

    @property
    def scheme(self) -> str:
        """The scheme of the table's file system."""
        return self.root.partition(":")[0]

    @property
    def renames(self) -> bool:
        """Whether a rename is one step."""
        return renames_in_one_step(self._files, self.path(self.root))

    @property
    def local(self) -> bool:
        """Whether the driver's own file system can resolve links."""
        return self.root.startswith("file:/")

    def path(self, location: str) -> Any:
        """The Hadoop Path of a location, which is not decoded."""
        return self._view.org.apache.hadoop.fs.Path(location)

    def status(self, location: str) -> FileInfo | None:
        """The current status of a file; None if nothing or a folder is there."""
        return self.statuses([location])[0]

    def statuses(self, locations: Sequence[str]) -> list[FileInfo | None]:
        """The current status of files, in order, as :meth:`status`."""
        return [found[0] if found and found[1] else None for found in self._seen(locations)]

    def kinds(self, locations: Sequence[str]) -> list[str]:
        """For each location ``file``, ``folder``, or empty if nothing is there."""
        return ["" if found is None else "file" if found[1] else "folder" for found in self._seen(locations)]

    def _seen(self, locations: Sequence[str]) -> list[tuple[FileInfo, bool] | None]:
        pages = [locations[at : at + _PAGE] for at in range(0, len(locations), _PAGE)]
        try:
            return [found for page in in_parallel(self._bulk.seen, pages) for found in page]
        except Exception as error:
            raise self._unanswered(f"{locations[0]} or one after it", error) from error

    def lines(self, location: str, dropped: str = "") -> str:
        """The lines of a text file, except those in which the Java pattern ``dropped`` is found."""
        java = self._view.java
        try:
            stream = self._files.open(self.path(location))
            try:
                charset = java.nio.charset.StandardCharsets.UTF_8
                if not dropped:
                    return str(self._view.org.apache.commons.io.IOUtils.toString(stream, charset))
                lines = java.io.BufferedReader(java.io.InputStreamReader(stream, charset)).lines()
                wanted = java.util.regex.Pattern.compile(dropped).asPredicate().negate()
                return str(lines.filter(wanted).collect(java.util.stream.Collectors.joining("\n")))
            finally:
                stream.close()
        except Exception as error:
            raise self._unanswered(location, error) from error

    def first_line(self, location: str) -> str:
        """The first line of a text file."""
        java = self._view.java
        try:
            stream = self._files.open(self.path(location))
            try:
                charset = java.nio.charset.StandardCharsets.UTF_8
                line = java.io.BufferedReader(java.io.InputStreamReader(stream, charset)).readLine()
                return "" if line is None else str(line)
            finally:
                stream.close()
        except Exception as error:
            raise self._unanswered(location, error) from error

    def remove(self, locations: Sequence[str]) -> None:
        """Delete files, in bulk if the store can. Files that cannot be deleted remain: the caller has to check."""
        try:
            store = self._files.createBulkDelete(self.path(self.root))
            size = int(store.pageSize())
        except Exception:  # the store has no bulk delete: one by one
            store, size = None, 1
        step = size if size > 1 else _PAGE
        pages = [locations[at : at + step] for at in range(0, len(locations), step)]
        remove = (lambda page: self._remove_page(store, page)) if size > 1 else self._remove_each
        list(in_parallel(remove, pages))
        if store is not None:
            store.close()

    def _remove_page(self, store: Any, page: Sequence[str]) -> None:
        with suppress(Exception):  # the files remain, and the caller's check finds them
            store.bulkDelete(self._bulk.paths(page))

    def _remove_each(self, page: Sequence[str]) -> None:
        with suppress(Exception):  # as above
            self._bulk.delete(page)

    def rename(self, source: str, target: str) -> None:
        """Rename a file and make it as young as the move, where the storage can set times.

        Failures are ignored: the caller has to check source and target.
        """
        try:
            old, place = self.path(source), self.path(target)
            with suppress(Exception):  # the storage cannot set times
                self._files.setTimes(old, time.time_ns() // 1_000_000, -1)
            self._files.mkdirs(place.getParent())
            self._files.rename(old, place)
        except Exception:  # the caller checks
            return

    def drop_empty(self, folder: str) -> None:
        """Remove a folder that is empty, where the file system does so in one step; any other folder remains."""
        if self.local:
            with suppress(OSError):
                os.rmdir(folder.removeprefix("file:"))  # noqa: PTH106  # the path exactly as spelled
        elif has_folders(self._files):
            with suppress(Exception):  # the folder is not empty
                self._files.delete(self.path(folder), False)

    def prune(self, folder: str) -> None:
        """LIST: remove a folder that contains only folders; a folder with a file in it remains."""
        if not self.local and not has_folders(self._files):
            return
        if self.local and not Path(folder.removeprefix("file:")).exists():
            return  # a Java exception takes some 80 calls
        below = self.entries(folder)
        if all(entry.folder for entry in below):
            for entry in below:
                self.prune(entry.info.path)
            self.drop_empty(folder)

    def entries(self, folder: str) -> list[Entry]:
        """LIST: the direct entries of a folder, in no order; empty if the folder does not exist."""
        functional = self._view.org.apache.hadoop.util.functional
        try:
            found = functional.RemoteIterators.toList(self._files.listStatusIterator(self.path(folder)))
            count = int(found.size())
            texts = [
                str(found.subList(at, min(at + _ENTRIES, count)).toString())
                for at in range(0, count, _ENTRIES)
            ]
        except Exception as error:
            if missing(error):
                return []
            raise self._unanswered(folder, error) from error
        pieces = [piece for text in texts for piece in text.split("{path=" + folder.rstrip("/") + "/")[1:]]
        if len(pieces) != count:
            raise AdapterError(f"{self._name}: the listing of {folder} cannot be parsed; nothing was deleted")
        # ABFS's iterator returns a folder twice, by its marker and by the files below it.
        found_once = {entry.info.path: entry for piece in pieces for entry in _parsed(piece, folder)}
        return list(found_once.values())

    def _unanswered(self, location: str, error: Exception) -> AdapterError:
        return AdapterError(f"{self._name}: {location} cannot be read ({reason(error)}); nothing was deleted")


def missing(error: BaseException) -> bool:
    """Whether an error says that the file does not exist."""
    return any(
        name.endswith(("FileNotFoundException", "NoSuchFileException")) for name, _ in causes(error)[:1]
    )


def in_parallel(work: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Results in order, a bounded number of them computed ahead: storage calls mostly wait."""
    wanted = list(items)
    if len(wanted) <= 1:
        yield from map(work, wanted)
        return
    with ThreadPoolExecutor(min(THREADS, len(wanted)), thread_name_prefix="lakekeeper-delta") as pool:
        for start in range(0, len(wanted), 4 * THREADS):
            yield from pool.map(work, wanted[start : start + 4 * THREADS])


def _parsed(piece: str, folder: str) -> Iterator[Entry]:
    """Parse one entry from the text of a Hadoop FileStatus, starting at the name.

    A name has no slash, so the folder's path marks where the next entry begins. A name that resembles a part of such a
    text is left out: it might be mistaken for another file, or for an older one.
    """
    found = _STATUS.match(piece)
    if found and piece.count("; isDirectory=") == 1 and piece.count("modification_time=") == 1:
        info = FileInfo(posixpath.join(folder, found[1]), int(found[3] or 0), int(found[4]))
        yield Entry(info, folder=found[2] == "true")
