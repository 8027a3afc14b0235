"""The files of an Iceberg table as columnar workers reach them: on the local disk, and on S3 by S3A or S3FileIO."""

from __future__ import annotations

import re
from typing import Any

from lakekeeper.core.model.file_merge import S3
from lakekeeper.spark.jvm import on_local_disk
from lakekeeper.spark.s3_access import S3A, NotFollowed, of_s3_file_io, of_s3a
from lakekeeper_iceberg import s3
from lakekeeper_iceberg.handles import BulkJvm

_HADOOP_FILE_IO = "org.apache.iceberg.hadoop.HadoopFileIO"
_PARTS = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/]*)?)(/.*)")  # scheme and authority; path
_SHORTENED = frozenset("?#")  # S3FileIO drops what follows one of these in a location


class FilesOfTable:
    """The files of a table that are on the same store as the folder ``place`` of its outputs.

    ``store`` is None for the local disk. Raises NotFollowed for a store that workers do not reach.
    """

    def __init__(self, jvm: BulkJvm, io: Any, place: str) -> None:
        self._path = jvm.view.org.apache.hadoop.fs.Path
        self._conf = io.conf() if jvm.is_a(io, _HADOOP_FILE_IO) else None
        self._bucket = ""
        self._roots: dict[str, str] = {}
        self.store = (
            self._of_s3_file_io(jvm, io, place) if self._conf is None else self._of_hadoop(jvm, place)
        )

    def path(self, location: str) -> str:
        """A file's path in the store. Raises NotFollowed for a file of another one."""
        if self._conf is None:
            path = location.partition("://")[2]
            if path.partition("/")[0] != self._bucket or not _SHORTENED.isdisjoint(path):
                raise NotFollowed("files of several buckets, or named in a way that S3FileIO shortens")
            return path
        parts = _PARTS.fullmatch(location)
        if parts is None or "//" in parts[2] or parts[2].endswith("/"):
            place = self._path(location)
            return self._root(place) + str(place.toUri().getPath())
        root, path = parts.groups()
        if root not in self._roots:
            self._roots[root] = self._root(self._path(location))
        return self._roots[root] + path

    def _root(self, place: Any) -> str:
        """What precedes the path of a file in its store: the bucket, or nothing."""
        if self.store is None and on_local_disk(place.getFileSystem(self._conf)):
            return ""
        if self.store is None or str(place.toUri().getAuthority()) != self._bucket:
            raise NotFollowed("files of several stores")
        return self._bucket

    def _of_s3_file_io(self, jvm: BulkJvm, io: Any, place: str) -> S3:
        file = io.newOutputFile(f"{place}/")
        if not s3.is_s3(file):
            raise NotFollowed(f"workers do not read through {io.getClass().getSimpleName()}")
        self._bucket = place.partition("://")[2].partition("/")[0]
        return of_s3_file_io(s3.client(jvm, file), jvm.text_map(io.properties()))

    def _of_hadoop(self, jvm: BulkJvm, place: str) -> S3 | None:
        path = self._path(place)
        files, uri = path.getFileSystem(self._conf), path.toUri()
        if on_local_disk(files):
            return None
        if str(files.getClass().getName()) != S3A:
            raise NotFollowed(f"workers do not read from {uri.getScheme() or files.getScheme()}")
        self._bucket = str(uri.getAuthority())
        return of_s3a(jvm, files, self._bucket)
