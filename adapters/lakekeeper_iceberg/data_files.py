"""Data files as Python opens them: by path on a local disk, by PyArrow on S3, else through a stream of the FileIO."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from lakekeeper.columnar.files import StoreFiles, files_on_s3
from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper.spark.s3_access import NotFollowed
from lakekeeper_iceberg.columnar_files import FilesOfTable
from lakekeeper_iceberg.handles import BulkJvm


class DataFiles:
    """The data files of a table, with the credentials of its FileIO."""

    def __init__(self, jvm: BulkJvm, io: Any) -> None:
        self._jvm = jvm
        self._io = io
        self._path = jvm.view.org.apache.hadoop.fs.Path
        self._hadoop = jvm.is_a(io, "org.apache.iceberg.hadoop.HadoopFileIO")
        self._bucket = cache(self._in_bucket)

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its location: returns a local path, or a file object."""
        if self.on_local_disk(path):
            local = re.sub(r"^file:/{1,3}", "/", path)
            return lambda: local
        bucket = self._bucket("/".join(path.split("/", 3)[:3]))
        if bucket is not None:
            files, opened = bucket
            with suppress(NotFollowed):
                place = files.path(path)
                return lambda: opened.open(place)
        return lambda: JavaFile(self._io.newInputFile(path).newStream(), size)

    def on_local_disk(self, path: str) -> bool:
        """Whether this is a file of the driver's disk, which Python can open by path."""
        return self._hadoop and on_local_disk(self._path(path).getFileSystem(self._io.conf()))

    def _in_bucket(self, root: str) -> tuple[FilesOfTable, StoreFiles] | None:
        """The files of a bucket; None if PyArrow cannot reach them as the FileIO does."""
        try:
            files = FilesOfTable(self._jvm, self._io, f"{root}/any")
            return (files, files_on_s3(files.store, files.path(f"{root}/any"))) if files.store else None
        except (NotFollowed, OSError):
            return None
