"""Copies of equality delete files under new paths.

A commit must not remove a file and add it again under the same path. The incremental form of Iceberg's
``ExpireSnapshots``, which Flink and Trino use, deletes every file that an expired snapshot removed, and does not check
whether that snapshot or a later one added it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.errors import AdapterError
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import delete_paths, next_path
from lakekeeper_iceberg.staging import delete_own, home_of


def copies_of(jvm: Iceberg, table: Any, deletes: Sequence[Any], run: str) -> list[Any]:
    """Copy equality delete files into the folder of a run; returns their DeleteFiles. An error leaves no file behind.

    Such a file names neither its own path nor a data file, so its bytes can be copied unchanged.
    """
    home = jvm.pinned(table, {"write.data.path": home_of(jvm, table, run)})
    begun: list[str] = []

    def copy_of(delete: Any) -> Any:
        spec = home.specs().get(delete.specId())
        paths = delete_paths(jvm, home, str(delete.format()))
        path = str(next_path(paths, spec, delete.partition()).encryptingOutputFile().location())
        begun.append(path)
        size, copied = int(delete.fileSizeInBytes()), _copy(home.io(), str(delete.location()), path)
        if copied != size:
            raise AdapterError(
                f"{table.name()}: of {delete.location()}, {copied:,} of {size:,} bytes were read"
            )
        builder = jvm.api.FileMetadata.deleteFileBuilder(spec).copy(delete).withPath(path)
        return builder.ofEqualityDeletes(_ids(jvm, delete)).build()  # `copy` leaves them out

    try:
        return list(in_parallel(copy_of, deletes))
    except BaseException:
        delete_own(jvm, table, begun)
        raise


def _copy(io: Any, source: str, target: str) -> int:
    """Copy the bytes as they are stored, encrypted or not; returns their number."""
    read = io.newInputFile(source).newStream()
    try:
        written = io.newOutputFile(target).create()
        try:
            return int(read.transferTo(written))
        finally:
            written.close()
    finally:
        read.close()


def _ids(jvm: Iceberg, delete: Any) -> Any:
    """The equality field ids of a file, as a Java array."""
    return jvm.array(jvm.java_class("int"), [int(each) for each in delete.equalityFieldIds()])
