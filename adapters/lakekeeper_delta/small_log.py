"""The live files of a table with a small log, replayed in the driver: no Spark job, and no state for Delta to build.

checkpoint (Parquet) ─► adds ─┐
commits (JSON)       ─────────┴─► one add for each path and deletion vector

A log that may be stored in any other way is left to Delta: several kinds of checkpoints, compacted or staged commits.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper_delta.file_marks import vector_id
from lakekeeper_delta.native import Log, State

MOST_BYTES, MOST_COMMITS, MOST_FILES = 8 << 20, 100, 5_000

_STATUS = re.compile(r"path=([^{}\n]*?); isDirectory=false; length=(\d+);")
_COMMIT = re.compile(r"(?:^|.*/)(\d{20})\.json")
_CHECKPOINT = re.compile(r"(?:^|.*/)(\d{20})\.checkpoint\.parquet")
_PARTS = ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector")
# Delta normalizes paths, and compares them as URIs.
_UNLIKE = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^/|//|(?:^|/)\.\.?(?:/|$)|%.?[a-f]")
_log = logging.getLogger(__name__)


class Unlike(Exception):
    """A log or a value that Delta or Spark may read in another way."""


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    version: int
    bytes: int


def live_files(log: Log, state: State) -> list[dict[str, Any]] | None:
    """The AddFile actions of ``state`` as plain data; None for a log that Delta has to read."""
    try:
        files = _Files(log)
        checkpoint, commits = _segment(state)
        live = {}
        if checkpoint is not None:
            live = {identity(add): add for add in _adds(files.parquet(checkpoint))}
        for commit in commits:
            _apply(live, files.text(commit).split("\n"))
            if len(live) > MOST_FILES:
                return None
        return list(live.values())
    except Unlike:
        return None
    except Exception as error:
        # A log cannot be read this way, for whatever reason: Delta reads it, or reports what is wrong with it.
        _log.debug("%s: its log is read by Delta: %r", log.name, error)
        return None


def live_bytes(log: Log, state: State) -> int | None:
    """The bytes of the live files of ``state``; None where Delta has to sum them."""
    adds = live_files(log, state)
    if adds is None or not all(type(add.get("size")) is int for add in adds):
        return None
    return sum(int(add["size"]) for add in adds)


def _segment(state: State) -> tuple[_File | None, list[_File]]:
    """The checkpoint and the later commits up to ``state``, oldest first. Raises Unlike."""
    segment = state.snapshot.logSegment()
    deltas = _listed(segment.deltas(), _COMMIT)
    checkpoints = _listed(segment.checkpointProvider().topLevelFiles(), _CHECKPOINT)
    if len(checkpoints) > 1 or len(deltas) > MOST_COMMITS or "v2Checkpoint" in state.features:
        raise Unlike
    if sum(file.bytes for file in (*checkpoints, *deltas)) > MOST_BYTES:
        raise Unlike
    first = checkpoints[0].version + 1 if checkpoints else 0
    if [file.version for file in deltas] != list(range(first, state.version + 1)):
        raise Unlike
    return (checkpoints[0] if checkpoints else None), deltas


def _listed(statuses: Any, pattern: re.Pattern[str]) -> list[_File]:
    """Files from a Scala collection of FileStatus: one call, as text."""
    count = int(statuses.size())
    found = []
    for path, size in _STATUS.findall(str(statuses.mkString("\n"))) if count else ():
        match = pattern.fullmatch(path)
        if match is None:
            raise Unlike
        found.append(_File(path.rpartition("/")[2], int(match[1]), int(size)))
    if len(found) != count:
        raise Unlike
    return sorted(found, key=lambda file: file.version)


class _Files:
    """The files of a log: local ones by path, others through a Hadoop stream."""

    def __init__(self, log: Log) -> None:
        self._folder = log.log.logPath()
        self._system = self._folder.getFileSystem(log.log.newDeltaHadoopConf())
        self._local = on_local_disk(self._system)
        self._path = log.jvm.view.org.apache.hadoop.fs.Path
        self._io = log.jvm.view.org.apache.commons.io.IOUtils
        self._utf8 = log.jvm.view.java.nio.charset.StandardCharsets.UTF_8

    def text(self, file: _File) -> str:
        """A commit."""
        if self._local:
            return self._local_path(file).read_bytes().decode()
        stream = self._system.open(self._path(self._folder, file.name))
        try:
            return str(self._io.toString(stream, self._utf8))
        finally:
            stream.close()

    def parquet(self, file: _File) -> pq.ParquetFile:
        """A checkpoint."""
        if self._local:
            return pq.ParquetFile(self._local_path(file))
        return pq.ParquetFile(JavaFile(self._system.open(self._path(self._folder, file.name)), file.bytes))

    def _local_path(self, file: _File) -> Path:
        return Path(str(self._folder.toUri().getPath()), file.name)


def _adds(checkpoint: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    """The adds of a checkpoint. Raises Unlike where their statistics are not text."""
    with checkpoint:
        schema = checkpoint.schema_arrow
        add = schema.field("add").type
        names = [add.field(i).name for i in range(add.num_fields)]
        if "sidecar" in schema.names or checkpoint.metadata.num_rows > MOST_FILES:
            raise Unlike
        known = [f"add.{name}" for name in _PARTS if name in names]
        for row in checkpoint.read(columns=known)["add"].to_pylist():
            if row is None or row["path"] is None:
                continue
            if row.get("stats") is None and "stats_parsed" in names:
                raise Unlike
            for name in ("partitionValues", "tags"):
                row[name] = dict(row.get(name) or ())
            yield row


def _apply(live: dict[tuple[str, str], dict[str, Any]], lines: Iterable[str]) -> None:
    for line in lines:
        if not line.strip():
            continue
        action = json.loads(line)
        if action.get("add") is not None:
            live[identity(action["add"])] = action["add"]
        if action.get("remove") is not None:
            live.pop(identity(action["remove"]), None)


def identity(file: Mapping[str, Any]) -> tuple[str, str]:
    """How Delta distinguishes files. Raises Unlike for a path that may have several spellings."""
    path = file["path"]
    if _UNLIKE.search(path):
        raise Unlike
    return path, vector_id(file.get("deletionVector"))
