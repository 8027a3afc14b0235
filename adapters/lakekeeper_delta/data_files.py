"""Data files as Python opens them: by path on a local disk, by PyArrow on S3, else through a Hadoop stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from lakekeeper.columnar.files import StoreFiles, files_on_s3
from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper.spark.s3_access import S3A, NotFollowed, of_s3a
from lakekeeper_delta.native import Log


class DataFiles:
    """The data files of a table, with the credentials of its own Hadoop configuration."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._root = str(log.log.dataPath().toString())
        self._absolute = log.singleton("util.DeltaFileOperations").absolutePath
        self._conf = log.log.newDeltaHadoopConf()
        self._bucket = cache(self._in_bucket)

    def opener(self, path: str, size: int) -> Callable[[], Any]:
        """How to open a file by its path in the log: returns a local path, or a file object."""
        place = self._absolute(self._root, path)
        files, uri = place.getFileSystem(self._conf), place.toUri()
        if on_local_disk(files):
            local = str(uri.getPath())
            return lambda: local
        if str(files.getClass().getName()) == S3A and (found := self._bucket(str(uri.getAuthority()))):
            key = f"{uri.getAuthority()}{uri.getPath()}"
            return lambda: found.open(key)
        return lambda: JavaFile(files.open(place), size)

    def _in_bucket(self, bucket: str) -> StoreFiles | None:
        """The files of a bucket; None if PyArrow cannot reach them as S3A does."""
        root = self._log.jvm.view.org.apache.hadoop.fs.Path(self._root)
        try:
            return files_on_s3(of_s3a(self._log.jvm, root.getFileSystem(self._conf), bucket), bucket)
        except (NotFollowed, OSError):
            return None
