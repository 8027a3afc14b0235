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
        self._prefixes = _credential_prefixes(jvm, io)
        self._client = cache(self._below)

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its location: returns a local path, or a file object."""
        if self.on_local_disk(path):
            local = re.sub(r"^file:/{1,3}", "/", path)
            return lambda: local
        bucket = "/".join(path.split("/", 3)[:3])
        client = self._client(next((each for each in self._prefixes if path.startswith(each)), bucket))
        if client is not None:
            files, opened = client
            with suppress(NotFollowed):
                place = files.path(path)
                return lambda: opened.open(place)
        return lambda: JavaFile(self._io.newInputFile(path).newStream(), size)

    def on_local_disk(self, path: str) -> bool:
        """Whether this is a file of the driver's disk, which Python can open by path."""
        return self._hadoop and on_local_disk(self._path(path).getFileSystem(self._io.conf()))

    def _below(self, root: str) -> tuple[FilesOfTable, StoreFiles] | None:
        """The files of a bucket or a prefix; None if PyArrow cannot reach them as the FileIO does."""
        place = f"{root.rstrip('/')}/any"
        try:
            files = FilesOfTable(self._jvm, self._io, place)
            return (files, files_on_s3(files.store, files.path(place))) if files.store else None
        except Exception:  # the stream of the FileIO then opens the file, or its error says why not
            return None


def _credential_prefixes(jvm: BulkJvm, io: Any) -> list[str]:
    """The prefixes for which a catalog has vended credentials of their own, longest first: the longest one counts."""
    if not jvm.is_a(io, "org.apache.iceberg.io.SupportsStorageCredentials"):
        return []
    return sorted((str(each.prefix()) for each in jvm.items(io.credentials())), key=len, reverse=True)
