"""Which files of the log hold a version, and how to read them in the driver.

A log that may be stored in any other way is left to Delta: several kinds of checkpoints, compacted or staged commits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from lakekeeper.errors import reason
from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper_delta.native import Log, State

LOCAL_BYTES, REMOTE_BYTES = 1 << 30, 32 << 20
"""Bytes of a log that the driver reads: from its own disk, and through a stream of the JVM."""
MOST_COMMITS = 100

_STATUS = re.compile(r"path=([^{}\n]*?); isDirectory=false; length=(\d+);")
_COMMIT = re.compile(r"(?:^|.*/)(\d{20})\.json")
_CHECKPOINT = re.compile(r"(?:^|.*/)(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Unlike(Exception):
    """A log or a value that Delta or Spark may read in another way."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A commit, or a checkpoint in one of ``parts`` files."""

    name: str
    version: int
    bytes: int
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of a checkpoint, if there is one, and the later commits, oldest first."""

    checkpoint: tuple[LogFile, ...]
    commits: tuple[LogFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in (*self.checkpoint, *self.commits))


class LogFiles:
    """The files of a log: local ones by path, others through a Hadoop stream."""

    def __init__(self, log: Log) -> None:
        self._folder = log.log.logPath()
        self._system = self._folder.getFileSystem(log.log.newDeltaHadoopConf())
        self._local = on_local_disk(self._system)
        self._path = log.jvm.view.org.apache.hadoop.fs.Path
        self._io = log.jvm.view.org.apache.commons.io.IOUtils

    def segment(self, state: State) -> Segment:
        """The files that hold a version. Raises Unlike."""
        held = state.snapshot.logSegment()
        commits = _listed(held.deltas(), _COMMIT)
        checkpoint = _listed(held.checkpointProvider().topLevelFiles(), _CHECKPOINT)
        if len(commits) > MOST_COMMITS or "v2Checkpoint" in state.features:
            raise Unlike
        if any((file.version, file.parts) != (checkpoint[0].version, len(checkpoint)) for file in checkpoint):
            raise Unlike
        first = checkpoint[0].version + 1 if checkpoint else 0
        if [file.version for file in commits] != list(range(first, state.version + 1)):
            raise Unlike
        segment = Segment(checkpoint, commits)
        if segment.bytes > (LOCAL_BYTES if self._local else REMOTE_BYTES):
            raise Unlike
        return segment

    def commit(self, file: LogFile) -> bytes:
        """The content of a commit."""
        if self._local:
            return self._local_path(file).read_bytes()
        stream = self._system.open(self._path(self._folder, file.name))
        try:
            return bytes(self._io.toByteArray(stream))
        finally:
            stream.close()

    def checkpoint(self, file: LogFile) -> pq.ParquetFile:
        """A file of a checkpoint. Raises Unlike for one that refers to sidecars."""
        opened = pq.ParquetFile(self._local_path(file) if self._local else self._stream(file))
        if "sidecar" in opened.schema_arrow.names:
            opened.close()
            raise Unlike
        return opened

    def _stream(self, file: LogFile) -> JavaFile:
        return JavaFile(self._system.open(self._path(self._folder, file.name)), file.bytes)

    def _local_path(self, file: LogFile) -> Path:
        return Path(str(self._folder.toUri().getPath()), file.name)


def is_readable(log: Log, state: State) -> bool:
    """Whether the log still has the oldest file of a version, which is the first that log cleanup deletes."""
    held = state.snapshot.logSegment()
    checkpoint = held.checkpointProvider().topLevelFiles()
    oldest = (held.deltas() if checkpoint.isEmpty() else checkpoint).head().getPath()
    return bool(oldest.getFileSystem(log.log.newDeltaHadoopConf()).exists(oldest))


def read_in_driver(log: Log, read: Callable[[LogFiles], T | None]) -> T | None:
    """The result of ``read``; None where Delta has to read the log instead."""
    try:
        return read(LogFiles(log))
    except Unlike:
        return None
    except Exception as error:
        # A log cannot be read this way, for whatever reason: Delta reads it, or reports what is wrong with it.
        _log.debug("%s: its log is read by Delta: %s", log.name, reason(error))
        return None


def _listed(statuses: Any, pattern: re.Pattern[str]) -> tuple[LogFile, ...]:
    """Files from a Scala collection of FileStatus: one call, as text."""
    count = int(statuses.size())
    found = []
    for path, size in _STATUS.findall(str(statuses.mkString("\n"))) if count else ():
        match = pattern.fullmatch(path)
        if match is None:
            raise Unlike
        parts = int(match[2]) if match.re is _CHECKPOINT and match[2] else 1
        found.append(LogFile(path.rpartition("/")[2], int(match[1]), int(size), parts))
    if len(found) != count:
        raise Unlike
    return tuple(sorted(found, key=lambda file: (file.version, file.name)))
