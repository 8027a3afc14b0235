"""Data files as Python opens them: local ones by path, others through a stream of the table's FileIO."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper_iceberg.handles import BulkJvm


class DataFiles:
    """The data files of a table, with the credentials of its FileIO."""

    def __init__(self, jvm: BulkJvm, io: Any) -> None:
        self._io = io
        self._path = jvm.view.org.apache.hadoop.fs.Path
        self._hadoop = jvm.is_a(io, "org.apache.iceberg.hadoop.HadoopFileIO")

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its location: returns a local path, or a file object."""
        if self.on_local_disk(path):
            local = re.sub(r"^file:/{1,3}", "/", path)
            return lambda: local
        return lambda: JavaFile(self._io.newInputFile(path).newStream(), size)

    def on_local_disk(self, path: str) -> bool:
        """Whether this is a file of the driver's disk, which Python can open by path."""
        return self._hadoop and on_local_disk(self._path(path).getFileSystem(self._io.conf()))
