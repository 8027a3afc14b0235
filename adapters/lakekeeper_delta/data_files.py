"""Data files as Python opens them: local ones by path, others through a Hadoop stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper_delta.native import Log


class DataFiles:
    """The data files of a table, with the credentials of its own Hadoop configuration."""

    def __init__(self, log: Log) -> None:
        self._root = str(log.log.dataPath().toString())
        self._absolute = log.singleton("util.DeltaFileOperations").absolutePath
        self._conf = log.log.newDeltaHadoopConf()

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its path in the log: returns a local path, or a file object."""
        place = self._absolute(self._root, path)
        files = place.getFileSystem(self._conf)
        if on_local_disk(files):
            local = str(place.toUri().getPath())
            return lambda: local
        return lambda: JavaFile(files.open(place), size)
