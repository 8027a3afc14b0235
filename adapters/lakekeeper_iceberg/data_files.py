"""Data files as Python opens them: local ones by path, others through a stream of the table's FileIO."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper_iceberg.native import Iceberg


class DataFiles:
    """The data files of a table, with the credentials of its FileIO."""

    def __init__(self, jvm: Iceberg, io: Any) -> None:
        self._io = io
        self._path = jvm.view.org.apache.hadoop.fs.Path
        self._hadoop = jvm.is_a(io, "org.apache.iceberg.hadoop.HadoopFileIO")

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its location: returns a local path, or a file object."""
        if self._hadoop:
            files = self._path(path).getFileSystem(self._io.conf())
            if on_local_disk(files):
                local = re.sub(r"^file:/{1,3}", "/", path)
                return lambda: local
        return lambda: JavaFile(self._io.newInputFile(path).newStream(), size)
