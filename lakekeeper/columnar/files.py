"""The files of a columnar merge, on the local disk or in a store that PyArrow reaches.

            open to read          create
local disk  through buffers       visible while it is written
S3          ranges, in parallel   visible once it is closed; a large one is uploaded in parts
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from lakekeeper.core.model.file_merge import S3, FileMerge

_TRIES = 10
_CONNECT_S, _REQUEST_S = 10.0, 60.0
_REGION = "us-east-1"  # if none is configured: servers other than Amazon's accept it


class Files(Protocol):
    """Opens, creates and removes files by their path. Raises OSError."""

    @property
    def remote(self) -> bool:
        """Whether each read is a request, so that several at once are faster."""

    def open(self, path: str) -> Any:
        """A file to read, as PyArrow takes it: a local path, or a file object."""

    def create(self, path: str) -> pa.NativeFile:
        """A new file to write to."""

    def remove(self, path: str) -> None:
        """Remove a file that :meth:`create` made and that is closed."""


def files_of(merge: FileMerge) -> Files:
    """The files of a merge. Raises OSError if S3 does not return the region of a bucket."""
    return LocalFiles() if merge.store is None else files_on_s3(merge.store, merge.folder)


class LocalFiles:
    """Files of the local disk."""

    remote = False

    def open(self, path: str) -> str:
        return path

    def create(self, path: str) -> pa.NativeFile:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - the path is text for Arrow too
        return pa.OSFile(path, "wb")

    def remove(self, path: str) -> None:
        os.remove(path)  # noqa: PTH107 - the path is text for Arrow too


class StoreFiles:
    """Files of an object store. One that cannot be removed stays in the folder of its run, where a vacuum finds it."""

    remote = True

    def __init__(self, system: pafs.FileSystem) -> None:
        self._system = system

    def open(self, path: str) -> pa.NativeFile:
        return self._system.open_input_file(path)

    def create(self, path: str) -> pa.NativeFile:
        return self._system.open_output_stream(path)

    def remove(self, path: str) -> None:
        with suppress(OSError):
            self._system.delete_file(path)


def files_on_s3(store: S3, path: str) -> StoreFiles:
    """The files in the bucket of a path. Raises OSError if S3 does not return the bucket's region."""
    bucket = path.partition("/")[0]
    region = store.region or (_REGION if store.endpoint else pafs.resolve_s3_region(bucket))
    system = pafs.S3FileSystem(
        access_key=store.access_key,
        secret_key=store.secret_key,
        session_token=store.session_token or None,
        region=region,
        endpoint_override=store.endpoint or None,
        scheme="https" if store.encrypted else "http",
        force_virtual_addressing=bool(store.endpoint) and not store.path_style,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return StoreFiles(system)
